"""Claims next to their templates: how many fit, and growth while pods are updated (ASTS-54 ff.)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gitkruise.model.planning.plan import Event, Patch
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.statefulset.claims import Claims
from gitkruise.planner.statefulset.facts import StatefulSetFacts
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.quantity import parse_quantity

_ASKED: Final = ("spec", "resources", "requests", "storage")
_CAPACITY: Final = ("status", "capacity", "storage")
_WAITS_FOR_POD: Final = "FileSystemResizePending"  # the rest is done when a pod mounts the volume


def growth(owner: StatefulSetFacts, pod: PodFacts, claims: Claims) -> tuple[Patch, ...]:
    """Writes that let the pod's claims ask for what their templates ask for."""
    return tuple(
        _resized(owner, pod, claim, template)
        for claim, template in _pairs(owner, pod, claims)
        if _less(claim, _ASKED, template, _ASKED)
    )


def growing(
    owner: StatefulSetFacts, pod: PodFacts, claims: Claims, *, ready: bool
) -> Iterator[str]:
    """Names of the pod's claims whose volume is smaller than they ask for.

    Unless they are to be `ready`, a claim that only waits for its pod is done.
    """
    for claim, _ in _pairs(owner, pod, claims):
        conditions = get(claim, "status", "conditions", default=())
        waits = any(c.get("type") == _WAITS_FOR_POD for c in conditions)
        if _less(claim, _CAPACITY, claim, _ASKED) and (ready or not waits):
            yield claim["metadata"]["name"]


def unfit(owner: StatefulSetFacts, pod: PodFacts, claims: Claims) -> str:
    """The name of a claim that differs from its template in more than its size; "" for none."""
    pairs = _pairs(owner, pod, claims)
    return next((c["metadata"]["name"] for c, template in pairs if not alike(c, template)), "")


def alike(claim: Obj, template: Obj) -> bool:
    """Return whether a claim has the class and the access modes of a template."""
    mine, wanted = claim.get("spec") or {}, template.get("spec") or {}
    classes = {spec.get("storageClassName") for spec in (mine, wanted)} - {None}
    same = list(mine.get("accessModes") or ()) == list(wanted.get("accessModes") or ())
    return len(classes) < 2 and same


def is_large_enough(claim: Obj, template: Obj) -> bool:
    """Return whether a claim asks for at least what a template asks for."""
    return not _less(claim, _ASKED, template, _ASKED)


def is_grown(claim: Obj) -> bool:
    """Return whether the volume of a claim has the size that the claim asks for."""
    return bool(get(claim, *_CAPACITY)) and not _less(claim, _CAPACITY, claim, _ASKED)


def claim_counts(
    owner: StatefulSetFacts, pods: Sequence[PodFacts], claims: Claims
) -> list[dict[str, Any]]:
    """`status.volumeClaims` (ASTS-83)."""
    counted = []
    for template in owner.claim_templates:
        name = template["metadata"]["name"]
        live = [claims[f"{name}-{pod.name}"] for pod in pods if f"{name}-{pod.name}" in claims]
        fitting = [c for c in live if alike(c, template) and is_large_enough(c, template)]
        counted.append(
            {
                "volumeClaimName": name,
                "compatibleReplicas": len(fitting),
                "compatibleReadyReplicas": sum(map(is_grown, fitting)),
            }
        )
    return counted


def _pairs(owner: StatefulSetFacts, pod: PodFacts, claims: Claims) -> Iterator[tuple[Obj, Obj]]:
    """The pod's claims that are not being deleted, with their templates."""
    for template in owner.claim_templates:
        claim = claims.get(f"{template['metadata']['name']}-{pod.name}")
        if claim is not None and not claim["metadata"].get("deletionTimestamp"):
            yield claim, template


def _less(one: Obj, at: tuple[str, ...], other: Obj, there: tuple[str, ...]) -> bool:
    """Compare two amounts; one that is missing or cannot be read is not less, nor is it more."""
    try:
        mine, wanted = (
            parse_quantity(get(obj, *path)).value for obj, path in ((one, at), (other, there))
        )
    except (ValueError, TypeError):
        return False
    return bool(mine < wanted)


def _resized(owner: StatefulSetFacts, pod: PodFacts, claim: Obj, template: Obj) -> Patch:
    name = claim["metadata"]["name"]
    subject = f"resize Claim {name} Pod {pod.name} in StatefulSet {owner.name}"
    return Patch.of(
        claim,
        {"spec": {"resources": get(template, "spec", "resources")}},
        done=Event("Normal", "SuccessfulResize", f"{subject} successful"),
        failed=Event("Warning", "FailedResize", f"{subject} failed error: "),
    )
