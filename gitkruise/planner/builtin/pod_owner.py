"""Snapshot of a controller of pods, its pods and the data of its revisions.

Shared by the workloads of Kubernetes' own, as is their claim to objects: those that the selector
matches and that have no owner are adopted, controlled ones that it matches no more are released.
Source: ControllerRefManager of Kubernetes 1.34. Objects that have owners, but no controller, are
left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from gitkruise.errors import BadRequest
from gitkruise.model.planning.plan import Create, Delete, Event, Patch, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Find, Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.planner.cloneset.create import instance_ids, waves
from gitkruise.planner.pods.pod_patch import metadata_patch
from gitkruise.wire.kruise.revision_data import revision_data
from gitkruise.wire.primitives.names import (
    GroupKind,
    Obj,
    ObjectKey,
    controller_of,
    controller_reference,
    key_of,
)
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH
from gitkruise.wire.values.selectors import NOTHING, Selector, label_selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """One workload and the pods it controls. `seed` names new pods.

    `claims` are the adoptions and releases of pods that come before all else.
    """

    raw: Obj
    pods: tuple[PodFacts, ...]
    claims: tuple[Patch, ...]
    now: datetime
    seed: int


def observe_controlled(
    view: ClusterView,
    key: ObjectKey,
    now: datetime,
    *,
    member: Callable[[PodFacts], bool] = lambda _: True,
) -> Controlled | None:
    """None when the workload is gone. Only pods that are a `member` are adopted."""
    raw = view.get(key)
    if raw is None:
        return None
    uid = raw["metadata"]["uid"]
    pods = tuple(p for p in view.pods_of(uid, key.namespace) if p.controller_uid == uid)
    claims = _pod_claims(raw, pods, [p for p in view.pods_of("", key.namespace) if member(p)])
    return Controlled(raw=raw, pods=pods, claims=claims, now=now, seed=_seed(uid, now))


def _pod_claims(
    owner: Obj, ours: Iterable[PodFacts], strays: Iterable[PodFacts]
) -> tuple[Patch, ...]:
    selector = _claiming(owner)
    if not selector.requirements:
        return ()
    lost = [p for p in ours if p.active and not selector.matches(p.labels)]
    found = [p for p in strays if p.active and selector.matches(p.labels)]
    return (
        *(metadata_patch(pod, _released(owner)) for pod in lost),
        *(metadata_patch(pod, _adopted(owner)) for pod in found),
    )


def claims_on(owner: Obj, view: ClusterView, kind: GroupKind) -> tuple[Patch, ...]:
    """Adoptions and releases of objects of a kind other than Pod."""
    meta, selector = owner["metadata"], _claiming(owner)
    if not selector.requirements:
        return ()
    ours = view.owned(meta["uid"], kind, meta["namespace"])
    lost = [
        one for one in ours
        if (controller_of(one) or {}).get("uid") == meta["uid"] and not _selects(selector, one)
    ]  # fmt: skip
    strays = view.owned("", kind, meta["namespace"])
    found = [one for one in strays if _selects(selector, one)]
    writes = [
        *((one, _released(owner)) for one in lost),
        *((one, _adopted(owner)) for one in found),
    ]
    return tuple(
        Patch.of(one, {"metadata": metadata}, content_type=STRATEGIC_PATCH)
        for one, metadata in writes
        if not _deleting(one)
    )


def claimants(kind: GroupKind) -> Find:
    """Workloads of a kind that may adopt an object: it has no owner, and their selector fits."""

    def find(view: ClusterView, key: ObjectKey) -> list[ObjectKey]:
        labels = _stray_labels(view, key)
        if labels is None:
            return []
        owners = view.objects(kind, key.namespace)
        return [key_of(owner) for owner in owners if _might_claim(owner, labels)]

    return find


def workload_of_pods(
    kind: GroupKind, decide: Callable[[Controlled, Gates], Plan], *, speaker: str = ""
) -> Workload[Controlled]:
    """Return the workload of a built-in kind that owns nothing but pods."""
    return Workload(
        kind=kind,
        version="v1",
        owns=(POD,),
        observe=observe_controlled,
        decide=decide,
        watches={POD: claimants(kind)},
        speaker=speaker,
    )


def _might_claim(owner: Obj, labels: Mapping[str, str]) -> bool:
    """Return whether a selector fits. One that an older program left damaged fits nothing here;
    the rounds of its workload say what is wrong with it."""
    try:
        return _claiming(owner).matches(labels)
    except (BadRequest, AttributeError, TypeError):
        return False


def _stray_labels(view: ClusterView, key: ObjectKey) -> Mapping[str, str] | None:
    """The labels of an object without owners; None where it has some, ended or is deleted."""
    if key.group_kind == POD:
        pod = view.pod(key)
        return pod.labels if pod is not None and pod.active and not pod.owner_uids else None
    raw = view.get(key)
    if raw is None or raw["metadata"].get("ownerReferences") or _deleting(raw):
        return None
    labels = raw["metadata"].get("labels") or {}
    return labels if isinstance(labels, Mapping) else None


def _claiming(owner: Obj) -> Selector:
    """The selector by which a workload claims objects; it selects nothing while it is deleted."""
    selector = owner["spec"].get("selector")
    if not selector or _deleting(owner):
        return NOTHING
    pairs = owner["kind"] == "ReplicationController"
    return label_selector({"matchLabels": selector} if pairs else selector)


def _selects(selector: Selector, raw: Obj) -> bool:
    labels = raw["metadata"].get("labels") or {}
    return isinstance(labels, Mapping) and selector.matches(labels)


def _deleting(raw: Obj) -> bool:
    return bool(raw["metadata"].get("deletionTimestamp"))


def _adopted(owner: Obj) -> Obj:
    return {"ownerReferences": [controller_reference(owner)]}


def _released(owner: Obj) -> Obj:
    return {"ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}]}


def _seed(uid: str, now: datetime) -> int:
    """A number derived from who asks and when, to name what is created."""
    return int.from_bytes(sha256(f"{uid}/{now.isoformat()}".encode()).digest()[:8], "big")


def pod_from(owner: Obj, template: Obj, name: str) -> Obj:
    """The pod `name` of a workload of Kubernetes' own."""
    meta: dict[str, Any] = {
        key: value for key, value in (template.get("metadata") or {}).items() if value
    }
    meta.pop("creationTimestamp", None)
    meta |= {
        "name": name,
        "generateName": f"{owner['metadata']['name']}-",
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [controller_reference(owner)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def new_pods(
    owner: Obj, pods: Iterable[PodFacts], seed: int, count: int, made: Callable[[int, str], Obj]
) -> list[Create]:
    """Return the creation of `count` pods in addition to `pods`; `made` is the one of a place among
    the new ones and a name."""
    prefix = owner["metadata"]["name"]
    taken = {pod.name.rpartition("-")[2] for pod in pods}
    ids = instance_ids(seed, count, taken=taken)
    numbered = enumerate(zip(waves(count), ids, strict=True))
    return [_created(made(at, f"{prefix}-{suffix}"), wave) for at, (wave, suffix) in numbered]


def _created(pod: Obj, wave: int) -> Create:
    return Create(
        obj=pod,
        wave=wave,
        done=Event("Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}"),
        failed=Event("Warning", "FailedCreate", "Error creating: "),
    )


def delete_pod(pod: PodFacts) -> Delete:
    """Return the deletion of `pod`, however it has changed since."""
    return Delete(
        key=pod.key,
        version="v1",
        uid=pod.uid,
        resource_version="",
        done=Event("Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}"),
        failed=Event("Warning", "FailedDelete", "Error deleting: "),
    )


def template_data(template: Obj) -> bytes:
    """The data of the ControllerRevision for a template, as Kubernetes 1.34 writes it.

    It leaves unset times out; OpenKruise's release writes them as null. Quotes in texts are
    escaped, so that nothing else is met.
    """
    data, unset = revision_data(template), b'"creationTimestamp":null'
    return data.replace(unset + b",", b"").replace(b"," + unset, b"").replace(unset, b"")
