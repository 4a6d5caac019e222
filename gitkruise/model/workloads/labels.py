"""Kinds, labels, annotations, gates and conditions as OpenKruise and Kubernetes spell them."""

from __future__ import annotations

from typing import Final

from gitkruise.wire.primitives.names import GroupKind

KRUISE_GROUP: Final = "apps.kruise.io"
CLONESET: Final = GroupKind(KRUISE_GROUP, "CloneSet")
SIDECARSET: Final = GroupKind(KRUISE_GROUP, "SidecarSet")
DEPLOYMENT: Final = GroupKind("apps", "Deployment")
REPLICASET: Final = GroupKind("apps", "ReplicaSet")
STATEFULSET: Final = GroupKind("apps", "StatefulSet")
DAEMONSET: Final = GroupKind("apps", "DaemonSet")
ADVANCED_DAEMONSET: Final = GroupKind(KRUISE_GROUP, "DaemonSet")
ADVANCED_STATEFULSET: Final = GroupKind(KRUISE_GROUP, "StatefulSet")
RECREATE: Final = GroupKind(KRUISE_GROUP, "ContainerRecreateRequest")
PULL_JOB: Final = GroupKind(KRUISE_GROUP, "ImagePullJob")
LIST_PULL_JOB: Final = GroupKind(KRUISE_GROUP, "ImageListPullJob")
SPREAD: Final = GroupKind(KRUISE_GROUP, "WorkloadSpread")
BUDGET: Final = GroupKind("policy.kruise.io", "PodUnavailableBudget")

# Pod labels
REVISION_HASH: Final = "controller-revision-hash"
TEMPLATE_HASH: Final = "pod-template-hash"
INSTANCE_ID: Final = "apps.kruise.io/cloneset-instance-id"
LIFECYCLE_STATE: Final = "lifecycle.apps.kruise.io/state"
SPECIFIED_DELETE: Final = "apps.kruise.io/specified-delete"

# Pod annotations
LIFECYCLE_TIME: Final = "lifecycle.apps.kruise.io/timestamp"
INPLACE_STATE: Final = "apps.kruise.io/inplace-update-state"
INPLACE_STATE_LEGACY: Final = "inplace-update-state"
INPLACE_GRACE: Final = "apps.kruise.io/inplace-update-grace"
INPLACE_GRACE_LEGACY: Final = "inplace-update-grace"
CONTAINERS_META: Final = "apps.kruise.io/runtime-containers-meta"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

# Pod readiness gates and conditions
INPLACE_READY: Final = "InPlaceUpdateReady"
KRUISE_READY: Final = "KruisePodReady"
SIDECAR_TERMINATED: Final = "SidecarTerminated"  # condition of a pod whose sidecars are ended
POD_READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"

# CloneSet
EXCLUDE_PREPARING_DELETE: Final = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
PREDOWNLOAD_PARALLELISM: Final = "apps.kruise.io/image-predownload-parallelism"
PREDOWNLOAD_TIMEOUT: Final = "apps.kruise.io/image-predownload-timeout-seconds"
PREDOWNLOAD_MIN_READY: Final = "apps.kruise.io/image-predownload-min-updated-ready-pods"

# PodUnavailableBudget
PROTECT_OPERATIONS: Final = "kruise.io/pub-protect-operations"
TOTAL_REPLICAS: Final = "pub.kruise.io/protect-total-replicas"

# ControllerRevision
HISTORY_HASH: Final = "controller.kubernetes.io/hash"
CLAIMS_HASH: Final = "kruise.io/cloneset-volumeclaimtemplate-hash"
PREDOWNLOAD_CREATED: Final = "apps.kruise.io/pre-predownload-created"  # the key says pre twice
PREDOWNLOAD_IGNORED: Final = "apps.kruise.io/image-predownload-ignored"

LAUNCH_BARRIER: Final = "KRUISE_CONTAINER_BARRIER"
WEBHOOK_SUFFIX: Final = ".webhook.gitkruise.io"  # of the names of gitkruise's webhooks
