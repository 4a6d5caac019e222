"""Object store of the model cluster: objects by key, indexes, the journal of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from gitkruise.errors import WatchExpired
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET, SPREAD
from gitkruise.model.workloads.pod import POD, PodFacts, pod_facts
from gitkruise.model.workloads.pod_groups import PodGroupIndex, PodGroups
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.world.store.admission_cache import AdmissionCache
from gitkruise.world.store.memo import Memo

if TYPE_CHECKING:
    from gitkruise.admission.rules.request import AdmissionRequest
    from gitkruise.wire.catalog.catalog import Catalog
    from gitkruise.wire.catalog.kinds import Kind
    from gitkruise.world.store.webhook_rounds import RegisteredWebhooks

JOURNAL_MAX: Final = 100_000
T = TypeVar("T")
Admit: TypeAlias = "Callable[[AdmissionRequest], Obj | None]"


class CommittedChange(NamedTuple):
    """One committed change. `type` is ADDED, MODIFIED or DELETED; objects are in storage form.

    `after` of a deletion is None and `before` its last state; `version` is the change's
    resourceVersion, which the DELETED watch event carries too.
    """

    version: int
    type: str
    key: ObjectKey
    kind: Kind
    before: Obj | None
    after: Obj | None


@dataclass(slots=True)
class Named(Generic[T]):
    """Things of one kind in one namespace by name; the order of names is made on demand."""

    items: dict[str, T] = field(default_factory=dict)
    names: list[str] | None = None

    def in_order(self) -> list[str]:
        """The names in order. Not to be changed."""
        if self.names is None:
            self.names = sorted(self.items)
        return self.names

    def put(self, name: str, item: T) -> None:
        items = self.items
        if name not in items:
            self.names = None
        items[name] = item

    def drop(self, name: str) -> None:
        del self.items[name]
        self.names = None

    def copy(self) -> Named[T]:
        return Named(dict(self.items), self.names)


@dataclass(slots=True)
class ChangeLog:
    """The last `limit` changes; each one has the version after its predecessor's."""

    base: int = 0  # the version before the first record
    records: list[CommittedChange] = field(default_factory=list)
    limit: int = JOURNAL_MAX

    def add(self, record: CommittedChange) -> None:
        self.records.append(record)
        # Each record keeps an object; an eighth more than the limit costs eight moves a record.
        if len(self.records) > self.limit + self.limit // 8:
            self.forget(len(self.records) - self.limit)

    def forget(self, count: int) -> None:
        """Drop the oldest `count` records."""
        self.records = self.records[count:]
        self.base += count

    def since(self, version: int) -> Sequence[CommittedChange]:
        """Records after `version`. Raises WatchExpired when some of them are forgotten."""
        oldest = max(self.base, self.base + len(self.records) - self.limit)
        if version < oldest:
            raise WatchExpired(f"too old resource version: {version} ({oldest})")
        return self.records[version - self.base :]


class ObjectStore:
    """Objects in storage form, never changed in place. Implements `model.view.View`.

    One resourceVersion counter for everything; each commit takes the next number.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        admit: Admit | None = None,
        seed: int = 0,
        gates: Gates = Gates(),
    ) -> None:
        self.catalog = catalog
        self.admit = admit
        self.gates = gates
        self.seed = seed
        self.fast_path = False  # see World.fork
        self.admission_cache = AdmissionCache()
        self.registered: RegisteredWebhooks | None = None  # webhooks, as last read
        self.memo = Memo()
        self.version = 0
        self.journal = ChangeLog()
        self._oldest = 0  # nothing is known of what changed up to this version
        self._latest: dict[tuple[str, str], int] = {}  # the last change's version by (group, kind)
        self._buckets: dict[tuple[str, str], dict[str, Named[Obj]]] = {}  # by (group, kind)
        self._owned: dict[str, dict[tuple[GroupKind, str], Named[ObjectKey]]] = {}
        self._facts: dict[str, dict[str, PodFacts]] = {}  # by namespace, as far as asked for
        self._earlier: dict[ObjectKey, tuple[Obj, PodFacts]] = {}  # read, and changed since
        self._rolls: dict[tuple[str, str], PodGroupIndex] = {}  # by owner's uid and namespace

    def get(self, key: ObjectKey) -> Obj | None:
        spaces = self._buckets.get(key[:2])
        bucket = spaces.get(key.namespace) if spaces else None
        return bucket.items.get(key.name) if bucket else None

    def knows(self, group_kind: GroupKind) -> bool:
        """Return whether an object of that kind ever existed."""
        return group_kind in self._buckets

    def protects_updates(self, namespace: str = "") -> bool:
        """Return whether PodUnavailableBudgets may protect pods of a namespace from updates."""
        return self.gates.pod_unavailable_budget_update_gate and self._has_budgets(namespace)

    def protects_deletions(self, namespace: str = "") -> bool:
        """Return whether PodUnavailableBudgets may protect pods of a namespace from deletion."""
        return self.gates.pod_unavailable_budget_delete_gate and self._has_budgets(namespace)

    def divides_pods(self, namespace: str) -> bool:
        """Return whether WorkloadSpreads may divide pods of a namespace."""
        gated = self.gates.workload_spread and self.knows(SPREAD)
        return gated and bool(self.objects(SPREAD, namespace))

    def _has_budgets(self, namespace: str) -> bool:
        return self.knows(BUDGET) and bool(self.objects(BUDGET, namespace))

    def changed(self, group_kind: GroupKind, since: int) -> bool:
        """Return whether an object of that kind may have been written after version `since`."""
        return self._latest.get(group_kind, self._oldest) > since

    def objects(self, group_kind: GroupKind, namespace: str = "") -> list[Obj]:
        """Objects in the order of their storage path; namespace "" means every namespace."""
        buckets = self._buckets.get(group_kind, {})
        if namespace or set(buckets) <= {""}:
            bucket = buckets.get(namespace)
            return [bucket.items[name] for name in bucket.in_order()] if bucket else []
        spaces = [buckets[name] for name in sorted(buckets, key=lambda name: name + "/")]
        return [space.items[name] for space in spaces for name in space.in_order()]

    def stored_kind(self, kind: Kind) -> Kind:
        """The kind in the version its objects are stored in."""
        if kind.is_stored_form:
            return kind
        return self.catalog.stored(kind.home) or kind

    def group_kinds(self) -> list[GroupKind]:
        """Kinds of which at least one object exists, in name order."""
        found = (gk for gk, spaces in self._buckets.items() if any(spaces.values()))
        return sorted(GroupKind(*group_kind) for group_kind in found)

    def namespaces_of(self, group_kind: GroupKind) -> list[str]:
        return sorted(ns for ns, b in self._buckets.get(group_kind, {}).items() if b.items)

    def everything(self) -> Iterator[Obj]:
        for group_kind in self.group_kinds():
            yield from self.objects(group_kind)

    def owned_keys(self, uid: str) -> list[ObjectKey]:
        """Keys of the objects with an owner reference to `uid`, in no particular order."""
        return [key for place in self._owned.get(uid, {}).values() for key in place.items.values()]

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> list[Obj]:
        """Objects of that kind with an owner reference to `uid` ("": with none), in name order."""
        owned = self._owned.get(uid, {}).get((group_kind, namespace))
        if owned is None:
            return []
        objects = self._buckets[group_kind][namespace].items
        return [objects[name] for name in owned.in_order()]

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        """Facts of the pods owned by `uid` ("": by nothing); read once per observed version."""
        owned = self._owned.get(uid, {}).get((POD, namespace))
        if owned is None:
            return PodGroups()
        roll = self._rolls.get((uid, namespace))
        if roll is None:
            pods = self._facts_of(namespace, owned.in_order())
            roll = self._rolls[uid, namespace] = PodGroupIndex(pods)
        names = [name for name in roll.changed if name in owned.items]
        return roll.look(dict(zip(names, self._facts_of(namespace, names), strict=True)))

    def pod(self, key: ObjectKey) -> PodFacts | None:
        """Facts of one pod, read once per observed version."""
        return self._facts_of(key.namespace, [key.name])[0] if self.get(key) else None

    def pods(self, namespace: str) -> list[PodFacts]:
        """Facts of all pods of a namespace ("" for all), in the order of `objects`."""
        spaces = [namespace] if namespace else self.namespaces_of(POD)
        found = []
        for space in sorted(spaces, key=lambda name: name + "/"):
            bucket = self._buckets.get(POD, {}).get(space)
            if bucket is not None and bucket.items:
                found += self._facts_of(space, bucket.in_order())
        return found

    def _facts_of(self, namespace: str, names: Sequence[str]) -> list[PodFacts]:
        facts = self._facts.setdefault(namespace, {})
        found = list(map(facts.get, names))
        if None in found:
            objects = self._buckets[POD][namespace].items
            missing = [name for name, known in zip(names, found, strict=True) if known is None]
            for name in missing:
                earlier = self._earlier.pop(ObjectKey(*POD, namespace, name), None)
                facts[name] = pod_facts(objects[name], earlier)
            return [facts[name] for name in names]
        return found  # type: ignore[return-value]  # no entry is None

    def commit(self, kind: Kind, key: ObjectKey, after: Obj | None) -> Obj:
        """Store `after` (or delete the object when None) under the next version; what was stored.

        `after` must already carry that version (`str(version + 1)`); a deletion answers the
        object's last state.
        """
        self.version = version = self.version + 1
        self._latest[key[:2]] = version
        if after is None:
            before = self._remove(key)
            self.journal.add(CommittedChange(version, "DELETED", key, kind, before, None))
            return before
        if after["metadata"]["resourceVersion"] != str(version):
            raise ValueError(f"{key} is stored as of another version than {version}")
        previous = self._place(key, after)
        type_ = "ADDED" if previous is None else "MODIFIED"
        self.journal.add(CommittedChange(version, type_, key, kind, previous, after))
        return after

    def load(self, items: Iterable[tuple[ObjectKey, Obj]], version: int) -> None:
        """Replace everything by `items` as of `version`; the journal starts empty there."""
        self._buckets, self._owned, self._facts, self.admission_cache = {}, {}, {}, AdmissionCache()
        self._earlier, self._rolls = {}, {}
        for key, obj in items:
            self._place(key, obj)
        self.version = self._oldest = version
        self._latest = {}
        self.journal = ChangeLog(base=version, limit=self.journal.limit)

    def fork(self, *, fast_path: bool = False) -> ObjectStore:
        """An independent copy that shares the (immutable) objects and forgets the past."""
        twin = ObjectStore(self.catalog, admit=self.admit, seed=self.seed, gates=self.gates)
        twin._buckets = {
            group_kind: {ns: bucket.copy() for ns, bucket in spaces.items()}
            for group_kind, spaces in self._buckets.items()
        }
        twin._owned = {
            uid: {place: owned.copy() for place, owned in places.items()}
            for uid, places in self._owned.items()
        }
        twin._facts = {place: dict(facts) for place, facts in self._facts.items()}
        twin.version, twin.fast_path = self.version, fast_path
        twin._oldest, twin._latest = self._oldest, dict(self._latest)
        twin.journal = ChangeLog(base=self.version, limit=self.journal.limit)
        return twin

    def _place(self, key: ObjectKey, after: Obj) -> Obj | None:
        """Put an object where it belongs; what was there."""
        _, kind, namespace, name = key
        spaces = self._buckets.get(key[:2])
        bucket = spaces.get(namespace) if spaces else None
        if bucket is None:
            bucket = self._buckets.setdefault(key.group_kind, {})[namespace] = Named()
        before = bucket.items.get(name)
        bucket.put(name, after)
        owned_by = _owner_uids(before)
        owners = owned_by if before and _same_owners(before, after) else _owner_uids(after)
        if kind == "Pod":
            self._forget(key, before, owners if owners is owned_by else (*owned_by, *owners))
        if owners is not owned_by:
            self._reindex(key, owned_by, owners)
        return before

    def _remove(self, key: ObjectKey) -> Obj:
        """Take an object away; what it was."""
        bucket = self._buckets[key[:2]][key.namespace]
        before = bucket.items[key.name]
        bucket.drop(key.name)
        owners = _owner_uids(before)
        if key.kind == "Pod":
            self._forget(key, before, owners)
            self._earlier.pop(key, None)
        self._reindex(key, owners, ())
        return before

    def _forget(self, key: ObjectKey, before: Obj | None, owners: Sequence[str]) -> None:
        """Drop the facts of a pod until the next read; `owners` are those of old and new."""
        namespace, name = key.namespace, key.name
        if facts := self._facts.get(namespace):
            known = facts.pop(name, None)
            if known is not None and before is not None:
                self._earlier[key] = before, known
            if not facts:
                del self._facts[namespace]
        for uid in owners:
            if roll := self._rolls.get((uid, namespace)):
                roll.changed.add(name)

    def _reindex(self, key: ObjectKey, before: Sequence[str], after: Sequence[str]) -> None:
        if before == after:
            return
        for uid in before:
            if uid not in after:
                self._disown(uid, key)
        place = (key.group_kind, key.namespace)
        for uid in after:
            self._owned.setdefault(uid, {}).setdefault(place, Named()).put(key.name, key)

    def _disown(self, uid: str, key: ObjectKey) -> None:
        places, place = self._owned.get(uid, {}), (key.group_kind, key.namespace)
        if place not in places or key.name not in places[place].items:
            return  # named twice among the owners
        places[place].drop(key.name)
        if not places[place].items:
            del places[place]
            self._rolls.pop((uid, key.namespace), None)
        if not places:
            del self._owned[uid]


def _same_owners(before: Obj, after: Obj) -> bool:
    """Return whether both share their list of owners, as nearly all versions of an object do."""
    refs = before["metadata"].get("ownerReferences")
    return refs is after["metadata"].get("ownerReferences")


def _owner_uids(obj: Obj | None) -> Sequence[str]:
    """The uids that the index of owners has an object under; "" for one without owners."""
    if obj is None:
        return ()
    refs = obj["metadata"].get("ownerReferences")
    return [ref["uid"] for ref in refs] if refs else ("",)
