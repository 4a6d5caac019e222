"""Memory of the pods of watched workloads: pods per revision over time, and rows at a moment.

Rows are remembered while a browser watches them: without one nothing is read. What changed in
between is unknown, and marked as a gap.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from gitkruise.dashboard.source import HEAD, Topic
from gitkruise.wire.primitives.times import format_time

MOMENTS_MAX: Final = 2_000  # of one workload, at least a second apart
CHANGES_MAX: Final = 20_000  # rows that changed in them
TOPICS_MAX: Final = 16
NOTHING: Final[Mapping[str, bytes]] = {}


@dataclass(slots=True)
class PastMoment:
    """Rows that changed in one second, None for one that went; `unseen` is the beginning of the
    gap before it."""

    at: str
    changes: dict[str, bytes | None]
    unseen: str = ""


@dataclass(slots=True)
class PastRows:
    """Rows of one topic over time: those of the first moment, and what changed since."""

    since: str
    first: dict[str, bytes]
    last: Mapping[str, bytes]
    moments: deque[PastMoment] = field(default_factory=deque)
    left: str = ""  # when the last browser left; "" while one watches
    changes: int = 0
    moments_max: int = MOMENTS_MAX
    changes_max: int = CHANGES_MAX

    def note(self, now: str, rows: Mapping[str, bytes]) -> None:
        """Take in the rows of now; one that did not change is the same object as before."""
        before, unseen = self.last, self.left
        self.last, self.left = rows, ""
        changed: dict[str, bytes | None] = {
            key: row for key, row in rows.items() if before.get(key) is not row
        }
        changed |= dict.fromkeys(before.keys() - rows.keys())
        if not changed and not unseen:
            return
        newest = self.moments[-1] if self.moments else None
        if newest is not None and newest.at == now and not unseen:
            self.changes += len(changed.keys() - newest.changes.keys())
            newest.changes |= changed
        else:
            self.moments.append(PastMoment(now, changed, unseen))
            self.changes += len(changed)
        while len(self.moments) > self.moments_max or self.changes > self.changes_max:
            self._forget()

    def _forget(self) -> None:
        oldest = self.moments.popleft()
        self.changes -= len(oldest.changes)
        self.since = oldest.at
        _apply(self.first, oldest.changes)

    def lanes(self, since: str = "") -> dict[str, Any]:
        """Return pods by revision at every moment from `since` on; `unseen` is the beginning of a
        gap before one.

        A moment holds until the next one, or until the gap before that.
        """
        revisions = {key: _revision(row) for key, row in self.first.items() if key != HEAD}
        counts = Counter(revisions.values())
        found: list[dict[str, Any]] = [{"at": self.since, "unseen": "", "pods": dict(counts)}]
        for moment in self.moments:
            for key, row in moment.changes.items():
                if key != HEAD:
                    old = revisions.pop(key, None)
                    if old is not None:
                        counts[old] -= 1
                    if row is not None:
                        revisions[key] = _revision(row)
                        counts[revisions[key]] += 1
            pods = {revision: count for revision, count in counts.items() if count}
            found.append({"at": moment.at, "unseen": moment.unseen, "pods": pods})
        wanted = [moment for moment in found if moment["at"] >= since]
        return {"since": self.since, "left": self.left, "moments": wanted}

    def rows_at(self, instant: str) -> tuple[str, Mapping[str, bytes]] | None:
        """Return the rows of a moment and when it began; None before the first one."""
        if instant < self.since:
            return None
        rows, at = dict(self.first), self.since
        for moment in self.moments:
            if moment.at > instant:
                break
            _apply(rows, moment.changes)
            at = moment.at
        return at, rows


@dataclass(slots=True)
class RowMemory:
    """Past rows of the topics of pods that were watched last."""

    topics: dict[Topic, PastRows] = field(default_factory=dict)

    def last(self, topic: Topic) -> Mapping[str, bytes]:
        """Return the newest rows that are remembered."""
        return self.topics[topic].last if topic in self.topics else NOTHING

    def note(self, topic: Topic, now: datetime, rows: Mapping[str, bytes]) -> None:
        """Take in the rows of a topic that a browser watches; other topics are not remembered."""
        if not topic.startswith("pods/"):
            return
        known = self.topics.pop(topic, None)
        if known is not None:
            known.note(format_time(now), rows)
        elif HEAD in rows:
            known = PastRows(format_time(now), dict(rows), rows)
        if known is None:
            return
        if len(self.topics) >= TOPICS_MAX:
            del self.topics[next(iter(self.topics))]
        self.topics[topic] = known  # the newest at the end

    def leave(self, topic: Topic, now: datetime) -> None:
        """The last browser left a topic: until it is watched again its rows are unknown."""
        if topic in self.topics:
            self.topics[topic].left = format_time(now)


def _apply(rows: dict[str, bytes], changes: Mapping[str, bytes | None]) -> None:
    for key, row in changes.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row


class _PodRow(msgspec.Struct):
    revision: str = ""


def _revision(row: bytes) -> str:
    return msgspec.json.decode(row, type=_PodRow).revision
