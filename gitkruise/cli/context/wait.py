"""Polls the records until they report that a commit is rolled out."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.next_commands import joined
from gitkruise.errors import Finding, RecordMissing, TimedOut, UsageProblem
from gitkruise.git.push.user_push import Publisher
from gitkruise.git.repository.mirror import local_folder
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.inspect.wait import NO_RECORD, NO_SINK, WaitCondition, WaitResult, verdict
from gitkruise.gitops.status.reader import RecordedUnit, read_units, status_branch
from gitkruise.kube.system.clock import Clock, SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.times import format_time, parse_duration

_LOCAL_S: Final = 0.3  # between two reads of a local repository
_REMOTE_S: Final = 2.0  # between two fetches
_PROBLEMS: Final = 3  # of all units, in one message
_WITHOUT_RECORD: Final = (
    "give them a Sink with git; gitkruise get rollouts -w shows the cluster alone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOptions:
    """Commit, goal, unit ("" for all) and cluster ("" for the only one) to wait for."""

    commit: str
    goal: str
    unit: str
    repo: str
    cluster: str
    timeout: str
    output: str
    config_path: Path | None = None


def wait_for(awaited: WaitOptions) -> int:
    """Return 0 if the goal is reached, 1 if it cannot be. Raises TimedOut GK7019, SourceFailed."""
    publisher = Publisher(local_folder(awaited.repo), read_environment().variables)
    with Repository.open(str(publisher.folder)) as repository:
        return _wait(awaited, publisher, repository, SystemClock())


def _wait(awaited: WaitOptions, publisher: Publisher, repository: Repository, clock: Clock) -> int:
    """Return the exit code. Not in an event loop: a SIGINT would wait there for a hanging fetch."""
    question = _question(awaited, repository)
    lines = _ResultLines(quiet=awaited.output == "json")
    pause = _LOCAL_S if not publisher.remotes() else _REMOTE_S
    end = clock.monotonic() + parse_duration(awaited.timeout).total_seconds()
    units = _fetched(awaited, publisher, repository)
    _name_unwritten(awaited, question, units)
    while True:
        answers = _judged(awaited, units, question, clock.now())
        lines.print(answers, clock)
        met = verdict(answers)
        if met is not None:
            _conclude(awaited, question, answers, met=met)
            return 0 if met else 1
        left = end - clock.monotonic()
        if left <= 0:
            raise TimedOut(_late(awaited, question, answers))
        asyncio.run(clock.sleep(min(pause, left)))
        units = _fetched(awaited, publisher, repository)


def _question(awaited: WaitOptions, repository: Repository) -> WaitCondition:
    config = None
    if awaited.config_path is not None:
        config = load_config(awaited.config_path)
    commit = repository.named(awaited.commit)
    return WaitCondition(repository, load_catalog(), commit, awaited.goal, config)


def _name_unwritten(
    awaited: WaitOptions, condition: WaitCondition, units: Sequence[RecordedUnit]
) -> None:
    """Name the awaited units of which no record will say anything.

    Raises UsageProblem GK7017 when there are no others, GK7049 for one of another repository.
    """
    known = condition.configured | {news.unit for news in units}
    _check_named(awaited.unit, known)
    away = {name for name in known & condition.elsewhere.keys() if _means(awaited.unit, name)}
    if awaited.unit and away and not any(_means(awaited.unit, name) for name in known - away):
        raise UsageProblem(condition.elsewhere[min(away)])
    silent = {name for name in condition.unwritten(units) if _means(awaited.unit, name)}
    if silent and not any(_means(awaited.unit, name) for name in known - silent):
        message = (
            f"{condition.commit[:7]}: no unit of it can be awaited: {', '.join(sorted(silent))}"
        )
        notes = (("why", NO_SINK), ("next", _WITHOUT_RECORD))
        raise UsageProblem(Finding(code="GK7017", message=message, notes=notes))
    for name in sorted(silent):
        say_on_stderr(f"unit {name} is not awaited: {NO_SINK}")


def _fetched(
    awaited: WaitOptions, publisher: Publisher, repository: Repository
) -> Sequence[RecordedUnit]:
    """Fetch and return what is recorded of units, and the commits that are named there, which may
    be newer than this clone; nothing while nothing has been written."""
    publisher.fetch_status()
    try:
        units = read_units(repository, status_branch(repository, awaited.cluster))
    except RecordMissing:
        return ()
    named = (one for news in units for one in (news.attempted, news.sent, news.applied))
    publisher.bring(one.id for one in named if one is not None)
    return units


def _judged(
    awaited: WaitOptions, units: Sequence[RecordedUnit], condition: WaitCondition, now: datetime
) -> list[WaitResult]:
    """Return the results of the awaited units; empty while nothing is recorded."""
    if not units:
        return []
    wanted = [news for news in units if _means(awaited.unit, news.unit)]
    condition.check(wanted)
    answers = condition.ask(wanted, now)
    if not (verdict(answers) or (awaited.unit and not wanted)):
        return answers  # of those that are not recorded nothing more is asked now
    missing = [one for one in condition.unrecorded(units) if _means(awaited.unit, one.news.unit)]
    if awaited.unit and not (answers or missing):
        _check_named(awaited.unit, condition.configured | {news.unit for news in units})
    return answers + missing


def _means(name: str, unit: str) -> bool:
    return name in {"", unit, unit.partition("/")[2]}


def _check_named(name: str, known: Collection[str]) -> None:
    """Raises UsageProblem GK7017 for a unit that neither records nor the configuration name."""
    if name and known and not any(_means(name, unit) for unit in known):
        message = f"unit {name}: neither recorded nor in the configuration"
        next_ = "name one of them, or push the configuration that has it; --commit names a commit"
        notes = (("there are", ", ".join(sorted(known))), ("next", next_))
        raise UsageProblem(Finding(code="GK7017", message=message, notes=notes))


class _ResultLines:
    """Prints a line on standard error for each new result of a unit."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._printed: dict[str, str] = {}

    def print(self, answers: Sequence[WaitResult], clock: Clock) -> None:
        for answer in answers:
            text = f"{answer.news.state}: {answer.why}"
            if not self._quiet and self._printed.get(answer.news.unit) != text:
                self._printed[answer.news.unit] = text
                say_on_stderr(f"{format_time(clock.now())} unit {answer.news.unit} {text}")


def _conclude(
    awaited: WaitOptions, condition: WaitCondition, answers: Sequence[WaitResult], *, met: bool
) -> None:
    style = Style.of(read_environment())
    if awaited.output == "json":
        say_json(_wait_obj(condition, answers, met=met), style)
        return
    for answer in answers:
        news = answer.news
        say(f"{style.state(news.state)}  {news.unit}  {condition.commit[:7]}  {answer.why}", style)


def _wait_obj(
    condition: WaitCondition, answers: Sequence[WaitResult], *, met: bool
) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "WaitResult",
        "commit": condition.commit,
        "for": condition.goal,
        "met": met,
        "units": [
            {
                "unit": a.news.unit,
                "cluster": a.news.cluster,
                "state": str(a.news.state),
                "met": bool(a.met),
                "applied": a.news.applied.id if a.news.applied else "",
                "message": a.why,
            }
            for a in answers
        ],
    }


def _late(awaited: WaitOptions, condition: WaitCondition, answers: Sequence[WaitResult]) -> Finding:
    late = [answer for answer in answers if not answer.met]
    seen = "; ".join(f"{a.news.unit} is {a.news.state}: {a.why}" for a in late)
    problems = [f"{a.news.unit}: {text}" for a in late for text in a.news.shown_problems]
    return Finding(
        code="GK7019",
        message=f"{condition.commit[:7]} is not {condition.goal} after {awaited.timeout}",
        notes=(
            ("seen", seen or "no unit is recorded; is gitkruise running?"),
            *(("problem", text) for text in problems[:_PROBLEMS]),
            ("unchanged", "git and the cluster; only the wait ended"),
            ("next", f"{_next(answers, awaited.repo)}, or wait longer with --timeout"),
        ),
    )


def _next(answers: Sequence[WaitResult], repo: str) -> str:
    if not answers:
        return "start gitkruise run"
    if any(answer.why == NO_RECORD for answer in answers):
        return "restart gitkruise run if it started before its file had the unit"
    return f"gitkruise status {joined('--all-clusters', repo=repo)}"
