"""A rejected commit is tried again until a newer one comes, also if that one is not taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.wire.primitives.names import Obj
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, config_map, documents
from tests.worlds import create

LIVE, OLD, NEW = (config_map("one", a=value) for value in ("live", "old", "new"))
LOST: Final[Obj] = {**LIVE, "metadata": {"name": "lost", "namespace": "nowhere"}}
NOWHERE: Final[Obj] = {
    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nowhere"},
}  # fmt: skip
# The newer commit and more of the unit's spec: (state, live value) after the older one would pass.
ROWS: dict[str, tuple[str, str, str, str]] = {
    "there is no newer one": ("", "", "Done", "old"),
    "its text is rejected": ("kind: [\n", "", "Rejected", "live"),
    "it waits for approval": (documents(NEW), ", approval: always", "Waiting", "live"),
    "it waits for a window": (
        documents(NEW),
        ', windows: [{{kind: deny, schedule: "2 10 * * *", duration: 1h}}]',
        "Waiting",
        "live",
    ),
    "it is taken": (documents(NEW), "", "Done", "new"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_the_newest_commit_keeps_its_verdict(staged: MakeStage, tmp_path: Path, name: str) -> None:
    newer, more, state, value = ROWS[name]
    stage, records = staged(), dict[str, UnitRecord]()

    def program(text: str) -> Any:
        heed = (lambda r: records.update({r.unit: r}),)
        return options(stage, tmp_path, text, listeners=heed)

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(LIVE)})
        async with controller(program(SOURCE + unit("one")), stage.wire, stage.clock):
            await stage.rest(60)
        async with controller(program(SOURCE + unit("one", more)), stage.wire, stage.clock):
            newest = stage.origin.commit({"one/a.yaml": documents(OLD, LOST)})
            await stage.rest(60)
            assert str(records["shop/one"].state) == "Rejected"
            newest = stage.origin.commit({"one/a.yaml": newer}) if newer else newest
            await stage.rest(60)
            stage.world.handle(create(stage.world, NOWHERE), stage.clock.now())
            stage.cluster.publish()
            await stage.rest(600)
        record, found = records["shop/one"], stage.get("ConfigMap", "one")
        assert found is not None
        assert record.attempted is not None
        assert (record.attempted.id, str(record.state)) == (newest, state)
        assert found["data"]["a"] == value

    stage.play(script)
