"""Every state of a Deployment's rollout, from its pods and ReplicaSets in a running world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.wire.primitives.names import Obj
from tests.worlds import Lab, container, deployment

CANARY = "gitkruise.io/canary"
KIND = ROLLOUTS[DEPLOYMENT]
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "timed out"}  # fmt: skip


def web(canary: str | None = None, **spec: Any) -> Obj:
    rolling = {"maxSurge": 2, "maxUnavailable": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    obj = deployment(**{"replicas": 10, "strategy": strategy, **spec})
    notes = {"gitkruise.io/commit": "1111111"} | ({} if canary is None else {CANARY: canary})
    return {**obj, "metadata": {"name": "web", "annotations": notes}}


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [container(image=name)]}}}


def edit(lab: Lab, canary: str | None = None, **spec: Any) -> None:
    notes = {"gitkruise.io/commit": "2222222"} | ({} if canary is None else {CANARY: canary})
    lab.patch(web(), {"metadata": {"annotations": notes}, "spec": spec})


def seen(lab: Lab) -> Rollout:
    raw = lab.get(web())
    return KIND.judge(raw, KIND.pods(lab.world, raw), KIND.revisions(lab.world, raw), lab.now)


def running(canary: str | None = None, **spec: Any) -> Lab:
    lab = Lab()
    lab.apply(web(canary, **spec))
    lab.run()
    return lab


def canary_held(lab: Lab) -> None:
    edit(lab, **image("app:v2"))
    lab.run()


def user_paused(lab: Lab) -> None:
    edit(lab, paused=True, **image("app:v2"))
    lab.run()


def bad(lab: Lab) -> None:
    edit(lab, **image("app:bad"))
    lab.run(120)


def bad_for_long(lab: Lab) -> None:
    edit(lab, **image("app:bad"))
    lab.run(3600)


def begun(lab: Lab) -> None:
    edit(lab, **image("app:v2"))
    lab.run(0.1)


def not_seen(lab: Lab) -> None:
    edit(lab, **image("app:v2"))


def canary_edited_while_paused(lab: Lab) -> None:
    canary_held(lab)
    edit(lab, canary="5")
    lab.run()


# canary, what is done, state, (updated, asked, kept), message (with {} for the new hash)
STATES: dict[str, tuple[str | None, Callable[[Lab], None], str, tuple[int, int, int], str]] = {
    "done": (None, lambda _: None, "Done", (10, 10, 0), "10 of 10 on {}"),
    "held": ("3", canary_held, "Held", (3, 3, 7), "3 of 10 on {}, held by canary 3"),
    "canary 0": ("0", canary_held, "Held", (0, 0, 10), "0 of 10 on {}, held by canary 0"),
    "paused": (None, user_paused, "Paused", (0, 10, 0), "0 of 10 on the newest template, paused"),
    "edited": ("3", canary_edited_while_paused, "Paused", (3, 3, 7), "3 of 10 on {}, paused"),
    "rolling": (None, begun, "Rolling", (3, 10, 0), "0 of 10 asked are updated and available"),
    "gated": ("3", begun, "Rolling", (3, 3, 7), "0 of 3 asked are updated and available"),
    "not seen": (None, not_seen, "Rolling", (0, 10, 0),
                "the controller has not seen the newest spec yet"),
    "no gate": ("100%", canary_held, "Done", (10, 10, 0), "10 of 10 on {}"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_can_34_state(name: str) -> None:
    canary, act, state, amounts, message = STATES[name]
    lab = running(canary)
    act(lab)
    found = seen(lab)
    assert (found.state, (found.updated, found.asked, found.kept)) == (state, amounts)
    assert found.message == message.format(found.update_revision.rpartition("-")[2])


@pytest.mark.parametrize("act", [bad, bad_for_long])
def test_a_bad_image_is_stuck_and_says_why(act: Callable[[Lab], None]) -> None:
    lab = running("3")
    act(lab)
    found = seen(lab)
    assert found.state == "Stuck"
    assert "and 2 more cannot start: image app:bad cannot be pulled" in found.message
    assert "9 of 10 keep serving" in found.message
    assert len(found.failing) == 3


def test_a_deadline_without_failing_pods_is_stuck() -> None:
    lab = running(progressDeadlineSeconds=30)
    edit(lab, template={"spec": {"nodeSelector": {"no": "where"}}})
    lab.run(300)
    found = seen(lab)
    assert found.state == "Stuck"
    assert "has timed out progressing" in found.message


@pytest.mark.parametrize(("more", "state"), [((), "Rolling"), ((LATE,), "Stuck")])
def test_a_pod_that_the_server_refuses_is_named(more: tuple[Obj, ...], state: str) -> None:
    lab = running()
    begun(lab)
    raw = lab.get(web())
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: q",
               "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    raw = {**raw, "status": {**raw["status"], "conditions": [failure, *more]}}
    found = KIND.judge(raw, KIND.pods(lab.world, raw), KIND.revisions(lab.world, raw), lab.now)
    assert found.refused == "ReplicaFailure since 2026-01-01T00:00:00Z: exceeded quota: q"
    assert (str(found.state), found.message.endswith(found.refused)) == (state, True)


def test_pods_are_counted_by_replica_set_with_its_commit() -> None:
    lab = running("3")
    canary_held(lab)
    found = seen(lab)
    counts = [(r.role, r.pods, r.available, r.commit, r.images) for r in found.revisions]
    assert counts == [
        ("update", 3, 3, "2222222", (("app", "app:v2"),)),
        ("current", 7, 7, "1111111", (("app", "app:v1"),)),
    ]
    assert (found.budget, found.in_place, found.canary, found.gate) == (1, False, "3", "canary 3")
    assert (len(found.members), len(found.behind), len(found.unready)) == (10, 7, 0)


def test_recreate_may_lose_all_its_pods() -> None:
    lab = running(strategy={"type": "Recreate"})
    assert seen(lab).budget == 10


def test_a_third_template_leaves_two_old_ones() -> None:
    lab = running("50%")
    canary_held(lab)
    edit(lab, paused=False, **image("app:v3"))
    lab.run()
    found = seen(lab)
    assert (found.state, [r.pods for r in found.revisions]) == ("Held", [5, 5])
    assert found.revisions[1].images == (("app", "app:v1"),)
