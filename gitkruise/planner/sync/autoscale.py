"""Workloads sized by an autoscaler: git sets their first size only."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gitkruise.model.gitops.document import Desired
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, split_api_version
from gitkruise.wire.primitives.paths import get, put

# autoscaling HorizontalPodAutoscaler, and KEDA's ScaledObject, which makes one of its own.
AUTOSCALERS: Final = (
    GroupKind("autoscaling", "HorizontalPodAutoscaler"),
    GroupKind("keda.sh", "ScaledObject"),
)
REPLICAS: Final = ("spec", "replicas")


def target_of(autoscaler: Obj) -> ObjectKey | None:
    """The workload an autoscaler sizes; KEDA's is a Deployment of apps/v1 unless it says so."""
    target = get(autoscaler, "spec", "scaleTargetRef", default={})
    if not target.get("name"):
        return None
    keda = autoscaler["kind"] == "ScaledObject"
    group, _ = split_api_version(target.get("apiVersion") or ("apps/v1" if keda else ""))
    kind = target.get("kind") or ("Deployment" if keda else "")
    return ObjectKey(group, kind, autoscaler["metadata"].get("namespace", ""), target["name"])


def scalable(d: Desired) -> bool:
    """Return whether git gives the object a size that an autoscaler could change."""
    return get(d.obj, *REPLICAS) is not None


def sized_as(d: Desired, live: Obj) -> Desired:
    """`d` with the size the live object has, its digest still that of what git says.

    The size is sent rather than left out: a field that its last applier gives up falls back to
    its default of one replica before an autoscaler has ever set it (server-side apply).
    """
    size = get(live, *REPLICAS)
    return d if size is None or not scalable(d) else replace(d, obj=put(d.obj, REPLICAS, size))
