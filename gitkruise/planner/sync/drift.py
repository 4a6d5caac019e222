"""Drift of live objects from git: found, attributed, ignored, contested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from gitkruise.errors import Finding, Severity
from gitkruise.model.gitops.change import MISSING, ChangeKind, FieldChange, ObjectChange
from gitkruise.model.gitops.document import Desired, FieldPath
from gitkruise.model.gitops.sync_round import IgnoreRule, Live, SyncSnapshot
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.planner.sync.annotations import COMMIT, IGNORE, annotation, pointers
from gitkruise.planner.sync.autoscale import REPLICAS
from gitkruise.planner.sync.canary_pause import paused_fields
from gitkruise.planner.sync.diff import owned_differences
from gitkruise.planner.sync.field_owners import field_owners, read_managed, set_by_server
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.secret_names import concealed
from gitkruise.wire.primitives.times import format_time

_TO_DELETE: Final = ("spec", "scaleStrategy", "podsToDelete")
# Differences found before: of which wanted and which live object, and which.
Memo: TypeAlias = MutableMapping[ObjectKey, tuple[Desired, Obj, tuple[FieldChange, ...]]]


def drift_of(
    d: Desired, live: Live, s: SyncSnapshot, catalog: Catalog, memo: Memo
) -> ObjectChange | None:
    """Changes by others to an applied object; ignored fields do not count."""
    found = differences(d, live, catalog, memo)
    if not found:
        return None
    passed = s.settled.get(d.key, frozenset()) | ignored_paths(d, live, found, s.ignore)
    passed |= {REPLICAS} if d.key in s.autoscaled else set()
    passed |= paused_fields(live.obj) | consumed_fields(d, live.obj, found)
    # A correction, which finds out by itself, ends with the webhook that set the value.
    passed |= frozenset() if s.correct_drift else kept_by_server(d, live, found)
    fields = tuple(change for change in found if change.path not in passed)
    if not fields:
        return None
    return ObjectChange(
        kind=ChangeKind.CONFIGURE,
        key=d.key,
        before=live.obj,
        after=d.obj,
        fields=fields,
        source=str(d.document),
        drift=True,
    )


def differences(d: Desired, live: Live, catalog: Catalog, memo: Memo) -> tuple[FieldChange, ...]:
    """Fields of git whose live value is another, each with who owns it there."""
    before = memo.get(d.key)
    if before is not None and before[0] is d and before[1] is live.obj:
        return before[2]
    kind = catalog.by_kind(d.key.group, d.version, d.key.kind)
    found = owned_differences(d.obj, live.obj, kind.schema if kind else None)
    named = d.obj
    if not found and live.rewritten:
        found, named = live.rewritten, live.obj
    if found:
        entries = read_managed(live.managed)
        found = tuple(
            replace(change, owners=field_owners(entries, named, change.path)) for change in found
        )
    memo[d.key] = (d, live.obj, found)
    return found


def ignored_paths(
    d: Desired, live: Live, found: Iterable[FieldChange], rules: Sequence[IgnoreRule]
) -> frozenset[FieldPath]:
    """Those of `found` that a rule, or an annotation of the object, says to leave alone."""
    noted = annotation(d.obj, IGNORE) or annotation(live.obj, IGNORE)
    mine = [
        rule for rule in rules if rule.kind in {"", d.key.kind} and rule.name in {"", d.key.name}
    ]
    paths = tuple(pointer(p) for p in pointers(noted) if p.startswith("/"))
    if paths:  # a rule without paths would hold for the whole object
        mine.append(IgnoreRule(paths=paths))
    return frozenset(c.path for c in found if any(_matches(rule, c) for rule in mine))


def consumed_fields(d: Desired, live: Obj, found: Iterable[FieldChange]) -> frozenset[FieldPath]:
    """Return the fields of an applied CloneSet that its controller took names of deleted pods out
    of: what git asked for is done."""
    if d.key.group_kind != CLONESET:
        return frozenset()
    asked, left = (set(get(obj, *_TO_DELETE, default=())) for obj in (d.obj, live))
    paths = frozenset(c.path for c in found if c.path[: len(_TO_DELETE)] == _TO_DELETE)
    return paths if left < asked else frozenset()


def kept_by_server(d: Desired, live: Live, found: Iterable[FieldChange]) -> frozenset[FieldPath]:
    """Return the fields of an applied object that the API server sets in place of git."""
    entries = read_managed(live.managed)
    return frozenset(c.path for c in found if set_by_server(entries, d.obj, c))


def leaves_fields(d: Desired, live: Obj, rules: Sequence[IgnoreRule]) -> bool:
    """Return whether a rule, or an annotation, may leave fields of the object to others."""
    return bool(rules or annotation(d.obj, IGNORE) or annotation(live, IGNORE))


def ignored(
    d: Desired, live: Live, s: SyncSnapshot, catalog: Catalog, memo: Memo
) -> tuple[FieldChange, ...]:
    """Fields that differ and are left to others."""
    if not leaves_fields(d, live.obj, s.ignore):
        return ()
    found = differences(d, live, catalog, memo)
    passed = ignored_paths(d, live, found, s.ignore)
    return tuple(change for change in found if change.path in passed)


def pointer(text: str) -> tuple[str, ...]:
    """The parts of a JSON pointer (RFC 6901): `/metadata/annotations/example.com~1x`."""
    return tuple(p.replace("~1", "/").replace("~0", "~") for p in text.split("/")[1:])


def _matches(rule: IgnoreRule, change: FieldChange) -> bool:
    written = tuple(str(part) for part in change.path)
    here = not rule.paths or any(written[: len(path)] == path for path in rule.paths)
    theirs = not rule.manager or any(owner == rule.manager for owner, _ in change.owners)
    return here and theirs


def split_change(
    change: ObjectChange, held: Collection[FieldPath]
) -> tuple[ObjectChange | None, ObjectChange | None]:
    """(the part of a drift that is put back, the part that stays as it is)."""
    back = tuple(f for f in change.fields if f.path not in held)
    stay = tuple(f for f in change.fields if f.path in held)
    return (
        replace(change, fields=back) if back else None,
        replace(change, fields=stay) if stay else None,
    )


def drop_fields(d: Desired, stay: Iterable[FieldChange]) -> Desired:
    """`d` with the live values of the fields that are to stay as they are.

    Sent so, an apply changes the rest of the object and takes nothing from their owners.
    """
    obj = d.obj
    for change in sorted(stay, key=lambda c: [str(p).zfill(6) for p in c.path], reverse=True):
        obj = _with(obj, change.path, change.before)
    return d if obj is d.obj else replace(d, obj=obj)


def _with(node: Any, path: FieldPath, value: Any) -> Any:
    """`node` with `value` at `path`; MISSING takes it out. Shares all else."""
    first, rest = path[0], path[1:]
    made: Any = dict(node) if isinstance(first, str) else list(node)
    if rest:
        made[first] = _with(node[first], rest, value)
    elif value is MISSING:
        del made[first]
    else:
        made[first] = value
    return made


def _unnamed(live: Live | None) -> str:
    """Return who changes a field of an object without a field manager of its own."""
    for mark in live.rewritten if live is not None else ():
        if mark.path[-1] == COMMIT and mark.before is not MISSING:
            return f"another gitkruise with this unit (commit {str(mark.before)[:7]})"
    return "an unknown manager"


def fights(standing: Iterable[ObjectChange], s: SyncSnapshot) -> Iterator[Finding]:
    """One warning for every field that another manager changes after each correction."""
    for change in standing:
        for field in change.fields:
            fight = s.fought.get(change.key, {}).get(field.path)
            if fight is None:
                continue
            name = ".".join(map(str, concealed(field.path)))
            who = field.owners[0][0] if field.owners else _unnamed(s.live.get(change.key))
            yield Finding(
                code="GK2501",
                message=f"{change.key}: {who} changes {name} each time gitkruise puts it back, "
                f"{fight.corrections} times since {format_time(fight.since)}",
                notes=(
                    ("why", "two managers that undo each other's work never end"),
                    ("unchanged", f"{name}, until {format_time(fight.until)}; the rest is kept"),
                    ("next", f"stop {who}, or take {name} out of git or into drift.ignore"),
                ),
                object=str(change.key),
                severity=Severity.WARNING,
            )
