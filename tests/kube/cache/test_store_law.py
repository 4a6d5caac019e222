"""Law: whatever the interleaving of writes, replies and events, the store ends at the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.kube.cache.list_watch import (
    Empty,
    Feed,
    Got,
    ListPage,
    StoreEvent,
    Watching,
    WatchState,
    step,
)
from gitkruise.kube.cache.store import InformerCache, StoreChange
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.pod_groups import PodGroups, grouped
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest, WatchEvent
from tests.kube.toy import PODS, Toy

FEED = Feed(ref=PODS, kind="Pod")
NAMES = ("a", "b", "c")
OWNERS = ("x", "y")

ACTS = [
    *["patch"] * 6,
    *["delete"] * 3,
    *["reply"] * 3,
    *["watch"] * 4,
    *["listed"] * 3,
    "again",
    "list",
]
acts = st.tuples(st.sampled_from(ACTS), st.integers(1, 5), st.sampled_from([True, True, False]))


class Interleaving:
    """One store, its cluster, replies on their way back, and a watch that lags behind."""

    def __init__(self) -> None:
        self.toy, self.store = Toy(), InformerCache()
        self.store.follow(FEED)
        self.replies: list[tuple[str, ObjectKey, str, Any]] = []
        self.state: WatchState = Empty()
        self.after: WatchState = Empty()
        self.listed_at, self.coming = 0, list[StoreEvent]()
        self.ended: set[str] = set()  # uids the store has let go
        self.store.subscribe(self.receive)
        self.list()
        self.listed(9)

    def receive(self, change: StoreChange) -> None:
        """Versions of a uid only grow, and a uid that went never comes back."""
        before, after = change.before, change.after
        if after is None:
            assert before is not None
            self.ended.add(before.uid)
        else:
            assert after.uid not in self.ended
            assert before is None or (before.uid, before.version) < (after.uid, after.version)
            assert before is None or before.uid == after.uid

    def write(self, verb: str, at: int, *, ours: bool) -> None:
        """Patch or delete `name`, or create it when it is not there."""
        name = NAMES[at % len(NAMES)]
        old = self.toy.objects.get((PODS, "default", name))
        verb = verb if old else "create"
        request = ApiRequest(
            verb=verb,
            resource=PODS,
            namespace="default",
            name="" if verb == "create" else name,
            body={
                "create": {"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata(name)},
                "patch": {"metadata": self.metadata(name)},
                "delete": None,
            }[verb],
        )
        reply = self.toy.do(request)
        uid = (old or reply)["metadata"]["uid"]
        if ours:
            self.replies.append((verb, ObjectKey("", "Pod", "default", name), uid, reply))

    def metadata(self, name: str) -> dict[str, Any]:
        """Metadata by which a pod comes to another owner and to another revision."""
        turn = self.toy.version
        owner = {"apiVersion": "v1", "kind": "Owner", "name": "web", "uid": OWNERS[turn % 2]}
        labels = {"controller-revision-hash": str(turn % 3)}
        return {"name": name, "labels": labels, "ownerReferences": [owner]}

    def check_groups(self) -> None:
        """The pods of an owner, kept up to date, are those that one would find afresh."""
        for owner in OWNERS:
            owned = self.store.owned_by(owner, POD, "default").values()
            afresh = grouped([seen.facts for seen in owned if seen.facts is not None])
            assert _lots(self.store.pods_of(owner, "default")) == _lots(afresh)

    def reply(self, at: int) -> None:
        if self.replies:
            verb, key, uid, reply = self.replies.pop(at % len(self.replies))
            if verb == "delete":
                self.store.note_delete(key, uid, reply)
                assert self.store.key_of_uid(uid) is None
            else:
                self.store.note_write(reply)
                seen = self.store.seen(key)
                if seen is not None and seen.uid == uid:
                    assert seen.version >= int(reply["metadata"]["resourceVersion"])

    def watch(self, count: int) -> None:
        if isinstance(self.state, Watching):
            at = int(self.state.version)
            for _, type_, _, obj in [e for e in self.toy.log if e[0] > at][:count]:
                self.take(Got(WatchEvent(type=type_, object=obj)))

    def again(self, back: int) -> None:
        """The watch restarts a little earlier: events are repeated."""
        if isinstance(self.state, Watching):
            self.state = Watching(str(max(self.listed_at, int(self.state.version) - back)))

    def list(self, _: int = 0) -> None:
        """A relist begins: the server's answer is fixed now and taken in later."""
        if not self.coming:
            body = self.toy.do(ApiRequest(verb="list", resource=PODS))
            self.state, self.coming = step(Empty(), ListPage(body), FEED)
            self.listed_at, self.after, self.state = self.toy.version, self.state, Empty()

    def listed(self, count: int) -> None:
        for _ in range(min(count, len(self.coming))):
            self.store.apply(FEED, self.coming.pop(0))
            if not self.coming:
                self.state = self.after

    def take(self, got: Got) -> None:
        self.state, events = step(self.state, got, FEED)
        for event in events:
            self.store.apply(FEED, event)

    def settle(self, *, replies_first: bool) -> None:
        for part in ("replies", "events") if replies_first else ("events", "replies"):
            if part == "replies":
                while self.replies:
                    self.reply(0)
            else:
                self.listed(len(self.coming))
                self.watch(10_000)


def _lots(pods: PodGroups) -> set[frozenset[tuple[str, str]]]:
    return {frozenset((pod.name, pod.resource_version) for pod in group) for group in pods.groups}


@pytest.mark.slow
@given(st.lists(acts, min_size=20, max_size=80), st.booleans())
def test_the_store_ends_at_the_projection_of_the_truth(
    script: Sequence[tuple[str, Any, bool]], replies_first: bool
) -> None:
    run = Interleaving()
    for act, argument, ours in script:
        if act in {"patch", "delete"}:
            run.write(act, argument, ours=ours)
        else:
            getattr(run, act)(argument)
        if ours:
            run.check_groups()
    run.settle(replies_first=replies_first)
    run.check_groups()
    truth = {name: obj["metadata"]["uid"] for (_, _, name), obj in run.toy.objects.items()}
    versions = {
        name: int(obj["metadata"]["resourceVersion"])
        for (_, _, name), obj in run.toy.objects.items()
    }
    assert {s.key.name: s.uid for s in run.store.all_seen(POD)} == truth
    assert {s.key.name: s.version for s in run.store.all_seen(POD)} == versions
