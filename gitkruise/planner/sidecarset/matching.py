"""Pods that a SidecarSet manages: those that carry all of its injected containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.model.workloads.sidecarset_annotations import INJECTED_LIST, Notes, injected_sets
from gitkruise.planner.sidecarset.hot_upgrade import working_in
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get


def matched(owner: SidecarSetFacts, pods: Iterable[PodFacts]) -> tuple[PodFacts, ...]:
    """Those of `pods` (of the right namespaces) that are active, list the set, and hold every one
    of its containers. Nothing is injected into pods that run: older ones stay out for ever.
    """
    name, selects, holds_all = owner.name, _selects(owner), _holder(owner)
    return tuple(
        [
            pod
            for pod in pods
            if pod.active
            and (
                (listed := pod.annotations.get(INJECTED_LIST, "")) == name
                or (name in listed and name in injected_sets(pod.annotations))
            )
            and selects(pod.labels)
            and holds_all(pod)
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


def _holder(owner: SidecarSetFacts) -> Callable[[PodFacts], bool]:
    """Return whether a pod holds every container: of a hot sidecar both and an entry for the
    working one, of another sidecar the one, which may be an init container."""
    hot = frozenset(s.name for s in owner.containers if s.hot)
    pairs = frozenset(name for s in owner.containers if s.hot for name in s.pair)
    single = frozenset(s.name for s in owner.containers if not s.hot)

    def holds_all(pod: PodFacts) -> bool:
        names = [c.name for c in pod.containers]
        with_inits = [*names, *(c.name for c in pod.init_containers)]
        if not (pairs.issubset(names) and single.issubset(with_inits)):
            return False
        return not hot or hot.issubset(working_in(pod.annotations))

    return holds_all


def named_by(notes: Notes) -> Iterable[ObjectKey]:
    """The SidecarSets that a pod with these annotations lists."""
    return [ObjectKey(*SIDECARSET, "", name) for name in injected_sets(notes)]
