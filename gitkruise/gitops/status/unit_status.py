"""Status of one unit: a record that is updated by events and offered to sinks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from gitkruise.errors import Concern, Crashed, Finding, Severity, errors_first
from gitkruise.gitops.build.builder import BuiltCommit
from gitkruise.gitops.cluster.impersonation import account_of
from gitkruise.gitops.config.dependencies import suspension_details
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.status.observer import (
    Observation,
    drift_records,
    fresh_objects,
    leaving_objects,
    object_records,
    of_commit,
    unit_state,
)
from gitkruise.kube.cache.subscriptions import Subscriptions
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.change import ObjectChange
from gitkruise.model.gitops.config import Unit, duration
from gitkruise.model.gitops.document import Desired, GitCommit
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.gitops.record import (
    ChartRecord,
    Intervention,
    Removal,
    RolloutStep,
    UnitRecord,
)
from gitkruise.model.gitops.sync_round import SyncPlan
from gitkruise.model.gitops.unit_state import SETTLED, SUSPENDED, State, worst
from gitkruise.model.workloads.labels import DAEMONSET, SIDECARSET
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.report.rollout_steps import begin_step, observe_step
from gitkruise.planner.report.summary import summarize
from gitkruise.planner.sync.annotations import COMMIT, UNIT_REF, annotation
from gitkruise.planner.sync.autoscale import REPLICAS, sized_as
from gitkruise.planner.sync.diff import all_differences, owned_differences
from gitkruise.printable import many
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get, put

UNTOLD: Final = "GK3503"
_UNSEEN: Final = "not looked at yet"
_INTERVENTIONS_MAX: Final = 50  # git keeps the older ones in the history of the branch
# What gives way to the news that the newest commit waits for other units.
_PATIENT: Final = frozenset({State.DONE, State.HELD, State.ROLLING, State.WAITING, State.PAUSED})
Sink = Callable[[UnitRecord], None]
BranchState = Callable[[UnitRecord], PromotionRecord | None]


def _after(problem: Finding, before: State) -> State:
    """Return the state of a unit whose round failed."""
    if problem.concern is Concern.CONNECTION:
        return State.UNKNOWN
    return State.STUCK if problem.concern is Concern.CLUSTER and problem.is_error else before


class Reporter:
    """Folds events into the unit's record; each new record goes to every sink."""

    def __init__(
        self,
        unit: Unit,
        cluster: str,
        source: str,
        clock: Clock,
        *,
        sinks: list[Sink],
        containment: Containment = UNREPORTED,
    ) -> None:
        self.unit, self._containment = unit, containment
        self._clock = clock
        self._sinks: Subscriptions[str, [UnitRecord]] = Subscriptions()
        for sink in sinks:
            self._sinks.listen(sink)
        self._steps: dict[ObjectKey, tuple[RolloutStep, ...]] = {}
        self._begun: dict[ObjectKey, tuple[GitCommit, str]] = {}
        self._problems: tuple[Finding, ...] = ()
        self._observed: tuple[Finding, ...] = ()  # in the last round, about objects
        self._source_problem: Finding | None = None
        self._refused: GitCommit | None = None  # the newest commit, by its signature or history
        self._rejected: BuiltCommit | None = None
        self._remarks: dict[str, Finding] = {}  # by channel
        self._crashes: dict[str, Finding] = {}  # by what of the unit met an unexpected exception
        self._awaits = ""  # what is to happen before the newest commit is taken
        self._awaiting: GitCommit | None = None  # that commit
        self._promotion: BranchState = lambda _: None
        self.had: frozenset[ObjectKey] = frozenset()  # live objects of an earlier run
        self.looked = False  # the record is of this process, not of an earlier one
        self.record = UnitRecord(
            unit=unit.id,
            cluster=cluster,
            source=source,
            state=State.UNKNOWN,
            message=_UNSEEN,
            since=clock.now(),
            path=unit.spec.path or ".",
            removal=None if unit.custom else removal_of(unit),
        )

    def listen(self, sink: Sink) -> None:
        """Call `sink` with every new record from now on."""
        self._sinks.listen(sink)

    def judged_by(self, promotion: BranchState) -> None:
        """Set the function that adds the state of the promotion to every new record."""
        self._promotion = promotion

    def look_again(self) -> None:
        """Refresh the record: something that it reports has changed elsewhere."""
        self._offer(self.record)

    def resume(
        self,
        record: UnitRecord | None,
        steps: dict[ObjectKey, tuple[RolloutStep, ...]],
        had: frozenset[ObjectKey] = frozenset(),
    ) -> None:
        """Continue from the record of an earlier run on the status branch, which `had` these
        objects in the cluster."""
        now = self.record
        if record is not None:
            now = replace(record, source=now.source, path=now.path, removal=now.removal)
        self.record, self._steps, self.had = now, dict(steps), had

    @property
    def recorded(self) -> GitCommit | None:
        """The newest commit that an earlier run took, well or not, as far as it is recorded."""
        return self.record.causal or self.record.applied

    @property
    def known(self) -> UnitRecord:
        """The record, without the observations of an earlier process."""
        if self.looked:
            return self.record
        return replace(self.record, state=State.UNKNOWN, message=_UNSEEN, rollouts=(), drift=())

    def disclaim(self, commits: Collection[str]) -> None:
        """Drop recorded commits, and the state: live objects do not confirm them. The next
        observation is news."""
        if not commits:
            return
        applied, causal = (
            None if commit is not None and commit.id in commits else commit
            for commit in (self.record.applied, self.record.causal)
        )
        why = self._source_problem
        message = f"{why.code}: {why.message}" if why is not None else _UNSEEN
        self.record = replace(
            self.record, applied=applied, causal=causal, state=State.UNKNOWN, message=message,
            since=self._clock.now(),
        )  # fmt: skip

    # What happened --------------------------------------------------------------------------

    def accepted(self, built: BuiltCommit, before: BuiltCommit | None) -> None:
        """Record that a commit was validated and is being applied."""
        self._rejected, self._problems, self._observed = None, built.findings, ()
        overtaken = tuple((commit, built.commit.id) for commit in built.overtaken)
        if before is not None and self._unfinished():
            unfinished = before.causal
            if unfinished.id != built.causal.id:
                overtaken = (*overtaken, (unfinished, built.commit.id))
        self._offer(replace(self.record, superseded=overtaken))

    def rejected(self, built: BuiltCommit) -> None:
        """Record that a commit was rejected, errors before warnings; live objects stay."""
        findings = errors_first(built.findings)
        self._rejected = replace(built, findings=findings)
        self._change(
            replace(
                self.record,
                attempted=built.touched,
                waits="",
                findings=findings,
                superseded=tuple((commit, built.commit.id) for commit in built.overtaken),
            ),
            State.REJECTED,
            f"{findings[0].code}: {findings[0].message}",
        )

    @property
    def rejects(self) -> bool:
        """Return whether the commit that was read last was rejected."""
        return self._rejected is not None

    def is_sent(self, built: BuiltCommit, now: datetime) -> bool:
        """Return whether all of this content is in the cluster, healthy or not, as this process
        observed it. A suspended unit sends nothing: an earlier run may have."""
        suspended = self.unit.spec.suspended(now) is not None
        sent = self.record.applied if suspended else self.record.sent
        return sent is not None and sent.id == built.causal.id

    def is_observed(self, built: BuiltCommit) -> bool:
        """Return whether the record is an observation of this content by this process."""
        causal = self.record.causal
        return bool(self.record.objects) and causal is not None and causal.id == built.causal.id

    @property
    def at_rest(self) -> bool:
        """Return whether everything is as git wants, without findings."""
        return self.record.state in SETTLED and not self.record.findings and not self._awaits

    def blocked_by(self, what: str, built: BuiltCommit | None = None) -> None:
        """Set what the newest commit waits for; "" for nothing. `built` is that commit, if new."""
        self._awaits = what
        if what and built is not None:
            self._awaiting, self._rejected = built.touched, None
        if what and not self.record.objects and not self._rejected:
            record = replace(
                self.record, attempted=self._awaiting, waits=what, findings=self._findings()
            )
            self._change(record, State.WAITING, f"waits for {what}")

    def problem(self, findings: tuple[Finding, ...]) -> None:
        """Record a failure of a round; it is shown until a round succeeds."""
        warnings = tuple(f for f in self._problems if not f.is_error)
        self._problems = (*warnings, *findings)
        if not self._rejected and (problem := next(iter(findings), None)):
            self._change(
                replace(self.record, findings=self._findings()),
                _after(problem, self.known.state),
                f"{problem.code}: {problem.message}",
            )
        else:
            self._offer(replace(self.record, findings=self._findings()))

    def remark(self, channel: str, finding: Finding | None) -> None:
        """Set a finding that does not concern objects, such as undeliverable messages; None clears
        it. One that is set already is no news, and keeps its place."""
        if self._remarks.get(channel) == finding:
            return
        before = set(self._remarks.values())
        self._remarks.pop(channel, None)
        if finding is not None:
            self._remarks[channel] = finding
        kept = tuple(f for f in self.record.findings if f not in before)
        self._offer(replace(self.record, findings=(*kept, *self._remarks.values())))

    def intervened(self, key: ObjectKey, reason: str, text: str) -> None:
        """Record a corrected drift, a takeover or a prune."""
        entry = Intervention(at=self._clock.now(), key=key, reason=reason, text=text)
        kept = (*self.record.interventions, entry)[-_INTERVENTIONS_MAX:]
        self._offer(replace(self.record, interventions=kept))

    def crashed(self, part: str, finding: Finding | None) -> None:
        """Record an unexpected exception in a part of the unit; None when the part works again."""
        if self._crashes.get(part) == finding:
            return
        self._crashes.pop(part, None)
        if finding is not None:
            self._crashes[part] = finding
            message = f"{finding.code}: {finding.message}"
            self._change(replace(self.record, findings=self._findings()), State.STUCK, message)
        else:
            self._offer(replace(self.record, findings=self._findings()))

    def well(self) -> None:
        """Record a round without failures: earlier ones are over."""
        self._problems = tuple(f for f in self._problems if not f.is_error)

    def source_problem(self, finding: Finding | None, refused: GitCommit | None = None) -> None:
        """Set the problem that keeps us from the newest commit; None clears it.

        `refused` is that commit, where its signature or history is the problem: it was attempted.
        """
        self._source_problem, self._refused = finding, refused
        attempted = refused or self.record.attempted
        record = replace(self.record, attempted=attempted, findings=self._findings())
        if finding is None and record.state is State.REJECTED and not self._rejected:
            self.record = record  # the next observation says which state it is in now
        elif finding is None:
            self._offer(record)
        elif finding.concern is Concern.HISTORY:
            self._change(record, State.REJECTED, f"{finding.code}: {finding.message}")
        elif finding.concern is Concern.PROGRAM:
            self._change(record, State.STUCK, f"{finding.code}: {finding.message}")
        elif not self._rejected:
            self._change(record, self.known.state, f"{finding.code}: {finding.message}")

    def applied(
        self,
        built: BuiltCommit,
        desired: Desired,
        live: Obj | None,
        was: Obj | None,
        *,
        reply: Obj,
        created: bool,
    ) -> None:
        """Record that one object was applied; a rollout gets a step for the commit.

        `live` is the object before, if it had our mark, and `was` what git wanted before, as far
        as we know. A correction of drift names the commit that it restores, and is no step of
        this one.
        """
        if desired.key.group_kind not in ROLLOUTS:
            return
        if annotation(reply, COMMIT) != built.causal.id:
            return
        if created:
            sized = desired.key.group_kind not in {SIDECARSET, DAEMONSET}
            pods = f", {many(desired.obj['spec'].get('replicas', 1))}" if sized else ""
            text = f"created{pods}"
        else:
            sent = sized_as(desired, reply).obj  # an autoscaler may set the size
            if was is not None:
                left = get(sent, *REPLICAS) != get(desired.obj, *REPLICAS)
                before = put(was, REPLICAS, get(sent, *REPLICAS)) if left else was
                found = all_differences(before, sent, None)
            else:
                found = owned_differences(sent, live, None) if live is not None else ()
            text = summarize(found, sent)
        self._begun[desired.key] = (built.causal, text or "taken over")

    def _tried(self, refused: Sequence[Finding]) -> frozenset[str]:
        """Return the objects whose last request was refused: the next one is no news."""
        return frozenset(f.object for f in (*refused, *self._problems) if f.is_error)

    def _standing(self, due: SyncPlan, refused: Sequence[Finding]) -> tuple[ObjectChange, ...]:
        """Return the drift that stays; also what is put back now if the last try was refused."""
        tried, standing = self._tried(refused), {change.key for change in due.standing}
        again = (c for c in due.drift if str(c.key) in tried and c.key not in standing)
        return (*due.standing, *again)

    def observed(
        self,
        built: BuiltCommit,
        seen: Observation,
        due: SyncPlan,
        refused: tuple[Finding, ...] = (),
        *,
        suspended: bool = False,
    ) -> None:
        """Record the observation of a round; what is `due` is not done while suspended."""
        assert built.desired is not None
        plan = None if suspended else due
        drift = due.drift if suspended else self._standing(due, refused)
        blocked = plan.blocked if plan is not None else ()
        answer = of_commit(built.desired, seen, plan)
        objects = object_records(built.desired, answer, drift, self.unit.id)
        problems = (*self._contained(), *refused, *blocked, *self._sourceless(), *self._problems)
        repeats = any(f.is_error and f.concern is Concern.CLUSTER for f in self._problems)
        tried = self._tried(refused)
        repeats = repeats or all(str(key) in tried for key in fresh_objects(plan))
        leaving = leaving_objects(built.desired, seen, self.unit.id)
        state, message = unit_state(
            objects, plan, self._rejection(), problems, repeats=repeats, leaving=leaving
        )
        waits = self._awaits or (plan.waits if plan is not None else "")
        if suspended and due.pending and not waits:
            waits = f"the end of its suspension{suspension_details(self.unit)}"
        if waits and state in _PATIENT:
            state, message = State.WAITING, f"waits for {waits}"
        elif suspended:
            message = f"{SUSPENDED}{suspension_details(self.unit)}: {message}"
        waiting = self._awaiting if self._awaits else None
        done = plan is not None and plan.all_done
        sent = plan is not None and plan.all_sent
        self._follow_steps(built, seen, built.desired.by_key().keys() if sent else ())
        self._observed = (*refused, *blocked)
        record = replace(
            self.record,
            attempted=self._refused or waiting or (self._rejected or built).touched,
            waits=waits,
            applied=built.causal if done else self.record.applied,
            sent=built.causal if sent else self.record.sent,
            causal=built.causal,
            chart=_chart(built),
            bases=built.bases,
            objects=objects,
            rollouts=answer.rollouts,
            steps=tuple(sorted(self._steps.items())),
            drift=drift_records(drift),
            findings=self._findings(),
        )
        self._change(record, state, message)

    def _unfinished(self) -> bool:
        """Return whether the commit taken last is still being rolled out."""
        state = self.record.state
        if state is State.WAITING and self.record.objects:
            state = worst(o.state for o in self.record.objects)  # it may have waited for others
        return state in {State.ROLLING, State.WAITING}

    # Inside ---------------------------------------------------------------------------------

    def _rejection(self) -> Finding | None:
        """Return the finding that keeps the newest commit from being taken."""
        if self._source_problem is not None and self._source_problem.concern is Concern.HISTORY:
            return self._source_problem
        found = self._rejected.findings if self._rejected else ()
        return next((f for f in found if f.is_error), None)

    def _contained(self) -> tuple[Finding, ...]:
        return tuple(self._crashes.values())

    def _sourceless(self) -> tuple[Finding, ...]:
        return (self._source_problem,) if self._source_problem else ()

    def _findings(self) -> tuple[Finding, ...]:
        rejected = self._rejected.findings if self._rejected else ()
        findings = (*self._contained(), *rejected, *self._sourceless(), *self._observed,
                *self._problems, *self._remarks.values())  # fmt: skip
        return tuple(dict.fromkeys(findings))

    def _follow_steps(
        self, built: BuiltCommit, seen: Observation, applied: Collection[ObjectKey]
    ) -> None:
        now = self._clock.now()
        for rollout in seen.rollouts:
            live = seen.live[rollout.key].obj
            if annotation(live, UNIT_REF) != self.unit.id:
                continue  # it has gone over to another unit, perhaps in this commit
            steps = self._steps.get(rollout.key, ())
            begun = self._begun.get(rollout.key)
            by_it = annotation(live, COMMIT) == built.causal.id
            if begun is None and (by_it or (not steps and rollout.key in applied)):
                # Applied before a crash and not recorded, or in git again as it was left.
                begun = (built.causal, "")
            if begun is not None and rollout.generation_seen:
                self._begun.pop(rollout.key, None)
                steps = begin_step(steps, begun[0], begun[1], rollout, now)
            if rollout.key not in self._begun:
                steps = observe_step(steps, rollout, now)
            self._steps[rollout.key] = steps

    def _change(self, record: UnitRecord, state: State, message: str) -> None:
        self.looked = True
        since = self.record.since if state is self.record.state else self._clock.now()
        self._offer(replace(record, state=state, message=message, since=since))

    def _offer(self, record: UnitRecord) -> None:
        record = self._promoted(record)
        if record == self.record:
            return
        self.record = record
        for sink in self._sinks.calls():
            self._hand_on(sink, record)

    def _promoted(self, record: UnitRecord) -> UnitRecord:
        """Return the record with the state of the promotion; if that crashes, with a warning."""
        try:
            with self._containment.of(f"Unit {record.unit}: its promotion"):
                return replace(record, promotion=self._promotion(record))
        except Crashed as error:
            warning = replace(error.findings[0], severity=Severity.WARNING)
            findings = tuple(dict.fromkeys((*record.findings, warning)))
            return replace(record, promotion=self.record.promotion, findings=findings)

    def _hand_on(self, sink: Sink, record: UnitRecord) -> None:
        """Pass a record to a sink; a failing one concerns neither the unit nor other sinks."""
        with suppress(Crashed), self._containment.of(f"Unit {record.unit}: a listener"):
            sink(record)


def _chart(built: BuiltCommit) -> ChartRecord | None:
    chart = built.chart
    if chart is None:
        return None
    return ChartRecord(
        repository=chart.repository, name=chart.name, version=chart.version, digest=chart.digest
    )


def removal_of(unit: Unit) -> Removal:
    """Return the deletion settings of the unit, which are needed after it was removed."""
    prune = unit.spec.prune
    return Removal(
        policy=prune.policy_at_end,
        propagation=prune.propagation,
        timeout=duration(prune.timeout),
        limit=prune.max_delete,
        account=account_of(unit),
    )
