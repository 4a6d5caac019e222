"""CustomResourceDefinitions: the kind of one, and what keeps it from being taken over.

Where a definition moves to another version without a conversion, the API server relabels what is
stored and drops the fields that have another place there. Workloads of OpenKruise's v1alpha1 lose
`updateStrategy` that way: nothing would hold their old pods until git has been applied again.
"""

from __future__ import annotations

from typing import Final

from gitkruise.admission.conversion.registry import convertible
from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.cluster.engine import KRUISE_NAMESPACE, kruise_is_at_work
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET, SIDECARSET
from gitkruise.printable import listing, many
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ResourceRef

MANAGER: Final = "kruise-controller-manager"  # the Deployment of OpenKruise
_NAMED: Final = 5
# Counts of a status: pods at the newest revision, and all.
_PODS: Final = {
    CLONESET: ("updatedReplicas", "replicas"),
    ADVANCED_STATEFULSET: ("updatedReplicas", "replicas"),
    SIDECARSET: ("updatedPods", "matchedPods"),
}


def defined(definition: Obj) -> tuple[GroupKind, ResourceRef]:
    """The kind of a definition, and its resource in the stored version where that is served."""
    spec = definition["spec"]
    served = [v for v in spec["versions"] if v.get("served")] or spec["versions"]
    version = next((v for v in served if v.get("storage")), served[0])
    ref = ResourceRef(spec["group"], version["name"], spec["names"]["plural"])
    return GroupKind(spec["group"], spec["names"]["kind"]), ref


def listed_key(kind: GroupKind, obj: Obj) -> ObjectKey:
    """The key of an item of a list, which may lack its kind."""
    meta = obj["metadata"]
    return ObjectKey(*kind, meta.get("namespace") or "", meta["name"])


def storage_version(definition: Obj) -> str:
    """Return the version in which new objects of a definition are stored."""
    return next(str(v["name"]) for v in definition["spec"]["versions"] if v["storage"])


async def check_takeover(transport: Transport, clock: Clock, live: Obj, wanted: Obj) -> None:
    """Raise UsageProblem GK4512 if the definition `wanted` relabels workloads that have pods of an
    older revision, or that OpenKruise's manager drives. Raises ApiError."""
    kind, ref = defined(live)
    old, new = storage_version(live), storage_version(wanted)
    converted = get(live, "spec", "conversion", "strategy", default="None") == "Webhook"
    if kind not in _PODS or old == new or converted or not convertible(kind, old, new):
        return
    if await kruise_is_at_work(transport, clock):
        raise UsageProblem(_managed(live["metadata"]["name"], old))
    updated, total = _PODS[kind]
    rolling = [
        listed_key(kind, obj)
        for obj in await listed(transport, ref)
        if get(obj, "status", updated, default=0) < get(obj, "status", total, default=0)
        or get(obj, "status", "observedGeneration", default=0) < obj["metadata"]["generation"]
    ]
    if rolling:
        raise UsageProblem(_rolling(live["metadata"]["name"], old, rolling))


def _managed(name: str, served: str) -> Finding:
    return Finding(
        code="GK4512",
        message=f"CustomResourceDefinition {name}: OpenKruise's manager drives its objects",
        notes=(
            ("why", f"it knows them in {served}: afterwards it would find none"),
            ("unchanged", "everything: nothing was changed"),
            ("next", f"kubectl scale deployment {MANAGER} -n {KRUISE_NAMESPACE} --replicas 0"),
        ),
        object=f"CustomResourceDefinition {name}",
    )


def _rolling(name: str, stored: str, keys: list[ObjectKey]) -> Finding:
    has = "has" if len(keys) == 1 else "have"
    return Finding(
        code="GK4512",
        message=f"CustomResourceDefinition {name}: {many(len(keys), 'object')} {has} pods of an"
        f" older revision: {listing(sorted(keys), _NAMED)}",
        notes=(
            ("why", f"{stored} is not converted: their partitions are dropped, and all pods move"),
            ("unchanged", "everything: nothing was changed"),
            ("next", "end these rollouts, at partition 0 or by a rollback; then the same again"),
        ),
        object=f"CustomResourceDefinition {name}",
    )
