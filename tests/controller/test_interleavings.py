"""Node agents and others that write between any two of our writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from gitkruise.errors import Unavailable
from gitkruise.planner.workloads import CLONESET, SIDECARSET
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, ApiRequest
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.api.cluster import World
from tests.controller.distance import Count, Meddling, roll, rolled
from tests.laws import sidecars
from tests.laws.foretell import WEB, Case, change, prepared
from tests.worlds import PODS as PODS_KIND
from tests.worlds import SPACE

Write = Callable[[Obj, int, datetime], tuple[str, dict[str, Any]]]  # (subresource, merge patch)
REPLICAS, DOWN = 4, 2
UPGRADED: Final = (["mesh-empty:v1", "mesh:v2"], ["mesh:v2"])


def heartbeat(pod: Obj, turn: int, now: datetime) -> tuple[str, dict[str, Any]]:
    conditions = [
        {**c, "lastProbeTime": format_time(now + timedelta(seconds=turn))}
        for c in (pod["status"].get("conditions") or ())
    ]
    return "status", {"status": {"conditions": conditions}}


def reordered(pod: Obj, turn: int, now: datetime) -> tuple[str, dict[str, Any]]:
    """A patch of a kubelet names the order of all conditions."""
    del now
    conditions = pod["status"].get("conditions") or []
    at = turn % max(len(conditions), 1)
    return "status", {"status": {"conditions": [*conditions[at:], *conditions[:at]]}}


def one_more(pod: Obj, turn: int, now: datetime) -> tuple[str, dict[str, Any]]:
    made = {"type": f"example.com/{turn}", "status": "True", "lastTransitionTime": format_time(now)}
    return "status", {"status": {"conditions": [made, *(pod["status"].get("conditions") or ())]}}


def containers(pod: Obj, turn: int, now: datetime) -> tuple[str, dict[str, Any]]:
    del now
    statuses = [{**s, "restartCount": turn} for s in pod["status"].get("containerStatuses") or ()]
    return "status", {"status": {"containerStatuses": statuses}}


def agent_notes(_: Obj, turn: int, now: datetime) -> tuple[str, dict[str, Any]]:
    """Annotations of node agents: of a network, and of one that is not OpenKruise's."""
    del now
    return "", {"metadata": {"annotations": {"cni.example.com/address": f"10.0.0.{turn}"}}}


WRITES: Final[Mapping[str, Write]] = {
    "heartbeat": heartbeat,
    "order of conditions": reordered,
    "another condition": one_more,
    "container statuses": containers,
    "annotations of an agent": agent_notes,
}
POLICIES: Final = {"in place": "InPlaceIfPossible", "recreate": "ReCreate"}


def before(turns: Callable[[int], bool], write: Write) -> Meddling:
    """Write on the pod of each of our writes whose number `turns` accepts."""

    def meddle(world: World, request: ApiRequest, turn: int, now: datetime) -> None:
        key = ObjectKey("", "Pod", SPACE, request.name)
        pod = world.get(key) if request.resource == PODS and turns(turn) else None
        if pod is None:
            return
        subresource, body = write(pod, turn, now)
        world.handle(
            ApiRequest(
                verb="patch",
                resource=PODS,
                namespace=SPACE,
                name=request.name,
                subresource=subresource,
                body=body,
                content_type=MERGE_PATCH,
            ),
            now,
            user="system:node:n1",
        )

    return meddle


def played(policy: str, meddle: Meddling | None, **more: Any) -> Count:
    case = Case(replicas=REPLICAS, rolling={"podUpdatePolicy": policy, "maxUnavailable": DOWN})
    lab = prepared(case)
    return roll(lab.world, lab.now, change(case), meddle=meddle, done=rolled(WEB), **more)


def sound(count: Count) -> None:
    assert count.ended is not None, count
    assert set(count.left.values()) == {1}
    assert len(count.left) == REPLICAS
    assert count.most_down <= DOWN


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_node_agent_that_writes_before_each_of_our_writes_delays_nothing(
    policy: str, write: Write
) -> None:
    count = played(policy, before(lambda _: True, write))
    sound(count)
    if policy == POLICIES["recreate"]:  # nothing is written on pods but what opens new gates
        assert [each for each in count.conflicts if each.startswith("patch")] == []


# In place: out of service, the update, back in service. Recreated: a mark; gates and state.
PATCHES: Final = {"in place": [3] * REPLICAS, "recreate": [*[1] * REPLICAS, *[2] * REPLICAS]}


@pytest.mark.parametrize(("how", "patches"), PATCHES.items(), ids=PATCHES)
def test_an_update_costs_so_many_patches_of_each_pod(how: str, patches: list[int]) -> None:
    count = played(POLICIES[how], None)
    written = Counter(write for write in count.writes if write.startswith("patch pods "))
    assert sorted(written.values()) == patches
    assert count.conflicts == []


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_node_agent_may_write_before_any_of_our_writes(policy: str, write: Write) -> None:
    plain = played(policy, None)
    for turn in range(1, len(plain.writes) + 1):
        sound(played(policy, before(turn.__eq__, write)))


def down(turn: int) -> Meddling:
    def meddle(_: World, __: ApiRequest, at: int, ___: datetime) -> None:
        if at == turn:
            raise Unavailable("try again")

    return meddle


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_an_update_in_its_middle_is_continued_when_a_write_fails(policy: str) -> None:
    """The pod is out of service by the first step: putting it back would have it leave twice."""
    plain = played(policy, None)
    for turn in range(1, len(plain.writes) + 1):
        sound(played(policy, down(turn), one_way_s=0.01))
        sound(played(policy, None, lost=turn, one_way_s=0.01))


def upgraded(world: World) -> bool:
    """Every pod runs the new sidecar, and the old one of a hot pair rests."""
    found = [p["spec"]["containers"] for p in world.objects(PODS_KIND, SPACE)]
    images = [sorted(c["image"] for c in each if c["name"].startswith("mesh")) for each in found]
    return len(images) == REPLICAS and all(each in UPGRADED for each in images)


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("hot", [True, False], ids=["hot", "cold"])
def test_sidecars_are_upgraded_whatever_a_node_agent_writes(hot: bool, write: Write) -> None:
    """A hot upgrade restarts the one container, then the other: a pod leaves service for each."""
    case = sidecars.Case(replicas=REPLICAS, hot=hot, update={"maxUnavailable": DOWN})
    lab = sidecars.prepared(case)
    count = roll(
        lab.world,
        lab.now,
        sidecars.change(case),
        meddle=before(lambda _: True, write),
        workloads=(CLONESET, SIDECARSET),
        done=upgraded,
    )
    assert count.ended is not None, count
    assert set(count.left.values()) == {2 if hot else 1}
    assert count.most_down <= DOWN
