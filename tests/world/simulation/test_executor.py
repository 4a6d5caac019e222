"""Plans carried out against the model cluster: waves, preconditions, steps, events, status."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gitkruise.errors import Forbidden
from gitkruise.model.planning.plan import (
    Applied,
    Create,
    Delete,
    Event,
    Patch,
    PatchStep,
    Plan,
    Refused,
    Skipped,
    Stale,
)
from gitkruise.planner.builtin.deployment import DEPLOYMENT
from gitkruise.planner.workloads import CLONESET
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.world.simulation.executor import execute
from tests.worlds import SPACE, Lab, cloneset, deployment, pod

WEB = ObjectKey("apps", "Deployment", SPACE, "web")
CLAIMS = GroupKind("", "PersistentVolumeClaim")


@pytest.fixture
def lab() -> Lab:
    made = Lab(parts=())
    made.apply(deployment())
    return made


def new_pod(name: str) -> dict[str, Any]:
    made = pod(name)
    made["metadata"]["namespace"] = SPACE
    return made


def claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def run(lab: Lab, plan: Plan, **options: Any) -> list[Any]:
    return execute(plan, lab.world, DEPLOYMENT, WEB, lab.now, **options)


def change(raw: Obj, *bodies: Any, **more: Any) -> Patch:
    meta = raw["metadata"]
    return Patch(
        key=key_of(raw),
        version="v1",
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        steps=tuple(PatchStep(body=body) for body in bodies),
        **more,
    )


def removal(raw: Obj, **more: Any) -> Delete:
    meta = raw["metadata"]
    return Delete(
        key=key_of(raw),
        version="v1",
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        **more,
    )


def names(lab: Lab) -> list[str]:
    return [p["metadata"]["name"] for p in lab.pods()]


def test_a_failed_wave_stops_the_later_ones(lab: Lab) -> None:
    def refuse(request: ApiRequest, now: Any) -> ApiReply:
        if request.body["metadata"]["name"] == "b":
            raise Forbidden("quota")
        return lab.world.handle(request, now)

    waves = {"a": 0, "b": 1, "c": 1, "d": 2}
    plan = Plan(actions=tuple(Create(obj=new_pod(n), wave=w) for n, w in waves.items()))
    outcomes = run(lab, plan, send=refuse)
    assert [type(o) for o in outcomes] == [Applied, Refused, Applied, Skipped]
    assert names(lab) == ["a", "c"]


def test_claims_come_first_and_one_that_is_left_over_is_used_again(lab: Lab) -> None:
    lab.apply(claim("data-a"))
    plan = Plan(actions=(Create(obj=new_pod("a"), claims=(claim("data-a"), claim("more-a"))),))
    (outcome,) = run(lab, plan)
    assert isinstance(outcome, Applied)
    found = [c["metadata"]["name"] for c in lab.world.objects(CLAIMS, SPACE)]
    assert found == ["data-a", "more-a"]


def test_a_name_that_is_taken_is_stale(lab: Lab) -> None:
    lab.apply(pod("a"))
    (outcome,) = run(lab, Plan(actions=(Create(obj=new_pod("a")),)))
    assert isinstance(outcome, Stale)


def test_steps_follow_each_other_on_the_version_the_last_one_made(lab: Lab) -> None:
    lab.apply(pod("a"))
    bodies = [{"metadata": {"labels": {name: "x"}}} for name in ("one", "two")]
    (outcome,) = run(lab, Plan(actions=(change(lab.get(pod("a")), *bodies),)))
    assert isinstance(outcome, Applied)
    assert len(outcome.replies) == 2
    assert lab.get(pod("a"))["metadata"]["labels"] == {"one": "x", "two": "x"}


def test_what_moved_since_we_looked_is_stale_and_unchanged(lab: Lab) -> None:
    lab.apply(pod("a"))
    seen = lab.get(pod("a"))
    lab.patch(pod("a"), {"metadata": {"labels": {"mine": "x"}}})
    plan = Plan(actions=(change(seen, {"metadata": {"labels": {"ours": "x"}}}), removal(seen)))
    assert [type(o) for o in run(lab, plan)] == [Stale, Stale]
    assert lab.get(pod("a"))["metadata"]["labels"] == {"mine": "x"}


def test_what_is_gone_or_another_one_is_stale(lab: Lab) -> None:
    lab.apply(pod("a"))
    seen = lab.get(pod("a"))
    lab.delete(pod("a"), gracePeriodSeconds=0)
    assert isinstance(run(lab, Plan(actions=(removal(seen),)))[0], Stale)
    lab.apply(pod("a"))
    later = replace(removal(seen), resource_version="")
    assert isinstance(run(lab, Plan(actions=(later,)))[0], Stale)
    assert names(lab) == ["a"]


def test_followers_are_deleted_after_their_leader(lab: Lab) -> None:
    lab.apply(pod("a"))
    lab.apply(claim("data-a"))
    follower = removal(lab.get(claim("data-a")))
    run(lab, Plan(actions=(removal(lab.get(pod("a")), then=(follower,)),)))
    left = lab.get(claim("data-a"))
    assert left is None or left["metadata"].get("deletionTimestamp")


def test_events_report_what_was_done_and_what_was_refused(lab: Lab) -> None:
    def refuse(request: ApiRequest, now: Any) -> ApiReply:
        if request.body["metadata"]["name"] == "bad":
            raise Forbidden("quota")
        return lab.world.handle(request, now)

    done = Event("Normal", "SuccessfulCreate", "Created pod: good")
    failed = Event("Warning", "FailedCreate", "Error creating: ")
    actions = tuple(Create(obj=new_pod(n), done=done, failed=failed) for n in ("good", "bad"))
    run(lab, Plan(actions=actions, events=(Event("Normal", "Note", "hello"),)), send=refuse)
    found = lab.world.objects(GroupKind("", "Event"), SPACE)
    events = {(e["reason"], e["message"], e["source"]["component"]) for e in found}
    assert events == {
        ("Note", "hello", "deployment-controller"),
        ("SuccessfulCreate", "Created pod: good", "deployment-controller"),
        ("FailedCreate", "Error creating: quota", "deployment-controller"),
    }


def test_the_same_event_is_counted(lab: Lab) -> None:
    for _ in range(3):
        run(lab, Plan(events=(Event("Normal", "Note", "hello"),)))
    (found,) = lab.world.objects(GroupKind("", "Event"), SPACE)
    assert found["count"] == 3


def test_the_status_replaces_the_old_one_and_only_the_status(lab: Lab) -> None:
    before = lab.get(deployment())
    run(lab, Plan(status={"replicas": 3, "conditions": []}))
    run(lab, Plan(status={"replicas": 2}))
    after = lab.get(deployment())
    assert after["status"] == {"replicas": 2}
    assert (after["spec"], after["metadata"]["generation"]) == (
        before["spec"],
        before["metadata"]["generation"],
    )


def test_a_status_is_written_in_the_version_of_its_workload() -> None:
    lab = Lab(parts=())
    lab.apply(cloneset())
    key = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
    required = ("availableReplicas", "readyReplicas", "replicas", "updatedReadyReplicas")
    status = dict.fromkeys((*required, "updatedReplicas"), 1)
    assert execute(Plan(status=status), lab.world, CLONESET, key, lab.now) == []
    assert lab.get(cloneset())["status"] == status


def test_a_status_that_cannot_be_written_is_an_outcome(lab: Lab) -> None:
    def refuse(request: ApiRequest, now: Any) -> ApiReply:
        raise Forbidden("read only")

    (outcome,) = run(lab, Plan(status={"replicas": 1}), send=refuse)
    assert isinstance(outcome, Refused)


def test_nothing_is_reported_about_an_object_that_is_gone(lab: Lab) -> None:
    lab.delete(deployment(), propagationPolicy="Background")
    assert run(lab, Plan(status={"replicas": 1}, events=(Event("Normal", "Note", "x"),))) == []
