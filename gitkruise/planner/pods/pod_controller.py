"""Single-pod controllers: readiness, container launch priority and sidecar termination."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gitkruise.model.planning.plan import Action, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import KRUISE_READY
from gitkruise.model.workloads.launch_priority import barrier_of
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.planner.pods.launch_priority import CONFIG_MAP, Launch, is_ordered, plan_launch
from gitkruise.planner.pods.pod_patch import PodChange, patch_of
from gitkruise.planner.pods.readiness import kruise_condition
from gitkruise.planner.pods.sidecar_terminator import (
    NODE,
    RECREATE,
    Ending,
    has_sidecars,
    plan_ending,
    request_names,
)
from gitkruise.wire.primitives.names import ObjectKey

SPEAKER: Final = "sidecarterminator-controller"  # launching says nothing


@dataclass(frozen=True, slots=True)
class PodRound:
    """One pod with what concerns its readiness, launch and end; None where it asks for none."""

    unjudged: PodFacts | None  # has the readiness gate KruisePodReady and no such condition
    launch: Launch | None
    ending: Ending | None
    now: datetime


def concerns(view: ClusterView, key: ObjectKey) -> bool:
    """Pods that wait for a condition, a barrier or the end of sidecars, and those that are gone."""
    pod = view.pod(key)
    return pod is None or _unjudged(pod) or is_ordered(pod) or has_sidecars(pod)


def _unjudged(pod: PodFacts) -> bool:
    """Return whether the pod waits for a first word on its readiness.

    A CloneSet does so for its own pods when it refreshes them. Source: LC-35.
    """
    if KRUISE_READY not in pod.gates or pod.condition(KRUISE_READY) is not None:
        return False
    return pod.active and not (pod.instance_id and pod.controller_uid)


def observe_pod(view: ClusterView, key: ObjectKey, now: datetime) -> PodRound | None:
    """None when the pod is gone."""
    pod = view.pod(key)
    if pod is None:
        return None
    barrier = view.get(barrier_of(key.namespace, key.name)) if is_ordered(pod) else None
    return PodRound(
        unjudged=pod if _unjudged(pod) else None,
        launch=Launch(pod, barrier) if is_ordered(pod) else None,
        ending=_ending(view, key, pod, now) if has_sidecars(pod) else None,
        now=now,
    )


def _ending(view: ClusterView, key: ObjectKey, pod: PodFacts, now: datetime) -> Ending | None:
    raw = view.get(key)
    if raw is None:
        return None
    names = request_names(pod.uid)
    found = (n for n in names if view.get(ObjectKey(*RECREATE, key.namespace, n)) is not None)
    node = view.get(ObjectKey(*NODE, "", pod.node)) if pod.node else None
    return Ending(raw=raw, node=node, requests=frozenset(found), now=now)


def plan_pod(pod_round: PodRound, gates: Gates) -> Plan:
    """Plan all features in one round: they never write the same field."""
    plan = Plan()
    if pod_round.ending is not None and gates.sidecar_terminator and gates.kruise_daemon:
        plan = plan_ending(pod_round.ending)
    actions: tuple[Action, ...] = plan.actions
    if pod_round.launch is not None:
        actions = (*plan_launch(pod_round.launch), *actions)
    pod = pod_round.unjudged
    if pod is not None and (condition := kruise_condition(pod, (), pod_round.now)) is not None:
        change = PodChange(conditions=[condition])
        actions = (patch_of(pod, change, pod_round.now), *actions)
    return replace(plan, actions=actions)


PODS: Final[Workload[PodRound]] = Workload(
    kind=POD,
    version="v1",
    owns=(CONFIG_MAP,),
    observe=observe_pod,
    decide=plan_pod,
    concerns=concerns,
    only={CONFIG_MAP: "-barrier"},
    speaker=SPEAKER,
)
