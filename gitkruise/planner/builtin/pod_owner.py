"""Snapshot of a controller of pods, its pods and the data of its revisions.

Shared by the workloads of Kubernetes' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from gitkruise.model.planning.plan import Create, Delete, Event
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.kruise.revision_data import revision_data
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """One workload and the pods it controls. `seed` names new pods."""

    raw: Obj
    pods: tuple[PodFacts, ...]
    now: datetime
    seed: int


def observe_controlled(view: ClusterView, key: ObjectKey, now: datetime) -> Controlled | None:
    """None when the workload is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    uid = raw["metadata"]["uid"]
    pods = tuple(p for p in view.pods_of(uid, key.namespace) if p.controller_uid == uid)
    return Controlled(raw=raw, pods=pods, now=now, seed=_seed(uid, now))


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


def create_pod(pod: Obj, wave: int) -> Create:
    """Return the creation of `pod`, in one of the growing waves of its controller."""
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
