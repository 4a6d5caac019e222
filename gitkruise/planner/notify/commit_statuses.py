"""Commit statuses derived from the records of units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from gitkruise.model.gitops.notifications import (
    CommitStatusItem,
    DeploymentItem,
    DeploymentState,
    LastStatus,
    StatusState,
)
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import LOOKS, State, worst
from gitkruise.printable import visible

DESCRIPTION_MAX: Final = 140  # GitHub refuses more
CONTEXT_MAX: Final = 255
NEWS_ONLY_FROM: Final = 30  # writes for one commit and context; then another state alone is news
ENDS_ONLY_FROM: Final = 40  # then not even that pods move again
WRITES_MAX: Final = 50  # GitHub's ceiling is 1,000
BUSY_PAUSE: Final = timedelta(seconds=30)  # between two counts while pods move
PAUSE: Final = timedelta(seconds=15)
UNIT: Final = "{unit}"
_STATES: Final[Mapping[str, StatusState]] = {
    "success": "success", "pending": "pending", "failure": "failure", "error": "error",
}  # fmt: skip
_DEPLOYED: Final[Mapping[str, DeploymentState]] = {
    "success": "success", "pending": "in_progress", "failure": "failure", "error": "error",
}  # fmt: skip

Latest: TypeAlias = Mapping[str, UnitRecord]  # by unit


def short(text: str, limit: int) -> str:
    """One line of at most `limit` characters; nothing of it moves a cursor or turns it around."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def context_of(template: str, cluster: str, unit: str) -> str:
    """The name of a unit's status."""
    return short(template.replace("{cluster}", cluster).replace(UNIT, unit), CONTEXT_MAX)


def aggregate_context(template: str, cluster: str, part: str = "") -> str:
    """The name of the status over all units: the template up to where it names one.

    `part` names the Sink or shard whose units these are; "" for all units of the cluster.
    """
    head = template.partition(UNIT)[0] if UNIT in template else template
    whole = context_of(head.rstrip("/-_. ") or "gitkruise", cluster, "")
    return f"{whole}/{part}" if part else whole


def state_of(state: State) -> StatusState:
    """Success means that the cluster is as the commit asks: a held rollout is."""
    return _STATES[LOOKS[state].commit_status]


def describe(record: UnitRecord) -> str:
    """A unit's state in 140 characters, the most important first."""
    words = [_moving(r) for r in record.rollouts if r.state is record.state]
    text = ", ".join(filter(None, words)) or record.message or str(record.state).lower()
    return short(text, DESCRIPTION_MAX)


def _moving(rollout: Rollout) -> str:
    if not rollout.generation_seen:
        return f"{str(rollout.state).lower()}: {rollout.message}"
    counts = f"{rollout.updated}/{rollout.total} updated"
    match rollout.state:
        case State.HELD:
            return f"held at {rollout.gate} ({counts})"
        case State.DONE:
            return f"done ({counts})"
        case State.ROLLING | State.WAITING:
            return f"{str(rollout.state).lower()}: {counts}, {rollout.asked} asked"
        case _:
            return f"{str(rollout.state).lower()}: {rollout.message or counts}"


def overtaken(commit: str, by: str, context: str) -> CommitStatusItem:
    """The last status of a commit that a newer one overtook; checks never wait for ever."""
    words = f"superseded by {by[:7]}"
    return CommitStatusItem(commit, context, "success", words, overtaken=True)


def deployment(item: CommitStatusItem, ref: str) -> DeploymentItem:
    """A status over all units as a deployment to the environment that its context names."""
    state = "inactive" if item.overtaken else _DEPLOYED[item.state]
    return DeploymentItem(item.commit, item.context, ref, state, item.description)


def statuses(
    records: Latest,
    template: str,
    cluster: str,
    *,
    aggregate_above: int,
    alone: bool,
    part: str = "",
) -> list[CommitStatusItem]:
    """Every status that commits named by `records` should have now.

    A commit that more than `aggregate_above` units stand on gets one status over all of them and
    one for each that failed. `alone`: there is one unit only, which needs no second status. `part`
    names the Sink or shard of the units, where there are several.
    """
    over_all = aggregate_context(template, cluster, part)
    items: dict[tuple[str, str], CommitStatusItem] = {}
    for commit, units in _by_commit(records.values()).items():
        many = len(units) > aggregate_above
        if not alone or many or UNIT not in template:
            item = _aggregate(commit, units, over_all)
            items[item.commit, item.context] = item
        for record in units if UNIT in template else ():
            state = state_of(record.state)
            if not many or state in {"failure", "error"}:
                context = context_of(template, cluster, record.unit)
                items[commit, context] = CommitStatusItem(commit, context, state, describe(record))
    for record in records.values():
        named = UNIT in template
        context = context_of(template, cluster, record.unit) if named else over_all
        _add_superseded(items, record, context)
    return list(items.values())


def closing(
    unfinished: Iterable[tuple[str, str]],
    wanted: Sequence[CommitStatusItem],
    attempted: Collection[tuple[str, str]] = (),
) -> list[CommitStatusItem]:
    """Statuses that close pending ones of (commit, context) at which no unit is any more.

    `wanted` are the statuses of every unit that could be at them. Commits that units looked at last
    (`attempted`, with contexts) stay as they are, taken or not: the live one may be older.
    """
    now = {(item.commit, item.context) for item in wanted}
    newest = {item.context: item.commit for item in wanted}
    return [
        overtaken(commit, newest[context], context)
        for commit, context in unfinished
        if (commit, context) not in {*now, *attempted} and context in newest
    ]


def abandoned(
    known: Sequence[tuple[str, str, LastStatus]], contexts: Collection[str]
) -> list[CommitStatusItem]:
    """Statuses that close those of other contexts than `contexts`: no unit has them any more.

    `known` is (commit, context, last status). What is pending is closed, and what is no success
    where it is the last word of its context: earlier failures are history.
    """
    others = [one for one in known if one[1] not in contexts]
    newest = {
        context: commit for commit, context, last in sorted(others, key=lambda one: one[2].at)
    }
    return [
        CommitStatusItem(
            commit, context, "success", "no unit has this status any more", overtaken=True
        )
        for commit, context, last in others
        if last.state == "pending" or (last.state != "success" and newest[context] == commit)
    ]


def _by_commit(records: Iterable[UnitRecord]) -> dict[str, list[UnitRecord]]:
    found: dict[str, list[UnitRecord]] = {}
    for record in sorted(records, key=lambda r: r.unit):
        commit = record.about
        if commit is not None:
            found.setdefault(commit.id, []).append(record)
    return found


def _add_superseded(
    items: dict[tuple[str, str], CommitStatusItem],
    record: UnitRecord,
    context: str,
) -> None:
    """Overtaken commits get their last status; the branch that a merge brought shares its fate."""
    reported = record.about
    for commit, by in record.superseded:
        item = overtaken(commit.id, by, context)
        if reported is not None and by == reported.id and commit.id in reported.parents[1:]:
            merge = items.get((reported.id, context))
            if merge is not None:
                item = CommitStatusItem(commit.id, context, merge.state, merge.description)
        items.setdefault((commit.id, context), item)


def _aggregate(commit: str, units: Sequence[UnitRecord], context: str) -> CommitStatusItem:
    state = worst(r.state for r in units)
    if len(units) == 1:
        return CommitStatusItem(
            commit, context, state_of(state),
            short(f"{units[0].unit}: {describe(units[0])}", DESCRIPTION_MAX),
        )  # fmt: skip
    counts = Counter(str(r.state).lower() for r in units)
    first = [r.unit for r in units if r.state is state]
    named = f": {', '.join(first)}" if state_of(state) in {"failure", "error"} else ""
    text_of_counts = ", ".join(f"{n} {word}" for word, n in sorted(counts.items(), key=_rank))
    text = f"{text_of_counts} of {len(units)} units{named}"
    return CommitStatusItem(commit, context, state_of(state), short(text, DESCRIPTION_MAX))


def _rank(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def due(before: LastStatus | None, item: CommitStatusItem, now: datetime) -> datetime | None:
    """Time at which a status is worth sending after `before`; None when it is no news.

    Another state immediately; another description of the same state after a pause, within limits.
    """
    if before is None:
        return now
    if (before.state, before.description) == (item.state, item.description):
        return None
    busy = item.state == "pending"
    if before.count >= (ENDS_ONLY_FROM if busy else WRITES_MAX):
        return None
    if before.state != item.state:
        return now
    if before.count >= NEWS_ONLY_FROM:
        return None
    pause = BUSY_PAUSE if busy else PAUSE
    return now + min(max(before.at + pause - now, timedelta()), pause)  # the clock may go back
