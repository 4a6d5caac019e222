"""Others in our way: claims and pods under our names, and CloneSets that select the same pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.cloneset.create import claim_name
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.selectors import label_selector

_CLAIM: Final = GroupKind("", "PersistentVolumeClaim")


def taken_ids(
    view: ClusterView, owner: CloneSetFacts, ids: Collection[str], ours: Collection[str]
) -> dict[str, str]:
    """Those of `ids` that a new pod cannot have, each with the object that has the name.

    `ours` are the names of pods and claims that refer to the owner; they do not conflict.
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


def overlaps(view: ClusterView, owner: CloneSetFacts) -> list[str]:
    """Sentences about CloneSets of the namespace whose selector and ours meet.

    Each still counts its own pods only (by owner reference); selection by label mixes them up.
    """
    labels = get(owner.template, "metadata", "labels", default={})
    found = []
    for other in view.objects(CLONESET, owner.namespace):
        name, spec = other["metadata"]["name"], other.get("spec")
        theirs = get(spec, "template", "metadata", "labels", default={})
        if name == owner.name:
            continue
        if owner.selects(theirs) or _selects(get(spec, "selector"), labels):
            found.append(f"CloneSet {name} selects the same pods: selectors must not overlap")
    return found


def _selects(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    # Most end here: a namespace may hold thousands, and each of them looks at all others.
    if not get(selector, "matchLabels", default={}).items() <= labels.items():
        return False
    try:
        return label_selector(selector).matches(labels)
    except ValueError:  # said where that CloneSet itself is planned
        return False


def split_claims(owner: CloneSetFacts, claims: Sequence[Obj]) -> tuple[tuple[Obj, ...], list[str]]:
    """(usable claims, warnings about those that another object controls).

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
