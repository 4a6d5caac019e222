"""Deployment: from its ReplicaSets to the next step of its rollout, one step a round.

Source: deployment controller of Kubernetes 1.34. Beyond it: annotations of a ReplicaSet that
already has the wanted size are refreshed while scaling (kubernetes #102551 hangs without), and the
canary annotation, which pauses a rollout at a number of new pods (`planner.builtin.canary`).
Not here: the deprecated rollback annotation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.errors import Problem, invalid_object
from gitkruise.model.planning.amounts import Bounds, bounds
from gitkruise.model.planning.canary import GATE, PAUSED
from gitkruise.model.planning.plan import Action, Create, Delete, Event, Patch, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.planner.builtin import replicasets as rs
from gitkruise.planner.builtin.canary import approval, canary_state, capped_rescale, paused_sizes
from gitkruise.planner.builtin.deployment_status import RolloutCounts, deployment_status
from gitkruise.planner.builtin.pod_owner import claimants, claims_on
from gitkruise.planner.builtin.proportional_scaling import Size, grow_new, rescale, shrink_old
from gitkruise.planner.builtin.replicasets import SetFacts, set_facts
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_of

_COLLISIONS_MAX: Final = 100
_LOOK_AGAIN: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSnapshot:
    """One Deployment with its ReplicaSets, oldest first. `name` is free for the next one.

    `old_pods` counts pods of old ReplicaSets that still exist and have not ended (Recreate).
    `claims` are adoptions and releases of ReplicaSets.
    """

    raw: Obj
    claims: tuple[Patch, ...]
    sets: tuple[SetFacts, ...]
    name: str
    collisions: int
    old_pods: int
    now: datetime


def observe_deployment(
    view: ClusterView, key: ObjectKey, now: datetime
) -> DeploymentSnapshot | None:
    raw = view.get(key)
    if raw is None:
        return None
    uid = raw["metadata"]["uid"]
    owned = view.owned(uid, wire.REPLICASET, key.namespace)
    sets = rs.oldest_first(
        [set_facts(one) for one in owned if (controller_of(one) or {}).get("uid") == uid]
    )
    name, collisions = _free_name(view, raw, {one.name for one in sets})
    recreate = (raw["spec"].get("strategy") or {}).get("type") == "Recreate"
    return DeploymentSnapshot(
        raw=raw,
        claims=claims_on(raw, view, wire.REPLICASET),
        sets=tuple(sets),
        name=name,
        collisions=collisions,
        old_pods=_old_pods(view, raw, sets) if recreate else 0,
        now=now,
    )


def _free_name(view: ClusterView, raw: Obj, own: set[str]) -> tuple[str, int]:
    """The next ReplicaSet's name, past those that others have taken."""
    meta, first = raw["metadata"], (raw.get("status") or {}).get("collisionCount") or 0
    for collisions in range(first, first + _COLLISIONS_MAX):
        name = f"{meta['name']}-{rs.template_hash(raw['spec']['template'], collisions)}"
        key = ObjectKey("apps", "ReplicaSet", meta["namespace"], name)
        if name in own or view.get(key) is None:
            return name, collisions
    raise AssertionError("a hundred ReplicaSets of others have our names")


def _old_pods(view: ClusterView, raw: Obj, sets: Sequence[SetFacts]) -> int:
    new = newest_set(raw, sets)
    count = 0
    for one in sets:
        if new is not None and one.name == new.name:
            continue
        for pod in view.pods_of(one.raw["metadata"]["uid"], raw["metadata"]["namespace"]):
            count += pod.phase not in FINISHED
    return count


def newest_set(raw: Obj, sets: Sequence[SetFacts]) -> SetFacts | None:
    """The oldest ReplicaSet with the present template, None before it is created."""
    wanted = rs.plain(raw["spec"]["template"])
    return next((one for one in sets if one.template == wanted and not one.deleting), None)


def revision_number(new: SetFacts | None, olds: Sequence[SetFacts]) -> int:
    """The number of the new ReplicaSet: above every old one's, its own when it is."""
    least = max((one.revision for one in olds), default=0) + 1
    return max(least, new.revision if new else 0)


def plan_deployment(s: DeploymentSnapshot, gates: Gates) -> Plan:
    """The next step. A strategy that does not parse is the plan's problem; nothing moves then."""
    del gates
    if s.claims:
        return Plan(actions=s.claims)
    round_ = _Round(s)
    if round_.problem:
        problem = Problem(("spec", "strategy"), "FieldValueInvalid", round_.problem)
        error = invalid_object("Deployment", "apps", s.raw["metadata"]["name"], [problem])
        return Plan(problem=error)
    standing = round_.standing()
    status, wake_at = deployment_status(s.raw, standing, s.now)
    if s.old_pods:  # no event marks the end of the last pod of an old ReplicaSet
        wake_at = min(filter(None, (wake_at, s.now + _LOOK_AGAIN)))
    actions = [] if s.raw["metadata"].get("deletionTimestamp") else round_.actions(standing)
    same = status == s.raw.get("status")
    return Plan(
        actions=tuple(actions),
        events=round_.warnings(),
        status=None if same else status,
        wake_at=wake_at,
    )


class DeploymentSets:
    """One Deployment with its ReplicaSets, oldest first, in the terms of its strategy.

    `problem` says why a strategy does not parse, which then has no `limits`.
    """

    def __init__(self, raw: Obj, sets: Sequence[SetFacts]) -> None:
        self.raw, self.spec = raw, raw["spec"]
        self.wanted: int = self.spec.get("replicas", 1)
        strategy = self.spec.get("strategy") or {}
        self.recreate = strategy.get("type") == "Recreate"
        self.problem, self.limits = "", Bounds(0, 0)
        try:
            self.limits = bounds(strategy, self.wanted)
        except ValueError as error:
            self.problem = str(error)
        self.new = newest_set(raw, sets)
        self.olds = [one for one in sets if one is not self.new]
        self.revision = revision_number(self.new, self.olds)
        self.becomes_new = self.new is None or self.new.revision < self.revision
        self.canary = canary_state(
            raw, self.new, self.olds, wanted=self.wanted, becomes_new=self.becomes_new
        )


class _Round(DeploymentSets):
    """One Deployment at one instant, in the terms every step needs."""

    def __init__(self, s: DeploymentSnapshot) -> None:
        super().__init__(s.raw, s.sets)
        self.s = s
        self.most = self.wanted + self.limits.surge  # the value of the max-replicas annotation

    def standing(self) -> RolloutCounts:
        capped = min(self.limits.unavailable, self.wanted)
        return RolloutCounts(
            wanted=self.wanted,
            unavailable_max=capped,
            new=self.new,
            sets=self.s.sets,
            collisions=self.s.collisions,
            scaling=self.scaling,
        )

    @property
    def scaling(self) -> bool:
        """The wanted number changed since the active ReplicaSets were last written."""
        return any(
            one.size.replicas > 0 and one.size.desired not in {None, self.wanted}
            for one in self.s.sets
        )

    def warnings(self) -> tuple[Event, ...]:
        """Say once for each rollout that its canary is ignored."""
        if not self.canary.problem or not self.becomes_new:
            return ()
        return (Event("Warning", "InvalidCanary", f"Ignoring canary: {self.canary.problem}"),)

    def actions(self, counts: RolloutCounts) -> list[Action]:
        if self.canary.pause is not None and not self.spec.get("paused"):
            return [self._resume()]
        sizes, create = self._sizes()
        out: list[Action] = []
        if create is not None:
            out.append(self._create(create))
        for one in self.s.sets:
            size = sizes.get(one.name)
            if one is self.new:
                out += self._revise(one, size)
            elif size is not None and (made := self._scale(one, size)):
                out.append(made)
        out += self._number_owner()
        if create is None and not sizes:
            out += self._pause()
        if counts.complete or self.spec.get("paused"):
            out += self._clean_up()
        return out

    def _sizes(self) -> tuple[Mapping[str, int], int | None]:
        """(sizes by name, size of a ReplicaSet to create or None)."""
        new = self.new.size if self.new else None
        newest_first = [one.size for one in reversed(self.olds)]
        pause = self.canary.pause
        if self.spec.get("paused") and pause is not None:
            return paused_sizes(self.canary, pause, self.new, self.limits.surge), None
        if self.spec.get("paused") or self.scaling:
            sizes = rescale(
                new, newest_first, self.wanted, self.limits.surge, recreate=self.recreate
            )
            by_user = self.spec.get("paused")
            return sizes if by_user else capped_rescale(self.canary, new, sizes), None
        if self.recreate:
            return self._recreate(new)
        have = new.replicas if new else 0
        grown = grow_new(have, self._total, self.wanted, self.limits.surge)
        size = self.canary.capped(grown, have)
        if new is None:
            return self._shrunk(Size(name=self.s.name, replicas=size)), size
        if size != new.replicas:
            return {new.name: size}, None
        return self._shrunk(new) or self._refilled(), None

    def _shrunk(self, new: Size) -> Mapping[str, int]:
        olds = [one.size for one in self.canary.shrinking_order()]
        floor = self.canary.floor(new.replicas)
        return shrink_old(new, olds, self.wanted, self.limits.unavailable, floor=floor)

    def _refilled(self) -> Mapping[str, int]:
        """The stable ReplicaSet's size where a rollout at its canary is short of pods."""
        missing = self.wanted - self._total
        if self.canary.reached(self.new) is None or missing <= 0:
            return {}
        *_, stable = self.canary.shrinking_order()
        return {stable.name: stable.size.replicas + missing}

    @property
    def _total(self) -> int:
        return sum(one.size.replicas for one in self.s.sets)

    def _pause(self) -> list[Action]:
        """`paused` and the mark of whose pause it is, in one write, once no surge is left."""
        pause = self.canary.reached(self.new)
        moving = self.spec.get("paused") or self.scaling
        if pause is None or moving or self._total != self.wanted:
            return []
        body = {"metadata": {"annotations": {PAUSED: pause.text}}, "spec": {"paused": True}}
        kept = sum(one.size.replicas for one in self.olds)
        message = f"Paused by canary {pause.value}: {kept} of {self.wanted} pods stay as they are"
        return [Patch.of(self.s.raw, body, done=Event("Normal", "CanaryPaused", message))]

    def _resume(self) -> Action:
        """Approve the canary, then remove the mark of its pause: one write a round."""
        mark = approval(self.canary, self.new, becomes_new=self.becomes_new)
        if self.new is not None and mark:
            return Patch.of(self.new.raw, {"metadata": {"annotations": {GATE: mark}}})
        return Patch.of(self.s.raw, {"metadata": {"annotations": {PAUSED: None}}})

    def _recreate(self, new: Size | None) -> tuple[Mapping[str, int], int | None]:
        running = {one.name: 0 for one in self.olds if one.size.replicas}
        if running or self.s.old_pods:
            return running, None
        if new is None:
            return {}, self.wanted
        return {new.name: self.wanted}, None

    def _create(self, size: int) -> Create:
        obj = rs.new_set(
            self.s.raw,
            name=self.s.name,
            size=size,
            most=self.most,
            revision=self.revision,
            marks={key: mark for key, mark in self.canary.marks().items() if mark},
        )
        message = f"Scaled up replica set {self.s.name} from 0 to {size}"
        done = Event("Normal", "ScalingReplicaSet", message) if size else None
        failed = Event("Warning", "ReplicaSetCreateError", "Failed to create new replica set: ")
        return Create(obj=obj, done=done, failed=failed)

    def _scale(self, one: SetFacts, size: int) -> Action | None:
        return rs.scaled(one, size, wanted=self.wanted, most=self.most)

    def _revise(self, one: SetFacts, size: int | None) -> list[Action]:
        """Everything the new ReplicaSet needs, in one patch."""
        made = self._scale(one, size) if size is not None else None
        if isinstance(made, Create | Delete):
            raise TypeError("a ReplicaSet is scaled by a patch")
        notes = dict(rs.renumbered(one, self.revision, self.s.raw))
        notes |= {k: v for k, v in self.canary.marks().items() if one.notes.get(k) != v}
        body: dict[str, Any] = dict(made.steps[0].body) if made else {}
        if notes:
            meta = body.get("metadata") or {}
            body["metadata"] = {"annotations": {**(meta.get("annotations") or {}), **notes}}
        least = self.spec.get("minReadySeconds") or 0
        if (one.raw["spec"].get("minReadySeconds") or 0) != least:
            body["spec"] = {**(body.get("spec") or {}), "minReadySeconds": least}
        return [Patch.of(one.raw, body, done=made.done if made else None)] if body else []

    def _number_owner(self) -> list[Action]:
        if self.new is None:
            return []
        have = (self.s.raw["metadata"].get("annotations") or {}).get(rs.REVISION)
        if have == str(self.revision):
            return []
        body = {"metadata": {"annotations": {rs.REVISION: str(self.revision)}}}
        # Through its status, as Kubernetes' controller does: it is no change of what is asked for.
        return [Patch.of(self.s.raw, body, subresource="status")]

    def _clean_up(self) -> list[Action]:
        limit = self.spec.get("revisionHistoryLimit", 10)
        surplus = len(self.olds) - limit
        pause = self.canary.pause
        kept = {pause.canary, pause.stable} if pause else set()
        ranked = sorted(self.olds, key=lambda one: one.revision)
        return [
            Delete.of(one.raw)
            for one in ranked[: max(0, surplus)]
            if not (one.size.replicas or one.size.observed or one.deleting)
            and one.observed
            and one.hash not in kept
        ]


DEPLOYMENT: Final[Workload[DeploymentSnapshot]] = Workload(
    kind=wire.DEPLOYMENT,
    version="v1",
    owns=(wire.REPLICASET,),
    observe=observe_deployment,
    decide=plan_deployment,
    watches={wire.REPLICASET: claimants(wire.DEPLOYMENT)},
)
