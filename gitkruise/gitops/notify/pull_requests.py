"""Pull requests of one repository: the plan while they are open, the outcome after the merge."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple, TypeAlias

import msgspec

from gitkruise.errors import (
    ApiError,
    Crashed,
    DiagnosticError,
    Finding,
    Forbidden,
    NotFound,
    SourceFailed,
    Unauthorized,
    Unavailable,
    UsageProblem,
)
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.gitops.notify.channel import Channel
from gitkruise.gitops.notify.outbox import OutboxEntry
from gitkruise.gitops.notify.pull_request_plan import (
    ProposedCommit,
    PullRequestForecast,
    PullRequestPlanner,
    unplannable,
)
from gitkruise.gitops.notify.sender import PROBLEM_AFTER_S, YIELDED_S
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.config import PullRequests
from gitkruise.model.gitops.notifications import (
    CommentItem,
    CommitStatusItem,
    Outcome,
    Pull,
    PullRequestReport,
    StatusState,
)
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.comment import brief, section
from gitkruise.planner.notify.commit_statuses import DESCRIPTION_MAX, short
from gitkruise.planner.notify.outcomes import check, check_of, follow
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import RetryPause

log = logging.getLogger(__name__)
LOOK_S: Final = 30.0  # between two looks without a hook
PAUSE_MAX_S: Final = 300.0
CRASHED_MAX_S: Final = 3600.0  # between two tries to plan one that crashed
UNPLANNED_FROM: Final = 4  # tries, which take about as long as PROBLEM_AFTER
MERGED_MAX: Final = 200  # reports whose outcome is still followed; older ones end as they are
_REPORT: Final = "pull/"
Planners: TypeAlias = Mapping[str, PullRequestPlanner]
FindPlanners: TypeAlias = Callable[[Planners], Awaitable[Planners]]


class _ParkedPull(NamedTuple):
    """A pull request whose `head` could not be planned, `tries` times in a row, and why."""

    head: str
    tries: int
    pause: RetryPause
    why: str


class PullRequestLoop:
    """Follows the pull requests into the branches that units follow."""

    def __init__(
        self,
        forge: ForgeRepository,
        channel: Channel,
        rules: PullRequests,
        planners: Planners,
        clock: Clock,
        *,
        section: str,
        check: str,
        containment: Containment = UNREPORTED,
    ) -> None:
        """`section` names that of the comment: the cluster, and the Sink and the shard where there
        are several. `check` is the status of a head, "" for none."""
        self.problem = ""  # why the newest pull requests are not known, if that lasts
        # Called with a problem that lasts, and with "" at its end.
        self.on_problem: Callable[[str], None] = lambda _: None
        self._since: float | None = None  # monotonic: when the first of the failures in a row was
        self._forge, self._channel, self._clock = forge, channel, clock
        self._section, self._check, self._rules = section, check, rules
        self._names = f"{section} {check}"
        self.planners = planners  # by branch
        # Returns those of a look, from those of the one before: default branches change.
        self.find_planners: FindPlanners | None = None
        self.sink = channel.name.rpartition("/")[0]
        self.open: Mapping[int, Pull] = {}  # by number, as of the last look
        self.looked = False  # at least once: `open` has what the forge has
        self._reports: dict[int, PullRequestReport] | None = None
        self._resumes = False  # another process planned meanwhile: each plan is made again
        self._latest: dict[str, UnitRecord] = {}
        self._news: dict[str, UnitRecord] = {}  # of `_latest`, not looked at yet
        self._look, self._wake = True, asyncio.Event()
        self._looked_at = clock.monotonic()  # when the last look began
        self._failures = 0
        self._containment = containment
        self._tried = set[str]()  # heads of a merge queue that have their check
        self._parked: dict[int, _ParkedPull] = {}  # pull requests that crashed, by number

    def look_now(self) -> None:
        """Look for changed pull requests now: a Receiver got an event."""
        self._look = True
        self._wake.set()

    def offer(self, record: UnitRecord) -> None:
        """Take the newest record of a unit. Never waits."""
        self._latest[record.unit] = self._news[record.unit] = record
        self._wake.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            if self._channel.yields():  # plans and outcomes are those of another process
                self._reports, self._resumes = None, True
                self._tried.clear()
                await self._clock.sleep(YIELDED_S)
                continue
            pause = 0.0
            try:
                with self._containment.of(f"Sink {self._channel.name}", sqlite3.Error):
                    try:
                        if self._look:
                            self._look, self._looked_at = False, self._clock.monotonic()
                            await self.look()
                    finally:  # what the cluster says needs no look
                        await self.follow()
                self._failures, self._since = 0, None
                self._report(self._unplanned())
            except (ApiError, DiagnosticError, sqlite3.Error) as error:
                pause = self._failed(error)
            if pause:
                await self._clock.sleep(pause)  # news do not shorten it
            else:
                await self._rest()

    def _failed(self, error: Exception) -> float:
        now = self._clock.monotonic()
        refused = isinstance(error, Unauthorized | Forbidden | NotFound)
        self._failures += 1
        self._since = now if self._since is None else self._since
        if refused or self._fails_for_long():
            self._report(str(error))
        self._look = True
        if self._failures & (self._failures - 1) == 0:
            log.warning(log_line("pull-requests-unknown", channel=self._channel.name, error=error))
        pause = pause_s(self._failures, first_s=1.0, cap_s=PAUSE_MAX_S, seed=self._channel.name)
        retry_after_s = error.details.retry_after_s if isinstance(error, ApiError) else 0
        return max(pause, float(retry_after_s))

    def _fails_for_long(self) -> bool:
        since = self._since
        return since is not None and self._clock.monotonic() - since >= PROBLEM_AFTER_S

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self.on_problem(problem)

    async def _rest(self) -> None:
        """Wait for news, for another leader, or for the next look, which news do not put off."""
        left = self._looked_at + LOOK_S - self._clock.monotonic()
        limit = timedelta(seconds=min(left, YIELDED_S))
        if left <= 0 or not await wait_for(self._wake, self._clock, limit):
            self._look = self._look or left <= YIELDED_S
        self._wake.clear()

    # Looking --------------------------------------------------------------------------------

    async def look(self) -> None:
        """Ask the forge what is open; plan what is new, and see how the others ended.

        One that fails does not keep the others waiting; its error is raised when all had a turn.
        """
        reports = await self._known()
        if self.find_planners is not None:
            self.planners = await self.find_planners(self.planners)
        pulls = [p for p in await self._forge.open_pulls() if p.base in self.planners]
        self.open, self.looked = {pull.number: pull for pull in pulls}, True
        failed: list[ApiError | DiagnosticError] = []
        for report in [s for s in reports.values() if s.state == "open"]:
            if report.number not in self.open:
                try:
                    with self._containment.of(self._named(report.number), sqlite3.Error):
                        await self._ended(report)
                except (ApiError, DiagnosticError) as error:
                    failed.append(error)
        try:
            await self._check_queue()
        except (ApiError, DiagnosticError) as error:
            failed.append(error)
        planned = {report.number: report.head for report in reports.values()}
        # Plans take time: those that someone waits for come before those that are made again.
        for pull in sorted(pulls, key=lambda pull: planned.get(pull.number) == pull.head):
            try:
                await self._guarded_see(pull, reports.get(pull.number))
            except (ApiError, DiagnosticError) as error:
                failed.append(error)
        if failed:
            raise failed[0]

    async def _check_queue(self) -> None:
        """Set the check of what a merge queue tries: it waits for those that are required."""
        if not self._check:
            return
        tried = [pull for pull in await self._forge.queued() if pull.base in self.planners]
        self._tried &= {pull.head for pull in tried}
        for pull in tried:
            if pull.head in self._tried:
                continue
            try:
                with self._containment.of(f"Sink {self._channel.name}: {pull.branch}"):
                    planner = self.planners[pull.base]
                    found = await planner.plan(pull, f"refs/heads/{pull.branch}")
            except Crashed as error:
                found = unplannable(pull, error)
            except SourceFailed as error:  # it may have been merged just now
                log.info(log_line("queue-not-read", branch=pull.branch, error=error))
                continue
            item = check(found.report, self._check, found.summary)
            words = item.description.removesuffix(": see the comment")  # there is none
            item = msgspec.structs.replace(item, description=words)
            entry = OutboxEntry(f"check/{pull.head}", item, self._clock.now())
            await asyncio.to_thread(self._channel.put, [entry])
            self._channel.posted()
            self._tried.add(pull.head)

    def _named(self, number: int) -> str:
        return f"Sink {self._channel.name}: pull request {number}"

    async def _guarded_see(self, pull: Pull, before: PullRequestReport | None) -> None:
        """See a pull request. One that crashes or that git cannot read rests until its head moves
        or it is time to try again."""
        parked, now = self._parked.get(pull.number), self._clock.now()
        if parked is not None and parked.head == pull.head and parked.pause.rests(now):
            return
        try:
            with self._containment.of(self._named(pull.number), sqlite3.Error):
                await self._see(pull, before)
        except Crashed as error:
            self._park(pull, error, CRASHED_MAX_S)
            await self._publish_plan(pull, unplannable(pull, error))
        except SourceFailed as error:  # git lacks its head, for example
            self._park(pull, error, PAUSE_MAX_S)
        except ApiError as error:  # of the cluster: the forge has answered
            what = f"no answer from the cluster to plan pull request {pull.number}"
            raise Unavailable(f"{what}: {error.message}", error.details) from error
        else:
            self._parked.pop(pull.number, None)

    def _park(self, pull: Pull, error: DiagnosticError, pause_max_s: float) -> None:
        """Let a pull request rest, so that it keeps no other waiting."""
        parked = self._parked.get(pull.number)
        tries = parked.tries + 1 if parked is not None and parked.head == pull.head else 1
        pause = pause_s(tries, first_s=LOOK_S, cap_s=pause_max_s, seed=str(pull.number))
        now = self._clock.now()
        rest = RetryPause(now, now + timedelta(seconds=pause))
        why = "" if isinstance(error, Crashed) else f"{error}"  # a crash is in the comment
        self._parked[pull.number] = _ParkedPull(pull.head, tries, rest, why)

    def _unplanned(self) -> str:
        """Return the first open pull request that git cannot read for long, and why; or ""."""
        parked = sorted((n, one) for n, one in self._parked.items() if n in self.open)
        long = [(n, one.why) for n, one in parked if one.why and one.tries >= UNPLANNED_FROM]
        return f"pull request {long[0][0]}: {long[0][1]}" if long else ""

    async def _see(self, pull: Pull, before: PullRequestReport | None) -> None:
        planner = self.planners[pull.base]
        if before is not None and (before.state, before.head) == ("open", pull.head):
            again = before.newer or before.crashed or before.branch != pull.base
            again = again or before.names != self._names
            if not (again or self._moved(before) or await planner.outdated(before)):
                return
        elif before is not None and before.state == "open" and (before.plan or before.failed):
            await self._publish(msgspec.structs.replace(before, newer=pull.head))
        seen = {unit: _standing(record) for unit, record in self._latest.items()}
        found = await planner.plan(pull, self._forge.ref_of(pull.number))
        report = msgspec.structs.replace(
            found.report, seen={unit: seen.get(unit, "") for unit in found.units}
        )
        await self._publish_plan(pull, replace(found, report=report))

    def _moved(self, report: PullRequestReport) -> bool:
        """Return whether a unit that a plan changes is in another state, or at another commit."""
        now = {unit: _standing(self._latest[unit]) for unit in report.seen if unit in self._latest}
        return any((now.get(unit) or then) != then for unit, then in report.seen.items())

    async def _publish_plan(self, pull: Pull, found: PullRequestForecast) -> None:
        """Store the report, with the check that follows from it unless the head has it already."""
        item = check(found.report, self._check, found.summary)
        await self._publish_checked(found.report, item)

    async def _publish_checked(self, report: PullRequestReport, item: CommitStatusItem) -> None:
        before = (await self._known()).get(report.number)
        same = before is not None and before.head == report.head
        entries = self._outlived(before) if before is not None and same else []
        checked = f"{item.state} {item.description}"
        report = msgspec.structs.replace(report, checked=checked, names=self._names)
        await self._publish(report, *entries)

    def _outlived(self, before: PullRequestReport) -> list[OutboxEntry]:
        """Return the last word of the check that a head has under an earlier name."""
        name = before.names.partition(" ")[2]
        if not (name and before.checked) or name == self._check:
            return []
        state: StatusState = msgspec.convert(before.checked.partition(" ")[0], StatusState)
        words = f"see {self._check} instead" if self._check else "gitkruise sets no check any more"
        item = CommitStatusItem(before.head, name, state, short(words, DESCRIPTION_MAX))
        return [OutboxEntry(f"check/{before.head}/{name}", item, self._clock.now())]

    async def _ended(self, report: PullRequestReport) -> None:
        try:
            pull = await self._forge.pull(report.number)
        except NotFound:  # deleted, as nothing else was: the list of open ones was read just now
            await self._forget(report)
            return
        planner = self.planners.get(pull.base)
        if planner is None and pull.state != "closed":
            await self._left(report, pull)
            return
        if pull.state == "open":
            return  # it was opened, or moved in the list, while its pages were read
        if planner is not None and pull.state == "merged":
            report = await self._brought(planner, report, pull.merged_as)
        ended = msgspec.structs.replace(
            report, state=pull.state, branch=pull.base, newer="", merged_as=pull.merged_as
        )
        await self._publish(ended)
        if ended.state == "merged":
            await self._add(ended, self._latest.values())

    async def _brought(
        self, planner: PullRequestPlanner, report: PullRequestReport, merged_as: str
    ) -> PullRequestReport:
        """Return a report with what a merge brought, as far as the branch still has it."""
        try:
            commits = await asyncio.to_thread(planner.brought, report, merged_as)
            unsaid = await asyncio.to_thread(planner.unsaid, report, merged_as)
        except SourceFailed:
            if not self._fails_for_long():
                raise
            commits, unsaid = (report.head, merged_as), ()  # another push may have replaced it
        return msgspec.structs.replace(report, commits=commits, unsaid=unsaid)

    async def _forget(self, report: PullRequestReport) -> None:
        """Drop the report of a pull request that was deleted: nothing can be written there."""
        note = {f"{_REPORT}{report.number}": None}
        await asyncio.to_thread(self._channel.put, [], note)
        (await self._known()).pop(report.number, None)

    async def _left(self, report: PullRequestReport, pull: Pull) -> None:
        """A pull request asks for a branch that no unit follows, or was merged into it; it is new
        if it comes back."""
        left = msgspec.structs.replace(
            report, state="closed", into=pull.base, merged_as=pull.merged_as, newer="", failed="",
            crashed=False, touches=False,
        )  # fmt: skip
        await self._publish_checked(left, check(left, self._check, ""))

    async def proposed(
        self, number: int, planner_of: Callable[[str], PullRequestPlanner] | None = None
    ) -> ProposedCommit:
        """Return what an open pull request proposes, by the planner of its branch. The forge is not
        asked.

        Raises SourceFailed, UsageProblem GK7092 for one that is not open.
        """
        pull = self.open.get(number)
        if pull is None:
            raise _not_open(number, (await self._known()).get(number), list(self.planners))
        planner = (planner_of or self.planners.__getitem__)(pull.base)
        return await planner.proposed(pull, self._forge.ref_of(number))

    # Outcomes -------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Add what new records say about merged pull requests."""
        news, self._news = self._news, {}
        try:
            for report in list((await self._known()).values()) if news else ():
                if report.state == "merged":
                    with self._containment.of(self._named(report.number), sqlite3.Error):
                        await self._add(report, news.values())
        except BaseException:
            self._news = {**news, **self._news}
            raise

    async def _add(self, report: PullRequestReport, records: Collection[UnitRecord]) -> None:
        outcomes = follow(report, records, await self._past(report, records))
        if _gist(outcomes) != _gist(report.outcomes):
            await self._publish(msgspec.structs.replace(report, outcomes=outcomes))

    async def _past(
        self, report: PullRequestReport, records: Iterable[UnitRecord]
    ) -> frozenset[str]:
        """Return the units without an outcome that have a newer commit than the merge."""
        planner = self.planners.get(report.branch)
        missing = {*report.units} - {outcome.unit for outcome in report.outcomes}
        at = {r.unit: r.about.id for r in records if r.unit in missing and r.about is not None}
        if planner is None or not at:
            return frozenset()
        return await asyncio.to_thread(planner.past, report, at)

    async def _known(self) -> dict[int, PullRequestReport]:
        if self._reports is None:
            found = await asyncio.to_thread(self._channel.notes, _REPORT)
            decode = msgspec.json.Decoder(PullRequestReport).decode
            self._reports = {int(number): decode(body) for number, body in found.items()}
            for report in [*self._reports.values()] if self._resumes else ():
                if report.state == "open":
                    self._reports[report.number] = _unset(report)
            self._resumes = False
        return self._reports

    async def _publish(self, report: PullRequestReport, *entries: OutboxEntry) -> None:
        """Store a report, and the items that publish it."""
        reports = await self._known()
        notes: dict[str, bytes | None] = {f"{_REPORT}{report.number}": msgspec.json.encode(report)}
        merged = sorted(n for n, s in reports.items() if s.state == "merged")
        ended = merged[:-MERGED_MAX] + [n for n, s in reports.items() if s.state == "closed"]
        notes |= {f"{_REPORT}{n}": None for n in ended if n != report.number}
        items = [*entries, *self._checks(reports, report)]
        if self._rules.comment == "plan":
            item = CommentItem(
                report.number, self._section, section(report, self._section),
                brief(report, self._section), needed=report.touches or bool(report.unsaid),
            )  # fmt: skip
            items.append(OutboxEntry(f"comment/{report.number}", item, self._clock.now()))
        await asyncio.to_thread(self._channel.put, items, notes)
        for number in ended:
            reports.pop(number, None)
        reports[report.number] = report
        self._channel.posted()

    def _checks(
        self, reports: Mapping[int, PullRequestReport], report: PullRequestReport
    ) -> Iterator[OutboxEntry]:
        """Yield the checks that a report changes: of its head, and of the one that it had."""
        now = {**reports, report.number: report}
        before = reports.get(report.number, report)
        for head in {report.head, before.head} if self._check else ():
            was, item = (
                check_of(head, some.values(), self._names, self._check) for some in (reports, now)
            )
            if item is not None and item != was:
                yield OutboxEntry(f"check/{head}", item, self._clock.now())


def _not_open(
    number: int, report: PullRequestReport | None, branches: Sequence[str]
) -> UsageProblem:
    commit = report.merged_as if report is not None else ""
    merged = f" and was merged as {commit}" if commit else ""
    into = ", ".join(branches)
    look = "open /commits, which lists the pull requests that have a plan"
    notes = (
        ("why", f"open ones into {into} have a plan, as of the last look at the forge"),
        ("unchanged", "nothing was planned, and a plan applies nothing"),
        ("next", f"open /commit/{commit}" if commit else look),
    )
    message = f"pull request {number} is not open{merged}"
    return UsageProblem(Finding(code="GK7092", message=message, notes=notes))


def _unset(report: PullRequestReport) -> PullRequestReport:
    """Return a report whose check another process may have written over."""
    return msgspec.structs.replace(report, checked="", names="")


def _standing(record: UnitRecord) -> str:
    """Return where a unit is at rest, as far as plans from its live objects differ; "" before."""
    if record.state in {State.UNKNOWN, State.ROLLING, State.WAITING}:
        return ""
    commit = record.about
    return f"{record.state} {commit.short if commit is not None else ''}"


def _gist(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str, bool]]:
    """Return the parts of outcomes that are worth an edit: states, not the counts of pods."""
    return [
        (o.unit, o.state, "" if o.state in {"Rolling", "Waiting"} else o.text, o.final)
        for o in outcomes
    ]
