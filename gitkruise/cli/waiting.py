"""Reading the records again and again until they say that a commit is out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from gitkruise.cli.config import read_environment
from gitkruise.cli.output import API_VERSION, say, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.errors import Finding, SourceFailed, TimedOut, UsageProblem
from gitkruise.git.publish import Publisher
from gitkruise.git.repo import Repository
from gitkruise.git.worktree import commit_id
from gitkruise.gitops.awaiting import Answer, Question, verdict
from gitkruise.gitops.recorded import UnitNews, read_units, status_branch
from gitkruise.kube.clock import Clock, SystemClock
from gitkruise.kube.data import load_catalog
from gitkruise.wire.times import format_time, parse_duration

_LOCAL_S: Final = 0.3  # between two looks at a repository of this machine
_REMOTE_S: Final = 2.0  # between two fetches
_NOT_YET: Final = frozenset({"GK3205"})  # no status branch: nothing has been written yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What is waited for: a commit, how far, in which unit ("" all) and cluster ("" the one)."""

    commit: str
    goal: str
    unit: str
    repo: str
    cluster: str
    timeout: str
    output: str
    config_path: Path | None = None


def wait_for(awaited: Awaited) -> int:
    """0 when it has come there, 1 when it will not. Raises TimedOut GK7019, SourceFailed."""
    publisher = Publisher(Path(awaited.repo), read_environment().variables)
    with Repository.open(str(publisher.folder)) as repository:
        return asyncio.run(_wait(awaited, publisher, repository, SystemClock()))


async def _wait(
    awaited: Awaited, publisher: Publisher, repository: Repository, clock: Clock
) -> int:
    question = _question(awaited, repository)
    teller = _Teller(quiet=awaited.output == "json")
    pause = _LOCAL_S if not publisher.remotes() else _REMOTE_S
    end = clock.monotonic() + parse_duration(awaited.timeout).total_seconds()
    while True:
        answers = await asyncio.to_thread(
            _look, awaited, publisher, (repository, question), clock.now()
        )
        teller.tell(answers, clock)
        met = verdict(answers)
        if met is not None:
            _conclude(awaited, question, answers, met=met)
            return 0 if met else 1
        left = end - clock.monotonic()
        if left <= 0:
            raise TimedOut(_late(awaited, question, answers))
        await clock.sleep(min(pause, left))


def _question(awaited: Awaited, repository: Repository) -> Question:
    config = None
    if awaited.config_path is not None:
        from gitkruise.gitops.config import load_config  # noqa: PLC0415  only where it is given

        config = load_config(awaited.config_path)
    commit = commit_id(repository.git_dir, awaited.commit)
    return Question(repository, load_catalog(), commit, awaited.goal, config)


def _look(
    awaited: Awaited,
    publisher: Publisher,
    asking: tuple[Repository, Question],
    now: datetime,
) -> list[Answer]:
    """The answers of the units that are waited for; none while nothing is recorded."""
    repository, question = asking
    publisher.fetch_status()
    try:
        units = read_units(repository, status_branch(repository, awaited.cluster))
    except SourceFailed as error:
        if error.findings[0].code in _NOT_YET and not _several(error):
            return []
        raise
    return question.ask(_wanted(units, awaited.unit), now)


def _several(error: SourceFailed) -> bool:
    """Whether the trouble is a choice between clusters, which no waiting ends."""
    return ("recorded", "none") not in error.findings[0].notes


def _wanted(units: Sequence[UnitNews], name: str) -> list[UnitNews]:
    found = [u for u in units if name in {"", u.unit, u.unit.partition("/")[2]}]
    if name and units and not found:
        there = ", ".join(u.unit for u in units)
        message = f"no record of a unit {name}"
        raise UsageProblem(Finding(code="GK7017", message=message, notes=(("recorded", there),)))
    return found


class _Teller:
    """One line on standard error whenever a unit has news."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._told: dict[str, str] = {}

    def tell(self, answers: Sequence[Answer], clock: Clock) -> None:
        for answer in answers:
            text = f"{answer.news.state}: {answer.why}"
            if not self._quiet and self._told.get(answer.news.unit) != text:
                self._told[answer.news.unit] = text
                tell(f"{format_time(clock.now())} unit {answer.news.unit} {text}")


def _conclude(
    awaited: Awaited, question: Question, answers: Sequence[Answer], *, met: bool
) -> None:
    style = Style.of(read_environment())
    if awaited.output == "json":
        say_json(_wait_obj(question, answers, met=met), style)
        return
    for answer in answers:
        news = answer.news
        say(f"{style.state(news.state)}  {news.unit}  {question.commit[:7]}  {answer.why}", style)


def _wait_obj(question: Question, answers: Sequence[Answer], *, met: bool) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "WaitResult",
        "commit": question.commit,
        "for": question.goal,
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


def _late(awaited: Awaited, question: Question, answers: Sequence[Answer]) -> Finding:
    seen = "; ".join(f"{a.news.unit} is {a.news.state}: {a.why}" for a in answers if not a.met)
    return Finding(
        code="GK7019",
        message=f"{question.commit[:7]} is not {question.goal} after {awaited.timeout}",
        notes=(
            ("seen", seen or "no record of any unit; does gitkruise run?"),
            ("unchanged", "nothing stops: the rollout goes on"),
            ("next", "gitkruise status, or wait longer with --timeout"),
        ),
    )
