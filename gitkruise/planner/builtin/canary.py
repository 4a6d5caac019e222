"""Canary pause of a Deployment: marks of ReplicaSets, the gate, and sizes while paused by it.

Source: the canary-pause design of Kubernetes issues #91276 and #11505; rules CAN-10 to CAN-26 of
docs/behaviour/deployment-canary.md. Without a valid annotation each function changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitkruise.model.planning.amounts import bounds
from gitkruise.model.planning.canary import (
    ARMED,
    GATE,
    STABLE,
    Canary,
    CanaryPause,
    canary_of,
    pause_of,
)
from gitkruise.model.planning.canary_lock import NEVER_S
from gitkruise.planner.builtin.proportional_scaling import Size, proportional
from gitkruise.planner.builtin.replicasets import SetFacts
from gitkruise.wire.primitives.names import Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryState:
    """The canary of one Deployment at one instant. `olds` are its old ReplicaSets, oldest first.

    `canary` is the request, None without a valid one; `problem` says what is invalid about it.
    `gate` is the mark of the new ReplicaSet as it should be ("": no mark), `stable` the hash of the
    ReplicaSet that keeps the rest. `pause` is the pause that a canary brought about.
    """

    canary: Canary | None
    problem: str
    pause: CanaryPause | None
    gate: str
    stable: str
    olds: tuple[SetFacts, ...]
    wanted: int

    @property
    def limit(self) -> int | None:
        """Pods of the new ReplicaSet at which its rollout pauses; None: it is not gated."""
        if self.canary is None or not self.gate or self.gate == self.canary.passed:
            return None
        return self.canary.pods(self.wanted) if _pods(self.olds) else None

    def reached(self, new: SetFacts | None) -> CanaryPause | None:
        """The pause that is due once no surge is left; None before `new` has the canary's pods."""
        limit = self.limit
        if new is None or limit is None or self.canary is None or new.size.replicas < limit:
            return None
        return CanaryPause(canary=new.hash, value=self.canary.text, stable=self.stable)

    def floor(self, new: int) -> int:
        """Pods that old ReplicaSets keep at least while the new one has `new`."""
        limit = self.limit
        return 0 if limit is None else max(0, self.wanted - max(limit, new))

    def capped(self, size: int, new: int) -> int:
        """The next size of the new ReplicaSet, which has `new` pods and would get `size`."""
        limit = self.limit
        return size if limit is None else min(size, max(limit, new))

    def shrinking_order(self) -> list[SetFacts]:
        """Old ReplicaSets in the order in which they lose pods: the stable one last."""
        if self.limit is None:
            return list(self.olds)
        armed = [one for one in reversed(self.olds) if gate_of(one) == ARMED]
        rest = [one for one in self.olds if gate_of(one) != ARMED]
        return sorted([*armed, *rest], key=lambda one: one.hash == self.stable)

    def marks(self) -> dict[str, str | None]:
        """The marks of the new ReplicaSet; None removes one."""
        return {GATE: self.gate or None, STABLE: self.stable or None}


def canary_state(
    raw: Obj, new: SetFacts | None, olds: Sequence[SetFacts], *, wanted: int, becomes_new: bool
) -> CanaryState:
    """The canary of the Deployment `raw`.

    `becomes_new`: its template was changed to that of `new`, which is None before it is created.
    """
    problem, canary = "", None
    try:
        canary = canary_of(raw["metadata"].get("annotations"))
    except ValueError as error:
        problem = str(error)
    if (raw["spec"].get("strategy") or {}).get("type") == "Recreate":
        canary = None
    gate, stable = _marks(canary, new, olds, becomes_new=becomes_new)
    return CanaryState(
        canary=canary,
        problem=problem,
        pause=pause_of(raw["metadata"].get("annotations")),
        gate=gate,
        stable=stable,
        olds=tuple(olds),
        wanted=wanted,
    )


def gate_of(one: SetFacts) -> str:
    return one.notes.get(GATE) or ""


def _marks(
    canary: Canary | None, new: SetFacts | None, olds: Sequence[SetFacts], *, becomes_new: bool
) -> tuple[str, str]:
    """CAN-10 to CAN-13: only a rollout that begins, with old pods, is gated.

    CAN-28: an approval ends with its value, which approves nothing if it comes back.
    """
    if not _pods(olds):
        return "", ""
    gate = gate_of(new) if new else ""
    if gate and not becomes_new and canary is not None and gate != canary.passed:
        gate = ARMED
    if new is not None and new.size.replicas:
        kept = gate if not becomes_new or gate == ARMED else ""
        return kept, (new.notes.get(STABLE) or "") if kept else ""
    if gate and not becomes_new and new is not None:
        return gate, new.notes.get(STABLE) or ""
    return (ARMED, _choose_stable(olds)) if canary is not None else ("", "")


def _choose_stable(olds: Sequence[SetFacts]) -> str:
    """The hash of the old ReplicaSet that a canary is compared with: never one unapproved."""
    running = [one for one in olds if one.size.replicas]
    approved = [one for one in running if gate_of(one) != ARMED]
    sign = 1 if approved else -1
    return max(approved or running, key=lambda o: (o.size.replicas, sign * o.revision)).hash


def approval(state: CanaryState, new: SetFacts | None, *, becomes_new: bool) -> str:
    """The gate mark by which the end of the pause approves the new ReplicaSet (CAN-14).

    "" where it does not: at another value, or when the template was another one in between.
    """
    pause, canary = state.pause, state.canary
    if new is None or canary is None or pause is None or becomes_new:
        return ""
    same = (pause.canary, pause.value) == (new.hash, canary.text)
    return canary.passed if same and state.gate not in {"", canary.passed} else ""


def capped_rescale(
    state: CanaryState, new: Size | None, sizes: Mapping[str, int]
) -> dict[str, int]:
    """`sizes` of a scaled rollout (CAN-19): what the gate cuts goes to the largest old one."""
    out = dict(sizes)
    if new is None or new.name not in out:
        return out
    size = state.capped(out[new.name], new.replicas)
    cut, out[new.name] = out[new.name] - size, size
    olds = [name for name in out if name != new.name]
    if cut and olds:
        out[max(olds, key=lambda name: out[name])] += cut
    return out


def paused_sizes(
    state: CanaryState, pause: CanaryPause, new: SetFacts | None, surge: int
) -> dict[str, int]:
    """Sizes while the canary pauses the rollout (CAN-17, CAN-18): no surge, shares are kept."""
    sets = [*([new] if new else []), *state.olds]
    active = [one for one in sets if one.size.replicas]
    if len(active) > 1:
        olds = [one.size for one in reversed(state.olds)]
        return proportional(new.size if new else None, olds, state.wanted, surge, held=True)
    canary = next((one for one in sets if one.hash == pause.canary), None)
    stable = next((one for one in sets if one.hash == pause.stable), None)
    if active and active[0] is not canary:
        stable = active[0]
    if canary is None or stable is None:
        only = active or [one for one in (stable, canary, new, *state.olds) if one is not None]
        return {only[0].name: state.wanted} if only else {}
    size = _canary_share(state, canary.size.replicas, stable.size.replicas)
    return {canary.name: size, stable.name: state.wanted - size}


def _canary_share(state: CanaryState, canary: int, stable: int) -> int:
    """The canary's part of the wanted number, while at most one of both has pods.

    No ReplicaSet shrinks when the Deployment grows, and no other grows when it shrinks.
    """
    if state.wanted <= canary + stable:
        return state.wanted if canary else 0
    limit = state.canary.pods(state.wanted) if state.canary else None
    share = state.wanted if limit is None else limit
    return max(canary, min(share, state.wanted - stable))


def _pods(sets: Sequence[SetFacts]) -> int:
    return sum(one.size.replicas for one in sets)


# The other controller, next to which gitkruise steers -------------------------------------------


def unscaled(sets: Sequence[SetFacts], wanted: int) -> list[SetFacts]:
    """Return the ReplicaSets with pods that the other controller has yet to scale."""
    sizes = [(one, one.size) for one in sets if one.size.replicas]
    return [one for one, size in sizes if size.desired not in {None, wanted}]


def settled(sets: Sequence[SetFacts]) -> bool:
    """Return whether the statuses of ReplicaSets count no pod that these no longer have.

    The other controller takes old pods by those counts (CAN-127).
    """
    return all(one.observed and one.size.observed <= one.size.replicas for one in sets)


def at_rest(raw: Obj, sets: Sequence[SetFacts], wanted: int) -> bool:
    """Return whether the other controller has brought a paused Deployment to rest.

    Several ReplicaSets with pods then have all of the surge, and a single one has none.
    """
    status = raw.get("status") or {}
    seen = (status.get("observedGeneration") or 0) >= raw["metadata"]["generation"]
    running = [one for one in sets if one.size.replicas]
    surge = bounds(raw["spec"].get("strategy") or {}, wanted).surge
    size = wanted + (surge if len(running) > 1 else 0)
    there = _pods(running) == size or not sets
    return seen and there and not unscaled(sets, wanted) and settled(sets)


def serving(sets: Sequence[SetFacts]) -> int:
    """Return the pods that serve; those of a lock's ReplicaSets do not count as available."""
    return sum(
        one.ready if one.raw["spec"].get("minReadySeconds") == NEVER_S else one.size.available
        for one in sets
    )
