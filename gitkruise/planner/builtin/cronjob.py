"""CronJob: a Job for each scheduled time, and no more finished Jobs than asked for.

Source: cronjob controller (v2) of Kubernetes 1.34. One difference: a changed schedule is read
immediately, where upstream waits for its next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.plan import Action, Applied, Create, Delete, Event, Outcome, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.builtin.job import FINISHED
from gitkruise.planner.builtin.job import KIND as JOB
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_reference
from gitkruise.wire.primitives.times import format_time, parse_time
from gitkruise.wire.values.cron_schedule import Schedule, load_zone, parse_schedule

KIND: Final = GroupKind("batch", "CronJob")
SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LATER: Final = timedelta(milliseconds=100)  # a start comes this long after its time
_MANY: Final = 100  # missed times
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFacts:
    """One CronJob and the Jobs that it controls, in name order."""

    raw: Obj
    jobs: tuple[Obj, ...]
    foreign: frozenset[str]  # names of other Jobs of the namespace
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missed:
    """The last scheduled time up to now (None: none is due), and the base of the next one."""

    due: datetime | None
    base: datetime
    many: bool = False


def observe_cron_job(view: ClusterView, key: ObjectKey, now: datetime) -> CronFacts | None:
    """None when the CronJob is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    uid = raw["metadata"]["uid"]
    owned = tuple(job for job in view.owned(uid, JOB, key.namespace) if _controls(uid, job))
    names = {job["metadata"]["name"] for job in owned}
    others = (job["metadata"]["name"] for job in view.objects(JOB, key.namespace))
    return CronFacts(raw=raw, jobs=owned, foreign=frozenset(others) - names, now=now)


def _controls(uid: str, job: Obj) -> bool:
    refs = job["metadata"].get("ownerReferences") or ()
    return any(ref.get("controller") and ref["uid"] == uid for ref in refs)


def plan_cron_job(s: CronFacts, gates: Gates) -> Plan:
    """Remove old Jobs, note those that ended, and start the one that is due."""
    del gates
    round_ = _CronRound(s)
    round_.clean()
    round_.note()
    round_.start()
    return Plan(
        actions=tuple(round_.actions),
        events=tuple(round_.events),
        wake_at=round_.wake_at,
        conclude=round_.status,
    )


class _CronRound:
    """Decisions of one round over a copy of the status."""

    def __init__(self, s: CronFacts) -> None:
        self.s, self.spec, self.meta = s, s.raw["spec"], s.raw["metadata"]
        old = s.raw.get("status") or {}
        self.active: list[Obj] = list(old.get("active") or ())
        self.succeeded: datetime | None = parse_time(old.get("lastSuccessfulTime"))
        self.scheduled: datetime | None = parse_time(old.get("lastScheduleTime"))
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self.wake_at: datetime | None = None
        self._started: tuple[Create, datetime] | None = None

    # Jobs that ended

    def clean(self) -> None:
        """Delete the oldest finished Jobs beyond the limits."""
        for type_, field in (
            ("Complete", "successfulJobsHistoryLimit"),
            ("Failed", "failedJobsHistoryLimit"),
        ):
            limit = self.spec.get(field)
            if limit is not None:
                ended = sorted((j for j in self.s.jobs if _ended(j) == type_), key=_started_at)
                for job in ended[: max(len(ended) - limit, 0)]:
                    self._delete(job)

    def note(self) -> None:
        """Take ended and missing Jobs out of the active ones."""
        active = {ref.get("uid") for ref in self.active}
        for job in self.s.jobs:
            uid, name, ended = job["metadata"]["uid"], job["metadata"]["name"], _ended(job)
            if not ended and uid not in active and not self._is_ours(job):
                message = f"Saw a job that the controller did not create or forgot: {name}"
                self._say("UnexpectedJob", message, warning=True)
            elif ended and uid in active:
                self._forget(uid)
                self._say("SawCompletedJob", f"Saw completed job: {name}, condition: {ended}")
            if ended == "Complete":
                done = parse_time((job.get("status") or {}).get("completionTime"))
                self.succeeded = max(filter(None, (self.succeeded, done)), default=None)
        known = {job["metadata"]["uid"] for job in self.s.jobs}
        for ref in [ref for ref in self.active if ref.get("uid") not in known]:
            self._say("MissingJob", f"Active job went missing: {ref.get('name')}")
            self._forget(ref.get("uid"))

    def _is_ours(self, job: Obj) -> bool:
        """Return whether the job starts a time that the status does not know yet."""
        noted = (job["metadata"].get("annotations") or {}).get(SCHEDULED_AT)
        at = parse_time(noted) if noted else None
        return at is not None and (self.scheduled is None or at > self.scheduled)

    # The Job that is due

    def start(self) -> None:
        """Start the Job of the last scheduled time, as far as policies and deadline allow."""
        if self.meta.get("deletionTimestamp"):
            return
        zone = self.spec.get("timeZone")
        try:
            load_zone(zone or "")
        except ValueError as error:
            self._say("UnknownTimeZone", f'invalid timeZone: "{zone}": {error}', warning=True)
            return
        if self.spec.get("suspend"):
            return
        text = self.spec["schedule"]
        try:
            schedule = parse_schedule(text, "" if "TZ" in text else zone or "")
        except ValueError as error:
            message = f'unparseable schedule: "{text}" : {error}'
            self._say("UnparseableSchedule", message, warning=True)
            return
        try:
            missed = self._missed(schedule, deadline=True)
        except ValueError as error:
            self._say("InvalidSchedule", f"invalid schedule: {text} : {error}", warning=True)
            return
        self._start_due(missed)
        self.wake_at = self._next(schedule)

    def _start_due(self, missed: _Missed) -> None:
        due = missed.due
        if due is None:
            return
        if missed.many:
            message = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
                "check clock skew"
            )
            self._say("TooManyMissedTimes", message, warning=True)
        deadline = self.spec.get("startingDeadlineSeconds")
        if deadline is not None and due + timedelta(seconds=deadline) < self.s.now:
            stamp = due.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            self._say(
                "MissSchedule", f"Missed scheduled time to start a job: {stamp}", warning=True
            )
            return
        name = f"{self.meta['name']}-{int(due.timestamp()) // 60}"
        if due == self.scheduled or any(ref.get("name") == name for ref in self.active):
            return
        if self.active and self.spec.get("concurrencyPolicy") == "Forbid":
            message = (
                "Not starting job because prior execution is running and concurrency policy is "
            )
            self._say("JobAlreadyActive", f"{message}Forbid")
            return
        if self.spec.get("concurrencyPolicy") == "Replace":
            running = {ref.get("uid") for ref in self.active}
            for job in (j for j in self.s.jobs if j["metadata"]["uid"] in running):
                self._delete(job)
        self._create(name, due)

    def _create(self, name: str, due: datetime) -> None:
        """Create the Job; one that exists already was created by a round that failed later."""
        mine = next((j for j in self.s.jobs if j["metadata"]["name"] == name), None)
        if mine is not None:
            self.active.append(_reference(mine))
            self.scheduled = due
        elif name not in self.s.foreign:
            made = Create(
                obj=self._job(name, due),
                done=Event("Normal", "SuccessfulCreate", f"Created job {name}"),
                failed=Event("Warning", "FailedCreate", "Error creating job: "),
            )
            self.actions.append(made)
            self._started = made, due

    def _job(self, name: str, due: datetime) -> Obj:
        template = self.spec["jobTemplate"]
        meta = template.get("metadata") or {}
        zone = load_zone(self.spec.get("timeZone") or "")
        stamp = due.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
        made: dict[str, Any] = {
            "name": name,
            "namespace": self.meta["namespace"],
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED_AT: stamp},
            "ownerReferences": [controller_reference(self.s.raw)],
        }
        if meta.get("labels"):
            made["labels"] = dict(meta["labels"])
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": made,
            "spec": template.get("spec") or {},
        }

    # Times

    def _missed(self, schedule: Schedule, *, deadline: bool) -> _Missed:
        """Source: mostRecentScheduleTime. Raises ValueError for a schedule without times."""
        now, created = self.s.now, parse_time(self.meta["creationTimestamp"])
        base = self.scheduled or created or now
        seconds = self.spec.get("startingDeadlineSeconds")
        if deadline and seconds is not None:
            base = max(base, now - timedelta(seconds=seconds))
        first = schedule.next(base)
        second = schedule.next(first) if first else None
        if first is not None and now < first:
            return _Missed(due=None, base=base)
        if first is not None and second is not None and now < second:
            return _Missed(due=first, base=first)
        between = (second - first) // _SECOND if first and second else 0
        if first is None or between < 1:
            raise ValueError("time difference between two schedules is less than 1 second")
        count = (now - first) // _SECOND // between + 1
        at = schedule.next(first + timedelta(seconds=(count - 2) * between))
        due = None
        while at is not None and at <= now:
            due, at = at, schedule.next(at)
        return _Missed(due=due, base=due or now, many=count > _MANY)

    def _next(self, schedule: Schedule) -> datetime | None:
        """The next scheduled time after now, a moment later."""
        try:
            base = self._missed(schedule, deadline=False).base
        except ValueError:
            base = self.s.now
        at = schedule.next(base)
        return None if at is None else at + _LATER

    # Outcomes

    def _delete(self, job: Obj) -> None:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        self._forget(uid)
        if any(isinstance(a, Delete) and a.uid == uid for a in self.actions):
            return
        self.actions.append(
            Delete.of(
                job,
                resource_version="",
                propagation="Background",
                done=Event("Normal", "SuccessfulDelete", f"Deleted job {name}"),
                failed=Event("Warning", "FailedDelete", "Deleted job: "),
            )
        )

    def _forget(self, uid: str | None) -> None:
        self.active = [ref for ref in self.active if ref.get("uid") != uid]

    def _say(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.events.append(Event("Warning" if warning else "Normal", reason, message))

    def status(self, outcomes: Sequence[Outcome]) -> Obj | None:
        """The status with the job that was started; None when it is as it was."""
        active, scheduled = list(self.active), self.scheduled
        for outcome in outcomes:
            if self._started and isinstance(outcome, Applied):
                started, due = self._started
                if outcome.action is started:
                    active.append(_reference(outcome.replies[-1]))
                    scheduled = due
        made: dict[str, Any] = {"active": active} if active else {}
        if scheduled is not None:
            made["lastScheduleTime"] = format_time(scheduled)
        if self.succeeded is not None:
            made["lastSuccessfulTime"] = format_time(self.succeeded)
        return None if made == (self.s.raw.get("status") or {}) else made


def _reference(job: Obj) -> Obj:
    meta = job["metadata"]
    return {
        "kind": "Job",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": "batch/v1",
        "resourceVersion": meta["resourceVersion"],
    }


def _ended(job: Obj) -> str:
    """Complete, Failed, or "" while it runs."""
    listed = (job.get("status") or {}).get("conditions") or ()
    return next((c["type"] for c in listed if c["type"] in FINISHED and c["status"] == "True"), "")


def _started_at(job: Obj) -> tuple[bool, str, str]:
    started = (job.get("status") or {}).get("startTime")
    return not started, started or "", job["metadata"]["name"]


CRONJOB: Final[Workload[CronFacts]] = Workload(
    kind=KIND,
    version="v1",
    owns=(JOB,),
    observe=observe_cron_job,
    decide=plan_cron_job,
)
