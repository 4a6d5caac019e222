"""A Namespace or a CRD is not deleted while it holds what others made, whoever approved it."""

from __future__ import annotations

import shlex
from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import run_git
from tests.gitops.stage import MakeStage, Stage, config_map
from tests.gitops.status.test_health_checks import CRD, database

KEEP: Final = config_map("keep", a="b")
SPACE: Final[Obj] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "extra"}}
OURS: Final[Obj] = {
    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ours", "namespace": "extra"},
    "data": {"a": "b"},
}  # fmt: skip


def write(stage: Stage, verb: Any, obj: Obj, name: str = "") -> None:
    """Somebody makes or deletes an object."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = stage.world.catalog.by_kind(group, version, obj["kind"])
    assert kind is not None
    body = obj if verb == "create" else None
    space = obj["metadata"].get("namespace", "shop")
    request = ApiRequest(verb=verb, resource=kind.ref, namespace=space, name=name, body=body)
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


ROWS: list[tuple[str, list[Obj], Obj, ObjectKey]] = [
    ("Namespace", [SPACE, OURS], {**OURS, "metadata": {"name": "theirs", "namespace": "extra"}},
     ObjectKey("", "Namespace", "", "extra")),
    ("CustomResourceDefinition", [CRD, database()],
     {**database(), "metadata": {"name": "theirs", "namespace": "shop"}},
     ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", "databases.example.com")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_it_stays_until_they_are_gone(
    staged: MakeStage, row: tuple[str, list[Obj], Obj, ObjectKey]
) -> None:
    _, holder, theirs, key = row
    stage = staged()

    def codes() -> list[str]:
        return [f.code for f in stage.record.findings]

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, *holder)
            await stage.rest(20)
            write(stage, "create", theirs)
            await stage.push(KEEP)
            await stage.rest()
            assert codes() == ["GK2304"]
            command = dict(reversed(stage.record.findings[0].notes))["next"]
            run_git(stage.origin.work, *shlex.split(command)[1:])
            run_git(stage.origin.work, "push", "-q", "origin", "HEAD:main")
            await stage.follower.check()
            await stage.rest()
            assert (stage.world.get(key) is not None, codes()) == (True, ["GK2310"])
            assert "theirs" in stage.record.findings[0].message
            there = stage.world.objects(GroupKind("", "ConfigMap"), "extra")
            assert "ours" not in {obj["metadata"]["name"] for obj in there}
            write(stage, "delete", theirs, name="theirs")
            await stage.rest(120)
            assert (stage.world.get(key), codes()) == (None, [])

    stage.play(script)
