"""Selection of the SidecarSets of a pod and of the revision of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gitkruise.model.workloads.revision import Revision
from gitkruise.model.workloads.sidecarset import (
    NAMESPACE_LABEL,
    PARTIAL,
    Pin,
    SidecarSetFacts,
    sidecarset_facts,
)
from gitkruise.model.workloads.sidecarset_revision import restored
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

FindRevision: TypeAlias = Callable[[SidecarSetFacts, Pin], Revision | None]
_DRAW_BYTES: Final = 6  # as many as a float holds exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPod:
    """The fields of a new pod that SidecarSets select by.

    `namespace_labels` None: the namespace does not exist. `draw_seed` decides about percentages:
    the same text gives the same draw.
    """

    namespace: str
    namespace_labels: Mapping[str, str] | None
    labels: Mapping[str, str]
    draw_seed: str = ""


def chosen_sets(
    sets: Sequence[SidecarSetFacts], pod: NewPod, find: FindRevision
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


def _selects(facts: SidecarSetFacts, pod: NewPod) -> bool:
    if facts.selector_problem:
        raise ValueError(f"SidecarSet {facts.name}: spec.selector: {facts.selector_problem}")
    return facts.selects(pod.labels)


def _injected(facts: SidecarSetFacts, pod: NewPod, find: FindRevision) -> SidecarSetFacts:
    """Return the current set, or the set recorded in the revision that it pins."""
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


def _takes_pinned(facts: SidecarSetFacts, pin: Pin, pod: NewPod) -> bool:
    """Partial gives pods that would be updated by now the present spec."""
    update = facts.update
    if update.paused or pin.policy != PARTIAL:
        return True
    if update.selector_problem:
        where = f"SidecarSet {facts.name}: spec.updateStrategy.selector"
        raise ValueError(f"{where}: {update.selector_problem}")
    if not update.selects(pod.labels):
        return True
    partition = update.partition.written
    if not isinstance(partition, str):
        return False
    try:
        share = float(partition.removesuffix("%")) / 100
    except ValueError as error:
        where = f"SidecarSet {facts.name}: spec.updateStrategy.partition"
        raise ValueError(f"{where}: {partition!r} is no percentage") from error
    return _draw(f"{facts.name}/{pod.draw_seed}") < share


def _draw(seed: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:_DRAW_BYTES]) / 256**_DRAW_BYTES
