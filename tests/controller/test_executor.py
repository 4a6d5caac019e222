"""Plans become writes: guarded, in waves, in steps, and each with its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gitkruise.controller.executor import Executor
from gitkruise.errors import Forbidden, TooManyRequests, Unavailable
from gitkruise.kube.cache.list_watch import Feed, Init, InitApply, InitDone, ObjectSeen
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.events import Recorder, Subject
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.plan import (
    Applied,
    Create,
    Delete,
    Event,
    Outcome,
    Patch,
    PatchStep,
    Plan,
    Refused,
    Skipped,
    Stale,
)
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ResourceRef
from tests.clock import ManualClock
from tests.kube.toy import CONFIG_MAPS, PODS, Fault, Toy, lost

OWNER = ObjectKey("", "ConfigMap", "default", "web")
MAPS = Feed(ref=CONFIG_MAPS, kind="ConfigMap")
CLAIMS = ResourceRef("", "v1", "persistentvolumeclaims")


class Bench:
    """An executor over a Toy whose objects `a` and `b` (pods) and `web` the store knows."""

    def __init__(self, **options: Any) -> None:
        self.toy, self.store, self.clock = Toy(), InformerCache(), ManualClock()
        self.recorder = Recorder(self.toy, self.clock)
        self.executor = Executor(self.toy, self.store, load_catalog(), self.recorder, **options)
        self.objects: dict[str, Obj] = {}
        for feed, names in ((Feed(ref=PODS, kind="Pod"), "ab"), (MAPS, ["web"])):
            self.store.follow(feed)
            self.store.apply(feed, Init())
            for name in names:
                self.objects[name] = self.toy.make(feed.ref, name, status={"pods": 0})
                self.store.apply(feed, InitApply(self.objects[name]))
            self.store.apply(feed, InitDone(str(self.toy.version)))

    def run(self, *actions: Any, **plan: Any) -> list[Outcome]:
        subject = Subject(key=OWNER, version="v1", uid=self.objects["web"]["metadata"]["uid"])

        async def main() -> list[Outcome]:
            return await self.executor.run(Plan(actions=actions, **plan), subject, "test")

        return self.clock.run(main())

    def settle(self) -> None:
        self.clock.run(self.executor.settle(OWNER))

    def patch(self, name: str, *steps: PatchStep, **fields: Any) -> Patch:
        meta = self.objects[name]["metadata"]
        return Patch(
            key=key_of(self.objects[name]),
            version="v1",
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            steps=steps or (PatchStep(body={"spec": {"nodeName": "n1"}}),),
            **fields,
        )

    def delete(self, name: str, **fields: Any) -> Delete:
        meta = self.objects[name]["metadata"]
        version = meta["resourceVersion"]
        return Delete(
            key=key_of(self.objects[name]),
            version="v1",
            uid=meta["uid"],
            resource_version=version,
            **fields,
        )


def pod(name: str, *, kind: str = "Pod") -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}


def kinds(outcomes: list[Outcome]) -> list[str]:
    return [type(outcome).__name__ for outcome in outcomes]


def test_claims_come_before_their_pod_and_the_store_knows_at_once() -> None:
    bench = Bench()
    (outcome,) = bench.run(
        Create(obj=pod("c"), claims=(pod("c-data", kind="PersistentVolumeClaim"),))
    )
    assert [r.body["metadata"]["name"] for r in bench.toy.requests] == ["c-data", "c"]
    assert isinstance(outcome, Applied)
    assert [r["metadata"]["name"] for r in outcome.replies] == ["c-data", "c"]
    assert bench.store.get(ObjectKey("", "Pod", "default", "c")) is not None


def test_a_claim_that_outlived_its_pod_is_used_again() -> None:
    bench = Bench()
    claim = pod("c-data", kind="PersistentVolumeClaim")
    bench.run(Create(obj=claim))
    assert kinds(bench.run(Create(obj=pod("c"), claims=(claim,)))) == ["Applied"]


def test_waves_stop_at_the_first_failure() -> None:
    bench = Bench()
    bench.toy.faults = [
        Fault("create", Forbidden("quota exceeded")), Fault("patch", Forbidden("by policy"))
    ]  # fmt: skip
    creates = [Create(obj=pod(f"c{n}"), wave=n // 2) for n in range(4)]
    outcomes = bench.run(*creates, bench.delete("a"))
    assert kinds(outcomes) == ["Refused", "Applied", "Skipped", "Skipped", "Applied"]
    assert [o.action for o in outcomes[:4]] == creates


def test_steps_thread_the_version_and_stay_guarded_by_the_uid() -> None:
    bench = Bench()
    first = PatchStep(body={"metadata": {"labels": {"x": "1"}}})
    second = PatchStep(body={"status": {"phase": "Running"}}, subresource="status")
    assert kinds(bench.run(bench.patch("a", first, second))) == ["Applied"]
    one, two = (r.body["metadata"] for r in bench.toy.requests)
    was = bench.objects["a"]["metadata"]
    uid, version = was["uid"], was["resourceVersion"]
    assert one == {"labels": {"x": "1"}, "uid": uid, "resourceVersion": version}
    assert two == {"uid": uid, "resourceVersion": str(bench.toy.version - 1)}
    assert [r.subresource for r in bench.toy.requests] == ["", "status"]


def test_deletes_carry_preconditions_and_their_followers() -> None:
    bench = Bench()
    outcomes = bench.run(bench.delete("a", then=(bench.delete("b"),), propagation="Background"))
    meta = bench.objects["a"]["metadata"]
    assert kinds(outcomes) == ["Applied"]
    assert bench.toy.requests[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
        "propagationPolicy": "Background",
    }
    assert bench.store.all_seen(POD) == []


@pytest.mark.parametrize("act", [Bench.patch, Bench.delete], ids=["patch", "delete"])
@pytest.mark.parametrize(
    "happens",
    [
        lambda toy: toy.change(PODS, "a", {"spec": {"nodeName": "other"}}),
        lambda toy: toy.remove(PODS, "a"),
        lambda toy: (toy.remove(PODS, "a"), toy.make(PODS, "a")),
    ],
    ids=["moved", "gone", "replaced"],
)
def test_what_moved_since_we_looked_is_left_alone_and_read_again(
    act: Callable[[Bench, str], Any], happens: Callable[[Toy], Any]
) -> None:
    bench = Bench()
    happens(bench.toy)
    version = bench.toy.version
    assert kinds(bench.run(act(bench, "a"))) == ["Stale"]
    assert bench.toy.version == version
    assert not bench.store.fresh(OWNER)
    bench.settle()
    assert bench.store.fresh(OWNER)
    truth = bench.toy.objects.get((PODS, "default", "a"))
    assert bench.store.get(key_of(bench.objects["a"])) == truth


@pytest.mark.parametrize(
    ("verb", "action"),
    [
        ("create", lambda _: Create(obj=pod("c"))),
        ("patch", lambda bench: bench.patch("a")),
        ("delete", lambda bench: bench.delete("a")),
    ],
    ids=["create", "patch", "delete"],
)
def test_a_lost_answer_is_settled_by_a_live_read(verb: str, action: Callable[[Bench], Any]) -> None:
    bench = Bench()
    bench.toy.faults = [lost(verb)]
    assert kinds(bench.run(action(bench))) == ["Refused"]
    before = bench.toy.version
    bench.settle()
    truth = {n: o for (ref, _, n), o in bench.toy.objects.items() if ref == PODS}
    assert {s.key.name: s.read() for s in bench.store.all_seen(POD)} == truth
    assert bench.toy.version == before


def test_a_plain_refusal_leaves_no_doubt() -> None:
    bench = Bench()
    bench.toy.faults = [Fault("patch", TooManyRequests("slow"))]
    assert kinds(bench.run(bench.patch("a"))) == ["Refused"]
    assert bench.store.fresh(OWNER)


def test_the_status_comes_last_as_the_smallest_change_and_only_with_news() -> None:
    bench = Bench()
    outcomes = bench.run(bench.delete("a"), status={"pods": 0})
    assert kinds(outcomes) == ["Applied"]
    outcomes = bench.run(bench.delete("b"), status={"pods": 1})
    assert kinds(outcomes) == ["Applied", "Applied"]
    last = bench.toy.requests[-1]
    assert (last.verb, last.name, last.subresource) == ("patch", "web", "status")
    assert last.body["status"] == {"pods": 1}
    assert set(last.body["metadata"]) == {"uid", "resourceVersion"}


def test_the_status_of_a_successor_is_not_ours_to_write() -> None:
    bench = Bench()
    bench.store.apply(MAPS, ObjectSeen({**bench.toy.make(CONFIG_MAPS, "other")}))
    bench.toy.remove(CONFIG_MAPS, "web")
    bench.store.apply(MAPS, ObjectSeen(bench.toy.make(CONFIG_MAPS, "web")))
    assert bench.run(status={"pods": 1}) == []


def test_no_more_writes_at_once_than_allowed() -> None:
    bench = Bench(writes_max=4)
    bench.toy.latency_s = 0.01
    bench.run(*[Create(obj=pod(f"c{n:02}")) for n in range(20)])
    assert bench.toy.most_in_flight == 4
    names = [r.body["metadata"]["name"] for r in bench.toy.requests]
    assert names == sorted(names)


def test_writes_begin_in_the_order_of_the_plan_whatever_they_take() -> None:
    """The order of a plan is the order in which pods are processed, steps and slots or not."""
    bench = Bench(writes_max=2)
    bench.toy.latency_s = 0.01
    steps = (PatchStep(body={"metadata": {"labels": {"x": "1"}}}), PatchStep(body={"status": {}}))
    bench.run(
        Create(obj=pod("z")), bench.patch("b", *steps), bench.delete("a"), Create(obj=pod("c"))
    )
    names = [r.name or r.body["metadata"]["name"] for r in bench.toy.requests]
    assert list(dict.fromkeys(names)) == ["z", "b", "a", "c"]


def test_events_say_what_was_done_and_quote_the_server() -> None:
    bench = Bench()
    bench.toy.faults = [
        Fault("create", Forbidden("quota exceeded")), Fault("patch", Forbidden("by policy"))
    ]  # fmt: skip
    failed = Event("Warning", "FailedCreate", "could not create pod c: ")
    done = Event("Normal", "SuccessfulDelete", "deleted pod a")
    plan_event = Event("Warning", "ScaleUpLimited", "2")
    bench.run(
        Create(obj=pod("c"), failed=failed), bench.delete("a", done=done), events=(plan_event,),
        status={"pods": 1},
    )  # fmt: skip
    assert [(s.reason, s.message) for s in bench.recorder._pending.values()] == [
        ("ScaleUpLimited", "2"),
        ("FailedCreate", "could not create pod c: quota exceeded"),
        ("SuccessfulDelete", "deleted pod a"),
        ("FailedUpdateStatus", "could not write the status: by policy"),
    ]


def test_a_lasting_refusal_of_an_action_without_an_event_is_recorded_too() -> None:
    """A revision that may not be created holds up its CloneSet, and nothing else says why."""
    bench = Bench()
    bench.toy.faults = [
        Fault("create", Forbidden("no right")), Fault("create", Unavailable("away"))
    ]  # fmt: skip
    bench.run(Create(obj=pod("c")))
    bench.run(Create(obj=pod("d")))
    assert [(s.reason, s.message) for s in bench.recorder._pending.values()] == [
        ("FailedCreate", "could not create Pod c: no right"),
    ]


def test_outcomes_keep_the_order_of_actions() -> None:
    bench = Bench()
    actions = [Create(obj=pod("z"), wave=1), bench.delete("a"), Create(obj=pod("y"))]
    assert [o.action for o in bench.run(*actions)] == actions
    assert not any(isinstance(o, Skipped | Refused | Stale) for o in bench.run())
