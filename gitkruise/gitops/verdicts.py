"""How live objects do in the unit's own words: expressions, what is ignored, and for how long."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from gitkruise.errors import Finding
from gitkruise.gitops.expressions import own_health
from gitkruise.gitops.observe import READY, Observation
from gitkruise.gitops.order import no_hold
from gitkruise.gitops.waits import WORDS, bad_expression
from gitkruise.kube.expressions import BadExpression, holds
from gitkruise.model.change import Desired, DesiredSet, Live
from gitkruise.model.config import HealthExpr, Unit, duration
from gitkruise.model.states import State
from gitkruise.planner.sync.hooks import Run, plan_mark, run_of
from gitkruise.planner.sync.marks import (
    HOLD,
    annotation,
    health_ignored,
    health_words,
    hold_of,
    untouched,
)
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.times import format_time

_STATES: Final[Mapping[str, State]] = {
    "inProgress": State.ROLLING,
    "failed": State.STUCK,
    "held": State.HELD,
    "current": State.DONE,
}
_ON_ITS_WAY: Final = frozenset({State.ROLLING, State.WAITING})
Judgement = tuple[State, str]
Told = tuple[Judgement, Finding | None]
_NAMES: Final[Mapping[str, Obj]] = {"metadata": {}, "spec": {}, "status": {}, "data": {}}


class Verdicts:
    """The unit's `health` block, held against what is observed, round by round."""

    def __init__(self, unit: Unit, label: str) -> None:
        self._unit, self._label, spec = unit, label, unit.spec.health
        self._mark = ""  # of what git asks for now, where it has hooks
        self._rules = tuple(enumerate(spec.exprs))
        self._limit, self._limit_text = duration(spec.timeout), spec.timeout
        self._fail_fast = spec.fail_fast
        self._judged: dict[ObjectKey, tuple[Obj, Judgement, Finding | None]] = {}
        self.held: frozenset[ObjectKey] = frozenset()  # left alone for a time
        self._hold_ends: datetime | None = None  # the first of them
        self._asked: DesiredSet | None = None
        self._unready_since: datetime | None = None

    def weigh(
        self,
        seen: Observation,
        desired: DesiredSet,
        now: datetime,
        present: Collection[ObjectKey] = (),
    ) -> tuple[Observation, tuple[Finding, ...]]:
        """(the observation as the unit wants it judged, what is wrong with its expressions).

        `present` are objects that somebody else made, and that are to be left as they are.

        The clock of `health.timeout` runs from when something is first not ready until all is,
        and starts anew with other contents of git.
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
            told = self._own_words(d, found.obj) if found is not None else None
            if found is not None and told is not None:
                (states[d.key], finding) = told
                live[d.key] = _with(found, *states[d.key])
                findings += [finding] if finding is not None else []
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
        """When the unit's time to become ready is over."""
        due = self._unready_since + self._limit if self._unready_since is not None else None
        return min((t for t in (due, self._hold_ends) if t is not None and t > now), default=None)

    def _holds(
        self,
        desired: DesiredSet,
        live: Mapping[ObjectKey, Live],
        states: dict[ObjectKey, Judgement],
        now: datetime,
    ) -> list[Finding]:
        """Who asked in git or in the cluster that an object be left alone, and until when."""
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
            state, words = states[key] if key in live else (State.DONE, "")
            told = f"left alone until {format_time(until)}" + (f" ({why})" if why else "")
            states[key] = state, f"{words}; {told}" if words else told
        self.held = frozenset(holds)
        self._hold_ends = min((until for until, _ in holds.values()), default=None)
        return findings

    def _late(
        self, desired: DesiredSet, states: Mapping[ObjectKey, Judgement], now: datetime
    ) -> bool:
        """Whether the unit has not been ready for longer than it may."""
        if all(states[d.key][0] in READY for d in desired.objects):
            self._unready_since = None
        elif self._asked is not desired or self._unready_since is None:
            self._unready_since = now
        self._asked = desired
        since = self._unready_since
        return since is not None and now - since >= self._limit

    def _in_time(self, state: State, *, late: bool) -> State:
        if state in _ON_ITS_WAY and late:
            return State.STUCK
        if state is State.STUCK and not late and not self._fail_fast:
            return State.ROLLING
        return state

    def _own_words(self, d: Desired, obj: Obj) -> Told | None:
        """What the unit itself says of an object; None when it leaves that to us."""
        if health_ignored(d.obj):
            return (State.DONE, ""), None
        known = self._judged.get(d.key)
        if known is not None and known[0] is obj:
            return known[1:]
        told = _by_itself(d, obj) or self._by_rules(d, obj)
        if told is not None:
            self._judged[d.key] = (obj, *told)
        return told

    def _by_rules(self, d: Desired, obj: Obj) -> Told | None:
        found = next(((i, rule) for i, rule in self._rules if _concerns(rule, d)), None)
        return self._by_rule(*found, obj) if found is not None else None

    def _by_rule(self, index: int, rule: HealthExpr, obj: Obj) -> Told:
        variables = {**_NAMES, **obj}
        for attribute, word in WORDS.items():
            text = getattr(rule, attribute)
            try:
                if text and holds(text, variables):
                    state = _STATES[word]
                    return (state, "" if state is State.DONE else f"{word}: {text}"), None
            except BadExpression as error:
                path = ("health", "exprs", index, word)
                finding = bad_expression(self._unit, path, str(error))
                return (State.REJECTED, f"{finding.code}: {finding.message}"), finding
        return (State.ROLLING, f"not yet true: {rule.current}"), None


def _by_itself(d: Desired, obj: Obj) -> Told | None:
    """What the object's own annotation says; None when it says nothing."""
    words = health_words(d.obj)
    if not words:
        return None
    try:
        if holds(words, {**_NAMES, **obj}):
            return (State.DONE, ""), None
    except BadExpression as error:
        finding = own_health(d.document, str(error))
        return (State.REJECTED, f"{finding.code}: {finding.message}"), finding
    return (State.ROLLING, f"not yet true: {words}"), None


def hook_judgement(found: Live | None, mark: str, label: str) -> Judgement:
    """How a hook does; one that had no occasion to run, or ran for another plan, is no worry."""
    run = run_of(found, mark, label)
    if run is Run.FAILED:
        return State.STUCK, "the hook failed"
    if run in {Run.RUNNING, Run.LEAVING}:
        return State.ROLLING, "the hook runs" if run is Run.RUNNING else "the hook is cleared away"
    return State.DONE, ""


def _concerns(rule: HealthExpr, d: Desired) -> bool:
    group = rule.api_version.rpartition("/")[0]
    return rule.kind == d.key.kind and (not rule.api_version or group == d.key.group)


def _with(live: Live, state: State, why: str) -> Live:
    return replace(live, ready=state in READY, failed=state is State.STUCK, why=why)
