"""Revisions of a SidecarSet: registered, tagged, deleted (SSET-63, SIDE-63 to SIDE-66)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Create, Delete, Patch
from gitkruise.model.planning.snapshot import SidecarSetSnapshot
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.revision import Revision
from gitkruise.model.workloads.sidecarset import VERSION_LABEL, sidecarset_facts
from gitkruise.planner.sidecarset.history import difference
from gitkruise.planner.sidecarset.plan import plan_sidecarset
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import COLD, injected, plan, revision, sidecarset, snapshot
from tests.pods import NOW

REVISIONS: Final = "kruise-system"


def of_image(image: str, **spec: Any) -> dict[str, Any]:
    return sidecarset({**COLD, "image": image}, **spec)


def on_record(raw: Obj, revisions: list[Revision], *pods: Obj, **more: Any) -> SidecarSetSnapshot:
    made = snapshot(raw, pods)
    fields = {name: getattr(made, name) for name in made.__slots__}
    return SidecarSetSnapshot(**{**fields, "revisions": tuple(revisions), **more})


def test_the_first_round_creates_revision_one_and_keeps_silent() -> None:
    made = plan_sidecarset(on_record(of_image("side:1"), []), Gates())
    (create,) = made.actions
    assert isinstance(create, Create)
    assert (create.obj["kind"], create.obj["revision"]) == ("ControllerRevision", 1)
    assert create.obj["metadata"]["namespace"] == REVISIONS
    assert made.status is None, "no status before the revision it names is there"


def test_the_namespace_of_revisions_is_made_where_there_is_none() -> None:
    made = plan_sidecarset(on_record(of_image("side:1"), [], homeless=True), Gates())
    assert [(a.obj["kind"], a.wave) for a in made.actions if isinstance(a, Create)] == [
        ("Namespace", 0),
        ("ControllerRevision", 1),
    ]


def test_no_pod_moves_before_its_revision_is_there() -> None:
    new, old = of_image("side:2"), of_image("side:1")
    made = plan_sidecarset(on_record(new, [revision(old)], injected(old)), Gates())
    assert [type(action) for action in made.actions] == [Create]
    assert made.actions[0].obj["revision"] == 2  # type: ignore[union-attr]  # a Create, see above


def test_side_64_going_back_raises_the_old_revision() -> None:
    first, second = of_image("side:1"), of_image("side:2")
    made = plan_sidecarset(on_record(first, [revision(first, 1), revision(second, 2)]), Gates())
    (patch,) = made.actions
    assert isinstance(patch, Patch)
    assert (patch.key.name, patch.steps[0].body) == (revision(first).name, {"revision": 3})
    assert made.status is not None
    assert made.status["latestRevision"] == revision(first).name
    assert plan(second, [], old=[first]).actions == (), "and stays what it is"


def test_a_name_somebody_else_has_counts_a_collision() -> None:
    raw = of_image("side:1")
    taken = Revision(name=revision(raw).name, number=1, data=b"{}")
    found = on_record(raw, [], other_revisions={taken.name: taken})
    (create,) = plan_sidecarset(found, Gates()).actions
    assert isinstance(create, Create)
    assert create.obj["metadata"]["name"] != taken.name
    made = Revision(**{
        name: getattr(revision(raw), name) for name in Revision.__slots__ if name != "name"
    }, name=create.obj["metadata"]["name"])  # fmt: skip
    status = plan_sidecarset(on_record(raw, [made]), Gates()).status
    assert status is not None
    assert status["latestRevision"] == made.name


def fleet(carried: int, total: int = 15, limit: int = 10) -> list[int]:
    """Numbers of the revisions that stay of `total`, of which pods run the first `carried`."""
    raws = [of_image(f"side:{n}", revisionHistoryLimit=limit) for n in range(1, total + 1)]
    revisions = [revision(raw, n) for n, raw in enumerate(raws, 1)]
    pods = [injected(raw, f"p-{n}") for n, raw in enumerate(raws[:carried])]
    made = plan_sidecarset(on_record(raws[-1], revisions, *pods), Gates())
    gone = {a.key.name for a in made.actions if isinstance(a, Delete)}
    return [r.number for r in revisions if r.name not in gone]


# revisions that pods run, those that stay
KEPT: Final = {
    "SIDE-65": (8, [*range(1, 9), 14, 15]),
    "SIDE-66 nine": (9, [*range(1, 10), 15]),
    "SIDE-66 ten": (10, [*range(1, 11), 15]),
    "SIDE-66 eleven": (11, [*range(1, 12), 15]),
    "SIDE-66 fourteen": (14, list(range(1, 16))),
    "SIDE-66 all": (15, list(range(1, 16))),
    "none": (0, list(range(6, 16))),
}


@pytest.mark.parametrize(("carried", "stay"), KEPT.values(), ids=KEPT)
def test_what_pods_run_is_kept(carried: int, stay: list[int]) -> None:
    assert fleet(carried) == stay


def test_the_newest_stays_whatever_the_limit() -> None:
    assert fleet(0, total=3, limit=0) == [3]


@pytest.mark.parametrize("pin", ["revisionName", "customVersion"])
def test_what_new_pods_get_is_kept(pin: str) -> None:
    raws = [of_image(f"side:{n}", customVersion=f"v{n}") for n in range(12)]
    revisions = [revision(raw, n) for n, raw in enumerate(raws, 1)]
    value = revisions[0].name if pin == "revisionName" else "v0"
    last = {
        **raws[-1],
        "spec": {**raws[-1]["spec"], "injectionStrategy": {"revision": {pin: value}}},
    }
    made = plan_sidecarset(on_record(last, revisions), Gates())
    gone = [a.key.name for a in made.actions if isinstance(a, Delete)]
    assert gone == [r.name for r in revisions[1:3]]


def test_quirk_a_version_tag_that_moves_is_reported() -> None:
    """OpenKruise overwrites the tag of an unchanged spec in silence: the old one is lost."""
    old = of_image("side:1", customVersion="v1")
    new = of_image("side:1", customVersion="v2")
    (patch,) = plan_sidecarset(on_record(new, [revision(old)]), Gates()).actions
    assert isinstance(patch, Patch)
    assert patch.steps[0].body == {"metadata": {"labels": {VERSION_LABEL: "v2"}}}
    assert patch.done is not None
    assert "was version v1" in patch.done.message
    untagged = [revision(of_image("side:1"))]
    (patch,) = plan_sidecarset(on_record(new, untagged), Gates()).actions
    assert isinstance(patch, Patch)
    assert patch.done is None


def test_a_set_being_deleted_changes_nothing() -> None:
    old, new = of_image("side:1"), of_image("side:2")
    doomed = {**new, "metadata": {**new["metadata"], "deletionTimestamp": "2026-07-02T10:00:00Z"}}
    made = plan_sidecarset(on_record(doomed, [], injected(old)), Gates())
    assert made.actions == ()


DIFFERENCES: Final = {
    "env": ({**COLD, "env": [{"name": "A"}]}, "containers.side.env changed"),
    "an argument": ({**COLD, "args": ["-v"]}, "containers.side.args changed"),
    "images alone": ({**COLD, "image": "side:9"}, "its sidecars were recorded otherwise"),
    "a container more": (None, "containers.more changed"),
}


@pytest.mark.parametrize(("container", "why"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_what_bars_a_pod_is_named(container: dict[str, Any] | None, why: str) -> None:
    old = sidecarset(COLD)
    new = sidecarset(container) if container else sidecarset(COLD, {**COLD, "name": "more"})
    data = [revision(raw).data for raw in (old, new)]
    assert difference(*data) == why


def test_a_native_sidecar_counts_among_them() -> None:
    init = {"name": "i", "image": "i:1", "restartPolicy": "Always"}
    old = sidecarset(COLD, initContainers=[init])
    new = sidecarset(COLD, initContainers=[{**init, "args": ["-v"]}])
    assert difference(revision(old).data, revision(new).data) == "initContainers.i.args changed"


def test_side_63_a_plain_init_container_makes_a_revision_and_moves_nobody() -> None:
    old = sidecarset(COLD, initContainers=[{"name": "i", "image": "i:1"}])
    new = sidecarset(COLD, initContainers=[{"name": "i", "image": "i:2"}])
    assert sidecarset_facts(old).hash == sidecarset_facts(new).hash
    made = plan_sidecarset(on_record(new, [revision(old)], injected(old), now=NOW), Gates())
    assert [type(action) for action in made.actions] == [Create]
    assert plan(new, [injected(old)], old=[old]).actions == ()
