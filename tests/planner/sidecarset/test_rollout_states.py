"""Progress of a SidecarSet: states and messages."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.labels import DAEMONSET, STATEFULSET
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.model.workloads.rollout_kinds import ROLLING_KINDS
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.sidecarset.progress import observe_sidecars
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import COLD, injected, revision, sidecarset
from tests.pods import NOW

NEW_IMAGE: Final = {**COLD, "image": "side:2"}
OLD: Final = sidecarset(COLD)
BARRED: Final = sidecarset({**COLD, "env": [{"name": "A"}]})
UNREADABLE: Final = (
    'spec.updateStrategy.partition: Invalid value: "lots": '
    'must be an integer or a percentage such as "25%"'
)
SHORT: Final = revision(sidecarset(NEW_IMAGE)).short


def new(update: dict[str, Any] | None = None, *, generation: int = 1) -> dict[str, Any]:
    """At rest on image side:2, as far as the controller has seen it."""
    raw = sidecarset(NEW_IMAGE, update=update)
    name = revision(raw).name
    meta = {**raw["metadata"], "generation": generation}
    return {**raw, "metadata": meta, "status": {"observedGeneration": 1, "latestRevision": name}}


def pods(text: str) -> list[PodFacts]:
    """`n+ o- b+`: new, old and barred pods, ready or not; `x` cannot pull its image."""
    made = []
    for at, token in enumerate(text.split()):
        kind, sign = token[0], token[1]
        raw = {"n": sidecarset(NEW_IMAGE), "x": sidecarset(NEW_IMAGE), "o": OLD, "b": BARRED}[kind]
        pod = injected(raw, f"p-{at}", ready=sign == "+")
        if kind == "x":
            waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
            pod["status"]["containerStatuses"][1]["state"] = {"waiting": waiting}
        made.append(pod_facts(pod))
    return made


def seen(text: str, raw: Obj) -> Rollout:
    return observe_sidecars(raw, pods(text), (), NOW)


# pods, SidecarSet, state, message
ROWS: Final[dict[str, tuple[str, Obj, State, str]]] = {
    "complete": ("n+ n+", new(), State.DONE, f"2 of 2 pods on {SHORT}"),
    "no pods at all": ("", new(), State.DONE, f"0 of 0 pods on {SHORT}"),
    "rolling": ("n+ o+", new(), State.ROLLING, "1 of 2 asked run it and are ready"),
    "restarting": ("n+ n-", new(), State.ROLLING, "1 of 2 asked run it and are ready"),
    "held": (
        "n+ o+ o+", new({"partition": 2}), State.HELD,
        f"1 of 3 pods on {SHORT}, held by partition 2",
    ),
    "paused": ("n+ o+", new({"paused": True}), State.PAUSED, f"1 of 2 pods on {SHORT}, paused"),
    "paused at its partition": (
        "n+ o+ o+", new({"paused": True, "partition": 2}), State.PAUSED,
        f"1 of 3 pods on {SHORT}, paused",
    ),
    "not selected": (
        "n+ o+", new({"selector": {"matchLabels": {"pick": "me"}}}), State.HELD,
        f"1 of 2 pods on {SHORT}, the update selector leaves 1 out",
    ),
    "pods that cannot": (
        "n+ b+", new(), State.HELD,
        f"1 of 2 pods on {SHORT}, 1 differ in more than images until replaced",
    ),
    "inject only": (
        "n+ o+", new({"type": "NotUpdate"}), State.DONE,
        f"1 of 2 pods on {SHORT}, running pods keep what they have",
    ),
    "inject only, an image that is not there": (
        "x- o+", new({"type": "NotUpdate"}), State.STUCK,
        "p-0 cannot start: image side:2 cannot be pulled; 1 of 2 serve",
    ),
    "an image that is not there": (
        "x- o+", new(), State.STUCK,
        "p-0 cannot start: image side:2 cannot be pulled; 1 of 2 serve",
    ),
    "an unreadable partition": (
        "n+ o+", new({"partition": "lots"}), State.STUCK,
        UNREADABLE,
    ),
    "a spec not seen yet": (
        "n+ n+", new(generation=2), State.ROLLING,
        "the controller has not seen the newest spec yet",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "raw", "state", "message"), ROWS.values(), ids=ROWS)
def test_state(text: str, raw: Obj, state: State, message: str) -> None:
    found = seen(text, raw)
    assert (found.state, found.message) == (state, message)


def test_numbers() -> None:
    found = seen("n+ n- o+ o+ b+", new({"partition": 1, "maxUnavailable": "50%"}))
    assert (found.replicas, found.updated, found.updated_ready, found.ready) == (5, 2, 1, 4)
    assert (found.kept, found.asked, found.budget, found.partition) == (1, 3, 3, "1")
    assert found.update_revision == revision(sidecarset(NEW_IMAGE)).name
    assert found.current_revision == revision(OLD).name
    assert [(r.role, r.pods, r.available) for r in found.revisions] == [
        ("update", 2, 1),
        ("current", 2, 2),
        ("current", 1, 1),
    ]
    assert found.revisions[0].images == (("side", "side:2"),)


def test_an_unreadable_partition_asks_for_no_pod() -> None:
    found = seen("n+ o+ o+", new({"partition": "lots"}))
    assert (found.kept, found.asked, found.budget, found.partition) == (2, 1, 0, "lots")


def test_a_set_that_updates_no_running_pod_asks_for_none_of_them() -> None:
    found = seen("n+ o+ o+", new({"type": "NotUpdate"}))
    assert (found.kept, found.asked, found.updated) == (0, 1, 1)


def test_every_kind_that_rolls_is_judged() -> None:
    assert set(ROLLOUTS) == ROLLING_KINDS | {STATEFULSET, DAEMONSET}


def test_strangers_do_not_count() -> None:
    other = injected(sidecarset(name="other"), "p")
    assert observe_sidecars(new(), [pod_facts(other)], (), NOW).total == 0
