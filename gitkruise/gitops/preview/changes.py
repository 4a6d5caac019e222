"""The changes of a commit, object by object: git against git, and drift of the live objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import eq
from types import MappingProxyType
from typing import Final

from gitkruise.admission.conversion.registry import convert, lost_fields
from gitkruise.git.manifests.sops import is_ciphertext
from gitkruise.gitops.build.kruise_defaulting import dialect_of
from gitkruise.kube.client.codec import encode
from gitkruise.model.gitops.change import MISSING, ChangeKind, FieldChange, ObjectChange
from gitkruise.model.gitops.document import Desired, FieldPath
from gitkruise.model.gitops.sync_round import IgnoreRule, Live
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.report.blast_radius import played_ahead
from gitkruise.planner.sync.annotations import DIGEST, annotation, bare, untouched
from gitkruise.planner.sync.autoscale import sized_as
from gitkruise.planner.sync.canary_pause import paused_fields
from gitkruise.planner.sync.diff import all_differences, owned_differences, sorted_fields
from gitkruise.planner.sync.drift import (
    consumed_fields,
    differences,
    drop_fields,
    ignored_paths,
    kept_by_server,
    leaves_fields,
)
from gitkruise.planner.sync.field_owners import given_up, marks_are_ours, read_managed
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey, split_api_version
from gitkruise.wire.primitives.paths import get

_WRITTEN: Final = ("labels", "annotations", "finalizers")


def changes_between(
    base: Sequence[Desired], target: Sequence[Desired], catalog: Catalog
) -> tuple[ObjectChange, ...]:
    """Git to git, without a cluster: what is created, configured and pruned."""
    before = {d.key: d for d in base}
    after = {d.key: d for d in target}
    out = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if new is None:
            assert old is not None
            gone = _change(ChangeKind.PRUNE, old, before=old.obj, after=None)
            out.append(replace(gone, spared=untouched(old.obj)))
        elif old is None:
            out.append(_change(ChangeKind.CREATE, new, before=None, after=new.obj))
        else:
            kind = catalog.by_kind(key.group, new.version, key.kind)
            fields = all_differences(old.obj, new.obj, kind.strict if kind else None)
            what = ChangeKind.CONFIGURE if fields else ChangeKind.UNCHANGED
            change = _change(what, new, before=old.obj, after=new.obj)
            out.append(replace(change, fields=fields))
    return tuple(out)


def _change(what: ChangeKind, d: Desired, *, before: Obj | None, after: Obj | None) -> ObjectChange:
    return ObjectChange(kind=what, key=d.key, before=before, after=after, source=str(d.document))


def as_sent(
    objects: Sequence[Desired],
    live: Mapping[ObjectKey, Obj],
    sized: Collection[ObjectKey],
    catalog: Catalog,
    ignore: Mapping[ObjectKey, Sequence[IgnoreRule]],
) -> tuple[Desired, ...]:
    """Return `objects` as the sync sends them: live values stay in fields that are left to others.

    `sized` are the workloads whose size an autoscaler sets.
    """
    return tuple(
        _left_to_others(d, live[d.key], d.key in sized, catalog, ignore.get(d.key, ()))
        if d.key in live
        else d
        for d in objects
    )


def _left_to_others(
    d: Desired, there: Obj, sized: bool, catalog: Catalog, rules: Sequence[IgnoreRule]
) -> Desired:
    d = sized_as(d, there) if sized else d
    if not leaves_fields(d, there, rules):
        return d
    seen = _seen(convert(there, d.version))
    found = differences(d, seen, catalog, {})
    passed = ignored_paths(d, seen, found, rules)
    return drop_fields(d, [field for field in found if field.path in passed])


def _seen(there: Obj) -> Live:
    managers = encode(get(there, "metadata", "managedFields", default=()))
    return Live(obj=there, ready=True, managed=managers)


def with_live(
    changes: Sequence[ObjectChange],
    target: Sequence[Desired],
    live: Mapping[ObjectKey, Obj],
    catalog: Catalog,
    ignore: Mapping[ObjectKey, Sequence[IgnoreRule]] = MappingProxyType({}),
    *,
    uncertain: Collection[ObjectKey] = (),
    uncorrected: Collection[ObjectKey] = (),
) -> tuple[ObjectChange, ...]:
    """`changes` with what the cluster has of them already, and what a sync would correct as well.

    What git adds and the cluster has is a change of what is there; what git takes out and the
    cluster lost is none, and neither is what the cluster took from git already. `ignore` holds the
    rules of each object's unit. Of live objects that are `uncertain`, git does not say all: they
    change as git does. Once applied, those that are `uncorrected` keep their drift.
    """
    wanted = {d.key: d for d in target}
    return tuple(
        _as_git_changes(change, live[change.key])
        if change.key in uncertain and change.key in live
        else _held_against(
            change, wanted.get(change.key), live.get(change.key), catalog, ignore,
            keeps_drift=change.key in uncorrected,
        )
        for change in changes
    )  # fmt: skip


def _as_git_changes(change: ObjectChange, there: Obj) -> ObjectChange:
    if change.before is None:
        return replace(change, kind=ChangeKind.UNCHANGED, before=there, fields=())
    return replace(change, before=there)


def _held_against(
    change: ObjectChange,
    d: Desired | None,
    there: Obj | None,
    catalog: Catalog,
    ignore: Mapping[ObjectKey, Sequence[IgnoreRule]],
    *,
    keeps_drift: bool,
) -> ObjectChange:
    if d is None:
        gone = replace(change, kind=ChangeKind.UNCHANGED)
        return gone if there is None else replace(change, before=there)
    applied = there is not None and annotation(there, DIGEST) == d.digest
    if applied and (d.hook or keeps_drift):
        return replace(change, kind=ChangeKind.UNCHANGED, before=there, fields=())
    if d.hook or (there is None and change.kind is ChangeKind.CREATE):
        return change
    if there is None:
        return replace(change, kind=ChangeKind.CREATE, before=None, fields=())
    there = convert(there, d.version)
    seen = _seen(there)
    found = differences(d, seen, catalog, {})
    steered = paused_fields(there)  # their live values are a canary's: git alone says what changes
    passed = ignored_paths(d, seen, found, ignore.get(d.key, ())) | steered
    passed |= lost_fields(d.obj, catalog)
    if applied:
        passed |= consumed_fields(d, there, found) | kept_by_server(d, seen, found)
    passed |= _encrypted(d, found) - {field.path for field in change.fields}
    fields = tuple(field for field in found if field.path not in passed)
    if not applied:
        asked = [field for field in change.fields if field.path in steered]
        removed = [f for f in _removed(change, d, seen, catalog) if f.path not in steered]
        fields = sorted_fields((*fields, *asked, *removed))
    same = ChangeKind.CONFIGURE if fields else ChangeKind.UNCHANGED
    other = bool(fields) and (applied or change.kind is ChangeKind.UNCHANGED)
    sent = bool(annotation(there, DIGEST)) and marks_are_ours(read_managed(seen.managed))
    pending = other and not applied and sent
    drift = other and not pending
    return replace(change, kind=same, fields=fields, before=there, drift=drift, pending=pending)


def _encrypted(d: Desired, fields: Iterable[FieldChange]) -> frozenset[FieldPath]:
    """Return the fields whose value is encrypted: the controller alone can compare it with a live
    one."""
    if not d.secret:
        return frozenset()
    data = (field for field in fields if field.path[0] == "data")
    return frozenset(field.path for field in data if is_ciphertext(field.after))


def _removed(
    change: ObjectChange, d: Desired, seen: Live, catalog: Catalog
) -> Iterator[FieldChange]:
    """Yield fields that the sync takes from the cluster, with the values that they have there.

    Fields that the applier gives up, and what this commit takes out of a list that it owns whole.
    """
    removed: list[FieldPath] = []
    live = bare(seen.obj)
    for field in given_up(read_managed(seen.managed), _with_defaults(d, live, catalog), live):
        removed.append(field.path)
        yield field
    gone = [f for f in change.fields if f.after is MISSING and not _overlaps(f.path, removed)]
    if change.before is None or not gone:
        return
    kind = catalog.by_kind(d.key.group, d.version, d.key.kind)
    was = owned_differences(change.before, seen.obj, kind.schema if kind else None)
    other = {c.path: c.before for c in was}
    for field in gone:
        above = next((path for path in other if field.path[: len(path)] == path), None)
        value = field.before if above is None else other[above]
        if value is not MISSING:
            yield replace(field, before=value)


def _with_defaults(d: Desired, live: Obj, catalog: Catalog) -> Obj:
    """Return the object as the sync applies it: with our defaults where no webhook sets them."""
    dialect = dialect_of(d, catalog)
    if dialect is None or not dialect.defaulted:
        return d.obj
    return dialect.incoming(dialect.outgoing(d.obj, live, Gates()))


def with_losses(
    changes: Sequence[ObjectChange], after: Mapping[ObjectKey, Obj], catalog: Catalog
) -> tuple[ObjectChange, ...]:
    """`changes` with the fields that an object loses when git takes it over; `after` are the
    objects as they are then."""
    return tuple(
        _losing(change, after[change.key], catalog) if change.key in after else change
        for change in changes
    )


def _losing(change: ObjectChange, after: Obj, catalog: Catalog) -> ObjectChange:
    assert change.before is not None
    kind = catalog.by_kind(change.key.group, _version(after), change.key.kind)
    before = convert(change.before, _version(after))
    found = all_differences(_content(before), _content(after), kind.strict if kind else None)
    changed = [field.path for field in change.fields]
    lost = tuple(f for f in found if f.before is not MISSING and not _overlaps(f.path, changed))
    if not lost:
        return change
    return replace(change, kind=ChangeKind.CONFIGURE, fields=(*change.fields, *lost))


def _version(obj: Obj) -> str:
    return split_api_version(str(obj["apiVersion"]))[1]


def _content(obj: Obj) -> Obj:
    """The part of an object that users write."""
    meta = {k: obj["metadata"][k] for k in _WRITTEN if k in obj["metadata"]}
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": meta}


def _overlaps(path: FieldPath, others: Iterable[FieldPath]) -> bool:
    """Return whether a path is, contains or lies in one of the others."""
    return any(all(map(eq, path, other)) for other in others)


def rollouts_started(changes: Sequence[ObjectChange]) -> frozenset[ObjectKey]:
    """Objects to play ahead."""
    return frozenset(c.key for c in changes if played_ahead(c))
