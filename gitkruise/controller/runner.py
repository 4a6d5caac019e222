"""Runs controllers: informers fill the store, changes wake keys, each key gets its rounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from gitkruise.controller.breaker import Breaker, event_of, pausing, resuming
from gitkruise.controller.executor import Executor
from gitkruise.controller.workqueue import WorkQueue
from gitkruise.errors import GitkruiseError, Retry, Unavailable
from gitkruise.kube.cache.store import CachedObject, InformerCache, StoreChange
from gitkruise.kube.client.events import Recorder, Subject
from gitkruise.kube.client.limits import is_logged, pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.kube.system.crash_reports import place
from gitkruise.model.planning.plan import Event, Outcome, Plan, Refused, Skipped, Stale
from gitkruise.model.planning.workload import Shows, Workload, never
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import ObjectKey

K = TypeVar("K", bound=Hashable)
CAP_S: Final = 300.0
# By what the error says about trying again: seconds before the first retry.
FIRST_S: Final = {Retry.REPLAN: 0.01, Retry.RELIST: 0.1, Retry.BACKOFF: 0.2, Retry.NEVER: 5.0}
_CAPS_S: Final = {Retry.NEVER: 30.0}  # users wait for what they have just mended
S = TypeVar("S")
WORKERS: Final = 8
# Changes of owned objects are planned together: a node agent that reports one pod after the other
# is waited for, as OpenKruise waits for it while it writes what the first report asks for. In a
# rollout reports never end, so the first pods would wait for the whole of a longer time.
GATHER, GATHER_MAX = timedelta(milliseconds=20), timedelta(milliseconds=50)
STATUS_EVERY: Final = timedelta(seconds=1)  # for news that may be late
SOONEST: Final = timedelta(milliseconds=10)
LISTING_S: Final = 0.1
LONGEST_SLEEP_S: Final = 30.0  # so that a stepped wall clock is noticed
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Dependencies that all runners of a process share."""

    store: InformerCache
    executor: Executor
    recorder: Recorder
    clock: Clock
    gates: Gates
    drives: Callable[[ObjectKey], bool] = lambda _: True  # whether this process drives an object


class Runner(Generic[S]):
    """Drives one workload: observe, decide, act; rounds of one key never overlap.

    No round starts before every kind it reads has been listed, nor while a write of ours is
    unaccounted for (the executor reads what is in doubt first). A round that raises something
    other than a GitkruiseError is a bug in it: the key is parked for five minutes with an event,
    the others go on. A key whose writes are undone again and again is paused (`breaker`).
    """

    def __init__(self, workload: Workload[S], tools: Tools, *, workers: int = WORKERS) -> None:
        self.workload, self.store = workload, tools.store
        self.rounds = 0
        self.component = workload.component
        self._executor, self._clock, self._gates = tools.executor, tools.clock, tools.gates
        self._recorder, self._workers, self._drives = tools.recorder, workers, tools.drives
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._backoff: FailureBackoff[ObjectKey] = FailureBackoff(seed=tools.clock.seed())
        self._breaker: Breaker[ObjectKey] = Breaker()
        self._parked: dict[ObjectKey, datetime] = {}
        self._reported: dict[ObjectKey, datetime] = {}  # when the status was last written
        self._news, self._stopping = asyncio.Event(), False
        self._latest = tools.clock.now()  # that the clock showed
        self._kinds = frozenset({workload.kind, *workload.owns, *workload.watches})
        self._finds = {**workload.watches, **workload.also_watches}
        self._unsubscribe = self.store.subscribe(
            self._changed, self._kinds | workload.also_watches.keys()
        )
        for seen in self.store.all_seen(workload.kind):
            if workload.concerns(self.store, seen.key):
                self._wake(seen.key, tools.clock.now())

    @property
    def idle(self) -> bool:
        """Everything it reads is listed, no round runs, and none is due now."""
        at = self._queue.next_at()
        if not self.store.synced(self._kinds):
            return False
        return not self._queue.running and (at is None or at > self._clock.now())

    def stop(self) -> None:
        """Start no more rounds; `run` returns when those that run are over."""
        self._stopping = True
        self._news.set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as rounds:
                while not self._stopping:
                    key = self._next()
                    if key is None:
                        await self._wait()
                    else:
                        rounds.create_task(self._round(key))
        finally:
            self._unsubscribe()

    # Waking ---------------------------------------------------------------------------------

    def _changed(self, change: StoreChange) -> None:
        now = self._clock.now()
        kind, concerns = self.workload.kind, self.workload.concerns
        if change.key.group_kind == kind and concerns(self.store, change.key):
            self._wake(change.key, now)
        for owner in _owners(change):
            key = self.store.key_of_uid(owner)
            if key is not None and key.group_kind == kind and concerns(self.store, key):
                self._gather(key, change, now)
        for key in self._named(change):
            self._gather(key, change, now)
        find = self._finds.get(change.key.group_kind)
        for key in find(self.store, change.key) if find else ():
            self._gather(key, change, now)

    def _named(self, change: StoreChange) -> set[ObjectKey]:
        """Those that the pod names in its annotations, or did before the change."""
        sides = (seen.facts for seen in (change.before, change.after) if seen)
        named_by = self.workload.named_by
        return {key for facts in sides if facts for key in named_by(facts.annotations)}

    def _wake(self, key: ObjectKey, at: datetime) -> None:
        if self._drives(key):
            self._queue.add(key, max(at, self._parked.get(key, at)))
            self._news.set()

    def _gather(self, key: ObjectKey, change: StoreChange, now: datetime) -> None:
        """Plan for a change of what `key` owns; immediately when another actor ends an object."""
        if key in self._parked or (_ends(change) and not self._queue.runs(key)):
            self._wake(key, now)
            return
        if self._drives(key):
            self._queue.gather(key, now, quiet=GATHER, longest=GATHER_MAX)
            self._news.set()

    def _next(self) -> ObjectKey | None:
        if self._queue.running >= self._workers or not self.store.synced(self._kinds):
            return None
        now = self._clock.now()
        if now < self._latest:  # rounds ask for the times of this clock
            self._parked.clear()
            self._queue.hasten(now)
        self._latest = now
        return self._queue.pop(now)

    async def _wait(self) -> None:
        """Until something is due, changes, or ends."""
        self._news.clear()
        at = self._queue.next_at()
        pause = LONGEST_SLEEP_S
        if not self.store.synced(self._kinds):
            pause = LISTING_S  # what is due waits for the lists, and no event reports their end
        elif at is not None and self._queue.running < self._workers:
            pause = min((at - self._clock.now()).total_seconds(), pause)
        await wait_for(self._news, self._clock, timedelta(seconds=pause))

    # One round ------------------------------------------------------------------------------

    async def _round(self, key: ObjectKey) -> None:
        self.rounds += 1
        try:
            at = await self._reconcile(key)
        except GitkruiseError as error:
            log.info(log_line("round-failed", object=key, error=error))
            at = self._backoff.next(key, self._clock.now(), error.retry)
        except Exception as error:  # a bug in this key's round must not stop the others
            log.exception(log_line("round-crashed", object=key, parked_s=CAP_S))
            at = self._park(key, error)
        else:
            self._parked.pop(key, None)
        self._queue.done(key)
        if at is not None:
            self._queue.add(key, at)
        self._news.set()

    async def _reconcile(self, key: ObjectKey) -> datetime | None:
        """Run one round. Return when to look again, or None to wait for a change."""
        await self._executor.settle(key)
        if not self.store.fresh(key):
            raise Unavailable(f"what was read of {key} is older than what was written")
        now, seen = self._clock.now(), self.store.seen(key)
        snapshot = self.workload.observe(self.store, key, now)
        if seen is None or snapshot is None:
            self._forget(key)
            return None
        plan = self.workload.decide(snapshot, self._gates)
        subject, generation = self._subject(seen), (seen.uid, seen.generation)
        trip = self._breaker.paused(key, generation, now)
        shows = self.workload.stalls
        owner = seen.read() if shows is not Shows.NOWHERE else {}
        if trip is not None:
            paused = pausing(plan, trip, shows, owner, now)
            await self._executor.run(paused, subject, self.component)
            return trip.pause.until
        plan = resuming(plan, shows, owner, now)
        later = self.workload.later if self._status_due(key, now) > now else never
        outcomes = await self._executor.run(plan, subject, self.component, later=later)
        if trip := self._breaker.note(
            key, generation, outcomes, self._clock.now(), lives=self._lives
        ):
            self._recorder.record(subject, event_of(trip), self.component)
            log.warning(log_line("round-failed", object=key, error=trip.text))
        return self._next_round(key, plan, outcomes)

    def _status_due(self, key: ObjectKey, now: datetime) -> datetime:
        """Return when a status may be written whose news may be late."""
        last = self._reported.get(key)
        return now if last is None or now < last else last + STATUS_EVERY

    def _lives(self, uid: str) -> bool:
        return self.store.key_of_uid(uid) is not None

    def _next_round(
        self, key: ObjectKey, plan: Plan, outcomes: Sequence[Outcome]
    ) -> datetime | None:
        now = self._clock.now()
        errors = [o.error for o in outcomes if isinstance(o, Refused)]
        if plan.problem is not None:
            errors.append(plan.problem)
        times = [] if plan.wake_at is None else [max(plan.wake_at, now + SOONEST)]
        for status in outcomes[len(plan.actions) :]:
            if isinstance(status, Skipped):
                times.append(self._status_due(key, now))
            else:
                self._reported[key] = now
        if errors:
            lasting = [e for e in errors if e.retry is Retry.NEVER]  # such as a missing right
            level = logging.WARNING if lasting else logging.INFO
            if self._backoff.is_rare(key):
                log.log(level, log_line("round-failed", object=key, error=(lasting or errors)[0]))
            urgent = min((e.retry for e in errors), key=list(Retry).index, default=Retry.BACKOFF)
            times.append(self._backoff.next(key, now, urgent))
        elif any(isinstance(outcome, Stale) for outcome in outcomes):
            times.append(self._backoff.next(key, now, Retry.REPLAN))
        else:
            self._backoff.forget(key)
            times += [now] * bool(plan.actions)  # what we did ourselves is not waited for
        return min(times, default=None)

    def _park(self, key: ObjectKey, error: Exception) -> datetime:
        until = self._clock.now() + timedelta(seconds=CAP_S)
        self._parked[key] = until
        seen = self.store.seen(key)
        if seen is not None:
            text = f"a round of this controller crashed: {type(error).__name__}{place(error)}"
            event = Event("Warning", "InternalError", text)
            self._recorder.record(self._subject(seen), event, self.component)
        return until

    def _forget(self, key: ObjectKey) -> None:
        self._queue.drop(key)
        self._backoff.forget(key)
        self._breaker.forget(key)
        self._parked.pop(key, None)
        self._reported.pop(key, None)
        self.store.forget_pending(key)

    def _subject(self, seen: CachedObject) -> Subject:
        return Subject(
            key=seen.key,
            version=self.workload.version,
            uid=seen.uid,
            resource_version=str(seen.version),
        )


def _ends(change: StoreChange) -> bool:
    """Return whether an object just began to end: its owner plans while it is still there."""
    before, after = change.before, change.after
    return bool(before and after and after.deleting and not before.deleting)


def _owners(change: StoreChange) -> frozenset[str]:
    """Uids that own the object now or did before the change."""
    before = change.before.owners if change.before else ()
    after = change.after.owners if change.after else ()
    return frozenset((*before, *after))


class FailureBackoff(Generic[K]):
    """Failures in a row by key; `next` counts one more, `forget` ends the row.

    Even permanent errors (Retry.NEVER: a refused pod, a full quota) are tried again, slowly: no
    event reports that a quota has room or that a right was granted, and both are tried again within
    half a minute. Pauses double, with jitter derived from seed, key and count.
    """

    def __init__(self, *, seed: int) -> None:
        self._seed = seed
        self._failures: dict[K, int] = {}

    def next(self, key: K, now: datetime, retry: Retry) -> datetime:
        """Return when to try `key` again after one more failure of this sort."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        seed = f"{self._seed}/{key}"
        pause = pause_s(count, first_s=FIRST_S[retry], cap_s=_CAPS_S.get(retry, CAP_S), seed=seed)
        return now + timedelta(seconds=pause)

    def is_rare(self, key: K) -> bool:
        """Return whether the next failure in a row is one to log."""
        return is_logged(self._failures.get(key, 0) + 1)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)
