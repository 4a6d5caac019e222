"""The garbage collector: deletes dependents of deleted owners with the requested propagation.

Source: kube-controller-manager's garbage collector (CTL-10 to CTL-23). It reads the journal from
where it stopped and looks again at what a change can have made garbage; a forgotten journal makes
it look at everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from gitkruise.errors import ApiError, NotFound
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of, split_api_version
from gitkruise.world.api.cluster import CommittedChange, World
from gitkruise.world.api.delete import FOREGROUND, ORPHAN
from gitkruise.world.controllers.client import ObjectWriter
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report, earliest

USER: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
_WRITER: Final = ObjectWriter(USER, "kube-controller-manager")
RETRY: Final = timedelta(seconds=10)  # after a refusal (deletion protection, for example)
ROUNDS_MAX: Final = 10_000  # of one run; each one deletes one generation of dependents


class Owners(NamedTuple):
    """Owner references of an object by what became of the owner."""

    solid: list[Mapping[str, Any]]
    absent: list[Mapping[str, Any]]
    waiting: list[Mapping[str, Any]]  # owners in foreground deletion


class GarbageCollector:
    """One collector for one World; what admission refuses it tries again later."""

    def __init__(self, report: Report | None = None) -> None:
        self._backoff = ObjectBackoff(report)
        self._found: dict[ObjectKey, None] = {}  # to be looked at
        self._position = -1
        self._refused: dict[ObjectKey, datetime] = {}

    def run(self, world: World, now: datetime) -> datetime | None:
        """Delete, orphan and release what is due at `now`; the next due instant or None."""
        due = [key for key, at in self._refused.items() if at <= now]
        self._backoff.retry(now)
        todo = {**dict.fromkeys(due), **self._changed(world, now)}
        for key in due:
            del self._refused[key]
        for _ in range(ROUNDS_MAX):
            if not todo:
                break
            for key in todo:
                self._backoff.attempt(key, now, self._settle, world, key)
            todo = self._changed(world, now)
        return earliest(*self._refused.values(), self._backoff.next())

    def _changed(self, world: World, now: datetime) -> dict[ObjectKey, None]:
        """Keys of the objects a change since the last look may have made garbage."""
        self._look(world, now)
        found, self._found = self._found, {}
        return found

    def _look(self, world: World, now: datetime) -> None:
        since, self._position = self._position, world.version
        if since == world.version:
            return
        records = world.changes_since(since if since >= 0 else None)
        if records is None:
            everything = world.state.everything()
            self._found |= dict.fromkeys(key_of(obj) for obj in everything if _concerned(obj))
            return
        for record in records:
            if not _is_plain(record):
                self._backoff.attempt(("read", record.key), now, self._read, world, record)

    def _read(self, world: World, record: CommittedChange, _: datetime) -> None:
        self._found |= dict.fromkeys(_touched(world, record))

    def _settle(self, world: World, key: ObjectKey, now: datetime) -> None:
        obj = world.get(key)
        if obj is None:
            return
        try:
            if obj["metadata"].get("deletionTimestamp"):
                _release(world, obj, now)
            elif obj["metadata"].get("ownerReferences"):
                _collect(world, obj, now)
        except NotFound:
            return  # gone with something else, maybe with the definition of its kind
        except ApiError:
            self._refused[key] = now + RETRY


def _concerned(obj: Obj) -> bool:
    meta = obj["metadata"]
    return bool(meta.get("ownerReferences") or (meta.get("deletionTimestamp") and _policy(obj)))


def _policy(obj: Obj) -> str:
    """The collector's finalizer on an object, or ""."""
    finalizers = obj["metadata"].get("finalizers") or ()
    return next((name for name in (ORPHAN, FOREGROUND) if name in finalizers), "")


def _is_plain(record: CommittedChange) -> bool:
    """Return whether a change, as most, concerns neither owners nor finalizers."""
    before, after = record.before, record.after
    if before is None or after is None:
        return False
    meta = after["metadata"]
    kept = meta.get("ownerReferences") is before["metadata"].get("ownerReferences")
    return kept and not meta.get("finalizers")


def _touched(world: World, record: CommittedChange) -> Iterable[ObjectKey]:
    """Return the objects to check again after one change."""
    before, after = record.before, record.after
    if after is None:
        assert before is not None
        yield from world.state.owned_keys(before["metadata"]["uid"])
        yield from _owner_keys(world, before)
        return
    refs = after["metadata"].get("ownerReferences")
    if refs and (before is None or before["metadata"].get("ownerReferences") != refs):
        yield record.key
        yield from _owner_keys(world, before) if before else ()
    if after["metadata"].get("deletionTimestamp") and _policy(after):
        yield record.key
        yield from world.state.owned_keys(after["metadata"]["uid"])


def _owner_keys(world: World, obj: Obj) -> Iterable[ObjectKey]:
    """Owners of `obj` that may wait for it."""
    for ref in obj["metadata"].get("ownerReferences") or ():
        owner = _owner(world, obj, ref)
        if owner is not None and owner["metadata"].get("deletionTimestamp"):
            yield key_of(owner)


def _owner(world: World, obj: Obj, ref: Mapping[str, Any]) -> Obj | None:
    """The owner a reference names, if it exists with that uid where owners may be."""
    group, _ = split_api_version(ref["apiVersion"])
    namespace = obj["metadata"].get("namespace") or ""
    for place in (namespace, "") if namespace else ("",):
        found = world.get(ObjectKey(group, ref["kind"], place, ref["name"]))
        if found is not None and found["metadata"]["uid"] == ref["uid"]:
            return found
    return None


def _sorted_owners(world: World, obj: Obj) -> Owners:
    owners = Owners([], [], [])
    for ref in obj["metadata"].get("ownerReferences") or ():
        owner = _owner(world, obj, ref)
        if owner is None:
            group, version = split_api_version(ref["apiVersion"])
            served = world.catalog.by_kind(group, version, ref["kind"])
            (owners.absent if served else owners.solid).append(ref)
        elif owner["metadata"].get("deletionTimestamp") and _policy(owner) == FOREGROUND:
            owners.waiting.append(ref)
        else:
            owners.solid.append(ref)
    return owners


def _collect(world: World, obj: Obj, now: datetime) -> None:
    """Delete an object without solid owners; take dangling references from one that has some."""
    owners = _sorted_owners(world, obj)
    if not owners.absent and not owners.waiting:
        return
    if owners.solid:
        _patch(world, obj, {"ownerReferences": owners.solid}, now)
        return
    if owners.waiting and world.state.owned_keys(obj["metadata"]["uid"]):
        _break_cycle(world, obj, now)
        _delete(world, obj, "Foreground", now)
        return
    policy = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}.get(_policy(obj), "Background")
    _delete(world, obj, policy, now)


def _break_cycle(world: World, obj: Obj, now: datetime) -> None:
    """Owners that own each other would wait for ever: the object stops blocking its own."""
    dependents = _dependents(world, obj)
    if not any(
        _policy(d) == FOREGROUND and d["metadata"].get("deletionTimestamp") for d in dependents
    ):
        return
    refs = [{**ref, "blockOwnerDeletion": False} for ref in obj["metadata"]["ownerReferences"]]
    _patch(world, obj, {"ownerReferences": refs}, now)


def _dependents(world: World, owner: Obj) -> list[Obj]:
    found = (world.get(key) for key in sorted(world.state.owned_keys(owner["metadata"]["uid"])))
    return [obj for obj in found if obj is not None and _owns(world, owner, obj)]


def _owns(world: World, owner: Obj, dependent: Obj) -> bool:
    """Return whether a reference names the owner by kind and name, not only by uid."""
    uid = owner["metadata"]["uid"]
    refs = dependent["metadata"].get("ownerReferences") or ()
    return any(ref["uid"] == uid and _owner(world, dependent, ref) is owner for ref in refs)


def _release(world: World, owner: Obj, now: datetime) -> None:
    """Let an owner go once its dependents are orphaned, or those that block it are gone."""
    policy = _policy(owner)
    dependents = _dependents(world, owner) if policy else []
    uid = owner["metadata"]["uid"]
    if policy == ORPHAN:
        for dependent in dependents:
            refs = dependent["metadata"]["ownerReferences"]
            left = [ref for ref in refs if ref["uid"] != uid]
            _patch(world, dependent, {"ownerReferences": left or None}, now)
    elif policy == FOREGROUND and any(_blocks(dependent, uid) for dependent in dependents):
        return
    if policy:
        finalizers = [name for name in owner["metadata"]["finalizers"] if name != policy]
        _patch(world, owner, {"finalizers": finalizers or None}, now)


def _blocks(dependent: Obj, uid: str) -> bool:
    refs: Sequence[Mapping[str, Any]] = dependent["metadata"]["ownerReferences"]
    return any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in refs)


def _patch(world: World, obj: Obj, meta: Mapping[str, Any], now: datetime) -> None:
    body = {"metadata": {"uid": obj["metadata"]["uid"], **meta}}
    _WRITER.patch(world, obj, body, now)


def _delete(world: World, obj: Obj, policy: str, now: datetime) -> None:
    body = {"propagationPolicy": policy, "preconditions": {"uid": obj["metadata"]["uid"]}}
    _WRITER.delete(world, obj, now, body)
