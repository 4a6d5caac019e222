"""Records of commits and drift for viewers who do not see everything.

What a viewer may not see is counted, and not named: neither the object, nor its namespace, nor the
subject of a commit that changed nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NamedTuple

from gitkruise.dashboard.source import HEAD, Topic
from gitkruise.printable import many
from gitkruise.wire.primitives.names import ObjectKey

REASON: Final = "Secrets, and what you may not list in this cluster"
# What the row of a commit says of its content.
_CONTENT: Final = ("subject", "author")
_UNIT, _OBJECT = "unit", "object"


class RecordSubject(NamedTuple):
    """The unit or object that a row is about; `cluster` is the one whose record it is in."""

    sort: str
    cluster: str
    name: str = ""
    key: ObjectKey | None = None


def subject_of(key: str, row: Mapping[str, Any]) -> RecordSubject:
    """Return what a row of `commit/ID` or `drift` is about."""
    if key.startswith(f"{_UNIT}/"):
        return RecordSubject(_UNIT, row["cluster"], name=row["unit"])
    at = row["object"] if key.startswith("drift/") else row
    found = ObjectKey(at["group"], at["kind"], at["namespace"], at["name"])
    return RecordSubject(_OBJECT, row["cluster"], key=found)


def left_out(counts: Mapping[str, int]) -> str:
    """`2 objects and 1 unit are not shown: …`; "" where nothing is left out."""
    parts = [many(number, what) for what, number in sorted(counts.items()) if number]
    if not parts:
        return ""
    is_ = "is" if sum(counts.values()) == 1 else "are"
    return f"{' and '.join(parts)} {is_} not shown: {REASON}"


def record_head(
    topic: Topic, rows: Mapping[str, Any], shown: Set[str], cluster: str
) -> dict[str, Any]:
    """Return the head of `commit/ID` or `drift` for a viewer who sees the rows `shown`."""
    hidden = {subject_of(key, rows[key]) for key in rows.keys() - shown - {HEAD}}
    head = _own(rows[HEAD], cluster)
    if topic != "drift" and not any(_moved(rows[key]) for key in shown):
        head = {name: value for name, value in head.items() if name not in _CONTENT}
    return {**head, "hidden": left_out(Counter(subject.sort for subject in hidden))}


def commit_rows(rows: Mapping[str, Any], lanes: Set[str], cluster: str) -> dict[str, Any]:
    """Return the rows of `commits` for a viewer who sees some lanes.

    A commit that moved nothing in them is shown by its id, because they may be at it.
    """
    commits, head = {id_: row for id_, row in rows.items() if id_ != HEAD}, rows[HEAD]
    found: dict[str, Any] = {}
    for id_, row in commits.items():
        mine = {name: lane for name, lane in row["lanes"].items() if name in lanes}
        if mine:
            content = {} if any(map(_moved, mine.values())) else dict.fromkeys(_CONTENT, "")
            found[id_] = {**row, **content, "lanes": mine}
    unseen = {"commit": len(commits) - len(found), _UNIT: len(set(head["lanes"]) - lanes)}
    shown = [name for name in head["lanes"] if name in lanes]
    counted = {"lanes": shown, "commits": len(found), "hidden": left_out(unseen)}
    return {**found, HEAD: {**_own(head, cluster), **counted}}


def lanes_of(head: Mapping[str, Any]) -> Iterable[RecordSubject]:
    """Return the unit of each lane, in their order: a lane is CLUSTER UNIT."""
    parts = (lane.partition(" ") for lane in head["lanes"])
    return (RecordSubject(_UNIT, cluster, name=unit) for cluster, _, unit in parts)


def _own(head: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    """The head without the names of other clusters."""
    written = {name: time for name, time in head["written"].items() if name == cluster}
    return {**head, "written": written}


def _moved(row: Mapping[str, Any]) -> bool:
    """Return whether a lane or row says that the commit changed something of its subject."""
    return "causal" in row.get("named", ()) or bool(row.get("objects")) or "started" in row
