"""Judges a history of requests and watches: linear order, no lost write, no wrong event.

Every answer carries a version, so a scan in the order of versions decides; nothing is searched.
The letters are those of the invariants: A of the store, W of watches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WRITES: Final = frozenset({"create", "put", "patch", "delete"})
NOTHING: Final = ""  # the token of an object that is not there


@dataclass(frozen=True, slots=True)
class Op:
    """A request to `key`. `token` is unique to a write, or what a read found.

    `called` and `answered` are times; status 0: no answer came, so the outcome is unknown.
    `version` is that of the answer's object or list, 0 where it names none; `base` what a write
    was made from.
    """

    verb: str
    key: str
    called: float
    answered: float
    status: int
    version: int = 0
    token: str = NOTHING
    base: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change, or the event of it: `tier` is the label that watches select by."""

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    key: str
    version: int
    token: str = NOTHING
    tier: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch from version `start` on objects of `tier` ("" for all), and its events."""

    start: int
    events: Sequence[Change]
    tier: str = ""


def done(op: Op) -> bool:
    return op.verb in WRITES and 200 <= op.status < 300


def order(ops: Iterable[Op]) -> Iterator[str]:
    """STORE-1, STORE-2: versions are given once, in the order of requests that follow another."""
    seen: dict[int, Op] = {}
    starts = sorted((op for op in ops if op.status and op.version), key=lambda op: op.called)
    ends = sorted((op for op in starts if done(op)), key=lambda op: op.answered)
    newest = at = 0
    for op in starts:
        while at < len(ends) and ends[at].answered < op.called:
            newest = max(newest, ends[at].version)
            at += 1
        if done(op):
            if op.version in seen and seen[op.version].token != op.token:
                yield f"STORE-1 {op.version} was given to {seen[op.version].token} and {op.token}"
            seen[op.version] = op
            if op.version <= newest:
                yield f"STORE-2 {op.token} got {op.version} after {newest} was acknowledged"
        elif op.verb == "list" and op.version < newest:
            yield f"STORE-2 a list of {op.version} after {newest} was acknowledged"


def histories(changes: Mapping[int, Change]) -> dict[str, list[Change]]:
    """The changes of each key in the order of versions."""
    found: defaultdict[str, list[Change]] = defaultdict(list)
    for version in sorted(changes):
        found[changes[version].key].append(changes[version])
    return found


def done_once(ops: Iterable[Op], changes: Mapping[int, Change]) -> Iterator[str]:
    """STORE-5, STORE-6, STORE-15: each change was asked for, not refused, and done once."""
    asked = {op.token for op in ops if op.verb in WRITES}
    versions: dict[str, int] = {}
    for change in changes.values():
        if change.type == "DELETED":
            continue
        if change.token not in asked:
            yield f"STORE-5 no client wrote {change.token}"
        if versions.setdefault(change.token, change.version) != change.version:
            yield f"STORE-6 {change.token} was done twice"
    for op in ops:
        if op.verb in WRITES and op.status >= 400 and op.token in versions:
            yield f"STORE-15 {op.token} was refused and done"


def kept(ops: Iterable[Op], changes: Mapping[int, Change]) -> Iterator[str]:
    """STORE-3 and STORE-4: what was acknowledged is a change, made from what it says."""
    before: dict[int, int] = {}
    for history in histories(changes).values():
        last = 0
        for change in history:
            before[change.version] = last
            last = change.version if change.type != "DELETED" else 0
    for op in ops:
        if not (done(op) and op.version) or op.verb == "delete":
            continue
        made = changes.get(op.version)
        if made is None or made.token != op.token:
            yield f"STORE-4 {op.token} was acknowledged as {op.version} and is lost"
        elif op.base and before[op.version] != op.base:
            yield f"STORE-3 {op.token} was made from {op.base}, not from {before[op.version]}"


def reads(ops: Iterable[Op], changes: Mapping[int, Change]) -> Iterator[str]:
    """STORE-2 of reads: what is read was written, and is not older than what was acknowledged."""
    found = sorted((op for op in ops if op.verb == "get" and op.status == 200), key=_called)
    ends = sorted((op for op in ops if done(op) and op.version), key=lambda op: op.answered)
    newest: dict[str, int] = {}
    at = 0
    for op in found:
        while at < len(ends) and ends[at].answered < op.called:
            newest[ends[at].key] = max(newest.get(ends[at].key, 0), ends[at].version)
            at += 1
        change = changes.get(op.version)
        if change is None or change.token != op.token:
            yield f"STORE-5 {op.key} at {op.version} was read as {op.token}"
        elif op.version < newest.get(op.key, 0):
            yield f"STORE-2 {op.key} was read at {op.version} after {newest[op.key]} was acked"


def _called(op: Op) -> float:
    return op.called


def events(watch: Watch, changes: Mapping[int, Change]) -> Iterator[str]:
    """WATCH-1 to WATCH-7, WATCH-10: every matching change after the start, once, in order, as it
    looks from the selection; a bookmark promises that nothing older comes."""
    last = watch.start
    reported = []
    for event in watch.events:
        if event.type == "BOOKMARK":
            if event.version < last:
                yield f"WATCH-5 a bookmark of {event.version} after {last}"
            last = max(last, event.version)
            continue
        if event.version <= last:
            yield f"WATCH-1 {event.version} of {event.key} came after {last}"
        last = max(last, event.version)
        reported.append(event)
    wanted = [one for one in _seen(watch, changes) if one.version <= last]
    if reported != wanted:
        missing = [one for one in wanted if one not in reported]
        surplus = [one for one in reported if one not in wanted]
        yield f"WATCH-3 missing {missing[:3]}, surplus {surplus[:3]}"


def _seen(watch: Watch, changes: Mapping[int, Change]) -> Iterator[Change]:
    """The events of all changes after the start for the watch's selection. What leaves is shown
    as it was."""
    inside: dict[str, Change] = {}
    for version in sorted(changes):
        change = changes[version]
        was = inside.pop(change.key, None)
        now = change.type != "DELETED" and watch.tier in ("", change.tier)
        if now:
            inside[change.key] = change
        if version > watch.start and (was or now):
            shown = change if now or was is None else was
            kind = "DELETED" if not now else "MODIFIED" if was else "ADDED"
            yield Change(kind, change.key, version, shown.token, shown.tier)


def judge(ops: Sequence[Op], watches: Sequence[Watch], changes: Mapping[int, Change]) -> list[str]:
    """Everything that is wrong with a history; `changes` is all that was committed."""
    return [
        *order(ops),
        *done_once(ops, changes),
        *kept(ops, changes),
        *reads(ops, changes),
        *(text for watch in watches for text in events(watch, changes)),
    ]
