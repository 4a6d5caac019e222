"""Canary of a Deployment that Kubernetes' own controller drives: what gitkruise writes for it.

That controller alone sizes ReplicaSets. gitkruise gives it a maxSurge and a maxUnavailable at whose
sizes it comes to rest, because the lock keeps new pods from counting as available; it follows their
real availability itself, step by step, and pauses the Deployment once the canary is complete.
Each state is one in which the other controller rests, so gitkruise may stop anywhere.
Rules CAN-110 to CAN-119 of docs/behaviour/deployment-canary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.amounts import Bounds, bounds
from gitkruise.model.planning.canary import (
    ARMED,
    GATE,
    LOCK,
    PAUSED,
    STABLE,
    Canary,
    CanaryPause,
    git_pauses,
    pause_of,
)
from gitkruise.model.planning.canary_lock import (
    NEVER_S,
    CanaryLock,
    lock_of,
    locked_spec,
    pending_lock,
    released_spec,
    unlocked,
)
from gitkruise.model.planning.plan import Action, Create, Delete, Event, Patch, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.builtin import replicasets as rs
from gitkruise.planner.builtin.canary import (
    CanaryState,
    approval,
    at_rest,
    canary_state,
    gate_of,
    serving,
    settled,
    unscaled,
)
from gitkruise.planner.builtin.deployment import (
    DeploymentSnapshot,
    newest_set,
    observe_deployment,
    revision_number,
)
from gitkruise.planner.builtin.replicasets import SetFacts
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time, parse_time

_LOOK_AGAIN: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringSnapshot:
    """A Deployment with its ReplicaSets, and pods of the new one that serve.

    `available` counts those that have been ready for the user's minReadySeconds, `ready` all.
    """

    deployment: DeploymentSnapshot
    available: int
    ready: int


def observe_steering(view: ClusterView, key: ObjectKey, now: datetime) -> SteeringSnapshot | None:
    found = observe_deployment(view, key, now)
    if found is None:
        return None
    new = newest_set(found.raw, found.sets)
    pods = view.pods_of(new.raw["metadata"]["uid"], key.namespace) if new is not None else ()
    active = [pod for pod in pods if pod.active]
    seconds = int(unlocked(found.raw)["spec"].get("minReadySeconds") or 0)
    return SteeringSnapshot(
        deployment=found,
        available=sum(pod.available(now, min_ready_s=seconds) for pod in active),
        ready=sum(pod.available(now, min_ready_s=0) for pod in active),
    )


def plan_steering(s: SteeringSnapshot, gates: Gates) -> Plan:
    """The next write, at most one; a Deployment without canary and lock gets none."""
    del gates
    meta, spec = s.deployment.raw["metadata"], s.deployment.raw["spec"]
    by_git = spec.get("paused") and git_pauses(meta.get("annotations"))  # CAN-38
    if by_git or meta.get("deletionTimestamp"):
        return Plan()
    turn = _Turn(s)
    actions = turn.actions()
    waits = turn.lock is not None and s.available < s.ready
    wake_at = s.deployment.now + _LOOK_AGAIN if waits and not actions else None
    return Plan(actions=tuple(actions), wake_at=wake_at)


class _Turn:
    """One Deployment at one instant. Its spec is the one the user wants; `raw` is the live one."""

    def __init__(self, s: SteeringSnapshot) -> None:
        self.s, self.raw, self.now = s, s.deployment.raw, s.deployment.now
        self.sets = s.deployment.sets
        self.lock = lock_of(self.raw)
        self.notes: Mapping[str, str] = self.raw["metadata"].get("annotations") or {}
        self.pause = pause_of(self.notes)
        self.wished = unlocked(self.raw)
        self.wanted: int = self.wished["spec"].get("replicas", 1)
        self.paused = bool(self.raw["spec"].get("paused"))
        self.new = newest_set(self.raw, self.sets)
        self.olds = [one for one in self.sets if one is not self.new]
        self.old_pods = sum(one.size.replicas for one in self.olds)
        self.pods = self.new.size.replicas if self.new else 0

    @property
    def rolling(self) -> bool:
        return (self.wished["spec"].get("strategy") or {}).get("type") != "Recreate"

    def limits(self) -> Bounds:
        try:
            found = bounds(self.wished["spec"].get("strategy") or {}, self.wanted)
        except ValueError:  # the other controller moves nothing either
            return Bounds(0, 1)
        return Bounds(found.surge, min(found.unavailable, self.wanted))

    def state(self, *, becomes_new: bool) -> CanaryState:
        return canary_state(
            self.wished, self.new, self.olds, wanted=self.wanted, becomes_new=becomes_new
        )

    def actions(self) -> list[Action]:
        lock, pause = self.lock, self.pause
        if lock is None:
            return self._unlocked() if self.rolling else []
        if not self.rolling:
            return self._release(lock)
        if not lock.begun:
            return self._start(lock)
        if self.paused:
            return self._held(lock, pause) if pause is not None else []
        return self._resumed(lock, pause) if pause is not None else self._stepped(lock)

    # Without a lock -------------------------------------------------------------------------

    def _unlocked(self) -> list[Action]:
        """CAN-116: a gate that appears in a rollout locks it; marks left behind are removed."""
        if LOCK in self.notes or (PAUSED in self.notes and not self.paused):
            return [self._patch({LOCK: None, PAUSED: None})]
        if self.paused:
            return []
        state = self.state(becomes_new=False)
        marks = self._mark(state)
        if self.new is None:
            return []
        if state.limit is None:
            return marks if not state.gate or gate_of(self.new) else []
        return marks or self._begin(state, pending_lock(self.raw))

    # A template that waits to be rolled out -------------------------------------------------

    def _start(self, lock: CanaryLock) -> list[Action]:
        """CAN-113: lock the rollout of a new template, or let it go where no canary gates it."""
        state = self.state(becomes_new=not self._fresh())
        if self._fresh() and state.canary is not None and self.old_pods:
            state = replace(state, gate=ARMED, stable=state.stable or self._most())
        if not state.gate or state.canary is None or self._never_gated(state):
            return self._release(lock)
        if unscaled(self.sets, self.wanted):
            return self._refreshed()
        if state.limit == 0 and self.new is None and self.paused:
            return [self._create(state)] if at_rest(self.raw, self.sets, self.wanted) else []
        if marks := self._mark(state) or self._counted(lock):
            return marks
        if state.limit == 0 and self.paused and self.new is not None and not self.pods:
            surplus = self.old_pods - self.wanted
            left = serving(self.sets) - surplus >= self.wanted - self.limits().unavailable
            pausable = at_rest(self.raw, self.sets, self.wanted) and (surplus <= 0 or left)
            return self._pause(state.canary, state.stable, lock, self.new) if pausable else []
        return self._begin(state, lock)

    def _counted(self, lock: CanaryLock) -> list[Action]:
        """Let pods of old ReplicaSets count as available again, those of abandoned canaries aside.

        A template that came and went under a lock left its minReadySeconds on them, and the other
        controller takes pods first that it holds for unavailable.
        """
        return [
            Patch.of(one.raw, {"spec": {"minReadySeconds": lock.ready_s}})
            for one in self.olds
            if one.size.replicas
            and gate_of(one) != ARMED
            and one.raw["spec"].get("minReadySeconds") == NEVER_S
        ]

    def _fresh(self) -> bool:
        """Return whether the new ReplicaSet was created after the last step of a lock.

        The other controller gives it its first pods before gitkruise sees it.
        """
        since = parse_time(self.lock.since) if self.lock else None
        if self.new is None or since is None or gate_of(self.new):
            return False
        born = rs.created_at(self.new)
        return born is not None and born >= since and self.new.hash != self._stable()

    def _stable(self) -> str:
        return self.lock.stable if self.lock else ""

    def _most(self) -> str:
        approved = [one for one in self.olds if gate_of(one) != ARMED] or self.olds
        return max(approved, key=lambda one: (one.size.replicas, one.revision)).hash

    @staticmethod
    def _never_gated(state: CanaryState) -> bool:
        """A percentage of 100 gates nothing, whatever the size becomes."""
        text = state.canary.text if state.canary else ""
        return text.endswith("%") and int(text[:-1]) >= 100

    # Steps ----------------------------------------------------------------------------------

    def _stepped(self, lock: CanaryLock) -> list[Action]:
        """A rollout under way: record what the other controller created, then the next step."""
        if self.new is None:
            return []  # the other controller creates it
        if lock.canary not in {"", self.new.hash}:
            return self._start(lock)
        if lock.canary == "":
            return self._named(lock, self.new)
        state = self.state(becomes_new=False)
        if state.canary is None or not state.gate or state.gate == state.canary.passed:
            return self._release(lock)
        limit = state.limit
        if limit is not None and self._reached(limit) and not unscaled(self.sets, self.wanted):
            return self._pause(state.canary, state.stable, lock, self.new)
        return self._step(limit, lock)

    def _reached(self, limit: int) -> bool:
        """Return whether the canary has its pods, and real availability allows no more of it."""
        _, unavailable = self._target(limit)
        there = self.old_pods == self.wanted - unavailable and self.pods >= limit
        return there and self.old_pods + self.pods == self.wanted

    def _step(self, limit: int | None, lock: CanaryLock) -> list[Action]:
        """CAN-114: the next sizes, as real availability allows; the pause once they are reached."""
        if unscaled(self.sets, self.wanted):
            return self._refreshed()
        if not settled(self.sets):
            return []
        surge, unavailable = self._target(limit)
        there = self.old_pods == self.wanted - unavailable and self.pods >= surge + unavailable
        if there:
            rest = self._rest(surge, unavailable)
            return [] if self._has(*rest) else [self._locked(lock, *rest)]
        if self._has(surge, unavailable):
            return []
        return [self._locked(self._now(lock), surge, unavailable)]

    def _refreshed(self) -> list[Action]:
        """Annotate the only ReplicaSet with pods, which has as many as it is to have already.

        The other controller leaves its annotations alone, and hangs (kubernetes #102551).
        """
        running = [one for one in self.sets if one.size.replicas]
        if len(running) != 1 or running[0].size.replicas != self.wanted:
            return []
        most = self.wanted + self.limits().surge
        action = rs.scaled(running[0], self.wanted, wanted=self.wanted, most=most)
        return [action] if action is not None else []

    def _named(self, lock: CanaryLock, new: SetFacts) -> list[Action]:
        """Record the ReplicaSet that the other controller created for a lock, and arm it."""
        marks = {GATE: ARMED, STABLE: lock.stable}
        if new.hash == lock.stable:
            return self._release(lock)
        if any(new.notes.get(key) != mark for key, mark in marks.items()):
            return [Patch.of(new.raw, {"metadata": {"annotations": marks}})]
        return [self._patch({LOCK: replace(lock, canary=new.hash).text})]

    def _target(self, limit: int | None) -> tuple[int, int]:
        """(new pods above R, new pods in place of old ones) that the next step allows.

        The first number is 0 at the latest when all of the canary replaces old pods.
        """
        user = self.limits()
        most = max(self.wanted if limit is None else min(limit, self.wanted), self.pods)
        most = min(most, self.wanted)
        unavailable = min(most, user.unavailable + min(self.s.available, self.pods))
        unavailable = min(self.wanted, max(unavailable, self.wanted - self.old_pods))
        return max(0, min(user.surge, most - unavailable)), unavailable

    def _rest(self, surge: int, unavailable: int) -> tuple[int, int]:
        """Numbers at which nothing moves, and least happens if another writes the template."""
        least = max(self.limits().unavailable, 0 if surge else 1)
        return surge, min(unavailable, least)

    def _paused_rest(self) -> tuple[int, int]:
        """Numbers at which a paused rollout rests, and goes no further when it is unpaused than
        the user allows: without pods of the canary, the other controller then moves one."""
        if self.pods:
            return 0, 1  # also right for any number that it is scaled to
        running = sum(one.size.replicas > 0 for one in self.olds)
        return (0, 1) if self.limits().unavailable or running > 1 else (1, 0)

    def _full(self) -> tuple[int, int]:
        """The user's amounts; never both 0, which the API refuses."""
        user = self.limits()
        return user.surge, max(user.unavailable, 0 if user.surge else 1)

    def _begin(self, state: CanaryState, lock: CanaryLock) -> list[Action]:
        """Lock the rollout for its first step; before, pause it while its pods count as available,
        or while the other controller may be writing (CAN-116).

        With those pods it would go further than the step, and the step is chosen for sizes that
        stay. The pause has the user's surge: with less of it, it would take pods away.
        """
        if (self.pods and not self._uncounted()) or not (self.paused or lock.begun):
            waits = replace(lock, begun=False, since="")
            held = self.paused and self._has(*self._full()) and lock_of(self.raw) == waits
            held = held and self.raw["spec"].get("minReadySeconds") == NEVER_S
            spec = {**locked_spec(*self._full()), "paused": True}
            return [] if held else [self._patch({LOCK: waits.text, PAUSED: None}, spec)]
        if unscaled(self.sets, self.wanted):
            return self._refreshed()
        if not (at_rest(self.raw, self.sets, self.wanted) if self.paused else settled(self.sets)):
            return []
        surge, unavailable = self._target(state.limit)
        if not surge and not unavailable:
            unavailable = 1
        begun = replace(
            lock,
            begun=True,
            canary=self.new.hash if self.new is not None else "",
            stable=state.stable,
        )
        return [self._locked(self._now(begun), surge, unavailable, paused=False)]

    def _uncounted(self) -> bool:
        """Return whether no pod of the new ReplicaSet counts as available any more."""
        if self.new is None:
            return True
        locked = self.new.raw["spec"].get("minReadySeconds") == NEVER_S
        return locked and self.new.observed and not self.new.size.available

    def _now(self, lock: CanaryLock) -> CanaryLock:
        return replace(lock, since=format_time(self.now))

    # The pause ------------------------------------------------------------------------------

    def _pause(self, canary: Canary, stable: str, lock: CanaryLock, new: SetFacts) -> list[Action]:
        """CAN-115: `paused` and its mark in one write, with numbers at which nothing moves."""
        pause = CanaryPause(canary=new.hash, value=canary.text, stable=stable)
        lock = replace(lock, begun=True, canary=new.hash, stable=stable)
        message = f"Paused by canary {pause.value}: {self.old_pods} of {self.wanted} pods stay"
        body = {
            "metadata": {"annotations": {LOCK: lock.text, PAUSED: pause.text}},
            "spec": {**locked_spec(*self._paused_rest()), "paused": True},
        }
        done = Event("Normal", "CanaryPaused", f"{message} as they are")
        return [Patch.of(self.raw, body, done=done)]

    def _held(self, lock: CanaryLock, pause: CanaryPause) -> list[Action]:
        """CAN-117: while paused, the canary gets pods again that scaling took from it.

        CAN-118: where all pods became the canary's, nothing is left to hold back.
        """
        state = self.state(becomes_new=False)
        if not self.wanted:
            return self._emptied(lock, pause)
        if self.new is None and lock.canary:
            return []  # another template, which waits
        if self.new is not None and self.new.hash != pause.canary:
            return []
        limit = state.canary.pods(self.wanted) if state.canary is not None else None
        if limit is not None and self.pods > limit and not self.old_pods:
            return self._release(lock)
        same = state.canary is not None and state.canary.text == pause.value
        lost = not self.pods and self.old_pods == self.wanted and self.wanted > 1
        if same and lost and limit:
            state = replace(state, gate=ARMED, stable=pause.stable)
            return self._begin(state, lock)
        rest = self._paused_rest()
        return [] if self._has(*rest) else [self._locked(lock, *rest)]

    def _emptied(self, lock: CanaryLock, pause: CanaryPause) -> list[Action]:
        """Of a Deployment without pods the other controller would grow the canary: take it away.

        It grows the youngest old ReplicaSet then, so those younger than the stable one go, too.
        """
        if any(one.size.replicas or one.size.observed for one in self.sets):
            return []
        if self.new is None or self.new.hash != pause.canary:
            return []
        stable = next((one for one in self.olds if one.hash == pause.stable), None)
        if stable is None:
            return []
        if lock.canary:
            return [self._patch({LOCK: replace(lock, canary="").text})]
        return [
            Delete.of(one.raw) for one in self.sets if one is self.new or one.order > stable.order
        ]

    def _resumed(self, lock: CanaryLock, pause: CanaryPause) -> list[Action]:
        """CAN-115: a pause that was ended approves the canary, unless value or template differ."""
        if self.new is None or self.new.hash != pause.canary:
            return self._start(lock)
        state = self.state(becomes_new=False)
        mark = approval(state, self.new, becomes_new=False)
        if mark:
            return [Patch.of(self.new.raw, {"metadata": {"annotations": {GATE: mark}}})]
        if state.canary is None or not state.gate or state.gate == state.canary.passed:
            return self._release(lock)
        if self._never_gated(state):
            return self._release(lock)
        return self._mark(state) or self._begin(state, lock)

    # Writes ---------------------------------------------------------------------------------

    def _has(self, surge: int, unavailable: int) -> bool:
        rolling = get(self.raw, "spec", "strategy", "rollingUpdate", default={})
        return (rolling.get("maxSurge"), rolling.get("maxUnavailable")) == (surge, unavailable)

    def _locked(
        self, lock: CanaryLock, surge: int, unavailable: int, *, paused: bool | None = None
    ) -> Action:
        notes: dict[str, str | None] = {LOCK: lock.text}
        spec: dict[str, Any] = locked_spec(surge, unavailable)
        if paused is False:
            spec["paused"] = False
            notes[PAUSED] = None
        return self._patch(notes, spec)

    def _release(self, lock: CanaryLock) -> list[Action]:
        """CAN-118: give the rollout back to the other controller, as the user wants it.

        Not before it has scaled all ReplicaSets, and their statuses count no pod that is gone: it
        would take pods for those (CAN-127).
        """
        if unscaled(self.sets, self.wanted):
            return self._refreshed()
        if not settled(self.sets):
            return []
        if counted := self._counted(lock):
            return counted
        spec = {**released_spec(lock), "paused": False}
        if not self.rolling:
            spec.pop("strategy")
        return [self._patch({LOCK: None, PAUSED: None}, spec)]

    def _patch(
        self, notes: Mapping[str, str | None], spec: Mapping[str, Any] | None = None
    ) -> Action:
        body: dict[str, Any] = {"metadata": {"annotations": dict(notes)}}
        return Patch.of(self.raw, {**body, "spec": dict(spec)} if spec else body)

    def _mark(self, state: CanaryState) -> list[Action]:
        if self.new is None:
            return []
        marks = {k: v for k, v in state.marks().items() if self.new.notes.get(k) != v}
        return [Patch.of(self.new.raw, {"metadata": {"annotations": marks}})] if marks else []

    def _create(self, state: CanaryState) -> Action:
        """A canary without pods: of a paused Deployment the other controller creates none."""
        marks = {key: mark for key, mark in state.marks().items() if mark}
        obj = rs.new_set(
            self.wished,
            name=self.s.deployment.name,
            size=0,
            most=self.wanted + self.limits().surge,
            revision=revision_number(None, self.olds),
            marks=marks,
        )
        failed = Event("Warning", "ReplicaSetCreateError", "Failed to create new replica set: ")
        return Create(obj=obj, failed=failed)


CANARY_STEERING: Final[Workload[SteeringSnapshot]] = Workload(
    kind=wire.DEPLOYMENT,
    version="v1",
    owns=(wire.REPLICASET, POD),
    observe=observe_steering,
    decide=plan_steering,
    speaker="gitkruise-canary",
)
