"""Reconciler of one unit: take commits, apply in order, prune, correct drift, report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import (
    ApiError,
    Crashed,
    DiagnosticError,
    Finding,
    HistoryMissing,
    NotLeading,
)
from gitkruise.gitops.build.builder import Builder, BuiltCommit, with_unchanged
from gitkruise.gitops.cluster.impersonation import account_of, acting_as
from gitkruise.gitops.cluster.ownership import Unsettled, units_that_left
from gitkruise.gitops.config.fingerprints import source_of
from gitkruise.gitops.reconcile.applier import Sent
from gitkruise.gitops.reconcile.commit_validation import CommitValidator, LastTaken
from gitkruise.gitops.reconcile.drift_correction import DriftBackoff, Pace
from gitkruise.gitops.reconcile.field_adoption import left_by_tools
from gitkruise.gitops.reconcile.interventions import ObjectsSeenLive, report_applied
from gitkruise.gitops.reconcile.pruner import UnitPruner, delete_to_replace
from gitkruise.gitops.reconcile.rejected_objects import look_again as retry_of
from gitkruise.gitops.reconcile.retry import CommitQueue, Setbacks
from gitkruise.gitops.reconcile.unit_cluster import UnitCluster, UnitContext
from gitkruise.gitops.source.ancestry import commit_of, newer_than, overtaken
from gitkruise.gitops.status.observer import Observation
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.kube.cache.subscriptions import RoundRequests
from gitkruise.kube.system.clock import wait_for
from gitkruise.model.gitops.config import Unit, duration
from gitkruise.model.gitops.document import Desired, DesiredSet, GitCommit
from gitkruise.model.gitops.sync_round import SyncPlan
from gitkruise.planner.sync.hook_runs import content_of_hooks
from gitkruise.planner.sync.plan import find_drift, plan_sync
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.times import RetryPause

SETTLE_S, SETTLE_MAX_S = 0.02, 0.5  # news of one moment are looked at together
LOOK: Final = timedelta(seconds=30)  # at a unit that is not in order
_COMMIT, _ROUND = "commit", "round"  # parts of a unit's work that may crash
STAGES_MAX: Final = 100  # in one round; the next follows immediately


class UnitReconciler:
    """Reconciler of one unit. Level-triggered: each round observes everything and does what is
    due."""

    def __init__(
        self, unit: Unit, reader: Builder, context: UnitContext, reporter: Reporter
    ) -> None:
        self.unit, self.reader, self._context, self._reporter = unit, reader, context, reporter
        self._wake = asyncio.Event()
        self._writer = acting_as(account_of(unit), context.live.transport)
        self.pruning = UnitPruner(unit, reader.repository, context.claims, self._wake.set)
        self.cluster = UnitCluster(unit, context, self.pruning, self._writer)
        self._validator = CommitValidator(reader, context, self.cluster, self._writer)
        self._named, self.label = f"Unit {unit.id}", self.cluster.label
        self.built: BuiltCommit | None = None  # the last commit that could be taken
        self._before: Mapping[ObjectKey, Desired] = {}  # what the one before it asked for
        self._commits = CommitQueue()
        self._looked = ""  # the last commit that was judged
        self.prunes = False  # objects are to be deleted now, or not all are known yet
        self._borne: frozenset[str] | None = None  # by live objects when this process started
        self._backoff = DriftBackoff(Pace.of(unit.spec.drift))
        self._setbacks = Setbacks(unit.id, context.clock, reporter)
        self._kinds: AbstractSet[GroupKind] = frozenset()  # that the last round looked at
        self._known = ObjectsSeenLive(unit.id, reporter)
        self._hooked = False  # whether all hooks ran for what is kept
        self._rests: RetryPause | None = None  # after a round that crashed
        self._reconciled_at: datetime | None = None  # the end of the last round without a failure
        self._asleep = False  # until the next event
        self._requests = RoundRequests()
        self._times: list[datetime] = []  # when this round wants to be followed by another
        self._validator.gate.listen(self._wake.set)
        self._source = source_of(unit)
        reporter.listen(context.standings.receive)
        context.claims.own(unit.id, self.label, self._unsettled)

    # From outside ---------------------------------------------------------------------------

    def offer(self, commit: str) -> None:
        """Read `commit` in the next round; it replaces an older one that was not read yet."""
        self._commits.offer(commit)
        self._context.standings.busy(self.unit.id, with_news=True)
        self._wake.set()

    def look_again(self, commit: str, done: Callable[[], None]) -> None:
        """Run a round soon, with `commit` if there is one, and call `done` at its end.

        Without the right to write, or while the unit is suspended, a round does not count.
        """
        self._requests.ask(done)
        if commit:
            self.offer(commit)
        self._wake.set()

    def accept_unchanged(self, was: BuiltCommit, now: BuiltCommit) -> bool:
        """Take `now`, which wants the same as `was`, without a round; False when a round must
        look."""
        moved = self.built is not was or self._looked != was.commit.id
        if moved or not self._commits.empty or not self._reporter.at_rest:
            return False
        self.built, self._looked = now, now.commit.id
        self.pruning.read(now)
        return True

    def _unsettled(self) -> Unsettled:
        now, closed = self._context.clock.now(), self._validator.gate.windows.why()
        return self.pruning.unsettled(self._commits.news, now, closed, soon=self._commits.soon)

    @property
    def live_commit(self) -> str:
        """Return the live commit of this unit; "" before anything was applied."""
        if self.built is not None and self.built.desired is not None:
            return self.built.commit.id
        record, borne = self._reporter.record, self._borne or ()
        recorded = (record.causal, record.applied)
        return next((one.id for one in recorded if one is not None and one.id in borne), "")

    def source_problem(self, finding: Finding | None, refused: GitCommit | None = None) -> None:
        """Set the problem that keeps us from the newest commit, perhaps for good (`refused`);
        None when it is resolved. After a start, live objects are kept until then."""
        self._reporter.source_problem(finding, refused)
        self.pruning.source_problem(finding)
        self._wake.set()

    async def run(self) -> None:
        """Run rounds, one after each event, until cancelled."""
        leave = self._context.live.changes.join(self.unit.id, self._wake.set)
        self._context.authority.listen(self, self._wake.set, source=self._source)
        clock = self._context.clock
        try:
            while True:
                began = clock.monotonic()
                counts = not (self._context.authority.passive or self._suspended)
                if counts:
                    self._requests.began()
                wake_at = await self.guarded_round()
                if counts:
                    self._requests.ended()
                await self._sleep(wake_at, settle_s=max(SETTLE_S, 2 * (clock.monotonic() - began)))
        finally:
            leave()
            self._context.authority.leave(self)

    @property
    def _suspended(self) -> bool:
        return self.unit.spec.suspended(self._context.clock.now()) is not None

    async def _sleep(self, wake_at: datetime | None, *, settle_s: float) -> None:
        """Wait for an event or until it is time; large units pause between two rounds."""
        clock, limit = self._context.clock, duration(self.unit.spec.interval)
        if not self._in_order():
            limit = min(limit, LOOK)
        if wake_at is not None:
            limit = max(min(limit, wake_at - clock.now()), timedelta())
        self._asleep = True
        await wait_for(self._wake, clock, limit)
        self._asleep = False
        commits, rests = self._commits, self._rests
        while rests is not None and rests.rests(clock.now()) and not commits.offered:
            self._wake.clear()  # only a new commit may mend what crashed
            await wait_for(self._wake, clock, rests.until - clock.now())
        if not commits.pending:
            await clock.sleep(min(settle_s, SETTLE_MAX_S))
        self._wake.clear()

    @property
    def reconciled_at(self) -> datetime | None:
        """The end of the last round without a failure; now, where a round would find the same."""
        rests = self._asleep and not self._wake.is_set() and self._in_order()
        return self._context.clock.now() if rests else self._reconciled_at

    def _in_order(self) -> bool:
        """Return whether all was as git wants it in the last round: events report anything else.

        They do not report that a cluster falls silent; the watches are asked for that.
        """
        if not self._commits.empty or self._context.authority.passive or not self._reporter.at_rest:
            return False
        return self._context.live.problem(self._kinds) is None

    async def guarded_round(self) -> datetime | None:
        """Run a round; report a failure and retry after growing pauses.

        No round runs while another process leads.
        """
        self._rests = None
        self._commits.begin_round()
        if self._context.authority.passive:
            return None
        try:
            with self._context.containment.of(self._named):
                wake_at = await self.round()
        except Crashed as error:
            self._rests = self._setbacks.crashed(_ROUND, error)
            return self._rests.until
        except (DiagnosticError, ApiError) as error:
            return self._setbacks.failed(error).until
        self._reconciled_at = self._context.clock.now()
        self._reporter.crashed(_ROUND, None)
        self._context.claims.settled(self.unit.id)
        if not self._times and not self._commits.crashed:
            self._setbacks.over()
        return wake_at

    # One round ------------------------------------------------------------------------------
    async def round(self) -> datetime | None:
        """Take a new commit, do what is due, report; return when to run again at the latest."""
        self._times = []
        await self._pick_up()
        if self._commits.pending:
            await self._guarded_take_in()
        self._context.standings.busy(self.unit.id, with_news=bool(self._commits.news))
        if self.built is None and not self._commits.pending and self.pruning.blind:
            await self._go_back("")
        if self.built is None or self.built.desired is None:
            return self._next_look(None)
        for _ in range(STAGES_MAX):
            seen, plan = await self._look(self.built)
            stop = plan is None or plan.quiet or self._commits.overtaken
            if plan is None or stop or not await self._act(plan, seen):
                if plan is None or not plan.waiting or self.cluster.rejected.causes:
                    await self.pruning.find(self._context.live, self.label)
                return self._next_look(seen)
        return self._context.clock.now()

    async def _look(self, built: BuiltCommit) -> tuple[Observation, SyncPlan | None]:
        """Observe, plan and report; there is no plan to carry out while suspended."""
        assert built.desired is not None
        content = content_of_hooks(built.desired, built.causal.id)
        self._hooked = await self._context.hooks.ran(self.unit.id, content)
        now = self._context.clock.now()
        seen, bad = await self.cluster.weigh(built.desired)
        until = self.unit.spec.suspended(now)
        plan = self._plan(built.desired, seen)
        if plan.quiet and not (plan.waiting or self.pruning.complete):
            await self.pruning.find(self._context.live, self.label)  # before anything is Done
            seen, bad = await self.cluster.weigh(built.desired)
            plan = self._plan(built.desired, seen)
        if await self._approved(plan):
            plan = self._plan(built.desired, seen)
        lingers, again = self.pruning.overdue(seen.live, now)
        self._times += [again] if again else []
        self._kinds = {key.group_kind for key in (*seen.live, *built.desired.by_key())}
        self._known.remember(seen)
        silent = self._context.live.problem(self._kinds)
        unseen = self.pruning.unseen(self._known.keys)
        problems = (*bad, *self.cluster.rejected.findings, *filter(None, [silent, lingers, unseen]))
        if not until and plan.quiet and not self._commits.failed:
            self._reporter.well()
        unpruned = plan.prune or not (plan.waiting or self.pruning.complete)
        self.prunes = bool(unpruned) and not until
        self._reporter.observed(built, seen, plan, problems, suspended=bool(until))
        if content and not until and plan.all_done:
            await self._context.hooks.note(self.unit.id, content)
        return seen, None if until else plan

    async def _pick_up(self) -> None:
        """Read a commit again that waited for other units, or was rejected some time ago."""
        if self._commits.parked and not self._commits.pending:
            blocker = await self._validator.gate.blocked_by()
            self._reporter.blocked_by(blocker)
            if not blocker:
                self._commits.unpark()
        self._commits.wake(self._context.clock.now())

    def _next_look(self, seen: Observation | None) -> datetime | None:
        now = self._context.clock.now()
        times = [*self._times, *self._commits.wake_times(), *self.cluster.wake_at(seen, now)]
        times += self._validator.gate.opens()
        return min(times, default=None)

    async def _approved(self, plan: SyncPlan) -> bool:
        """Return whether a user approved a deletion that the plan leaves out without approval."""
        commit = self._need_built().commit.id
        return bool(plan.asks) and await self.pruning.asked(commit, plan.asks)

    def _plan(self, desired: DesiredSet, seen: Observation) -> SyncPlan:
        catalog, now = self._context.live.catalog, self._context.clock.now()
        facts, memo = self.cluster.snapshot(desired, seen), self.cluster.memo
        drift = find_drift(facts, catalog, memo)
        self._backoff.look(drift, now)
        self._times += filter(None, [self._backoff.wake_at(drift, now)])
        newest, closed = self._commits.news or self._looked, self._validator.gate.windows.why()
        facts = replace(
            facts,
            resting=self._backoff.resting(now),
            fought=self._backoff.fought(now),
            hooked=self._hooked,
            newer=bool(self._commits.news) or not self.pruning.sure,
            prune_held=self.pruning.held(self.built, newest, closed),
            prune_soon=self.pruning.soon,
        )
        self._context.claims.retire(self.unit.id, units_that_left(facts))
        plan = plan_sync(facts, drift, catalog, memo)
        return plan if self.unit.spec.drift.mode != "off" else replace(plan, drift=(), standing=())

    async def _act(self, plan: SyncPlan, seen: Observation) -> bool:
        """Carry out a plan; return whether to plan again immediately."""
        built, live, journal = self._need_built(), self._context.live, self._reporter.intervened
        if not await self._may_act(plan, seen):
            return False
        self._known.forget((*plan.replace, *plan.prune))
        await delete_to_replace(
            plan.replace, seen.live, live, self._writer, journal, unit=self.unit.id
        )
        if plan.apply:
            assert built.desired is not None
            await self._validator.learn_kinds(built.desired, plan.apply)
            if lost := self._known.lost(seen):
                await self._validator.put_target_back(built.desired)
            theirs = {change.key for change in plan.healing if left_by_tools(change)}
            sent = await self.cluster.apply(
                plan.apply, seen, built.causal, take=theirs, stop=lambda: self._commits.overtaken,
            )  # fmt: skip
            accepted = {one.desired.key for one in sent if one.reply is not None}
            self._backoff.corrected(plan.healing, accepted, self._context.clock.now())
            report_applied(
                live.events, self.unit.id, sent, journal,
                healing=plan.healing, live=seen.live, lost=lost,
            )  # fmt: skip
            return self._absorb(sent, seen)
        findings = await self.pruning.delete(
            plan.prune, seen.live, live, self._writer, journal, self._validator.objects_of
        )
        if findings:
            self._times.append(self._setbacks.back_off().until)
            self._reporter.problem(findings)
        return False

    async def _may_act(self, plan: SyncPlan, seen: Observation) -> bool:
        """Return whether git was read in this term, and no newer commit is live.

        A start that cannot read git keeps what is live: that is as new as anything can be.
        """
        authority, built = self._context.authority, self._need_built()
        authority.check()
        started_blind = authority.term == 1 and self.pruning.blind
        if not (authority.fresh(self._source) or started_blind):
            return False
        if built.commit.id == (authority.tip(self._source) or self._looked):
            return True  # also where it goes back: the ref leads there now
        live = [seen.live[d.key] for d in plan.apply if d.key in seen.live]
        marked = {commit_of(one) for one in live} - {"", built.causal.id}
        repository = self.reader.repository
        newer = await asyncio.to_thread(newer_than, repository, marked, built.commit.id)
        if newer:
            self._reporter.problem((overtaken(self.unit.id, built.commit.id, newer),))
        return not newer

    def _need_built(self) -> BuiltCommit:
        assert self.built is not None
        return self.built

    def _absorb(self, sent: Sequence[Sent], seen: Observation) -> bool:
        """Record replies and rejections; return whether every request was accepted.

        Raises NotLeading when some were not sent: the lease was lost, perhaps for a moment.
        """
        passing = []
        for item in sent:
            if item.reply is not None:
                self._accept(item, item.reply, seen)
            elif item.finding is not None and item.retry:
                passing.append(item)
            elif self.cluster.rejected.note(item, self._context.clock.now()):
                self._context.live.doubt()
        self._context.authority.check()
        if any(item.fenced for item in sent):
            raise NotLeading("the lease was lost meanwhile")
        if passing:
            self._times.append(self._setbacks.back_off().until)
        live = self._context.live
        moved = [i for i in passing if i.unserved and live.misplaces(i.desired.key)]
        if moved:  # the commit was read for another scope; the next reading says what is wrong
            self._commits.put_back(self._need_built().commit.id)
        problems = (item.finding for item in passing if item not in moved)
        self._reporter.problem(tuple(filter(None, problems)))
        return not passing

    def _accept(self, sent: Sent, reply: Obj, seen: Observation) -> None:
        desired = sent.desired
        before = self.cluster.accept(desired, reply, seen)
        was = d.obj if (d := self._before.get(desired.key)) else None
        self._reporter.applied(
            self._need_built(), desired, before, was, reply=reply, created=sent.created
        )

    # Commits --------------------------------------------------------------------------------

    async def _guarded_take_in(self) -> None:
        """Take the pending commit. One that crashes is shelved, and what is live is kept."""
        commit = self._commits.pending
        try:
            with self._context.containment.of(self._named):
                await self._take_in()
            self._reporter.crashed(_COMMIT, None)
        except Crashed as error:
            due = self._setbacks.crashed(_COMMIT, error)
            self._commits.shelve(commit, due)
            if self.built is None:
                await self._go_back(commit)
        except (DiagnosticError, ApiError) as error:
            if self.built is None:
                await self._go_back(commit)  # before the report, which it would begin again
            self._times.append(self._setbacks.failed(error).until)
            self._commits.note_failure()

    async def _take_in(self) -> None:
        """Validate the pending commit. If that fails for now, it stays pending."""
        commit = self._commits.take()
        try:
            await self.confirm()
            recorded = self._reporter.recorded
            last = LastTaken(built=self.built, looked=self._looked, recorded=recorded)
            built = await self._validator.read(commit, last)
            self._reporter.remark("chart", self._validator.stale)
            if built.desired is None and self.built is None:
                await self._go_back(commit)
            self._reporter.blocked_by(built.blocked_by, built)
        except (DiagnosticError, ApiError):
            self._commits.put_back(commit)
            raise
        if built.blocked_by:
            self._commits.park(commit)
            self.pruning.park(built)
            return
        self._looked = commit
        self.pruning.read(built)
        again = retry_of(self.unit, built, self._context.clock.now())
        self._commits.judged(again, rejected=built.desired is None)
        if built.desired is not None:
            # What was built before may have been rejected since, for other values or keys.
            if self._reporter.rejects or not built.same_as(self.built):
                self._take(built)
            return
        findings = with_unchanged(built, self.built, self.live_commit)
        self._reporter.rejected(replace(built, findings=findings))

    async def _go_back(self, commit: str) -> None:
        """Keep what was live before, after a start on a commit that cannot be read.

        A mirror that is new, or a history without that commit, does not have it: then what is live
        is left alone until another commit is read.
        """
        await self.confirm()
        good = await self.cluster.complete(self._reporter.recorded)
        if not good or good == commit:
            return
        with suppress(HistoryMissing):
            built = await self._validator.read(good, LastTaken(), known=True)
            if built.desired is not None:
                self._take(built)

    def _take(self, built: BuiltCommit) -> None:
        assert built.desired is not None
        self._reporter.accepted(built, self.built)
        if self.built is not None and self.built.desired is not None:
            self._before = self.built.desired.by_key()
            digests = {d.key: d.digest for d in built.desired.objects}
            moved = [k for k, d in self._before.items() if digests.get(k) != d.digest]
            self._backoff.forget(moved)
        self.built = built
        self.cluster.taken(built.desired)
        self.pruning.taken(built.desired)

    async def confirm(self) -> None:
        """Drop recorded commits that live objects neither carry nor match; once per start.

        Records are a report, not an input: anyone who may push the status branch writes them.
        Raises ApiError or ClusterFailed.
        """
        record = self._reporter.record
        recorded = {commit.id for commit in (record.applied, record.causal) if commit is not None}
        if self._borne is not None or self.built is not None or not recorded:
            return
        borne = await self.cluster.live_commits()
        false = [one for one in recorded - borne if not await self._validator.lives(one)]
        self._reporter.disclaim(false)
        self._borne = borne
