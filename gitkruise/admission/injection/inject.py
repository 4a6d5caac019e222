"""Sidecar injection into a pod that is being created."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gitkruise.admission.injection.containers import (
    BuiltContainer,
    ContainerBuilder,
    InjectionResult,
)
from gitkruise.admission.injection.matching import FindRevision, NewPod, chosen_sets
from gitkruise.admission.injection.transfers import PodSources
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.model.workloads.sidecarset_annotations import (
    WORKING,
    injected_notes,
    working_containers,
    working_text,
)
from gitkruise.model.workloads.sidecarset_metadata import patched_annotations
from gitkruise.wire.patch.json_patch import json_diff
from gitkruise.wire.primitives.names import Obj


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
    new_pod: NewPod,
    find: FindRevision,
    now: datetime,
    *,
    sort_by_name: bool = False,
) -> Injection:
    """Inject the sidecars of all matching SidecarSets into a pod; pure and deterministic.

    `sort_by_name` is gate EnableSortSidecarContainerByName. Raises ValueError where OpenKruise
    denies the pod: a missing pinned revision, an invalid formula or annotation.
    """
    if not is_active(pod):
        return Injection(pod, pod)
    chosen = chosen_sets(sets, new_pod, find)
    if not chosen:
        return Injection(pod, pod)
    notes = dict(pod["metadata"].get("annotations") or {})
    for facts in chosen:
        notes = patched_annotations(notes, facts.pod_metadata)
    spec: Obj = pod.get("spec") or {}
    result = _build(chosen, PodSources(spec.get("containers") or (), new_pod.labels, notes), spec)
    if result.inits or result.containers:
        brought = [(facts, bool(facts.containers or facts.init_containers)) for facts in chosen]
        notes = {**notes, **_hot_notes(notes, result), **injected_notes(notes, brought, now)}
        spec = _assembled(spec, result, sort_by_name=sort_by_name)
    names = tuple(facts.name for facts in chosen)
    return Injection(pod, _with(pod, spec, notes), names)


def is_active(pod: Obj) -> bool:
    """Neither finished nor going."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in FINISHED and not pod["metadata"].get("deletionTimestamp")


def _with(pod: Obj, spec: Obj, notes: dict[str, str]) -> Obj:
    meta = pod["metadata"]
    if notes:
        meta = {**meta, "annotations": notes}
    return {**pod, "metadata": meta, "spec": spec}


def _build(chosen: Sequence[SidecarSetFacts], sources: PodSources, spec: Obj) -> InjectionResult:
    names = frozenset(
        sidecar.name for facts in chosen for sidecar in (*facts.init_containers, *facts.containers)
    )
    builder, result = ContainerBuilder(sources, spec, names), InjectionResult()
    for facts in chosen:
        volumes = {volume.get("name") or "": volume for volume in facts.volumes}
        try:
            for sidecar in facts.init_containers:
                builder.add(sidecar, volumes, result, init=True)
            for sidecar in facts.containers:
                builder.add(sidecar, volumes, result, init=False)
        except ValueError as error:
            raise ValueError(f"SidecarSet {facts.name}: {error}") from error
        result.pull_secrets += facts.pull_secrets
    return result


def _hot_notes(notes: dict[str, str], result: InjectionResult) -> dict[str, str]:
    if not result.working:
        return {}
    return {**result.notes, WORKING: working_text({**working_containers(notes), **result.working})}


def _assembled(spec: Obj, result: InjectionResult, *, sort_by_name: bool) -> Obj:
    containers: list[BuiltContainer] = result.containers
    if sort_by_name:
        containers = sorted(containers, key=_name)
    out = {**spec, "containers": _merged(spec.get("containers") or (), containers)}
    if result.inits:
        inits = sorted(result.inits, key=_name)
        out["initContainers"] = _merged(spec.get("initContainers") or (), inits)
    if result.volumes:
        out["volumes"] = _first_of_each([*(spec.get("volumes") or ()), *result.volumes])
    listed = [*(spec.get("imagePullSecrets") or ()), *({"name": n} for n in result.pull_secrets)]
    if listed:
        out["imagePullSecrets"] = _first_of_each(listed)
    return out


def _name(built: BuiltContainer) -> str:
    return str(built.container.get("name") or "")


def _merged(own: Iterable[Obj], injected: Sequence[BuiltContainer]) -> list[Obj]:
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
