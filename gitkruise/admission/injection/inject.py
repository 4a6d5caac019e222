"""Sidecar injection: SidecarSets and a pod that is being created give the pod with its sidecars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitkruise.admission.injection.build import Builder, Built, Haul
from gitkruise.admission.injection.choose import FindRevision, Newborn, chosen_sets
from gitkruise.admission.injection.sources import Lenders
from gitkruise.model.sidecarset import SidecarSetFacts
from gitkruise.model.sidecarset_marks import (
    WORKING,
    injected_notes,
    working_containers,
    working_text,
)
from gitkruise.model.sidecarset_metadata import patched_annotations
from gitkruise.wire.names import Obj
from gitkruise.wire.patches import json_diff

_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Injection:
    """A pod before and after; `sets` are the names of the SidecarSets that apply to it."""

    before: Obj
    pod: Obj
    sets: tuple[str, ...] = ()

    @property
    def patch(self) -> list[dict[str, Any]]:
        """The JSON patch (RFC 6902) from before to after; empty when nothing changes."""
        return json_diff(self.before, self.pod)


def inject(
    pod: Obj,
    sets: Sequence[SidecarSetFacts],
    newborn: Newborn,
    find: FindRevision,
    now: datetime,
    *,
    sort_by_name: bool = False,
) -> Injection:
    """What SidecarSets make of a pod: pure, and the same for the same input.

    `sort_by_name` is gate EnableSortSidecarContainerByName. Raises ValueError where OpenKruise
    denies the pod: a pinned revision that is gone, a formula or an annotation without sense.
    """
    if not is_active(pod):
        return Injection(pod, pod)
    chosen = chosen_sets(sets, newborn, find)
    if not chosen:
        return Injection(pod, pod)
    notes = _annotations(pod)
    for facts in chosen:
        notes = patched_annotations(notes, facts.pod_metadata)
    spec: Obj = pod.get("spec") or {}
    haul = _haul(chosen, Lenders(spec.get("containers") or (), newborn.labels, notes), spec)
    if haul.inits or haul.containers:
        brought = [(facts, bool(facts.containers or facts.init_containers)) for facts in chosen]
        notes = {**notes, **_hot_notes(notes, haul), **injected_notes(notes, brought, now)}
        spec = _assembled(spec, haul, sort_by_name=sort_by_name)
    names = tuple(facts.name for facts in chosen)
    return Injection(pod, _with(pod, spec, notes), names)


def is_active(pod: Obj) -> bool:
    """Neither finished nor going."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in _FINISHED and not pod["metadata"].get("deletionTimestamp")


def _annotations(pod: Obj) -> dict[str, str]:
    return dict(pod["metadata"].get("annotations") or {})


def _with(pod: Obj, spec: Obj, notes: dict[str, str]) -> Obj:
    meta = pod["metadata"]
    if notes:
        meta = {**meta, "annotations": notes}
    return {**pod, "metadata": meta, "spec": spec}


def _haul(chosen: Sequence[SidecarSetFacts], lenders: Lenders, spec: Obj) -> Haul:
    names = frozenset(
        sidecar.name for facts in chosen for sidecar in (*facts.init_containers, *facts.containers)
    )
    builder, haul = Builder(lenders, spec, names), Haul()
    for facts in chosen:
        volumes = {volume.get("name") or "": volume for volume in facts.volumes}
        try:
            for sidecar in facts.init_containers:
                builder.add(sidecar, volumes, haul, init=True)
            for sidecar in facts.containers:
                builder.add(sidecar, volumes, haul, init=False)
        except ValueError as error:
            raise ValueError(f"SidecarSet {facts.name}: {error}") from error
        haul.pull_secrets += facts.pull_secrets
    return haul


def _hot_notes(notes: dict[str, str], haul: Haul) -> dict[str, str]:
    if not haul.working:
        return {}
    return {**haul.notes, WORKING: working_text({**working_containers(notes), **haul.working})}


def _assembled(spec: Obj, haul: Haul, *, sort_by_name: bool) -> Obj:
    containers: list[Built] = haul.containers
    if sort_by_name:
        containers = sorted(containers, key=_name)
    out = {**spec, "containers": _merged(spec.get("containers") or (), containers)}
    if haul.inits:
        inits = sorted(haul.inits, key=_name)
        out["initContainers"] = _merged(spec.get("initContainers") or (), inits)
    if haul.volumes:
        out["volumes"] = _first_of_each([*(spec.get("volumes") or ()), *haul.volumes])
    listed = [*(spec.get("imagePullSecrets") or ()), *({"name": n} for n in haul.pull_secrets)]
    if listed:
        out["imagePullSecrets"] = _first_of_each(listed)
    return out


def _name(built: Built) -> str:
    return str(built.container.get("name") or "")


def _merged(own: Iterable[Obj], injected: Sequence[Built]) -> list[Obj]:
    """The pod's containers with the injected ones around them, or in the place of a namesake."""
    own = list(own)
    places = {container.get("name"): at for at, container in enumerate(own)}
    before: list[Obj] = []
    after: list[Obj] = []
    for built in injected:
        at = places.get(_name(built))
        if at is not None:
            own[at] = built.container
        else:
            (before if built.before else after).append(built.container)
    return [*before, *own, *after]


def _first_of_each(named: Iterable[Obj]) -> list[Obj]:
    """Without repeats of a name: the first one counts."""
    out: dict[str, Obj] = {}
    for one in named:
        out.setdefault(one.get("name") or "", one)
    return list(out.values())
