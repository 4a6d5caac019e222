"""Pods that a round took out of service and that have yet to get their update."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.wire.primitives.names import Obj
from tests.planner.cloneset.build import NEW_NAME, OLD_NAME, cloneset, patch_for, plan
from tests.pods import pods, raw_pod, stamp

MARKS: Final = {"n": NEW_NAME, "o": OLD_NAME}
ROLLING: Final = {"currentRevision": OLD_NAME}
IN_PLACE: Final = {"podUpdatePolicy": "InPlaceIfPossible"}


def begun(name: str, **changes: Any) -> PodFacts:
    """An old pod whose gate is closed, and nothing more."""
    closed = [
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": stamp(-60)},
        {"type": "Ready", "status": "False", "lastTransitionTime": stamp(-1)},
        {
            "type": "InPlaceUpdateReady",
            "status": "False",
            "reason": "StartInPlaceUpdate",
            "lastTransitionTime": stamp(-1),
        },
    ]
    return pod_facts(raw_pod(name, revision=OLD_NAME, conditions=closed, **changes))


def steps(raw: Obj, *found: PodFacts) -> list[str]:
    """For each pod a plan writes on: its name, and what each step writes."""
    made = plan(raw, found)
    out = []
    for pod in found:
        patch = patch_for(made, pod.name)
        for step in patch.steps if patch else ():
            gate = {
                c["status"] for c in step.body.get("status", {}).get("conditions", ())
                if c["type"] == "InPlaceUpdateReady"
            }  # fmt: skip
            words = [*gate, *(["image"] if "spec" in step.body else [])]
            out.append(f"{pod.name} {' '.join(words)}")
    return out


def test_an_update_in_its_middle_is_continued_and_the_gate_not_touched() -> None:
    others = pods("4o+", MARKS)
    raw = cloneset(update={**IN_PLACE, "maxUnavailable": 1}, status=ROLLING)
    assert steps(raw, *others, begun("web-zzz")) == ["web-zzz image"]


def test_it_goes_before_others_whatever_their_order() -> None:
    others = pods("4o+", MARKS)
    raw = cloneset(update={**IN_PLACE, "maxUnavailable": 2, "partition": 4}, status=ROLLING)
    assert steps(raw, *others, begun("web-zzz")) == ["web-zzz image"]


@pytest.mark.parametrize("spec", [{"paused": True}, {"partition": 5}], ids=["paused", "partition"])
def test_a_pod_that_is_not_to_move_after_all_serves_again(spec: dict[str, Any]) -> None:
    others = pods("4o+", MARKS)
    raw = cloneset(update={**IN_PLACE, **spec}, status=ROLLING)
    assert steps(raw, *others, begun("web-zzz")) == ["web-zzz True"]


def test_a_round_that_scales_leaves_it_as_it_is() -> None:
    others = pods("3o+", MARKS)
    raw = cloneset(update=IN_PLACE, status=ROLLING)
    assert steps(raw, *others, begun("web-zzz")) == []


def test_another_update_that_failed_has_it_serve_again() -> None:
    others = pods("3o+ 1n-", MARKS)
    raw = cloneset(update={**IN_PLACE, "maxUnavailable": 1}, status=ROLLING)
    assert steps(raw, *others, begun("web-zzz")) == ["web-zzz True"]
