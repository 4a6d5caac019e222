"""Progress of a commit in the records of units: the answer to "is my commit live?"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gitkruise.errors import Reported
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.preview.inputs import config_at, read_side
from gitkruise.gitops.source.ancestry import leads_to
from gitkruise.gitops.status.reader import UnitNews
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.unit_state import SETTLED, State, stuck_for_good
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """Result for the commit from the record of a unit. `met` is None while it may still come."""

    news: UnitNews
    met: bool | None
    why: str


@dataclass(slots=True)
class WaitCondition:
    """Has `commit` come to `goal`? Asked of the records again and again.

    applied: sent to the cluster, or overtaken by a newer one that was. held: and all is as it
    asks, held rollouts too. done: and no rollout is held or paused.
    """

    repository: Repository
    catalog: Catalog
    commit: str
    goal: str
    config: Config | None = None
    _same: dict[tuple[str, str], bool] = field(default_factory=dict)

    def ask(self, units: Sequence[UnitNews], now: datetime) -> list[WaitResult]:
        """One answer a unit. Raises SourceFailed."""
        return [self._judge(news, now) for news in units]

    def _judge(self, news: UnitNews, now: datetime) -> WaitResult:
        applied = news.applied.id if news.applied else ""
        attempted = news.attempted.id if news.attempted else ""
        if not (applied and self._covers(applied, news.unit)):
            if news.state is State.REJECTED and attempted and self._covers(attempted, news.unit):
                why = news.problems[0] if news.problems else news.message
                return WaitResult(news=news, met=False, why=f"rejected: {why}")
            at = f"at {applied[:7]}" if applied else "nothing applied yet"
            return WaitResult(news=news, met=None, why=f"{at}: {news.message}")
        return WaitResult(news=news, met=self._reached(news, now), why=self._told(news, applied))

    def _reached(self, news: UnitNews, now: datetime) -> bool | None:
        if self.goal == "applied":
            return True
        if news.state is State.REJECTED or stuck_for_good(news.state, news.since, now):
            return False
        wanted = {State.DONE} if self.goal == "done" else SETTLED
        return True if news.state in wanted else None

    def _told(self, news: UnitNews, applied: str) -> str:
        overtaken = applied != self.commit and leads_to(self.repository, self.commit, applied)
        return news.message + (f" (overtaken by {applied[:7]})" if overtaken else "")

    def _covers(self, there: str, unit: str) -> bool:
        """Return whether a unit at `there` contains the commit, by history or by content."""
        if there == self.commit or leads_to(self.repository, self.commit, there):
            return True
        if (there, unit) not in self._same:
            self._same[there, unit] = self._asks_the_same(there, unit)
        return self._same[there, unit]

    def _asks_the_same(self, there: str, unit: str) -> bool:
        """A commit that changes nothing of a unit is out as soon as it is there."""
        if not leads_to(self.repository, there, self.commit):
            return False
        try:
            config = self.config or config_at(self.repository, self.commit)
            if unit not in config.units:
                return False
            alone = Config(config.sources, {unit: config.units[unit]}, config.sinks)
            sides = [
                read_side(self.repository, commit, alone, self.catalog, Gates())
                for commit in (there, self.commit)
            ]
        except Reported:
            return False  # it cannot be read: the controller will say so
        old, new = ({d.key: d.digest for d in side.objects} for side in sides)
        return old == new and not any(f.severity == "error" for f in sides[1].findings)


def verdict(answers: Sequence[WaitResult]) -> bool | None:
    """True when every unit has come there, False when one of them will not, None while waiting."""
    if any(answer.met is False for answer in answers):
        return False
    return True if answers and all(answer.met for answer in answers) else None
