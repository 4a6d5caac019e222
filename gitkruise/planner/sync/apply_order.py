"""In which order objects are applied: fixed stages by kind, and the user's waves over them."""

from __future__ import annotations

from typing import Final

from gitkruise.model.gitops.document import Desired
from gitkruise.wire.primitives.integers import parse_int
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

WAVE_ANNOTATIONS: Final = ("gitkruise.io/wave", "argocd.argoproj.io/sync-wave")

FOUNDATION, CLASSES, CONFIGURATION, WORKLOADS, DEPENDENTS, WEBHOOKS = range(6)

_STAGES: Final = {
    FOUNDATION: {
        GroupKind("", "Namespace"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRole"),
    },
    CLASSES: {
        GroupKind("storage.k8s.io", "StorageClass"),
        GroupKind("networking.k8s.io", "IngressClass"),
        GroupKind("node.k8s.io", "RuntimeClass"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("", "ResourceQuota"),
        GroupKind("", "LimitRange"),
        # An account without the verb bind binds only roles that exist.
        GroupKind("rbac.authorization.k8s.io", "Role"),
        # Sidecars come before the pods they go into.
        GroupKind("apps.kruise.io", "SidecarSet"),
    },
    CONFIGURATION: {
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        GroupKind("rbac.authorization.k8s.io", "RoleBinding"),
        GroupKind("", "ServiceAccount"),
        GroupKind("", "ConfigMap"),
        GroupKind("", "Secret"),
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("", "Service"),
        # Subsets come before the pods that they divide.
        GroupKind("apps.kruise.io", "WorkloadSpread"),
    },
    DEPENDENTS: {
        GroupKind("batch", "Job"),
        GroupKind("batch", "CronJob"),
        GroupKind("autoscaling", "HorizontalPodAutoscaler"),
        GroupKind("networking.k8s.io", "Ingress"),
    },
    WEBHOOKS: {
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        GroupKind("apiregistration.k8s.io", "APIService"),
    },
}
FIRST: Final = (0, 0)
_STAGE_OF: Final = {kind: stage for stage, kinds in _STAGES.items() for kind in kinds}


def stage_of(kind: GroupKind) -> int:
    """The stage of a kind; everything the table does not name is a workload."""
    return _STAGE_OF.get(kind, WORKLOADS)


def wave_of(obj: Obj) -> int:
    """The user's wave. Raises ValueError when the annotation is not an integer."""
    annotations = get(obj, "metadata", "annotations", default={})
    text = next((annotations[name] for name in WAVE_ANNOTATIONS if name in annotations), "0")
    return parse_int(text)


def place_of(d: Desired) -> tuple[int, int]:
    """Foundations come before every wave; a place begins when all before it are ready."""
    return FIRST if d.stage == FOUNDATION else (1, d.wave)
