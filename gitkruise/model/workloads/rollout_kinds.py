"""Kinds of workloads, and those whose rollouts plans simulate; known without loading anything
about them."""

from __future__ import annotations

from typing import Final

from gitkruise.model.workloads.labels import (
    ADVANCED_DAEMONSET,
    ADVANCED_STATEFULSET,
    CLONESET,
    DEPLOYMENT,
    KRUISE_GROUP,
    LIST_PULL_JOB,
    PULL_JOB,
    RECREATE,
    REPLICASET,
    SIDECARSET,
    STATEFULSET,
)
from gitkruise.wire.primitives.names import GroupKind

# With ordinals: a partition of these is a number.
STATEFUL: Final = frozenset({STATEFULSET, ADVANCED_STATEFULSET})
ROLLING_KINDS: Final = frozenset({CLONESET, SIDECARSET, DEPLOYMENT}) | STATEFUL
# Whose pods sidecars are injected into, as far as manifests show.
BEARERS: Final = frozenset({CLONESET, DEPLOYMENT}) | STATEFUL
# Judged by what their controllers report, and not by their pods.
REPORTING: Final = (
    REPLICASET,
    GroupKind("batch", "Job"),
    GroupKind("batch", "CronJob"),
    ADVANCED_DAEMONSET,
    *(
        GroupKind(KRUISE_GROUP, kind)
        for kind in ("UnitedDeployment", "BroadcastJob", "EphemeralJob", "AdvancedCronJob")
    ),
    RECREATE,
    PULL_JOB,
    LIST_PULL_JOB,
)
