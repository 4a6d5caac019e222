"""A unit's own health checks: expressions, ignored objects, holds, hooks and the timeout."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias

from gitkruise.errors import Finding
from gitkruise.gitops.build.object_checks import own_health
from gitkruise.gitops.build.ordering_checks import no_hold
from gitkruise.gitops.build.untrusted import CheckResult, Workers
from gitkruise.gitops.config.dependency_checks import WORDS, bad_expression
from gitkruise.gitops.status.observer import Observation, observed_since
from gitkruise.model.gitops.config import HealthExpr, Unit, duration
from gitkruise.model.gitops.document import Desired, DesiredSet
from gitkruise.model.gitops.sync_round import Live
from gitkruise.model.gitops.unit_state import READY, SETTLED, State
from gitkruise.planner.sync.annotations import (
    HOLD,
    LEFT_ALONE,
    annotation,
    health_ignored,
    health_words,
    hold_of,
    opted_out,
    untouched,
)
from gitkruise.planner.sync.hook_runs import HookRun, plan_mark, run_of
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.times import format_time

_STATES: Final[Mapping[str, State]] = {
    "inProgress": State.ROLLING,
    "failed": State.STUCK,
    "held": State.HELD,
    "current": State.DONE,
}
_ON_ITS_WAY: Final = frozenset({State.ROLLING, State.WAITING})
Judgement = tuple[State, str]
_Result = tuple[Judgement, Finding | None]
_Texts: TypeAlias = tuple[str, ...]


class HealthChecks:
    """The unit's `health` block, evaluated on each observation."""

    def __init__(self, unit: Unit, label: str, workers: Workers) -> None:
        self._unit, self._label, spec = unit, label, unit.spec.health
        self._workers = workers
        self._mark = ""  # of what git asks for now, where it has hooks
        self._rules = tuple(enumerate(spec.exprs))
        self._limit, self._limit_text = duration(spec.timeout), spec.timeout
        self._fail_fast = spec.fail_fast
        self._judged: dict[ObjectKey, tuple[Obj, _Texts, CheckResult]] = {}
        self.held: frozenset[ObjectKey] = frozenset()  # left alone for a time
        self._hold_ends: datetime | None = None  # the first of them
        self._asked: DesiredSet | None = None
        self._unready_since: datetime | None = None
        self._looked: datetime | None = None

    async def ask(self, seen: Observation, desired: DesiredSet) -> None:
        """Evaluate the expressions that were not evaluated on these objects yet."""
        asked: list[tuple[ObjectKey, _Texts, Obj]] = []
        for d in desired.objects:
            found, texts = seen.live.get(d.key), self._texts(d)
            if found is not None and texts and not self._is_known(d.key, texts, found.obj):
                asked.append((d.key, texts, found.obj))
        if asked:
            verdicts = await self._workers.judge([(texts, obj) for _, texts, obj in asked])
            for (key, texts, obj), verdict in zip(asked, verdicts, strict=True):
                self._judged[key] = obj, texts, verdict

    def _is_known(self, key: ObjectKey, texts: _Texts, obj: Obj) -> bool:
        """Return whether the result is known; one that exceeded its limits is not evaluated
        again."""
        known = self._judged.get(key)
        return known is not None and known[1] == texts and (known[0] is obj or known[2].costly)

    def _texts(self, d: Desired) -> _Texts:
        """Return the expressions for an object, in their order."""
        if d.hook or health_ignored(d.obj):
            return ()
        words = health_words(d.obj)
        if words:
            return (words,)
        found = self._rule(d)
        return tuple(getattr(found[1], name) for name in WORDS) if found is not None else ()

    def weigh(
        self,
        seen: Observation,
        desired: DesiredSet,
        now: datetime,
        present: Collection[ObjectKey] = (),
    ) -> tuple[Observation, tuple[Finding, ...]]:
        """Return (the observation with the unit's own health, findings for its expressions).

        `present` are create-only objects that exist already and are left as they are.
        `health.timeout` runs from the first moment with an unready object until all are ready or
        paused, and starts again when the content of git changes.
        """
        live, states = dict(seen.live), dict(seen.states)
        findings: list[Finding] = []
        if desired is not self._asked and any(d.hook for d in desired.objects):
            self._mark = plan_mark(desired)
        mark, label = self._mark, self._label
        for d in desired.objects:
            found = live.get(d.key)
            if found is None and (untouched(d.obj) or d.key in present):
                states[d.key] = State.DONE, ""
            if d.hook:
                states[d.key] = hook_judgement(found, mark, label)
                if found is not None:
                    live[d.key] = _with(found, *states[d.key])
                continue
            checked = self._own_words(d, found.obj) if found is not None else None
            if found is not None and checked is not None:
                (states[d.key], finding) = checked
                live[d.key] = _with(found, *states[d.key])
                findings += [finding] if finding is not None else []
        _mark_opted_out(desired, live, states, present)
        findings += self._holds(desired, live, states, now)
        late = self._late(desired, states, now)
        for d in desired.objects:
            state, why = states[d.key]
            found = live.get(d.key)
            if found is not None and (new := self._in_time(state, late=late)) is not state:
                why = f"not ready within {self._limit_text}: {why}" if late else why
                states[d.key], live[d.key] = (new, why), _with(found, new, why)
        return replace(seen, live=live, states=states), tuple(findings)

    def wake_at(self, now: datetime) -> datetime | None:
        """Return when the unit's timeout or the first hold ends."""
        due = self._unready_since + self._limit if self._unready_since is not None else None
        return min((t for t in (due, self._hold_ends) if t is not None and t > now), default=None)

    def _holds(
        self,
        desired: DesiredSet,
        live: Mapping[ObjectKey, Live],
        states: dict[ObjectKey, Judgement],
        now: datetime,
    ) -> list[Finding]:
        """Collect the holds of git and of the cluster; return findings for invalid ones."""
        asked = [(d.key, d.obj) for d in desired.objects if annotation(d.obj, HOLD)]
        asked += [(key, found.obj) for key, found in live.items() if annotation(found.obj, HOLD)]
        holds: dict[ObjectKey, tuple[datetime, str]] = {}
        findings: list[Finding] = []
        for key, obj in asked:
            try:
                hold = hold_of(obj)
            except ValueError:
                findings.append(no_hold(str(key), annotation(obj, HOLD)))
                continue
            if hold is not None and hold[0] > now:
                holds[key] = max(hold, holds.get(key, hold))
        for key in holds.keys() & states.keys():
            until, why = holds[key]
            now_there = states[key] if key in live else (State.DONE, "")
            until_text = f" until {format_time(until)}" + (f" ({why})" if why else "")
            states[key] = _aside(now_there, until_text)
        self.held = frozenset(holds)
        self._hold_ends = min((until for until, _ in holds.values()), default=None)
        return findings

    def _late(
        self, desired: DesiredSet, states: Mapping[ObjectKey, Judgement], now: datetime
    ) -> bool:
        """Return whether the unit has been unready for longer than its timeout."""
        if all(states[d.key][0] in SETTLED for d in desired.objects):
            self._unready_since = None
        elif self._asked is not desired or self._unready_since is None:
            self._unready_since = now
        elif self._looked is not None:
            self._unready_since = observed_since(self._unready_since, self._looked, now)
        self._asked, self._looked = desired, now
        since = self._unready_since
        return since is not None and now - since >= self._limit

    def _in_time(self, state: State, *, late: bool) -> State:
        if state in _ON_ITS_WAY and late:
            return State.STUCK
        if state is State.STUCK and not late and not self._fail_fast:
            return State.ROLLING
        return state

    def _own_words(self, d: Desired, obj: Obj) -> _Result | None:
        """Return the state by the unit's own health rules; None if it has no rule for the
        object."""
        if health_ignored(d.obj):
            return (State.DONE, ""), None
        known, texts = self._judged.get(d.key), self._texts(d)
        if not texts:
            return None
        if known is None or known[1] != texts:
            return (State.ROLLING, "not judged yet"), None
        found = None if health_words(d.obj) else self._rule(d)
        if found is None:
            return _by_itself(d, texts[0], known[2])
        return self._by_rule(*found, known[2])

    def _rule(self, d: Desired) -> tuple[int, HealthExpr] | None:
        return next(((i, rule) for i, rule in self._rules if _concerns(rule, d)), None)

    def _by_rule(self, index: int, rule: HealthExpr, verdict: CheckResult) -> _Result:
        if verdict.number < 0:
            return (State.ROLLING, f"not yet true: {rule.current}"), None
        attribute, word = [*WORDS.items()][verdict.number]
        if verdict.why:
            finding = bad_expression(self._unit, ("health", "exprs", index, word), verdict.why)
            return (State.REJECTED, f"{finding.code}: {finding.message}"), finding
        state = _STATES[word]
        text = getattr(rule, attribute)
        return (state, "" if state is State.DONE else f"{word}: {text}"), None


def _by_itself(d: Desired, words: str, verdict: CheckResult) -> _Result:
    """Return the state by the object's own annotation."""
    if verdict.why:
        finding = own_health(d.document, verdict.why)
        return (State.REJECTED, f"{finding.code}: {finding.message}"), finding
    if verdict.number == 0:
        return (State.DONE, ""), None
    return (State.ROLLING, f"not yet true: {words}"), None


def hook_judgement(found: Live | None, mark: str, label: str) -> Judgement:
    """Return the state of a hook; one that was never due, or ran for another plan, counts as
    done."""
    run = run_of(found, mark, label)
    if run is HookRun.FAILED:
        return State.STUCK, "the hook failed"
    if run is HookRun.RUNNING and found is not None and found.failed:
        return State.STUCK, found.why
    if run in {HookRun.RUNNING, HookRun.LEAVING}:
        return (
            State.ROLLING,
            "the hook runs" if run is HookRun.RUNNING else "the hook is cleared away",
        )
    return State.DONE, ""


def _mark_opted_out(
    desired: DesiredSet,
    live: Mapping[ObjectKey, Live],
    states: dict[ObjectKey, Judgement],
    present: Collection[ObjectKey],
) -> None:
    """Name the annotation by which an object opted out of changes."""
    for d in desired.objects:
        there = live[d.key].obj if d.key in live else d.obj if d.key in present else None
        if why := untouched(d.obj) if d.hook else opted_out(d.obj, there):
            states[d.key] = _aside(states[d.key], f": {why}")


def _aside(judgement: Judgement, until_text: str) -> Judgement:
    """Return the state of an object that a sync leaves as it is."""
    state, words = judgement
    return state, f"{words}; {LEFT_ALONE}{until_text}" if words else f"{LEFT_ALONE}{until_text}"


def _concerns(rule: HealthExpr, d: Desired) -> bool:
    group = rule.api_version.rpartition("/")[0]
    return rule.kind == d.key.kind and (not rule.api_version or group == d.key.group)


def _with(live: Live, state: State, why: str) -> Live:
    return replace(live, ready=state in READY, failed=state is State.STUCK, why=why)
