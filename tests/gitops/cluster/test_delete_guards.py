"""A Namespace or a CRD is not deleted while it holds what others made, whoever approved it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, config_map, documents
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


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", ", prune: {{enabled: false}}"], ids=["goes", "stays"])
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_plan_knows_what_another_unit_deletes_by_the_same_commit(
    staged: MakeStage, tmp_path: Path, row: tuple[str, list[Obj], Obj, ObjectKey], more: str
) -> None:
    _, holder, theirs, key = row
    stage, name = staged(), theirs["metadata"]["name"]
    program = options(stage, tmp_path, SOURCE + unit("one") + unit("two", more))
    group, other = theirs["apiVersion"].rpartition("/")[0], config_map("other", a="b")
    thing = ObjectKey(group, theirs["kind"], theirs["metadata"]["namespace"], name)

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(KEEP), "two/a.yaml": documents(other)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(20)
            stage.origin.commit({"one/b.yaml": documents(*holder)})
            await stage.rest(30)
            old = stage.origin.commit({"two/b.yaml": documents(theirs)})
            await stage.rest(30)
            assert stage.world.get(thing) is not None
            new = stage.origin.commit({"one/b.yaml": None, "two/b.yaml": None})
            base, target = (
                read_side(stage.repository, c, program.config, stage.world.catalog, Gates())
                for c in (old, new)
            )
            preview = await live_preview(
                base, target, stage.world.catalog, Gates(),
                transport=stage.wire, now=stage.clock.now(),
            )  # fmt: skip
            entries = report_of(preview, base, target).entries
            stays = {entry.keys[0].name: entry.stays for entry in entries}
            assert stays[key.name] == bool(more)

    stage.play(script)
