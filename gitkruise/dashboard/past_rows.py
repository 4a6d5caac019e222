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
    """Rows that changed in one second, None for one that went; after it, pods by revision and the
    commit that the workload has from git. `unseen` is the beginning of the gap before it."""

    at: str
    changes: dict[str, bytes | None]
    pods: dict[str, int]
    commit: str = ""
    unseen: str = ""

    def lane(self) -> dict[str, Any]:
        return {"at": self.at, "unseen": self.unseen, "pods": self.pods, "commit": self.commit}


@dataclass(slots=True)
class PastRows:
    """Rows of one topic over time: those of the first moment, and what changed since."""

    first: dict[str, bytes]
    since: PastMoment  # without changes: they are in `first`
    last: Mapping[str, bytes]
    moments_max: int
    changes_max: int
    moments: deque[PastMoment] = field(default_factory=deque)
    left: str = ""  # since when they are unknown; "" while a browser watches
    changes: int = 0

    @classmethod
    def begin(
        cls,
        now: str,
        rows: Mapping[str, bytes],
        *,
        moments_max: int = MOMENTS_MAX,
        changes_max: int = CHANGES_MAX,
    ) -> PastRows:
        """Return a memory that begins with the rows of now."""
        since = PastMoment(now, {}, _counted({}, dict(rows), {}), _commit(rows, ""))
        return cls(dict(rows), since, rows, moments_max=moments_max, changes_max=changes_max)

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
        newest = self.moments[-1] if self.moments else self.since
        pods, commit = _counted(newest.pods, changed, before), _commit(changed, newest.commit)
        if newest.at == now and not unseen:
            newest.pods, newest.commit = pods, commit
            if newest is self.since:
                _apply(self.first, changed)
                return
            self.changes += len(changed.keys() - newest.changes.keys())
            newest.changes |= changed
        else:
            self.moments.append(PastMoment(now, changed, pods, commit, unseen))
            self.changes += len(changed)
        while len(self.moments) > self.moments_max or self.changes > self.changes_max:
            self._forget()

    def _forget(self) -> None:
        oldest = self.moments.popleft()
        self.changes -= len(oldest.changes)
        _apply(self.first, oldest.changes)
        self.since = PastMoment(oldest.at, {}, oldest.pods, oldest.commit)

    def lanes(self, since: str = "") -> dict[str, Any]:
        """Return pods by revision, and the commit, at every moment from `since` on; `unseen` is the
        beginning of a gap before one.

        A moment holds until the next one, or until the gap before that.
        """
        wanted = [m.lane() for m in (self.since, *self.moments) if m.at >= since]
        return {"since": self.since.at, "left": self.left, "moments": wanted}

    def rows_at(self, instant: str) -> tuple[str, Mapping[str, bytes]] | None:
        """Return the rows of a moment and when it began; None before the first one."""
        if instant < self.since.at:
            return None
        rows, at = dict(self.first), self.since.at
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
            known = PastRows.begin(format_time(now), rows)
        if known is None:
            return
        if len(self.topics) >= TOPICS_MAX:
            del self.topics[next(iter(self.topics))]
        self.topics[topic] = known  # the newest at the end

    def leave(self, topic: Topic, now: datetime) -> None:
        """Something changed that no browser watched: until one does, the rows are unknown."""
        if topic in self.topics:
            self.topics[topic].left = format_time(now)


def _counted(
    pods: Mapping[str, int], changed: Mapping[str, bytes | None], before: Mapping[str, bytes]
) -> dict[str, int]:
    """Return pods by revision after rows changed."""
    counts = Counter(pods)
    for key, row in changed.items():
        if key != HEAD:
            old = before.get(key)
            if old is not None:
                counts[_revision(old)] -= 1
            if row is not None:
                counts[_revision(row)] += 1
    return {revision: count for revision, count in counts.items() if count}


def _apply(rows: dict[str, bytes], changes: Mapping[str, bytes | None]) -> None:
    for key, row in changes.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row


def _commit(changed: Mapping[str, bytes | None], before: str) -> str:
    """Return the commit that the head says after rows changed."""
    head = changed.get(HEAD)
    return msgspec.json.decode(head, type=_HeadRow).commit if head is not None else before


class _HeadRow(msgspec.Struct):
    commit: str = ""


class _PodRow(msgspec.Struct):
    revision: str = ""


def _revision(row: bytes) -> str:
    return msgspec.json.decode(row, type=_PodRow).revision
