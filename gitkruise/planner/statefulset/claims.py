"""Claims of an Advanced StatefulSet: their owner references, and which of them are stale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitkruise.model.planning.plan import Create, Patch
from gitkruise.model.workloads.cloneset import OWNER_VERSION
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.planner.statefulset.facts import DELETE, StatefulSetFacts
from gitkruise.planner.statefulset.identity import claims_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

Claims = Mapping[str, Obj]  # live claims by name


def new_claims(owner: StatefulSetFacts, pod: str, *, retention: bool) -> tuple[Obj, ...]:
    """The claims that a new pod in range starts with; those that are there stay as they are."""
    made = claims_of(owner.raw, pod)
    if not retention or owner.retention[0] != DELETE:
        return made
    reference = _set_reference(owner)
    return tuple(
        {**claim, "metadata": {**claim["metadata"], "ownerReferences": [reference]}}
        for claim in made
    )


def missing_claims(
    owner: StatefulSetFacts, pod: PodFacts, claims: Claims, *, retention: bool
) -> Iterator[Create]:
    """Create again what a Pending pod waits for."""
    for claim in new_claims(owner, pod.name, retention=retention):
        if claim["metadata"]["name"] not in claims:
            yield Create(obj=claim)


def stale(owner: StatefulSetFacts, pod: str, claims: Claims) -> bool:
    """Return whether a claim of the pod to be created goes with an earlier pod of its name."""
    found = (claims.get(claim["metadata"]["name"]) for claim in claims_of(owner.raw, pod))
    return any(
        ref["kind"] == POD.kind and ref["name"] == pod
        for claim in found
        if claim is not None
        for ref in get(claim, "metadata", "ownerReferences", default=())
    )


def refer(
    owner: StatefulSetFacts, pod: PodFacts, claims: Claims, *, surplus: bool
) -> tuple[Patch, ...]:
    """Writes that make claims of `pod` go with it, with the StatefulSet, or with neither."""
    when_deleted, when_scaled = owner.retention
    with_pod = surplus and when_scaled == DELETE
    with_set = when_deleted == DELETE and not with_pod
    wanted = [
        *([_set_reference(owner)] if with_set else ()),
        *([_pod_reference(pod)] if with_pod else ()),
    ]
    found = (claims.get(claim["metadata"]["name"]) for claim in claims_of(owner.raw, pod.name))
    return tuple(
        patch
        for claim in found
        if claim is not None and (patch := _referring(claim, {owner.uid, pod.uid}, wanted))
    )


def _referring(claim: Obj, ours: set[str], wanted: Sequence[Obj]) -> Patch | None:
    """The patch that leaves `wanted` of our references and every foreign one."""
    before: Sequence[Obj] = claim["metadata"].get("ownerReferences") or ()
    if {ref["uid"] for ref in before} & ours == {ref["uid"] for ref in wanted}:
        return None
    after = [*(ref for ref in before if ref["uid"] not in ours), *wanted]
    return Patch.of(claim, {"metadata": {"ownerReferences": after}})


def _set_reference(owner: StatefulSetFacts) -> dict[str, Any]:
    return {
        "apiVersion": OWNER_VERSION,
        "kind": ADVANCED_STATEFULSET.kind,
        "name": owner.name,
        "uid": owner.uid,
    }


def _pod_reference(pod: PodFacts) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": POD.kind, "name": pod.name, "uid": pod.uid}
