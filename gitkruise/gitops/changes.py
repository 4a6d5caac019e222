"""What a commit would change, object by object: git against git, and what the cluster adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gitkruise.admission.conversion import convert
from gitkruise.kube.codec import encode
from gitkruise.model.change import Change, ChangeKind, Desired, IgnoreRule, Live
from gitkruise.model.cloneset import CLONESET
from gitkruise.planner.sync.differ import all_differences
from gitkruise.planner.sync.drift import differences, ignored_paths
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.paths import get


def changes_between(
    base: Sequence[Desired], target: Sequence[Desired], catalog: Catalog
) -> tuple[Change, ...]:
    """Git to git, without a cluster: what is created, configured and pruned."""
    before = {d.key: d for d in base}
    after = {d.key: d for d in target}
    out = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if new is None:
            assert old is not None
            out.append(_change(ChangeKind.PRUNE, old, before=old.obj, after=None))
        elif old is None:
            out.append(_change(ChangeKind.CREATE, new, before=None, after=new.obj))
        else:
            kind = catalog.by_kind(key.group, new.version, key.kind)
            fields = all_differences(old.obj, new.obj, kind.strict if kind else None)
            what = ChangeKind.CONFIGURE if fields else ChangeKind.UNCHANGED
            change = _change(what, new, before=old.obj, after=new.obj)
            out.append(replace(change, fields=fields))
    return tuple(out)


def _change(what: ChangeKind, d: Desired, *, before: Obj | None, after: Obj | None) -> Change:
    return Change(kind=what, key=d.key, before=before, after=after, source=str(d.document))


def with_live(
    changes: Sequence[Change],
    target: Sequence[Desired],
    live: Mapping[ObjectKey, Obj],
    catalog: Catalog,
    ignore: Mapping[ObjectKey, Sequence[IgnoreRule]] = MappingProxyType({}),
) -> tuple[Change, ...]:
    """`changes` with what a sync would correct as well: fields that differ in the cluster.

    `ignore` holds the rules of each object's unit.
    """
    wanted = {d.key: d for d in target}
    out = []
    for change in changes:
        d = wanted.get(change.key)
        if d is None or change.kind is not ChangeKind.UNCHANGED or change.key not in live:
            out.append(change)
            continue
        there = convert(live[d.key], d.version)
        managers = encode(get(there, "metadata", "managedFields", default=()))
        seen = Live(obj=there, ready=True, managed=managers)
        found = differences(d, seen, catalog, {})
        passed = ignored_paths(d, seen, found, ignore.get(d.key, ()))
        fields = tuple(field for field in found if field.path not in passed)
        drifted = replace(
            change, kind=ChangeKind.CONFIGURE, fields=fields, before=there, drift=True
        )
        out.append(drifted if fields else change)
    return tuple(out)


def rollouts_started(changes: Sequence[Change]) -> frozenset[ObjectKey]:
    """The CloneSets that are created or configured: what there is to play ahead."""
    return frozenset(
        c.key
        for c in changes
        if c.key.group_kind == CLONESET and c.kind in {ChangeKind.CREATE, ChangeKind.CONFIGURE}
    )
