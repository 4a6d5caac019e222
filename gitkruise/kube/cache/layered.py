"""A cache over another one: kinds that several parts of a process read are kept once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gitkruise.kube.cache.list_watch import Feed, StoreEvent
from gitkruise.kube.cache.store import CachedObject, InformerCache, StoreChange, key_in
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.pod_groups import PodGroups
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey


class OverlaidCache(InformerCache):
    """An InformerCache that reads the kinds `others` in the caches where they are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.others: dict[GroupKind, InformerCache] = {}

    def seen(self, key: ObjectKey) -> CachedObject | None:
        other = self.others.get(key.group_kind)
        return super().seen(key) if other is None else other.seen(key)

    def all_seen(self, group_kind: GroupKind, namespace: str = "") -> list[CachedObject]:
        other = self.others.get(group_kind)
        if other is None:
            return super().all_seen(group_kind, namespace)
        return other.all_seen(group_kind, namespace)

    def owned_by(
        self, uid: str, group_kind: GroupKind, namespace: str
    ) -> Mapping[str, CachedObject]:
        other = self.others.get(group_kind)
        if other is None:
            return super().owned_by(uid, group_kind, namespace)
        return other.owned_by(uid, group_kind, namespace)

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        other = self.others.get(POD)
        return super().pods_of(uid, namespace) if other is None else other.pods_of(uid, namespace)


class LayeredCache(OverlaidCache):
    """An InformerCache whose objects of the kinds `shared` are in the cache `below`.

    The owner of `below` keeps them up to date; what is written through this cache is read in both.
    Doubts stay here.
    """

    def __init__(self, below: InformerCache, shared: frozenset[GroupKind]) -> None:
        super().__init__()
        self._below, self.shared = below, shared
        self.others = dict.fromkeys(shared, below)

    def key_of_uid(self, uid: str) -> ObjectKey | None:
        key = super().key_of_uid(uid) or self._below.key_of_uid(uid)
        return key if key is None or self.seen(key) is not None else None

    def subscribe(
        self,
        subscriber: Callable[[StoreChange], None],
        kinds: frozenset[GroupKind] | None = None,
    ) -> Callable[[], None]:
        shared = self.shared if kinds is None else kinds & self.shared
        here, there = (
            super().subscribe(subscriber, kinds),
            self._below.subscribe(subscriber, shared),
        )

        def leave() -> None:
            here()
            there()

        return leave

    def follow(self, feed: Feed) -> None:
        if feed.group_kind in self.shared:
            self._below.follow(feed)
        else:
            super().follow(feed)

    def unfollow(self, feed: Feed) -> None:
        if feed.group_kind in self.shared:
            self._below.unfollow(feed)
        else:
            super().unfollow(feed)

    def apply(self, feed: Feed, event: StoreEvent) -> None:
        if feed.group_kind in self.shared:
            self._below.apply(feed, event)
        else:
            super().apply(feed, event)

    def synced(self, kinds: frozenset[GroupKind]) -> bool:
        return super().synced(kinds - self.shared) and self._below.synced(kinds & self.shared)

    def note_write(self, obj: Obj) -> None:
        if key_in(obj).group_kind in self.shared:
            self._below.note_write(obj)
        else:
            super().note_write(obj)

    def note_absent(self, key: ObjectKey, uid: str) -> None:
        if key.group_kind in self.shared:
            self._below.note_absent(key, uid)
        else:
            super().note_absent(key, uid)
