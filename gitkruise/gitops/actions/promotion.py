"""The promotion of a unit: after each soak, the next step is committed or proposed.

All state is in git or in the cluster: the partition in git says which steps are complete, the
cluster says since when the step is healthy (`soak`) and what was measured (`gitops.analysis`), and
the name of its branch says whether a step was proposed already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError, Crashed, DiagnosticError, Finding, Severity
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.gitops.actions.actions import ActionArgs, ActionVerb
from gitkruise.gitops.actions.loop import Following, error_line, keep_looking
from gitkruise.gitops.actions.proposals import ActionProposal, ActionRequest, Proposer
from gitkruise.gitops.actions.pull_requests import ActionPullRequests, action_branch
from gitkruise.gitops.analysis.analyst import Analyst, MeasuredStep
from gitkruise.gitops.config.sync_windows import Windows
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.kube.cache.store import CachedObject
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.analysis import AnalysisPhase, MetricResult
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.notifications import Pull
from gitkruise.model.gitops.promotion import Promotion, PromotionRecord
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.analysis.schedule import blocks, counts_of
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.notify.comment import plain
from gitkruise.planner.progress.builtin import min_ready_s
from gitkruise.planner.sync.annotations import hold_of
from gitkruise.printable import many
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import named
from gitkruise.wire.primitives.times import format_time

log = logging.getLogger(__name__)
FAILED: Final = "GK3506"
BRANCHES: Final = "step"  # of pull requests that propose the next step
_CHANNEL: Final = "promotion"
_ANALYSIS: Final = "analysis"
LOOK: Final = timedelta(seconds=30)  # at a pull request that is open
MERGE: Final = timedelta(seconds=5)  # until the first try to merge one
RESTARTED: Final = "the soak counts from this start: no managedFields say when the spec was written"
_Mark = tuple[str, str, datetime | None]


class Promoter:
    """Drive the promotion of one unit, and write its progress to the records."""

    def __init__(
        self,
        unit: Unit,
        following: Following,
        reporter: Reporter,
        proposer: Proposer,
        *,
        pull_requests: ActionPullRequests | None = None,
        analyst: Analyst,
        has_news: Callable[[str], bool],
        containment: Containment = UNREPORTED,
    ) -> None:
        assert unit.spec.promotion is not None
        assert unit.promoted is not None
        self._analyst = analyst
        self._unit, self._spec = unit, unit.spec.promotion
        self._following, self._reporter, self._has_news = following, reporter, has_news
        self._proposer, self._pull_requests = proposer, pull_requests
        self._clock = proposer.clock
        self._windows = Windows(unit.spec.windows, self._clock)
        self._key = unit.promoted
        self._wake = asyncio.Event()
        self._soak = Soak(self._clock)
        self._asked = ""  # the commit of the branch up to which commands were read
        self._stop = ""  # why people do not want it to go on from here
        self._offered = ""  # where the next step is proposed
        self._merging: Pull | None = None  # what was to be merged at the last look
        self._kept: str | None = None  # the branch of the only step that may be proposed
        self._declined: Pull | None = None  # the pull request of the next step that people closed
        self._problem, self._containment = "", containment
        reporter.judged_by(self.stand)
        reporter.listen(lambda _: self._wake.set())

    # Progress -------------------------------------------------------------------------------

    def stand(self, record: UnitRecord) -> PromotionRecord | None:
        """Return the progress that follows from a record; None while the workload is missing."""
        rollout = self._rollout(record)
        if rollout is None:
            return None
        where = (rollout.kept, rollout.replicas)
        promotion = PromotionRecord(
            key=self._key,
            step=self._spec.reached(*where),
            steps=len(self._spec.steps),
            analysis=self._analyst.run,
        )
        following = self._spec.next(*where)
        if following is None:
            return promotion
        soaking = self._soaking(rollout)
        why = next(self._hindrances(record, rollout), "") or self._unmeasured(rollout, soaking)
        promotion = replace(promotion, next=following.asks(rollout.replicas).text, why=why)
        if why or soaking is None:
            return promotion
        since = soaking.since.replace(microsecond=0)  # as precise as records and pods are
        due = since + self._spec.soak(*where)
        return replace(promotion, due=due, offered=self._offered, note=soaking.note)

    def _rollout(self, record: UnitRecord) -> Rollout | None:
        return next((r for r in record.rollouts if r.key == self._key), None)

    def _hindrances(self, record: UnitRecord, rollout: Rollout) -> Iterator[str]:
        now = self._clock.now()
        error = next((f for f in record.findings if f.is_error), None)
        if self._unit.spec.suspended(now):
            yield "the unit is suspended"
        if closed := self._windows.why():
            yield f"it waits for {closed}"
        if error is not None:
            yield f"{error.code}: {error.message}"
        if rollout.state is not State.HELD:
            yield f"the rollout is {rollout.state}"
        if record.state is not State.HELD:
            yield f"the unit is {record.state}"
        if rollout.updated > rollout.asked:
            yield "more pods are updated than git asks for"
        yield from filter(None, (self._held(now), self._stop, self._closed(), self._problem))

    def _closed(self) -> str:
        """Return that people closed the pull request of the next step, or ""."""
        number = self._declined.number if self._declined is not None else 0
        return f"pull request #{number} that proposed it was closed" if number else ""

    def _held(self, now: datetime) -> str:
        """Return the reason why an annotation of the live object holds it, or ""."""
        obj = self._proposer.live.store.get(self._key)
        try:
            hold = hold_of(obj) if obj is not None else None
        except ValueError as error:
            return str(error)
        held = hold is not None and hold[0] > now
        return f"it is left alone until {format_time(hold[0])}" if hold and held else ""

    def _soaking(self, rollout: Rollout) -> Soaking | None:
        """Return the soak of the step; None while it is not healthy."""
        store = self._proposer.live.store
        seen = store.seen(self._key)
        if rollout.state is not State.HELD or seen is None:
            self._soak.moves()
            return None
        return self._soak.since(
            seen, rollout, ROLLOUTS[self._key.group_kind].pods(store, seen.read())
        )

    # Measurements ---------------------------------------------------------------------------

    def _subject(self, rollout: Rollout, soaking: Soaking | None) -> MeasuredStep | None:
        """Return what is to be measured at this step; None for nothing."""
        where = (rollout.kept, rollout.replicas)
        metrics, seen = self._spec.measured(*where), self._proposer.live.store.seen(self._key)
        if not metrics or seen is None or soaking is None:
            return None
        return MeasuredStep(
            uid=seen.uid,
            name=self._key.name,
            namespace=self._key.namespace,
            revision=rollout.update_revision.rpartition("-")[2],
            step=self._spec.reached(*where),
            metrics=metrics,
            pods=rollout.updated,
            arrived=soaking.arrived,
        )

    def _unmeasured(self, rollout: Rollout, soaking: Soaking | None) -> str:
        """Return why the measurements of this step do not let it go on; "" if they do."""
        subject = self._subject(rollout, soaking)
        if subject is None:
            return ""
        run = self._analyst.run_of(subject)
        return blocks(run) if run is not None else "its measurements have not begun"

    async def _measure(self) -> timedelta | None:
        """Take the measurements that are due; how long there is nothing to measure."""
        record = self._reporter.record
        rollout, now = self._rollout(record), self._clock.now()
        if rollout is None:
            return None
        before = self._analyst.run
        try:
            await self._analyst.load()
            if rollout.generation_seen:
                step = self._spec.reached(rollout.kept, rollout.replicas)
                await self._analyst.leave(rollout.update_revision.rpartition("-")[2], step)
            subject = self._subject(rollout, self._soaking(rollout))
            unready = record.state is not State.HELD or rollout.updated > rollout.asked
            if subject is None or unready or self._unit.spec.suspended(now):
                return None
            return await self._analyst.measure(subject)
        finally:
            if self._analyst.run != before:
                self._reporter.look_again()
            self._reporter.remark(_ANALYSIS, self._verdict())

    def _verdict(self) -> Finding | None:
        """Return GK3506 when the measurements of this step have ended without success."""
        record = self._reporter.record
        run, rollout = record.analysis, self._rollout(record)
        if run is None or rollout is None or run.phase is AnalysisPhase.SUCCESSFUL:
            return None
        if not run.phase.completed:
            return None
        goes_back = run.phase.bad and self._unit.spec.on_failure != "hold"
        next_ = "the rollback that onFailure asks for" if goes_back else (
            f"a commit that mends it, or gitkruise rollback {named(self._key)}; to go on in spite "
            f"of it: gitkruise promote {named(self._key)}"
        )  # fmt: skip
        return Finding(
            code=FAILED,
            message=f"{self._key}, step {run.step}: {blocks(run)}",
            severity=Severity.WARNING,
            notes=(("unchanged", self._amount(rollout)), ("next", next_)),
        )

    def _amount(self, rollout: Rollout) -> str:
        if self._key.group_kind == DEPLOYMENT:
            return f"the canary in git: {rollout.canary}"
        return f"the partition in git: {rollout.partition}"

    # Going on -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        await keep_looking(
            self._looked, self._failed, self._wake, self._clock,
            seed=self._unit.id, containment=self._containment,
        )  # fmt: skip

    async def _looked(self) -> timedelta | None:
        pause = await self.look()
        self._say("")
        self._reporter.remark(_CHANNEL, self._absent())
        return pause

    def _absent(self) -> Finding | None:
        """Return GK3509 if the unit has objects and the workload is not among them."""
        there = [o.key for o in self._reporter.record.objects]
        if not there or self._key in there:
            return None
        namespace = self._key.namespace
        namesake = next((k for k in there if k._replace(namespace=namespace) == self._key), None)
        next_ = "correct promotion.workload, or add it to the unit"
        if namesake is not None:
            next_ = f"for {namesake} set target.namespace: {namesake.namespace} on the unit"
        return Finding(
            code="GK3509",
            message=f"the unit has no {self._key}, which its promotion names",
            severity=Severity.WARNING,
            notes=(("unchanged", "no step is taken"), ("next", next_)),
        )

    def _failed(self, error: RefMoved | DiagnosticError | ApiError) -> float:
        if isinstance(error, RefMoved):
            return 1.0  # what was pushed meanwhile is looked at first
        if isinstance(error, Crashed):  # a warning: the unit itself is as git asks
            self._reporter.remark(_CHANNEL, replace(error.findings[0], severity=Severity.WARNING))
        what = "the next step cannot be prepared"
        if self._merging is not None:
            what = f"the next step is proposed, and {self._merging.url} is not merged"
        self._say(f"{what}: {error_line(error)}")
        return 5.0

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._reporter.look_again()

    async def look(self) -> timedelta | None:
        """Measure, and make the next step if it is time; how long nothing is to be done without
        news."""
        self._merging = None
        measured = await self._measure()
        step = await self._step()
        return min((pause for pause in (measured, step) if pause is not None), default=None)

    async def _step(self) -> timedelta | None:
        promotion = self._now()
        if promotion is not None:
            await self._retire(promotion)
        if promotion is None or not promotion.next:
            return None
        if promotion.why in {"", self._stop} or self._declined is not None:
            await self._learn()
            promotion = self._now()
        if promotion is None or promotion.due is None:
            return LOOK
        left = promotion.due - self._clock.now()
        if left > timedelta():
            return min(left, LOOK)
        commit = self._following.live_commit
        if not commit or self._has_news(self._unit.id):
            return timedelta(seconds=1)
        if self._spec.via == "commit":
            await self._commit(promotion, commit)
        else:
            await self._offer(promotion, commit)
        return MERGE if self._spec.merge == "whenReady" else LOOK

    def _now(self) -> PromotionRecord | None:
        """Return the progress without the problem of the last try."""
        problem, self._problem = self._problem, ""
        try:
            return self.stand(self._reporter.record)
        finally:
            self._problem = problem

    async def _learn(self) -> None:
        """Find out whether git pauses or holds the workload, and whether a pull request that was
        closed still is."""
        live = self._following.live_commit
        if self._declined is not None and (live != self._asked or await self._reopened()):
            self._declined = None
            self._reporter.look_again()
        if not live or live == self._asked:
            return
        stop = await asyncio.to_thread(self._proposer.stopped_by, self._key, live)
        self._asked, before, self._stop = live, self._stop, stop
        if self._stop != before:
            self._reporter.look_again()

    async def _reopened(self) -> bool:
        """Return whether the pull request that people closed is open again, or merged."""
        assert self._pull_requests is not None
        assert self._declined is not None
        pull = await self._pull_requests.found(self._declined.branch)
        return pull is not None and pull.state != "closed"

    async def _commit(self, promotion: PromotionRecord, commit: str) -> None:
        proposal = await self._proposed(promotion, commit)
        if proposal is not None:
            await asyncio.to_thread(self._proposer.push, proposal)
            log.info(log_line("promotion-committed", unit=self._unit.id, subject=proposal.subject))

    async def _proposed(self, promotion: PromotionRecord, commit: str) -> ActionProposal | None:
        """The commit of the next step; None when things are otherwise by now."""
        number = f"{promotion.step + 1}/{promotion.steps}"
        act = ActionRequest(
            verb=ActionVerb.PROMOTE,
            key=self._key,
            args=ActionArgs(partition=promotion.next),
            trailers=(("Gitkruise-Step", number),),
        )
        proposal = await self._proposer.propose(act, commit)
        still = self._now()
        same = still is not None and (still.next, still.why) == (promotion.next, "")
        return proposal if same and not self._has_news(self._unit.id) else None

    def _branch(self, promotion: PromotionRecord) -> str:
        """Return the branch of the pull request of the next step, "" without one."""
        record, slug = self._reporter.record, promotion.next.replace("%", "pct")
        name = f"{self._key.name}-{slug}-{record.causal.short if record.causal else ''}"
        return action_branch(BRANCHES, record, name) if slug else ""

    async def _retire(self, promotion: PromotionRecord) -> None:
        """Withdraw the pull requests of other steps than the next one, as often as it changes; also
        of a workload that the unit promoted before."""
        keep, causal = self._branch(promotion), self._reporter.record.causal
        current = self._following.live_commit and not self._has_news(self._unit.id)
        if self._pull_requests is None or causal is None or not current or keep == self._kept:
            return
        why = f"Superseded by {causal.short}: {plain(causal.subject)}"
        prefix = action_branch(BRANCHES, self._reporter.record, "")
        await self._pull_requests.retire(prefix, keep, ActionVerb.PROMOTE, None, why)
        self._kept = keep

    async def _offer(self, promotion: PromotionRecord, commit: str) -> None:
        """Propose the step by a pull request, once; and have it merged, where that is asked."""
        assert self._pull_requests is not None
        branch = self._branch(promotion)
        pull = await self._pull_requests.found(branch)
        if pull is None:
            proposal = await self._proposed(promotion, commit)
            if proposal is None:
                return
            body = _body(promotion, self._spec, proposal)
            pull = await self._pull_requests.make(branch, proposal, body)
        elif pull.state == "closed":
            self._declined = pull
        elif pull.state == "open" and self._spec.merge == "whenReady":
            self._merging = pull
            await self._pull_requests.merge(pull, self._key)
        self._offered = pull.url if pull.state == "open" else ""
        self._reporter.look_again()


def _body(promotion: PromotionRecord, spec: Promotion, proposal: ActionProposal) -> str:
    """Return the body of the pull request; the plan is added as a comment."""
    done = ""
    if promotion.step:
        soak = spec.steps[promotion.step - 1].soak
        done = f"Step {promotion.step} was healthy for {soak}. " if soak != "0s" else ""
        done += _measured(promotion)
    merged = "It is merged when the forge lets it be."
    waits = "Merge it to go on; close it to stay where it is."
    return (
        f"Step {promotion.step + 1} of {promotion.steps} of the promotion of {promotion.key}: "
        f"{proposal.edit.words}.\n\n{done}{merged if spec.merge == 'whenReady' else waits}"
    )


def _measured(promotion: PromotionRecord) -> str:
    """Return the measurements of the step that is complete, as a sentence; "" without any."""
    run = promotion.analysis
    if run is None or run.step != promotion.step:
        return ""
    results = "; ".join(f"{one.name}: {counts_of(one)}{_last_value(one)}" for one in run.metrics)
    return f"Measured on {many(run.pods)} of revision {run.revision}: {results}. "


def _last_value(result: MetricResult) -> str:
    value = result.measurements[-1].value if result.measurements else ""
    return f", the last value {plain(value)}" if value else ""


@dataclass(frozen=True, slots=True)
class Soaking:
    """Time since which a rollout is healthy, and a note about it."""

    since: datetime
    note: str = ""
    arrived: bool = False  # this process saw it arrive


class Soak:
    """Begin of a soak: from the cluster and this process, never from records.

    A user who may push the status branch may write any time there. A rollout that this process saw
    arrive soaks from then on. After a start it soaks from the last write of its spec or from when
    the last of its pods became available, whichever is later. If the cluster does not know when the
    spec was written, the soak starts over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._saw_moving = False
        self._known: tuple[_Mark, Soaking] | None = None

    def moves(self) -> None:
        """The rollout does not stand well now."""
        self._saw_moving, self._known = True, None

    def since(self, seen: CachedObject, rollout: Rollout, pods: Iterable[PodFacts]) -> Soaking:
        """Return the soak of `rollout`, which is healthy now, without a break."""
        mark = (seen.uid, rollout.update_revision, seen.spec_written)
        listed = tuple(pods)
        if self._known is None or self._known[0] != mark:
            self._known = (mark, self._begun(seen, listed))
            self._saw_moving = True
        known = self._known[1]
        revision = rollout.update_revision.rpartition("-")[2]
        ready = [p.ready_since for p in listed if p.ready_since and p.short_revision == revision]
        return Soaking(max([known.since, *ready]), known.note, known.arrived)

    def _begun(self, seen: CachedObject, pods: tuple[PodFacts, ...]) -> Soaking:
        now = self._clock.now()
        if self._saw_moving:
            return Soaking(now, arrived=True)
        if seen.spec_written is None:
            return Soaking(now, RESTARTED)
        rest = timedelta(seconds=min_ready_s(seen.read()))
        ready = [pod.ready_since + rest for pod in pods if pod.ready_since]
        return Soaking(max([seen.spec_written, *ready]))
