"""A remote that does not answer at the start keeps only the units that need it from running."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gitkruise.app import controller
from gitkruise.errors import SourceFailed, leaves
from tests.git.repos import Faults, make_origin, serve
from tests.git.tls import context, issue
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import MakeStage, config_map, documents

RECORDS: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: records, namespace: shop}}
spec:
  {{url: "REMOTE/origin.git", ref: {{branch: main}}, secretRef: {{name: git}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: records}}}}}}
"""
CONFIG: Final = SOURCE + RECORDS + unit("one", ", sinkRef: {{name: git}}") + unit("two")


@pytest.mark.parametrize("acts", [True, False])
def test_a_status_branch_that_is_away_stops_no_other_unit(
    staged: MakeStage, tmp_path: Path, acts: bool
) -> None:
    stage = staged()
    stage.origin.commit({
        "one/a.yaml": documents(config_map("a", x="1")),
        "two/b.yaml": documents(config_map("b", x="1")),
    })  # fmt: skip
    folder = tmp_path / "elsewhere"
    make_origin(folder).commit({"README": "records"})
    faults = Faults(silent=True)
    authority = issue("authority")
    tls = context(tmp_path, issue("server", authority))
    put_secret(stage, "git", ca__crt=authority.certificate)

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock):
            await stage.rest(20)
            there = [stage.get("ConfigMap", name) is not None for name in "ab"]
            assert there == [False, True]
            faults.silent = False
            await stage.rest(60)
            assert stage.get("ConfigMap", "a") is not None

    with serve(folder, tls=tls, faults=faults) as remote:
        chosen = options(stage, tmp_path, CONFIG.replace("REMOTE", remote), acts=acts)
        if acts:
            stage.play(script)
        else:
            with pytest.raises(ExceptionGroup) as caught:
                stage.play(script)
            (error,) = leaves(caught.value)
            assert isinstance(error, SourceFailed)
            assert error.findings[0].code == "GK3101"
