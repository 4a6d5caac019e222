"""Plans of units whose values are in the cluster, where it is not asked for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import msgspec
import pytest

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.workers.frames import PlanText
from gitkruise.gitops.workers.jobs import plan_text
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit, UnitSpec
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import put
from tests.git.repos import make_origin
from tests.gitops.preview.test_preview import CATALOG
from tests.gitops.stage import config_map
from tests.worlds import cloneset

_SPEC: Final = {
    "sourceRef": {"name": "src"},
    "path": "app",
    "render": {"substitute": {"from": [{"configMap": "values"}]}},
}
CONFIG: Final = Config(
    {"shop/src": GitSource("shop", "src", GitSourceSpec(url="."))},
    {"shop/web": Unit("shop", "web", msgspec.convert(_SPEC, UnitSpec))},
    {},
)


def web(image: str) -> Obj:
    return cloneset("web", 3, image, podUpdatePolicy="ReCreate")


def planned(folder: Path, before: list[Obj], after: list[Obj]) -> PlanText:
    """The plan of a stranger's pull request between two versions of the objects."""
    origin = make_origin(folder)
    old, new = (
        origin.commit({"app/objects.json": json.dumps({"kind": "List", "items": objects})})
        for objects in (before, after)
    )
    with Repository.open(str(origin.bare)) as repository:
        return plan_text(repository, CONFIG, CATALOG, Gates(), None, base=old, head=new)


@pytest.mark.parametrize(
    "other",
    [
        config_map("cm-${REGION}", a="b"),
        put(config_map("x", a="b"), ("metadata", "namespace"), "${SPACE}"),
        put(config_map("x", a="b"), ("metadata", "labels"), {"app": "${APP}"}),
        put(cloneset("b"), ("spec", "replicas"), "${N}"),
    ],
    ids=["name", "namespace", "label", "number"],
)
def test_a_value_that_was_not_read_rejects_no_commit(tmp_path: Path, other: Obj) -> None:
    plan = planned(tmp_path, [web("app:v1"), other], [web("app:v2"), other])
    assert (plan.rejecting, plan.findings, plan.moved) == ((), (), True)
    assert "3 pods recreated" in plan.summary
    assert "REGION" not in plan.summary


def test_a_rollout_that_needs_such_a_value_is_not_played(tmp_path: Path) -> None:
    old, new = (put(web(image), ("spec", "replicas"), "${N}") for image in ("app:v1", "app:v2"))
    plan = planned(tmp_path, [old], [new])
    assert (plan.rejecting, plan.findings, plan.moved) == ((), (), True)
    assert "not all of its values are known here" in plan.plan
    assert "no pod restarts" not in plan.plan


def test_another_mistake_in_such_an_object_counts(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    wrong = put(put(web("app:v1"), ("spec", "replicas"), "${N}"), ("spec", "minReadySeconds"), "no")
    commit = origin.commit({"app/web.json": json.dumps(wrong)})
    with Repository.open(str(origin.bare)) as repository:
        side = read_side(repository, commit, CONFIG, CATALOG, Gates())
    assert [f.code for f in side.findings if f.is_error] == ["GK1204"]
    assert "spec.minReadySeconds" in next(f.message for f in side.findings if f.is_error)
