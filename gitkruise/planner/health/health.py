"""Health of an object, in one closed set of words for every kind.

Source: kstatus (cli-utils) for Kubernetes' own kinds and generic conditions; ours for CloneSet and
SidecarSet, where standing still at a partition is `Held` and healthy. A CloneSet whose pods run an
abandoned revision (`AbandonedRevisionRunning`) is recognised by its pods only: callers that have
them use `planner.health.rollouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final, TypeAlias

from gitkruise.model.gitops.health import Health, Phase
from gitkruise.model.node.node_image import NODE_IMAGE
from gitkruise.model.workloads.labels import (
    ADVANCED_DAEMONSET,
    ADVANCED_STATEFULSET,
    DAEMONSET,
    DEPLOYMENT,
    LIST_PULL_JOB,
    PULL_JOB,
    RECREATE,
    REPLICASET,
    STATEFULSET,
)
from gitkruise.planner.health import builtin as rules
from gitkruise.planner.health import kruise, node_requests, rollouts
from gitkruise.planner.health.builtin import condition_of, from_condition, progress
from gitkruise.planner.health.stated_conditions import STATED, by_stated_conditions
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get

__all__ = ["Health", "Phase", "health"]

_FLAGS: Final = {"Reconciling": Phase.IN_PROGRESS, "Stalled": Phase.FAILED}
Rule: TypeAlias = Callable[[Obj, "datetime | None"], "Health | None"]


def health(obj: Obj | None, *, now: datetime | None = None) -> Health:
    """The health of one object as the API server shows it; None is NotFound.

    `now` (aware UTC) lets a pod that cannot be scheduled be InProgress for its first 15 s; without
    it such a pod is Failed immediately. A kind without a rule is judged by the conditions
    Reconciling, Stalled and Ready, and is Current without any of them. Units, sources and sinks are
    Current: each reports for itself, and a unit that contains itself would wait for itself.
    """
    if obj is None:
        return Health(Phase.NOT_FOUND, "NotFound", "the object does not exist")
    if get(obj, "metadata", "deletionTimestamp"):
        return Health(Phase.TERMINATING, "Terminating", "; ".join(_ending(obj)))
    group, _ = split_api_version(obj["apiVersion"])
    if group == OWN_GROUP:
        return Health(Phase.CURRENT)
    kind = GroupKind(group, obj["kind"])
    return _unseen(obj) or _generic(obj) or _by_kind(obj, kind, now) or _readycondition(obj)


def _ending(obj: Obj) -> Iterator[str]:
    """Yield that an object is being deleted, and what keeps it: finalizers, objects inside it."""
    yield "the object is being deleted"
    if held := held_by(obj):
        yield held
    for type_ in ("NamespaceContentRemaining", "NamespaceFinalizersRemaining"):
        condition = condition_of(obj, type_)
        if condition and condition.get("status") == "True":
            yield condition.get("message", "")


def held_by(obj: Obj) -> str:
    """`finalizers: a, b` of an object that is being deleted; "" without any."""
    held = get(obj, "metadata", "finalizers", default=())
    return f"finalizers: {', '.join(held)}" if held else ""


def _by_kind(obj: Obj, kind: GroupKind, now: datetime | None) -> Health | None:
    rule = RULES.get(kind)
    return rule(obj, now) if rule else None


def _unseen(obj: Obj) -> Health | None:
    """Return that a controller has not seen the generation; None if it has, or does not say so.

    Some state the generation in their conditions alone, as those of cert-manager, and `kubectl
    wait` heeds it there. An Argo Rollout has the number as text, earlier ones have a hash there.
    """
    stated = get(obj, "status", "observedGeneration")
    found = [condition_of(obj, type_) or {} for type_ in ("Ready", *_FLAGS)]
    texts = [str(c.get("observedGeneration")) for c in found] if stated is None else [str(stated)]
    seen = max((int(text) for text in texts if text.isdecimal()), default=None)
    generation = get(obj, "metadata", "generation")
    if seen is None or generation is None or seen >= generation:
        return None
    message = f"generation is {generation}, but the controller has seen {seen}"
    return progress("LatestGenerationNotObserved", message)


def _generic(obj: Obj) -> Health | None:
    for type_, phase in _FLAGS.items():
        condition = condition_of(obj, type_)
        if condition and condition.get("status") == "True":
            return from_condition(phase, condition)
    return None


def _readycondition(obj: Obj) -> Health:
    condition = condition_of(obj, "Ready")
    if condition and condition.get("status") != "True":
        return from_condition(Phase.IN_PROGRESS, condition)
    return Health(Phase.CURRENT)


RULES: Final[Mapping[GroupKind, Rule]] = {
    DEPLOYMENT: rules.deployment,
    REPLICASET: rules.replica_set,
    STATEFULSET: rules.stateful_set,
    DAEMONSET: rules.daemon_set,
    GroupKind("batch", "Job"): rules.job,
    GroupKind("batch", "CronJob"): rules.cron_job,
    GroupKind("", "Pod"): rules.pod,
    GroupKind("", "PersistentVolumeClaim"): rules.claim,
    GroupKind("", "Service"): rules.service,
    GroupKind("", "Namespace"): rules.namespace,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): rules.definition,
    GroupKind("argoproj.io", "Rollout"): rules.argo_rollout,
    GroupKind("apps.kruise.io", "CloneSet"): rollouts.clone_set,
    GroupKind("apps.kruise.io", "SidecarSet"): rollouts.sidecar_set,
    ADVANCED_STATEFULSET: rollouts.advanced_stateful_set,
    ADVANCED_DAEMONSET: kruise.advanced_daemon_set,
    GroupKind("apps.kruise.io", "UnitedDeployment"): kruise.united_deployment,
    GroupKind("apps.kruise.io", "BroadcastJob"): kruise.broadcast_job,
    GroupKind("apps.kruise.io", "EphemeralJob"): kruise.ephemeral_job,
    GroupKind("apps.kruise.io", "AdvancedCronJob"): kruise.advanced_cron_job,
    GroupKind("apps.kruise.io", "ResourceDistribution"): kruise.resource_distribution,
    GroupKind("rollouts.kruise.io", "Rollout"): kruise.rollout,
    RECREATE: node_requests.recreate,
    PULL_JOB: node_requests.pull,
    LIST_PULL_JOB: node_requests.pull_list,
    NODE_IMAGE: node_requests.node,
    **dict.fromkeys(STATED, by_stated_conditions),
}
