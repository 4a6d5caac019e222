"""Deletions of a CloneSet's pods and of the claims that go with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitkruise.model.planning.plan import Delete, Event
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.names import Obj


def delete_of(pod: PodFacts, claims: Sequence[Obj]) -> Delete:
    """Delete the pod, then the claims that carry its (non-empty) instance id."""
    return Delete(
        key=pod.key,
        version="v1",
        uid=pod.uid,
        resource_version=pod.resource_version,
        seen=pod,
        then=tuple(claim_delete(c) for c in claims if owns_claim(pod, c)),
        done=Event("Normal", "SuccessfulDelete", f"deleted pod {pod.name}"),
        failed=Event("Warning", "FailedDelete", f"could not delete pod {pod.name}: "),
    )


def owns_claim(pod: PodFacts, claim: Obj) -> bool:
    return bool(pod.instance_id) and instance_id(claim) == pod.instance_id


def instance_id(obj: Obj) -> str:
    """The instance id of a raw claim; "" without one."""
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(wire.INSTANCE_ID, "")


def claim_delete(claim: Obj) -> Delete:
    name = claim["metadata"]["name"]
    failed = Event("Warning", "FailedDelete", f"could not delete claim {name}: ")
    return Delete.of(claim, failed=failed)
