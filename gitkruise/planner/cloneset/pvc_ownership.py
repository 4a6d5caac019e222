"""Ownership: which pods are ours, and volume claims whose pod is gone."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from gitkruise.model.planning.plan import Action, Event, Patch
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import PodGroup, PodGroups, in_name_order
from gitkruise.planner.cloneset.deletes import claim_delete, instance_id
from gitkruise.planner.pods.pod_patch import metadata_patch
from gitkruise.wire.primitives.names import Obj, controller_of
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """Active pods we control, and the writes that settle the rest."""

    groups: tuple[PodGroup, ...]
    releases: tuple[Patch, ...] = ()
    adoptions: tuple[Patch, ...] = ()


def claim_pods(owner: CloneSetFacts, pods: PodGroups) -> Owned:
    """Keep, release or adopt the active ones of `pods`, all of which refer to the owner's uid.

    A pod we control that the selector no longer matches is released. Pods without any reference
    to us are never adopted, so they are not among `pods`. Nothing changes while the owner is
    being deleted. Source: CloneSet's claim of pods.
    """
    kept: list[PodGroup] = []
    released: list[PodFacts] = []
    adopted: list[PodGroup] = []
    for group in pods.groups:
        first = group.first
        ours = first.controller_uid == owner.uid
        if not first.active or not (ours or not first.controller_uid):
            continue
        strangers = _strangers(owner, group)
        matching = group.without(strangers)
        if ours:
            released += [group.by_name[name] for name in strangers]
        if matching is not None:
            (kept if ours else adopted).append(matching)
    if owner.deleting is not None:
        return Owned(groups=tuple(kept))
    gone = {"$patch": "delete", "uid": owner.uid}
    return Owned(
        groups=tuple(kept),
        releases=tuple([_owner_patch(p, gone) for p in in_name_order([released])]),
        adoptions=tuple([_owner_patch(p, owner.owner_reference) for p in in_name_order(adopted)]),
    )


def _strangers(owner: CloneSetFacts, group: PodGroup) -> Set[str]:
    """Names of pods that the selector does not match; nearly all ask for plain label pairs."""
    if owner.pairs:
        return group.without_labels(owner.pairs)
    return {p.name for p in group if not owner.selects(p.labels)}


def _owner_patch(pod: PodFacts, reference: Obj) -> Patch:
    return metadata_patch(pod, {"ownerReferences": [reference]})


def live_claims(claims: Sequence[Obj]) -> tuple[Obj, ...]:
    return tuple(c for c in claims if not c["metadata"].get("deletionTimestamp"))


def clean_claims(
    owner: CloneSetFacts, pods: PodGroups, claims: Sequence[Obj]
) -> tuple[tuple[Obj, ...], tuple[Action, ...]]:
    """(claims to go on with, writes): without reuse a claim goes where its pod went.

    `pods` include finished and terminating ones. A claim whose pod is terminating or finished is
    handed to that pod; one whose pod is gone is deleted. Claims without an instance id were not
    made by us and stay (OpenKruise deletes them).
    """
    live = live_claims(claims)
    if not live or owner.scale.reuse_claims or owner.deleting is not None:
        return live, ()
    active = {p.instance_id for p in pods if p.active} - {""}
    gone = {p.instance_id: p for p in pods if not p.active and p.instance_id}
    kept: list[Obj] = []
    writes: list[Action] = []
    for claim in live:
        name = instance_id(claim)
        if not name or name in active:
            kept.append(claim)
        elif name in gone:
            writes.append(_hand_over(owner, claim, gone[name]))
        else:
            writes.append(claim_delete(claim))
    return tuple(kept), tuple(writes)


def _hand_over(owner: CloneSetFacts, claim: Obj, pod: PodFacts) -> Patch:
    """The claim dies with its pod: our reference is replaced by the pod's."""
    other = controller_of(claim)
    ours = other is None or other.get("uid") == owner.uid
    references: list[Obj] = [
        {"$patch": "delete", "uid": owner.uid},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "uid": pod.uid,
            "blockOwnerDeletion": True,
            **({"controller": True} if ours else {}),
        },
    ]
    message = f"could not hand claim {claim['metadata']['name']} to its pod: "
    body = {"metadata": {"ownerReferences": references}}
    failed = Event("Warning", "FailedUpdate", message)
    return Patch.of(claim, body, content_type=STRATEGIC_PATCH, failed=failed)
