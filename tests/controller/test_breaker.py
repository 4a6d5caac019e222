"""A workload whose writes are undone is paused and says so; others go on; it resumes by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pytest

from gitkruise.controller.breaker import FIRST, LONGEST, REPEATS_MAX, WINDOW, Breaker
from gitkruise.errors import Conflict, Unavailable
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.plan import (
    Applied,
    Create,
    Delete,
    Outcome,
    Patch,
    PatchStep,
    Refused,
    Stale,
)
from gitkruise.model.workloads.conditions import STALLED, find
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.progress.cloneset import observe_rollout
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, STRATEGIC_PATCH, ApiRequest
from gitkruise.world.api.cluster import World
from tests.controller.distance import Count, Meddling, roll, rolled
from tests.laws.foretell import CLONESETS, WEB, Case, change, prepared
from tests.pods import raw_pod
from tests.worlds import PODS as PODS_KIND
from tests.worlds import SPACE, cloneset

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
API: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "api")


def write(pod: str = "web-0", image: str = "app:v2", turn: int = 0) -> Patch:
    facts = pod_facts(raw_pod(pod))
    body = {
        "metadata": {"annotations": {"apps.kruise.io/inplace-update-state": str(turn)}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    return Patch(
        key=facts.key,
        version="v1",
        uid=facts.uid,
        resource_version="7",
        steps=(PatchStep(body=body, content_type=STRATEGIC_PATCH),),
        seen=facts,
    )


def noted(
    outcomes: list[Outcome],
    *,
    every: timedelta = timedelta(0),
    breaker: Breaker[str] | None = None,
    lives: Callable[[str], bool] = bool,
) -> list[int]:
    """After how many outcomes the breaker tripped."""
    breaker = breaker or Breaker()
    return [
        at
        for at, outcome in enumerate(outcomes, 1)
        if breaker.note("web", 1, [outcome], NOW + at * every, lives=lives)
    ]


def test_a_write_that_is_not_kept_trips_whatever_its_times_and_annotations() -> None:
    outcomes: list[Outcome] = [Applied(action=write(turn=at)) for at in range(REPEATS_MAX)]
    assert noted(outcomes) == [REPEATS_MAX]


def test_rounds_that_are_overtaken_without_end_trip_too() -> None:
    outcomes: list[Outcome] = [Stale(action=write(), error=Conflict("x"))] * REPEATS_MAX
    assert noted(outcomes) == [REPEATS_MAX]


def born(number: int) -> Applied:
    """A pod that was created, under a name of its own."""
    pod = raw_pod(f"web-{number}")
    stored = {**pod, "metadata": {**pod["metadata"], "uid": f"uid-{number}"}}
    return Applied(action=Create(obj=pod), replies=(stored,))


def ended() -> Delete:
    facts = pod_facts(raw_pod("web-0"))
    return Delete(key=facts.key, version="v1", uid=facts.uid, resource_version="", seen=facts)


def test_a_pod_that_is_created_in_the_place_of_one_that_is_gone_ten_times_over_trips() -> None:
    creates: list[Outcome] = [born(at) for at in range(3 * REPEATS_MAX)]
    found = noted(creates, lives=lambda _: False)
    assert found == [REPEATS_MAX + 1, 2 * (REPEATS_MAX + 1)]
    late = noted(creates, lives=lambda _: False, every=WINDOW / (REPEATS_MAX - 2))
    assert late == []


def test_pods_that_go_one_after_the_other_in_a_large_set_do_not() -> None:
    """Each was created once; nodes that leave take ten a minute with them."""
    breaker: Breaker[str] = Breaker()
    first: list[Outcome] = [born(at) for at in range(100)]
    assert noted(first, breaker=breaker) == []
    later: list[Outcome] = [born(at) for at in range(100, 200)]
    drained = {f"uid-{at}" for at in range(100)}
    assert noted(later, breaker=breaker, lives=lambda uid: uid not in drained) == []


def test_a_deletion_that_ends_nothing_and_a_name_that_is_never_free_trip() -> None:
    assert noted([Applied(action=ended())] * REPEATS_MAX) == [REPEATS_MAX]
    taken = Stale(action=Create(obj=raw_pod("web-0")), error=Conflict("x"))
    assert noted([taken] * REPEATS_MAX) == [REPEATS_MAX]


def test_writes_of_other_objects_count_and_those_of_a_status_do_not() -> None:
    claim = replaced_by(write(), subresource="")
    assert noted([Applied(action=claim)] * REPEATS_MAX) == [REPEATS_MAX]
    assert noted([Applied(action=replaced_by(claim, subresource="status"))] * 50) == []


def replaced_by(patch: Patch, *, subresource: str) -> Patch:
    """The same of an object that is no pod."""
    body: Obj = {"metadata": {"ownerReferences": []}}
    return msgspec.structs.replace(
        patch, seen=None, steps=(PatchStep(body=body, subresource=subresource),)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "outcomes",
    [
        [born(at) for at in range(5000)],
        [Applied(action=write(f"web-{at}")) for at in range(5000)],
        [Applied(action=write(image=f"app:v{at}")) for at in range(100)],
        [Refused(action=write(), error=Unavailable("x"))] * 100,
        [Applied(action=write())] * (REPEATS_MAX - 1),
    ],
    ids=["many creates", "many pods", "many images", "faults", "a few repeats"],
)
def test_what_ordinary_rollouts_do_does_not(outcomes: list[Outcome]) -> None:
    assert noted(outcomes) == []


def test_repeats_that_are_far_apart_do_not() -> None:
    assert noted([Applied(action=write())] * 100, every=WINDOW / (REPEATS_MAX - 2)) == []


def test_pauses_double_to_a_limit_and_a_new_spec_ends_them() -> None:
    breaker: Breaker[str] = Breaker()
    now, pauses = NOW, []
    for _ in range(8):
        trip = breaker.note("web", 1, [Applied(action=write())] * REPEATS_MAX, now, lives=bool)
        assert trip is not None
        assert breaker.paused("web", 1, now) == trip
        assert breaker.paused("api", 1, now) is None
        pauses.append(trip.pause.until - now)
        now = trip.pause.until
        assert breaker.paused("web", 1, now) is None
    assert pauses[:3] == [FIRST, 2 * FIRST, 4 * FIRST]
    assert pauses[-1] == LONGEST
    breaker.note("web", 1, [Applied(action=write())] * REPEATS_MAX, now, lives=bool)
    assert breaker.paused("web", 1, now)
    assert breaker.paused("web", 2, now) is None


class Reverter:
    """Another controller that takes what a rollout wrote on one pod back, until `ends`."""

    def __init__(self, world: World, ends: datetime) -> None:
        names = [pod["metadata"]["name"] for pod in world.objects(PODS_KIND, SPACE)]
        self.name = next(name for name in names if name.startswith("web-"))
        self.ends, self.reverted = ends, 0
        self.says: list[Obj] = []
        self.api_done: list[datetime] = []

    def __call__(self, world: World, request: ApiRequest, _: int, now: datetime) -> None:
        web = world.get(WEB)
        assert web is not None
        self.says.append(web)
        pod = world.get(ObjectKey("", "Pod", SPACE, self.name))
        image = pod["spec"]["containers"][0]["image"] if pod else ""
        if pod is None or now >= self.ends or image != "app:v2":
            return
        self.reverted += 1
        old = web["status"]["currentRevision"]
        labels: dict[str, Any] = {
            "controller-revision-hash": old,
            "lifecycle.apps.kruise.io/state": "Normal",
        }
        body = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "app:v1"}]},
        }
        world.handle(
            ApiRequest(
                verb="patch", resource=PODS, namespace=SPACE, name=self.name,
                body=body, content_type=STRATEGIC_PATCH,
            ),
            now,
            user="reverter",
        )  # fmt: skip


def rolled_while_reverted(ends: timedelta) -> tuple[World, Reverter, Count]:
    """`web` rolls, and one of its pods is reverted; `api` rolls at the same time."""
    case = Case(replicas=3, rolling={"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1})
    lab = prepared(case)
    lab.apply(cloneset("api", replicas=2))
    lab.run()
    lab.patch(
        cloneset("api"),
        {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:v2"}]}}}},
    )
    meddler: Meddling = (reverter := Reverter(lab.world, lab.now + ends))
    count = roll(
        lab.world, lab.now, change(case), meddle=meddler, done=rolled(WEB),
        within=timedelta(minutes=20),
    )  # fmt: skip
    return lab.world, reverter, count


def stalled(web: Obj) -> Obj | None:
    found = find(web["status"].get("conditions") or (), STALLED)
    return found if found and found["status"] == "True" else None


@pytest.mark.slow
def test_it_trips_says_so_lets_others_go_on_and_resumes() -> None:
    world, reverter, count = rolled_while_reverted(timedelta(minutes=5))
    assert count.ended is not None
    assert reverter.reverted < 5 * REPEATS_MAX
    paused = [web for web in reverter.says if stalled(web)]
    assert paused
    condition = stalled(paused[0])
    assert condition is not None
    assert "GK4510" in condition["message"]
    assert reverter.name in condition["message"]
    events = world.objects(ObjectKey("", "Event", "", "").group_kind, SPACE)
    assert "NoProgress" in {event["reason"] for event in events}
    shown = observe_rollout(paused[0], world.pods(SPACE), (), reverter.ends)
    assert shown.state is State.STUCK
    assert "GK4510" in shown.message
    web = world.get(WEB)
    assert web is not None
    assert stalled(web) is None
    assert rolled(API)(world)


@pytest.mark.slow
def test_a_paused_workload_writes_next_to_nothing() -> None:
    _, reverter, count = rolled_while_reverted(timedelta(days=1))
    assert count.ended is None
    assert len(count.writes) < 400  # in twenty minutes: pauses of 1, 2, 4 and 8
    assert reverter.reverted <= 6 * REPEATS_MAX


class Killer:
    """Something that ends every pod `web` gets beyond those it had."""

    def __init__(self, world: World) -> None:
        self.known = {pod["metadata"]["name"] for pod in world.objects(PODS_KIND, SPACE)}
        self.killed = 0
        self.says: list[Obj] = []

    def __call__(self, world: World, request: ApiRequest, _: int, now: datetime) -> None:
        web = world.get(WEB)
        assert web is not None
        self.says.append(web)
        for pod in world.objects(PODS_KIND, SPACE):
            name = pod["metadata"]["name"]
            if name.startswith("web-") and name not in self.known:
                self.killed += 1
                params = {"gracePeriodSeconds": "0"}
                world.handle(
                    ApiRequest(
                        verb="delete", resource=PODS, namespace=SPACE, name=name, params=params
                    ),
                    now,
                    user="killer",
                )


@pytest.mark.slow
def test_a_pod_that_is_killed_whenever_it_is_created_pauses_its_workload() -> None:
    rolling = {"podUpdatePolicy": "ReCreate"}
    lab = prepared(Case(replicas=3, rolling=rolling))
    killer = Killer(lab.world)
    grow = ApiRequest(
        verb="patch", resource=CLONESETS, namespace=SPACE, name="web",
        body={"spec": {"replicas": 4}}, content_type=MERGE_PATCH,
    )  # fmt: skip
    count = roll(lab.world, lab.now, grow, meddle=killer, done=lambda _: False)
    condition = next(filter(None, map(stalled, killer.says)))
    assert "in a row to replace one that did not last" in condition["message"]
    assert killer.killed <= 6 * (REPEATS_MAX + 1)
    assert len(count.writes) < 400
