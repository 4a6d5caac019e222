"""OpenKruise's pod webhook: reads SidecarSets and revisions of the cluster and injects sidecars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gitkruise.admission.injection.inject import inject
from gitkruise.admission.injection.matching import NewPod
from gitkruise.admission.pods.defaults import fill_spec
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import InternalError
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.revision import REVISION, Revision, revision_of
from gitkruise.model.workloads.sidecarset import Pin, SidecarSetFacts, sidecarset_facts
from gitkruise.model.workloads.sidecarset_revision import (
    REVISION_NAMESPACE,
    SET_LABEL,
    newest_of_version,
)
from gitkruise.wire.kruise.go_round_trip import settle
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

_DENIED: Final = 'admission webhook "mpod.kb.io" denied the request'
_KNOWN_MAX: Final = 256
_SPARED: Final = "control-plane"  # a namespace with this label keeps OpenKruise's pod webhook out


class _SetFacts:
    """Completed facts of SidecarSets by the very object they were read from: sets change seldom.

    Raw objects never change, and one is held as long as its facts are, so its id stays its own.
    """

    __slots__ = ("_facts",)

    def __init__(self) -> None:
        self._facts: dict[int, tuple[Obj, SidecarSetFacts]] = {}

    def of(self, raw: Obj) -> SidecarSetFacts:
        found = self._facts.get(id(raw))
        if found is not None and found[0] is raw:
            return found[1]
        if len(self._facts) >= _KNOWN_MAX:
            self._facts.clear()
        facts = completed(sidecarset_facts(raw))
        self._facts[id(raw)] = (raw, facts)
        return facts


_known: Final = _SetFacts()


def inject_sidecars(request: AdmissionRequest, gates: Gates) -> Obj:
    """`injected`, with the defaults that a server gives to what a webhook leaves."""
    before = request.new
    pod = injected(request, gates)
    if pod["spec"] is before["spec"]:
        return pod
    if not _needs_defaults(before, request.view.objects(SIDECARSET, "")):
        return pod
    spec = settle("PodSpec", pod["spec"])
    fill_spec(spec, is_pod=True)
    return {**pod, "spec": spec}


def injected(request: AdmissionRequest, gates: Gates) -> Obj:
    """The pod with the sidecars of every SidecarSet that applies.

    Only pods that are being created get any, and none in a namespace labelled control-plane.
    Raises InternalError, as OpenKruise's webhook denies with 500, where a SidecarSet cannot be
    injected.
    """
    pod = request.new
    sets = request.view.objects(SIDECARSET, "")
    if not sets or not gates.pod_webhook:
        return pod
    newborn = _new_pod(request, pod)
    if _SPARED in (newborn.namespace_labels or {}):
        return pod
    assert request.now is not None
    try:
        found = inject(
            pod,
            [_known.of(raw) for raw in sets],
            newborn,
            lambda facts, pin: pinned_revision(request.view, facts, pin),
            request.now,
            sort_by_name=gates.enable_sort_sidecar_container_by_name,
        )
    except ValueError as error:
        raise InternalError(f"{_DENIED}: {error}") from error
    return found.pod


def completed(facts: SidecarSetFacts) -> SidecarSetFacts:
    """The same with every sidecar and volume as the API server completes it in a pod.

    Done once for a set instead of once for each of its pods. Raises Malformed.
    """
    lists = (facts.containers, facts.init_containers)
    spec = {
        "containers": [sidecar.raw for sidecar in lists[0]],
        "initContainers": [sidecar.raw for sidecar in lists[1]],
        "volumes": facts.volumes,
    }
    filled = settle("PodSpec", spec)
    fill_spec(filled, is_pod=True)
    containers, inits = (
        tuple(replace(s, raw=raw) for s, raw in zip(sidecars, filled.get(kind) or (), strict=True))
        for sidecars, kind in zip(lists, ("containers", "initContainers"), strict=True)
    )
    return replace(
        facts,
        containers=containers,
        init_containers=inits,
        volumes=tuple(filled.get("volumes") or ()),
    )


def _needs_defaults(pod: Obj, sets: Sequence[Obj]) -> bool:
    """Return whether defaults depend on the pod or on old revisions: no cache per set then."""
    return bool(pod["spec"].get("hostNetwork")) or any(
        get(raw, "spec", "injectionStrategy", "revision") is not None or _has_formulas(raw)
        for raw in sets
    )


def _has_formulas(raw: Obj) -> bool:
    spec = raw["spec"]
    listed = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return any(container.get("resourcesPolicy") is not None for container in listed)


def _new_pod(request: AdmissionRequest, pod: Obj) -> NewPod:
    meta = pod["metadata"]
    namespace = request.key.namespace
    place = request.view.get(ObjectKey("", "Namespace", "", namespace))
    name = meta.get("name") or meta.get("generateName") or ""
    return NewPod(
        namespace=namespace,
        namespace_labels=None if place is None else get(place, "metadata", "labels", default={}),
        labels=meta.get("labels") or {},
        draw_seed=f"{request.uid}/{namespace}/{name}",
    )


def pinned_revision(view: ClusterView, facts: SidecarSetFacts, pin: Pin) -> Revision | None:
    """The revision a SidecarSet pins; its name wins over a custom version.

    A revision of another SidecarSet is none: OpenKruise would inject it all the same.
    """
    if pin.revision_name is not None:
        raw = view.get(ObjectKey(*REVISION, REVISION_NAMESPACE, pin.revision_name))
        found = None if raw is None else revision_of(raw)
        return found if found and found.labels.get(SET_LABEL) == facts.name else None
    known = (revision_of(raw) for raw in view.objects(REVISION, REVISION_NAMESPACE))
    return newest_of_version(known, facts.name, pin.custom_version or "")
