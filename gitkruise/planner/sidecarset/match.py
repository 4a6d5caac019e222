"""Which pods a SidecarSet answers for: those it was injected into, and whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gitkruise.model.labels import SIDECARSET
from gitkruise.model.pod import PodFacts
from gitkruise.model.sidecarset import SidecarSetFacts
from gitkruise.model.sidecarset_marks import INJECTED_LIST, Notes, injected_sets
from gitkruise.planner.sidecarset.hot import working_in
from gitkruise.wire.names import ObjectKey
from gitkruise.wire.paths import get


def matched(owner: SidecarSetFacts, pods: Iterable[PodFacts]) -> tuple[PodFacts, ...]:
    """Those of `pods` (of the right namespaces) that are active, list the set, and hold every one
    of its containers. Nothing is injected into pods that run: older ones stay out for ever.
    """
    name, selects = owner.name, _selects(owner)
    return tuple(
        [
            pod
            for pod in pods
            if pod.active
            and name in pod.annotations.get(INJECTED_LIST, "")
            and name in injected_sets(pod.annotations)
            and selects(pod.labels)
            and _holds_all(owner, pod)
        ]
    )


def _selects(owner: SidecarSetFacts) -> Callable[[Mapping[str, str]], bool]:
    """The pod selector; plain label pairs, the usual case, are compared as they are."""
    raw = get(owner.raw, "spec", "selector", default={})
    wanted: Mapping[str, str] = raw.get("matchLabels") or {}
    if not wanted or raw.get("matchExpressions") or owner.selector_problem:
        return owner.selects
    pairs = wanted.items()
    return lambda labels: pairs <= labels.items()


def _holds_all(owner: SidecarSetFacts, pod: PodFacts) -> bool:
    names = [c.name for c in pod.containers]
    for sidecar in owner.containers:
        if sidecar.hot:
            first, second = sidecar.pair
            if first not in names or second not in names:
                return False
            if sidecar.name not in working_in(pod.annotations):
                return False
        elif sidecar.name not in names and sidecar.name not in pod.init_names:
            return False
    return True


def named_by(notes: Notes) -> Iterable[ObjectKey]:
    """The SidecarSets that a pod with these annotations lists."""
    return [ObjectKey(*SIDECARSET, "", name) for name in injected_sets(notes)]
