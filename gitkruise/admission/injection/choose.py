"""Which SidecarSets a pod gets, and in which of their revisions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gitkruise.model.revision import Revision
from gitkruise.model.sidecarset import (
    NAMESPACE_LABEL,
    PARTIAL,
    Pin,
    SidecarSetFacts,
    sidecarset_facts,
)
from gitkruise.model.sidecarset_revision import restored
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import get

FindRevision: TypeAlias = Callable[[SidecarSetFacts, Pin], Revision | None]
_LOT_BYTES: Final = 6  # as many as a float holds exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class Newborn:
    """A pod that is being created, as far as SidecarSets choose by it.

    `namespace_labels` None: the namespace does not exist. `lot` draws for percentages: the same
    text, the same draw.
    """

    namespace: str
    namespace_labels: Mapping[str, str] | None
    labels: Mapping[str, str]
    lot: str = ""


def chosen_sets(
    sets: Sequence[SidecarSetFacts], pod: Newborn, find: FindRevision
) -> list[SidecarSetFacts]:
    """The sets that apply, each as it is to be injected; a canary takes the place of its base.

    Those that name the pod's namespace come first; among each other they are in name order (in
    OpenKruise it is left to chance). Raises ValueError where it denies the pod.
    """
    found = [
        _injected(facts, pod, find)
        for facts in _in_order(sets, pod.namespace)
        if not facts.injection_paused and facts.in_namespace(pod.namespace_labels)
        if _selects(facts, pod)
    ]
    bases = {facts.canary_of for facts in found}
    return [facts for facts in found if facts.name not in bases]


def _in_order(sets: Iterable[SidecarSetFacts], namespace: str) -> Iterable[SidecarSetFacts]:
    named, everywhere = [], []
    for facts in sorted(sets, key=lambda facts: facts.name):
        places = _named_namespaces(facts.raw)
        if places is None:
            everywhere.append(facts)
        elif (namespace or "default") in places:
            named.append(facts)
    return [*named, *everywhere]


def _named_namespaces(raw: Obj) -> Sequence[str] | None:
    """The namespaces a set is looked up by; None when it may mean any."""
    spec: Obj = raw.get("spec") or {}
    if spec.get("namespace"):
        return (spec["namespace"],)
    name = get(spec, "namespaceSelector", "matchLabels", NAMESPACE_LABEL)
    if name is not None:
        return (name,)
    for term in get(spec, "namespaceSelector", "matchExpressions", default=()):
        if term.get("key") == NAMESPACE_LABEL and term.get("operator") == "In":
            return term.get("values") or ()
    return None


def _selects(facts: SidecarSetFacts, pod: Newborn) -> bool:
    if facts.selector_problem:
        raise ValueError(f"SidecarSet {facts.name}: spec.selector: {facts.selector_problem}")
    return facts.selects(pod.labels)


def _injected(facts: SidecarSetFacts, pod: Newborn, find: FindRevision) -> SidecarSetFacts:
    """The set as it stands, or as the revision it pins recorded it."""
    pin = facts.pin
    if pin is None or not pin.named:
        return facts
    revision = find(facts, pin)
    if revision is None:
        wanted = pin.revision_name or f"custom version {pin.custom_version}"
        raise ValueError(f"SidecarSet {facts.name}: its revision {wanted} was not found")
    if _takes_pinned(facts, pin, pod):
        return sidecarset_facts(restored(facts.raw, revision))
    return facts


def _takes_pinned(facts: SidecarSetFacts, pin: Pin, pod: Newborn) -> bool:
    """Partial gives pods that would be updated by now the present spec."""
    update = facts.update
    if update.paused or pin.policy != PARTIAL:
        return True
    if update.selector_problem:
        where = f"SidecarSet {facts.name}: spec.updateStrategy.selector"
        raise ValueError(f"{where}: {update.selector_problem}")
    if not update.selects(pod.labels):
        return True
    if not isinstance(update.partition, str):
        return False
    try:
        share = float(update.partition.removesuffix("%")) / 100
    except ValueError as error:
        where = f"SidecarSet {facts.name}: spec.updateStrategy.partition"
        raise ValueError(f"{where}: {update.partition!r} is no percentage") from error
    return _draw(f"{facts.name}/{pod.lot}") < share


def _draw(lot: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(lot.encode()).digest()[:_LOT_BYTES]) / 256**_LOT_BYTES
