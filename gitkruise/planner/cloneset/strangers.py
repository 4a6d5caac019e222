"""Others in our way: claims and pods under our names, and CloneSets that select the same pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from gitkruise.model.cloneset import CloneSetFacts
from gitkruise.model.labels import CLONESET
from gitkruise.model.pod import POD
from gitkruise.model.view import View
from gitkruise.planner.cloneset.create import claim_name
from gitkruise.wire.names import GroupKind, Obj, ObjectKey, controller_of
from gitkruise.wire.paths import get
from gitkruise.wire.selectors import label_selector

_CLAIM: Final = GroupKind("", "PersistentVolumeClaim")


def taken_ids(
    view: View, owner: CloneSetFacts, ids: Collection[str], ours: Collection[str]
) -> dict[str, str]:
    """Of `ids` those a new pod cannot have, and whose object has the name already.

    `ours` are the names of pods and claims that refer to the owner; they are in nobody's way.
    """
    found = {}
    for instance in ids:
        for key in _names(owner, instance):
            if key.name not in ours and view.get(key) is not None:
                found[instance] = f"{key.kind} {key.name} is not of this CloneSet and in its way"
    return found


def _names(owner: CloneSetFacts, instance: str) -> Iterator[ObjectKey]:
    yield ObjectKey(*POD, owner.namespace, f"{owner.name}-{instance}")
    for template in owner.claim_templates:
        name = claim_name(owner, get(template, "metadata", "name", default=""), instance)
        yield ObjectKey(*_CLAIM, owner.namespace, name)


def overlaps(view: View, owner: CloneSetFacts) -> list[str]:
    """Sentences about CloneSets of the namespace whose selector and ours meet.

    Each still counts its own pods alone (by owner reference); whoever selects by label does not.
    """
    labels = get(owner.template, "metadata", "labels", default={}) or {}
    found = []
    for other in view.objects(CLONESET, owner.namespace):
        name = other["metadata"]["name"]
        theirs = get(other, "spec", "template", "metadata", "labels", default={}) or {}
        if name == owner.name:
            continue
        if owner.selects(theirs) or _selects(other, labels):
            found.append(f"CloneSet {name} selects the same pods: selectors must not overlap")
    return found


def _selects(other: Obj, labels: dict[str, str]) -> bool:
    try:
        return label_selector(get(other, "spec", "selector")).matches(labels)
    except ValueError:  # said where that CloneSet itself is planned
        return False


def split_claims(owner: CloneSetFacts, claims: Sequence[Obj]) -> tuple[tuple[Obj, ...], list[str]]:
    """(claims to deal with, sentences about those that somebody else controls).

    A claim may refer to us and be controlled by another: it is neither used nor deleted.
    """
    ours, others = [], []
    for claim in claims:
        controller = controller_of(claim)
        if controller is None or controller.get("uid") == owner.uid:
            ours.append(claim)
            continue
        who = f"{controller.get('kind')} {controller.get('name')}"
        name = claim["metadata"]["name"]
        others.append(f"PersistentVolumeClaim {name} is controlled by {who} and left alone")
    return tuple(ours), others
