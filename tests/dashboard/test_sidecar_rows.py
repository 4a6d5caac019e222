"""Pods of a SidecarSet as its page shows them: revision, condition and slots."""

from __future__ import annotations

from typing import Any

from gitkruise.dashboard.pod_rows import CellShape
from gitkruise.dashboard.sidecar_rows import sidecar_rows
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.sidecarset.progress import observe_sidecars
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import COLD, EMPTY, hot, injected, revision, sidecarset
from tests.pods import NOW

NEW = {**COLD, "image": "side:2"}


def at_rest(raw: Obj) -> dict[str, Any]:
    status = {"observedGeneration": 1, "latestRevision": revision(raw).name}
    return {**raw, "status": status}


def rows(raw: Obj, *pods: Obj) -> dict[str, Any]:
    found = [pod_facts(pod) for pod in pods]
    return sidecar_rows(raw, observe_sidecars(raw, found, (), NOW), found)


def test_the_revision_is_that_of_the_sidecarset() -> None:
    raw = at_rest(sidecarset(NEW))
    found = rows(raw, injected(sidecarset(NEW), "a"), injected(sidecarset(COLD), "b"))
    assert [(key, row["role"]) for key, row in found.items()] == [
        ("shop/a", "update"), ("shop/b", "current"),
    ]  # fmt: skip
    assert found["shop/a"]["revision"] == revision(sidecarset(NEW)).short
    assert found["shop/b"]["revision"] == revision(sidecarset(COLD)).short
    assert found["shop/a"]["sidecars"] == [{
        "name": "side", "hot": False,
        "slots": [{"slot": "", "image": "side:2", "working": True, "placeholder": False,
                   "up": True}],
    }]  # fmt: skip


def test_a_pod_that_cannot_follow_says_why() -> None:
    barred = sidecarset({**COLD, "env": [{"name": "A"}]})
    raw = at_rest(sidecarset(NEW))
    assert rows(raw, injected(barred))["shop/p"]["why"] == (
        "differs in more than images until replaced"
    )
    chosen = at_rest(sidecarset(NEW, update={"selector": {"matchLabels": {"canary": "yes"}}}))
    assert rows(chosen, injected(sidecarset(COLD)))["shop/p"]["why"] == (
        "the update selector leaves it out"
    )


def test_the_slots_of_a_hot_sidecar() -> None:
    """The second slot works after injection; while both hold an image the pod is updating."""
    raw = at_rest(sidecarset(hot("side:1")))
    found = rows(raw, injected(sidecarset(hot("side:1"))))["shop/p"]
    (sidecar,) = found["sidecars"]
    assert [slot["slot"] for slot in sidecar["slots"]] == ["A", "B"]
    states = {slot["working"]: slot for slot in sidecar["slots"]}
    assert (states[True]["image"], states[True]["placeholder"]) == ("side:1", False)
    assert (states[False]["image"], states[False]["placeholder"]) == (EMPTY, True)
    assert found["state"] == CellShape.READY
    pod = injected(sidecarset(hot("side:1")))
    for container in pod["spec"]["containers"]:
        if container["image"] == EMPTY:
            container["image"] = "side:1"
    assert rows(raw, pod)["shop/p"]["state"] == CellShape.UPDATING
