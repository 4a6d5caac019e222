"""Cache of the objects last observed of a cluster, our own writes included; implements View."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.kube.cache.list_watch import (
    Feed,
    Init,
    InitApply,
    InitDone,
    ObjectGone,
    ObjectSeen,
    StoreEvent,
    number_of,
)
from gitkruise.kube.cache.subscriptions import Subscriptions
from gitkruise.kube.client.codec import encode
from gitkruise.kube.client.rawobject import RawObject, meta_of, thaw
from gitkruise.model.workloads.pod import POD, PodFacts, pod_facts, pod_facts_from_bytes
from gitkruise.model.workloads.pod_groups import PodGroupIndex, PodGroups
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import drop
from gitkruise.wire.primitives.times import parse_time

_UNHEARD: Final = -1  # horizon of a feed that has reported nothing yet
_NO_OWNER: Final = ("",)  # objects without owners are indexed under this uid


@dataclass(frozen=True, slots=True)
class CachedObject:
    """One observed version of one object. `owners` are the uids of all its owner references."""

    key: ObjectKey
    uid: str
    version: int
    generation: int
    owners: tuple[str, ...]
    deleting: bool
    obj: Obj
    facts: PodFacts | None  # pods only
    managed: bytes = b""  # metadata.managedFields as JSON, where the store remembers them
    spec_written: datetime | None = None  # by managedFields, where the store remembers them

    def read(self) -> Obj:
        """The whole object as a plain dict; decoded on each call when it is kept as bytes."""
        return thaw(self.obj)


@dataclass(frozen=True, slots=True)
class StoreChange:
    """A change reported to subscribers once it is accepted; None means that there is no object."""

    key: ObjectKey
    before: CachedObject | None
    after: CachedObject | None


Subscriber = Callable[[StoreChange], None]


class InformerCache:
    """The informers' cache with read-your-writes. Implements model.view.View.

    Each feed has a horizon: the version up to which it has reported everything. Rules: a known uid
    only moves to newer versions; an unknown uid not newer than the horizon is over already; a uid
    the server reported as deleted stays away until the watch has shown that; a relist removes what
    it does not name and puts back what it names at an older version, unless that is newer than the
    list; a list from before the horizon (the cluster was restored from a backup) is all that is
    known; another uid under the same name is a delete and an add. So late, repeated and lost events
    end in the projection of the truth.
    Only kinds with a follower (`follow`) are kept.

    Pods that come as RawObject stay bytes. All lose `metadata.managedFields`; with an `applier` the
    fields that other managers than that one own, status aside, stay in `CachedObject.managed`, as
    bytes, and of the applier's own those of the metadata.
    """

    def __init__(self, *, applier: str | None = None) -> None:
        self._applier = applier
        self._alone: dict[bytes, bytes] = {}  # entries of the applier alone: nearly all are equal
        self._kinds: dict[GroupKind, dict[str, dict[str, CachedObject]]] = {}
        self._owned: dict[str, dict[tuple[GroupKind, str], dict[str, CachedObject]]] = {}
        # of owners that were asked about, by uid and namespace
        self._groups: dict[tuple[str, str], PodGroupIndex] = {}
        self._by_uid: dict[str, ObjectKey] = {}
        self._gone: dict[
            str, CachedObject
        ] = {}  # uid we know deleted → its last version known to us
        self._listing: dict[Feed, dict[str, CachedObject | None]] = {}
        # named by a list in progress, by uid, with those that are older than what is cached, and
        # those that we know deleted
        self._synced: dict[Feed, bool] = {}
        self._horizon: dict[Feed, int] = {}
        self.returned = 0  # objects that were over and live again: the cluster was restored
        self._doubts: dict[ObjectKey, dict[ObjectKey, None]] = {}
        self._subscribers: Subscriptions[GroupKind, [StoreChange]] = Subscriptions()

    # View -----------------------------------------------------------------------------------

    def get(self, key: ObjectKey) -> Obj | None:
        seen = self.seen(key)
        return None if seen is None else seen.read()

    def objects(self, group_kind: GroupKind, namespace: str = "") -> list[Obj]:
        return [seen.read() for seen in self.all_seen(group_kind, namespace)]

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> list[Obj]:
        found = self.owned_by(uid, group_kind, namespace)
        return [found[name].read() for name in sorted(found)]

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        owned = self.owned_by(uid, POD, namespace)
        index = self._groups.get((uid, namespace))
        if index is None:
            if not owned:
                return PodGroups()
            index = self._groups[uid, namespace] = PodGroupIndex(())
            index.changed.update(owned)
        moved = {name: owned[name].facts for name in index.changed if name in owned}
        return index.look({name: facts for name, facts in moved.items() if facts is not None})

    def pod(self, key: ObjectKey) -> PodFacts | None:
        seen = self.seen(key)
        return seen.facts if seen else None

    def pods(self, namespace: str) -> Sequence[PodFacts]:
        return [s.facts for s in self.all_seen(POD, namespace) if s.facts is not None]

    # Beyond the View ------------------------------------------------------------------------

    def seen(self, key: ObjectKey) -> CachedObject | None:
        return self._kinds.get(key.group_kind, {}).get(key.namespace, {}).get(key.name)

    def all_seen(self, group_kind: GroupKind, namespace: str = "") -> list[CachedObject]:
        """Observed versions in order of namespace and name; "" means every namespace."""
        spaces = self._kinds.get(group_kind, {})
        wanted = [namespace] if namespace else sorted(spaces)
        return [spaces[ns][name] for ns in wanted if ns in spaces for name in sorted(spaces[ns])]

    def owned_by(
        self, uid: str, group_kind: GroupKind, namespace: str
    ) -> Mapping[str, CachedObject]:
        """Return the observed objects that name `uid` among their owners ("": none), by name."""
        return self._owned.get(uid, {}).get((group_kind, namespace), {})

    def key_of_uid(self, uid: str) -> ObjectKey | None:
        """Return the key of the object that has `uid` now."""
        return self._by_uid.get(uid)

    def subscribe(
        self, subscriber: Subscriber, kinds: frozenset[GroupKind] | None = None
    ) -> Callable[[], None]:
        """Call `subscriber` for every change (of `kinds`); it must neither block nor raise.

        Returns what ends the subscription.
        """
        if kinds is None:
            return self._subscribers.listen(subscriber)
        return self._subscribers.join(subscriber, subscriber, kinds)

    # Feeds ----------------------------------------------------------------------------------

    def follow(self, feed: Feed) -> None:
        """Announce a feed. One per kind and namespace: a relist drops what it does not name."""
        self._synced.setdefault(feed, False)
        self._horizon.setdefault(feed, _UNHEARD)

    def unfollow(self, feed: Feed) -> None:
        """End a feed. Its objects stay until another feed shows that they are gone."""
        for known in (self._synced, self._horizon, self._listing):
            known.pop(feed, None)

    def forget(self, feed: Feed) -> None:
        """End a feed and drop its objects, without news to subscribers: they are read elsewhere."""
        self.unfollow(feed)
        for seen in self.all_seen(feed.group_kind, feed.namespace):
            self._index(seen, None)

    def synced(self, kinds: frozenset[GroupKind]) -> bool:
        """Every one of `kinds` is followed and has been listed completely at least once."""
        feeds = [feed for feed in self._synced if feed.group_kind in kinds]
        return kinds <= {feed.group_kind for feed in feeds} and all(self._synced[f] for f in feeds)

    def apply(self, feed: Feed, event: StoreEvent) -> None:
        """Take in one event of `feed`. Raises msgspec.ValidationError on a malformed object."""
        match event:
            case Init():
                self._listing[feed] = {}
            case InitApply(obj=obj):
                new = self._read(obj)
                seen = self.seen(new.key)
                older = seen is not None and new.version < seen.version
                kept = new if older or new.uid in self._gone else None
                self._listing.setdefault(feed, {})[new.uid] = kept
                self.returned += new.uid not in self._by_uid and new.version <= self._horizon[feed]
                self._offer(new, _UNHEARD)
            case InitDone(version=version):
                self._complete(feed, number_of(version))
            case ObjectSeen(obj=obj):
                new = self._read(obj)
                self._offer(new, self._horizon[feed])
                self._horizon[feed] = max(self._horizon[feed], new.version)
            case ObjectGone(obj=obj):
                meta = meta_of(obj)
                gone_at = number_of(meta.resource_version)
                self._gone.pop(meta.uid, None)
                self._remove(meta.uid, gone_at)
                self._horizon[feed] = max(self._horizon[feed], gone_at)

    # Our own writes -------------------------------------------------------------------------

    def note_write(self, obj: Obj) -> None:
        """The server's reply to our create, update or patch, or to a live read: like an event."""
        feed = self._feed_of(key_in(obj))
        if feed is not None:
            self._offer(self._read(obj), self._horizon[feed])

    def note_delete(self, key: ObjectKey, uid: str, reply: Obj) -> None:
        """The server's reply to our delete: the object when it lingers, else it is gone."""
        if reply.get("kind") == key.kind and _lingers(reply):
            self.note_write(reply)
        else:
            self.note_absent(key, uid)

    def note_absent(self, key: ObjectKey, uid: str) -> None:
        """A live answer said that `uid` does not exist any more (uids never come back)."""
        if self._feed_of(key) is None:
            return
        old = self.seen(key)
        if old is not None and old.uid == uid:
            self._gone[uid] = old
            self._remove(uid, old.version)

    # Freshness ------------------------------------------------------------------------------

    def mark_uncertain(self, owner: ObjectKey, target: ObjectKey) -> None:
        """Mark `target` uncertain: a write for `owner` may have changed it since it was seen."""
        self._doubts.setdefault(owner, {})[target] = None

    def uncertain(self, owner: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the keys that must be read live before the next round for `owner`."""
        return tuple(self._doubts.get(owner, ()))

    def confirm(self, owner: ObjectKey, target: ObjectKey) -> None:
        """A live read of `target` was taken in."""
        left = self._doubts.get(owner, {})
        left.pop(target, None)
        if not left:
            self._doubts.pop(owner, None)

    def forget_pending(self, owner: ObjectKey) -> None:
        """Forget the doubts of an owner that is gone."""
        self._doubts.pop(owner, None)

    def fresh(self, owner: ObjectKey) -> bool:
        """No write of ours for `owner` is still unaccounted for."""
        return owner not in self._doubts

    # Inside ---------------------------------------------------------------------------------

    def _feed_of(self, key: ObjectKey) -> Feed | None:
        for feed in self._synced:
            if _covers(feed, key):
                return feed
        return None

    def _offer(self, new: CachedObject, horizon: int) -> None:
        """Accept `new` if it is news."""
        if new.uid in self._gone:
            return
        if new.version <= horizon and new.uid not in self._by_uid:
            return
        old = self.seen(new.key)
        if old is not None and new.version <= old.version:
            return
        self._take(old, new)

    def _take(self, old: CachedObject | None, new: CachedObject) -> None:
        """Put `new` in the place of `old`, of the same name."""
        if old is not None and old.uid != new.uid:
            self._gone[old.uid] = old  # its successor lives, so it is deleted, shown or not
            self._remove(old.uid, old.version)
            old = None
        self._index(old, new)
        self._notify(StoreChange(new.key, old, new))

    def _remove(self, uid: str, version: int) -> None:
        key = self._by_uid.get(uid)
        old = self.seen(key) if key is not None else None
        if key is None or old is None or old.version > version:
            return  # the last: an older absence, from before it entered a selector again
        self._index(old, None)
        self._notify(StoreChange(key, old, None))

    def _complete(self, feed: Feed, version: int) -> None:
        named = self._listing.pop(feed, {})
        if version < self._horizon[feed]:
            self._go_back(feed, named)
        for restored in filter(None, named.values()):
            old = self.seen(restored.key)
            if restored.uid not in self._gone and old is not None and old.version <= version:
                self._take(old, restored)
        for seen in self.all_seen(feed.group_kind, feed.namespace):
            if seen.uid not in named:
                self._remove(seen.uid, version)
        for uid, last in tuple(self._gone.items()):
            if uid not in named and last.version <= version and _covers(feed, last.key):
                del self._gone[uid]
        self._horizon[feed] = version
        self._synced[feed] = True

    def _go_back(self, feed: Feed, named: Mapping[str, CachedObject | None]) -> None:
        """Know of the objects of `feed` what a list named, and nothing else.

        A list shows the present. From before what the feed has shown already, it is one of a
        cluster that was restored: later versions are of objects and deletions that never were.
        """
        for uid in [uid for uid, last in self._gone.items() if _covers(feed, last.key)]:
            del self._gone[uid]
        for restored in filter(None, named.values()):
            self._take(self.seen(restored.key), restored)
        for seen in self.all_seen(feed.group_kind, feed.namespace):
            if seen.uid not in named:
                self._remove(seen.uid, seen.version)

    def _index(self, old: CachedObject | None, new: CachedObject | None) -> None:
        """Put `new` in the place of `old` (of the same uid) in every index."""
        if old is not None:
            self._unlink(old)
        if new is not None:
            spaces = self._kinds.setdefault(new.key.group_kind, {})
            spaces.setdefault(new.key.namespace, {})[new.key.name] = new
            self._by_uid[new.uid] = new.key
            for uid in new.owners or _NO_OWNER:
                self._owned.setdefault(uid, {}).setdefault(_place(new.key), {})[new.key.name] = new
                self._regroup(uid, new.key)

    def _unlink(self, old: CachedObject) -> None:
        spaces = self._kinds[old.key.group_kind]
        names = spaces[old.key.namespace]
        del names[old.key.name], self._by_uid[old.uid]
        if not names:
            del spaces[old.key.namespace]
        for uid in set(old.owners or _NO_OWNER):
            owned, place = self._owned[uid], _place(old.key)
            del owned[place][old.key.name]
            self._regroup(uid, old.key)
            if not owned[place]:
                del owned[place]
                if old.key.group_kind == POD:
                    self._groups.pop((uid, old.key.namespace), None)
            if not owned:
                del self._owned[uid]

    def _regroup(self, owner: str, key: ObjectKey) -> None:
        """Note that a pod changed, if anybody asked about its owner."""
        index = self._groups.get((owner, key.namespace)) if key.group_kind == POD else None
        if index is not None:
            index.changed.add(key.name)

    def _notify(self, change: StoreChange) -> None:
        self._subscribers.notify((change.key.group_kind,), change)

    def _read(self, obj: Obj) -> CachedObject:
        meta, key = meta_of(obj), key_in(obj)
        facts, managed, written = None, b"", None
        if isinstance(obj, RawObject):
            facts = pod_facts_from_bytes(obj.raw) if key.group_kind == POD else None
            obj = obj.without_managers()
        else:
            if key.group_kind == POD:
                facts = pod_facts(obj)
            else:
                managed, written = self._managers(obj), self._spec_written(obj)
            obj = drop(obj, ("metadata", "managedFields"))
        return CachedObject(
            key=key,
            uid=meta.uid,
            version=number_of(meta.resource_version),
            generation=meta.generation,
            owners=tuple(owner.uid for owner in meta.owner_references or ()),
            deleting=meta.deletion_timestamp is not None,
            obj=obj,
            facts=facts,
            managed=managed,
            spec_written=written,
        )

    def _managers(self, obj: Obj) -> bytes:
        """Return the entries of managedFields that readers may ask for."""
        entries = obj["metadata"].get("managedFields") if self._applier is not None else None
        kept = [
            _of_metadata(entry) if entry.get("manager") == self._applier else entry
            for entry in entries or ()
            if entry.get("subresource") != "status"
        ]
        found = encode(kept) if kept else b""
        ours = len(kept) == 1 and kept[0].get("manager") == self._applier
        return self._alone.setdefault(found, found) if ours else found

    def _spec_written(self, obj: Obj) -> datetime | None:
        """Return when any writer last changed the spec itself, scaling aside."""
        entries = obj["metadata"].get("managedFields") if self._applier is not None else None
        times = (
            parse_time(entry.get("time") or "")
            for entry in entries or ()
            if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or ())
        )
        return max(filter(None, times), default=None)


def _of_metadata(entry: Obj) -> Obj:
    """Return an entry of managedFields without its time and without the fields of the content."""
    fields = entry.get("fieldsV1") or {}
    kept = {name: fields[name] for name in ("f:metadata",) if name in fields}
    return {**{k: v for k, v in entry.items() if k != "time"}, "fieldsV1": kept}


def key_in(obj: Obj) -> ObjectKey:
    """Return the key of an object, which may be kept as bytes."""
    if isinstance(obj, RawObject):
        meta, group = meta_of(obj), obj.api_version.rpartition("/")[0]
        return ObjectKey(group, obj.kind, meta.namespace, meta.name)
    return key_of(obj)


def _place(key: ObjectKey) -> tuple[GroupKind, str]:
    return key.group_kind, key.namespace


def _covers(feed: Feed, key: ObjectKey) -> bool:
    return feed.group_kind == key.group_kind and feed.namespace in {"", key.namespace}


def _lingers(obj: Obj) -> bool:
    """Deletion waits for finalizers or for a grace period."""
    meta = meta_of(obj)
    return bool(meta.finalizers or meta.deletion_grace_period_seconds)
