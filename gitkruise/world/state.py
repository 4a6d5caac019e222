"""What a model cluster remembers: objects by key, their indexes, the journal of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from gitkruise.errors import WatchExpired
from gitkruise.model.pod import POD, PodFacts, pod_facts
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.world.molds import Mold

if TYPE_CHECKING:
    from gitkruise.admission.request import AdmissionRequest
    from gitkruise.wire.catalog import Catalog
    from gitkruise.wire.kinds import Kind

JOURNAL_MAX: Final = 100_000
Admit: TypeAlias = "Callable[[AdmissionRequest], Obj | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
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
class Bucket:
    """The objects of one kind in one namespace; `names` is their order, made on demand."""

    objects: dict[str, Obj] = field(default_factory=dict)
    names: list[str] | None = None

    def in_order(self) -> list[Obj]:
        if self.names is None:
            self.names = sorted(self.objects)
        return [self.objects[name] for name in self.names]

    def put(self, name: str, obj: Obj) -> None:
        if name not in self.objects:
            self.names = None
        self.objects[name] = obj

    def drop(self, name: str) -> None:
        del self.objects[name]
        self.names = None


@dataclass(slots=True)
class Journal:
    """The last `limit` changes; each one has the version after its predecessor's."""

    base: int = 0  # the version before the first record
    records: list[Record] = field(default_factory=list)
    limit: int = JOURNAL_MAX

    def add(self, record: Record) -> None:
        self.records.append(record)
        if len(self.records) >= 2 * self.limit:
            self.forget(len(self.records) - self.limit)

    def forget(self, count: int) -> None:
        """Drop the oldest `count` records."""
        self.records = self.records[count:]
        self.base += count

    def since(self, version: int) -> Sequence[Record]:
        """Records after `version`. Raises WatchExpired when some of them are forgotten."""
        oldest = max(self.base, self.base + len(self.records) - self.limit)
        if version < oldest:
            raise WatchExpired(f"too old resource version: {version} ({oldest})")
        return self.records[version - self.base :]


class State:
    """Objects in storage form, never changed in place. Implements `model.view.View`.

    One resourceVersion counter for everything; each commit takes the next number.
    """

    def __init__(self, catalog: Catalog, *, admit: Admit | None = None, seed: int = 0) -> None:
        self.catalog = catalog
        self.admit = admit
        self.seed = seed
        self.lean = False  # see World.fork
        self.molds: dict[str, Mold] = {}  # of pods, by their controller's uid
        self.version = 0
        self.journal = Journal()
        self._buckets: dict[tuple[str, str], dict[str, Bucket]] = {}  # by (group, kind)
        self._owned: dict[str, dict[tuple[GroupKind, str], dict[str, ObjectKey]]] = {}
        self._facts: dict[tuple[str, str], dict[str, PodFacts]] = {}  # by owner and namespace

    def get(self, key: ObjectKey) -> Obj | None:
        spaces = self._buckets.get(key[:2])
        bucket = spaces.get(key.namespace) if spaces else None
        return bucket.objects.get(key.name) if bucket else None

    def objects(self, group_kind: GroupKind, namespace: str = "") -> list[Obj]:
        """Objects in the order of their storage path; namespace "" means every namespace."""
        buckets = self._buckets.get(group_kind, {})
        if namespace or set(buckets) <= {""}:
            bucket = buckets.get(namespace)
            return bucket.in_order() if bucket else []
        names = sorted(buckets, key=lambda name: name + "/")
        return [obj for name in names for obj in buckets[name].in_order()]

    def stored_kind(self, kind: Kind) -> Kind:
        """The kind in the version its objects are stored in."""
        if kind.version == kind.storage_version:
            return kind
        return self.catalog.stored(kind.group_kind) or kind

    def group_kinds(self) -> list[GroupKind]:
        """Kinds of which at least one object exists, in name order."""
        found = (gk for gk, spaces in self._buckets.items() if any(spaces.values()))
        return sorted(GroupKind(*group_kind) for group_kind in found)

    def namespaces_of(self, group_kind: GroupKind) -> list[str]:
        return sorted(ns for ns, b in self._buckets.get(group_kind, {}).items() if b.objects)

    def everything(self) -> Iterator[Obj]:
        for group_kind in self.group_kinds():
            yield from self.objects(group_kind)

    def owned_keys(self, uid: str) -> list[ObjectKey]:
        """Keys of the objects with an owner reference to `uid`, in no particular order."""
        return [key for place in self._owned.get(uid, {}).values() for key in place.values()]

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> list[Obj]:
        """Objects of that kind with an owner reference to `uid`, in name order."""
        names = self._owned.get(uid, {}).get((group_kind, namespace))
        if not names:
            return []
        objects = self._buckets[group_kind][namespace].objects
        return [objects[name] for name in sorted(names)]

    def pods_of(self, uid: str, namespace: str) -> list[PodFacts]:
        """Facts of the pods owned by `uid`, in name order; read once per observed version."""
        names = self._owned.get(uid, {}).get((POD, namespace))
        if not names:
            return []
        facts = self._facts.setdefault((uid, namespace), {})
        if missing := names.keys() - facts.keys():
            objects = self._buckets[POD][namespace].objects
            facts.update({name: pod_facts(objects[name]) for name in missing})
        return [facts[name] for name in sorted(names)]

    def commit(self, kind: Kind, key: ObjectKey, after: Obj | None) -> Obj:
        """Store `after` (or delete the object when None) under the next version; what was stored.

        `after` must already carry that version (`str(version + 1)`); a deletion answers the
        object's last state.
        """
        before = self.get(key)
        self.version += 1
        assert before is not None or after is not None
        if after is None:
            assert before is not None
            self._remove(key, before)
        else:
            assert after["metadata"]["resourceVersion"] == str(self.version)
            self._place(key, before, after)
        kinds = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}
        self.journal.add(
            Record(
                version=self.version,
                type=kinds[before is not None, after is not None],
                key=key,
                kind=kind,
                before=before,
                after=after,
            )
        )
        result = before if after is None else after
        assert result is not None
        return result

    def load(self, items: Iterable[tuple[ObjectKey, Obj]], version: int) -> None:
        """Replace everything by `items` as of `version`; the journal starts empty there."""
        self._buckets, self._owned, self._facts, self.molds = {}, {}, {}, {}
        for key, obj in items:
            self._place(key, None, obj)
        self.version = version
        self.journal = Journal(base=version, limit=self.journal.limit)

    def fork(self, *, lean: bool = False) -> State:
        """An independent copy that shares the (immutable) objects and forgets the past."""
        twin = State(self.catalog, admit=self.admit, seed=self.seed)
        twin._buckets = {
            group_kind: {ns: Bucket(dict(b.objects), b.names) for ns, b in spaces.items()}
            for group_kind, spaces in self._buckets.items()
        }
        twin._owned = {
            uid: {place: dict(names) for place, names in places.items()}
            for uid, places in self._owned.items()
        }
        twin._facts = {place: dict(facts) for place, facts in self._facts.items()}
        twin.version, twin.lean = self.version, lean
        twin.journal = Journal(base=self.version, limit=self.journal.limit)
        return twin

    def _place(self, key: ObjectKey, before: Obj | None, after: Obj) -> None:
        spaces = self._buckets.setdefault(key.group_kind, {})
        bucket = spaces.setdefault(key.namespace, Bucket())
        bucket.put(key.name, after)
        self._forget(key, before)
        self._reindex(key, _owner_uids(before), _owner_uids(after))

    def _remove(self, key: ObjectKey, before: Obj) -> None:
        self._buckets[key.group_kind][key.namespace].drop(key.name)
        self._forget(key, before)
        self._reindex(key, _owner_uids(before), ())

    def _forget(self, key: ObjectKey, before: Obj | None) -> None:
        """Facts of a pod are read anew when somebody asks."""
        if key.kind == "Pod":
            for place in ((uid, key.namespace) for uid in _owner_uids(before)):
                if facts := self._facts.get(place):
                    facts.pop(key.name, None)
                    if not facts:
                        del self._facts[place]

    def _reindex(self, key: ObjectKey, before: Sequence[str], after: Sequence[str]) -> None:
        if before == after:
            return
        for uid in before:
            if uid not in after:
                self._disown(uid, key)
        place = (key.group_kind, key.namespace)
        for uid in after:
            self._owned.setdefault(uid, {}).setdefault(place, {})[key.name] = key

    def _disown(self, uid: str, key: ObjectKey) -> None:
        places, place = self._owned.get(uid, {}), (key.group_kind, key.namespace)
        if key.name not in places.get(place, ()):
            return  # named twice among the owners
        del places[place][key.name]
        if not places[place]:
            del places[place]
        if not places:
            del self._owned[uid]


def _owner_uids(obj: Obj | None) -> Sequence[str]:
    refs = obj["metadata"].get("ownerReferences") if obj else None
    return [ref["uid"] for ref in refs] if refs else ()
