"""Fields of built-in kinds that Go omits at zero: `omitempty` on a non-pointer.

What a pod template holds is settled at admission by the tables of its types. Source: k8s.io/api.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gitkruise.wire.primitives.names import GroupKind, Obj

_READY: Final = ("minReadySeconds",)
_COUNTS: Final = ("observedGeneration", "readyReplicas", "availableReplicas")
_UNWRITTEN: Final[Mapping[GroupKind, Mapping[str, tuple[str, ...]]]] = {
    GroupKind("apps", "Deployment"): {
        "spec": (*_READY, "paused"),
        "status": (*_COUNTS, "replicas", "updatedReplicas", "unavailableReplicas"),
    },
    GroupKind("apps", "ReplicaSet"): {
        "spec": _READY,
        "status": (*_COUNTS, "fullyLabeledReplicas"),
    },
    GroupKind("apps", "StatefulSet"): {
        "spec": _READY,
        "status": (
            *("observedGeneration", "readyReplicas", "currentReplicas", "updatedReplicas"),
            *("currentRevision", "updateRevision"),
        ),
    },
    GroupKind("apps", "DaemonSet"): {
        "spec": _READY,
        "status": (
            *("observedGeneration", "updatedNumberScheduled"),
            *("numberAvailable", "numberUnavailable"),
        ),
    },
    GroupKind("batch", "Job"): {"status": ("active", "succeeded", "failed", "completedIndexes")},
    GroupKind("", "Pod"): {
        "status": (
            *("observedGeneration", "phase", "message", "reason", "nominatedNodeName"),
            *("hostIP", "podIP", "qosClass"),
        )
    },
    GroupKind("", "Service"): {
        "spec": (
            *("loadBalancerIP", "externalName", "externalTrafficPolicy"),
            *("healthCheckNodePort", "publishNotReadyAddresses"),
        )
    },
    GroupKind("", "Node"): {"spec": ("podCIDR", "providerID", "unschedulable")},
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): {"status": ("currentReplicas",)},
    GroupKind("policy", "PodDisruptionBudget"): {"status": ("observedGeneration",)},
}


def without_zeroes(group_kind: GroupKind, obj: Obj, old: Obj) -> Obj:
    """`obj` as Go writes it; parts shared with `old` are as they should be."""
    out = obj
    for part, names in _UNWRITTEN.get(group_kind, {}).items():
        held = obj.get(part)
        if held is old.get(part) or not isinstance(held, Mapping):
            continue
        gone = {name for name in names if name in held and held[name] in (0, "")}
        if gone:
            left = {name: value for name, value in held.items() if name not in gone}
            out = {**out, part: left}
    return out
