"""CustomResourceDefinitions: the kind of one, what keeps it from being taken over, and what has to
be converted then.

Where a definition moves to another version without a conversion, the API server relabels what is
stored and drops the fields that have another place there. Workloads of OpenKruise's v1alpha1 lose
`updateStrategy` that way. It is written again after that; until then nothing would hold old pods,
so that workloads with such pods are not relabelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.conversion.registry import convert, convertible
from gitkruise.errors import Finding, NotFound, UsageProblem
from gitkruise.gitops.cluster.engine import KRUISE_NAMESPACE, kruise_is_at_work
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET, SIDECARSET
from gitkruise.planner.sync.field_owners import in_version, owners_patch
from gitkruise.printable import listing, many
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, join_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import JSON_PATCH, MERGE_PATCH, ApiRequest, ResourceRef

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelled:
    """One stored object whose version changes without a conversion.

    `spec` has the fields that lose their place. `owners` are its managedFields in the new version:
    the API server would forget those of a version that is gone.
    """

    ref: ResourceRef
    key: ObjectKey
    spec: Obj
    owners: Sequence[Obj]

    async def try_out(self, transport: Transport, version: str) -> None:
        """Raise ApiError if it cannot be written, as while OpenKruise's webhooks are left without
        its manager; `version` is that of before."""
        ref = ResourceRef(self.ref.group, version, self.ref.plural)
        await self._patch(transport, ref, MERGE_PATCH, {}, dryRun="All")

    async def write(self, transport: Transport, manager: str) -> None:
        """Write the fields in their new place, owned by the managers of before. Raises ApiError."""
        by = {"fieldManager": manager}
        try:
            now = await self._patch(transport, self.ref, MERGE_PATCH, {"spec": self.spec}, **by)
            owned = owners_patch(now, self.owners)
            await self._patch(transport, self.ref, JSON_PATCH, owned, **by)
        except NotFound:
            return  # it was deleted meanwhile

    async def _patch(
        self, transport: Transport, ref: ResourceRef, content_type: str, body: Any, **params: str
    ) -> Obj:
        request = ApiRequest(
            verb="patch", resource=ref, namespace=self.key.namespace, name=self.key.name,
            body=body, content_type=content_type, params=params,
        )  # fmt: skip
        return (await transport.send(request)).body


async def relabelled(
    transport: Transport, clock: Clock, live: Obj, wanted: Obj
) -> list[Relabelled]:
    """Return the objects that a takeover by the definition `wanted` relabels.

    Raises ApiError; UsageProblem GK4512 if they have pods of an older revision, or if OpenKruise's
    manager drives them.
    """
    kind, ref = defined(live)
    old, new = storage_version(live), storage_version(wanted)
    converted = get(live, "spec", "conversion", "strategy", default="None") == "Webhook"
    if kind not in _PODS or old == new or converted or not convertible(kind, old, new):
        return []
    if await kruise_is_at_work(transport, clock):
        raise UsageProblem(_managed(live["metadata"]["name"], old))
    updated, total = _PODS[kind]
    stored = await listed(transport, ref)
    rolling = [
        listed_key(kind, obj)
        for obj in stored
        if get(obj, "status", updated, default=0) < get(obj, "status", total, default=0)
        or get(obj, "status", "observedGeneration", default=0) < obj["metadata"]["generation"]
    ]
    if rolling:
        raise UsageProblem(_rolling(live["metadata"]["name"], old, rolling))
    found = [_relabelled(kind, obj, old, new, ref.plural) for obj in stored]
    for one in found[:1]:
        await one.try_out(transport, old)
    return found


def _relabelled(kind: GroupKind, obj: Obj, old: str, new: str, plural: str) -> Relabelled:
    before, after = (join_api_version(kind.group, version) for version in (old, new))
    spec = convert({**obj, "apiVersion": before, "kind": kind.kind}, new)["spec"]
    return Relabelled(
        ref=ResourceRef(kind.group, new, plural),
        key=listed_key(kind, obj),
        spec={name: value for name, value in spec.items() if value != obj["spec"].get(name)},
        owners=in_version(obj["metadata"].get("managedFields") or (), {before}, after),
    )


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
