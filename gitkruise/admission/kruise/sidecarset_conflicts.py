"""SidecarSet rules that read other objects: conflicts, canaries, pins, the whitelist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gitkruise.admission.conversion.registry import convert
from gitkruise.admission.kruise.pod_webhook import pinned_revision
from gitkruise.admission.kruise.sidecarset import HUB, sidecarset_problems
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid, not_found
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.admission.rules.selector_overlap import overlap
from gitkruise.errors import BadRequest, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.sidecarset import (
    ALWAYS,
    PARTIAL,
    Sidecar,
    SidecarSetFacts,
    canary_base,
    sidecarset_facts,
)
from gitkruise.model.workloads.sidecarset_metadata import OVERWRITE, RETAIN
from gitkruise.model.workloads.sidecarset_revision import REVISION_NAMESPACE
from gitkruise.wire.patch.json_patch import same
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.schema.patterns import CompiledPattern, PatternTooCostly, compile_pattern
from gitkruise.wire.values.selectors import label_selector

_CONFIGURATION: Final = ObjectKey("", "ConfigMap", REVISION_NAMESPACE, "kruise-configuration")
_WHITELIST: Final = "SidecarSet_PatchPodMetadata_WhiteList"
_METADATA: Final[Path] = ("spec", "patchPodMetadata")
_CONTAINERS: Final[Path] = ("spec", "containers")


def neighbour_problems(request: AdmissionRequest, gates: Gates) -> Iterator[Problem]:
    """Validate a SidecarSet against other objects as OpenKruise's webhook does.

    Conflicts with other SidecarSets are checked only when everything else is valid.
    """
    obj = convert(request.new, HUB)
    problems = [
        *_base_problems(request, obj),
        *_pin_problems(request, obj),
        *_whitelist_problems(request, obj, gates),
    ]
    yield from problems
    if not problems and not any(sidecarset_problems(request, gates)):
        facts = sidecarset_facts(obj)
        for raw in request.view.objects(SIDECARSET, ""):
            other = sidecarset_facts(convert(raw, HUB))
            for at, what in conflicts(facts, other):
                where = f"already in use by SidecarSet {other.name}, for some of the same pods"
                yield invalid(at, what, where)


def _base_problems(request: AdmissionRequest, obj: Obj) -> Iterator[Problem]:
    base = canary_base(get(obj, "metadata", "annotations", default={}))
    if not base or base == request.key.name:
        return
    found = request.view.get(ObjectKey(*SIDECARSET, "", base))
    if found is None:
        yield not_found(("metadata",), base)
    elif canary_base(get(found, "metadata", "annotations", default={})):
        yield invalid(("metadata",), base, "the base of a canary cannot be a canary itself")


def _pin_problems(request: AdmissionRequest, obj: Obj) -> Iterator[Problem]:
    facts = sidecarset_facts(obj)
    pin = facts.pin
    if pin is None or not pin.named or pin.policy not in (ALWAYS, PARTIAL):
        return
    if pinned_revision(request.view, facts, pin) is None:
        yield not_found(("revision",), pin.revision_name or pin.custom_version)


def _whitelist_problems(request: AdmissionRequest, obj: Obj, gates: Gates) -> Iterator[Problem]:
    """Annotations on pods need an administrator's leave: a pattern, or the gate without any."""
    patches = get(obj, "spec", "patchPodMetadata", default=())
    if not patches:
        return
    configuration = request.view.get(_CONFIGURATION)
    text = get(configuration, "data", _WHITELIST, default="")
    try:
        patterns = _patterns(text, get(obj, "metadata", "labels", default={}))
        allowed = [compile_pattern(pattern) for pattern in patterns]
    except (ValueError, BadRequest) as error:
        detail = f"the whitelist in ConfigMap {_CONFIGURATION.name} cannot be read: {error}"
        yield forbidden(_METADATA, detail)
        return
    if not allowed:
        if not gates.sidecar_set_patch_pod_metadata_defaults_allowed:
            yield forbidden(_METADATA, "no whitelist allows annotations of pods to be patched")
        return
    for key in (key for patch in patches for key in patch.get("annotations") or {}):
        if not any(_allows(pattern, key) for pattern in allowed):
            yield forbidden(_METADATA, f"annotation {key} is not on the whitelist")


def _allows(pattern: CompiledPattern, key: str) -> bool:
    """Return whether the pattern matches the key; a key too long to be compared is not allowed."""
    try:
        return pattern.search(key)
    except PatternTooCostly:
        return False


def _patterns(text: str, labels: Mapping[str, str]) -> list[str]:
    """The patterns of the rules that concern a SidecarSet. Raises ValueError and BadRequest."""
    if not text:
        return []
    try:
        rules = read_json(text).get("rules") or []
        chosen = [
            rule
            for rule in rules
            if rule.get("selector") is None or label_selector(rule["selector"]).matches(labels)
        ]
        found = [p for rule in chosen for p in rule.get("allowedAnnotationKeyExprs") or []]
    except (AttributeError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"its shape is wrong: {error}") from error
    if not all(isinstance(pattern, str) for pattern in found):
        raise ValueError("a pattern is no text")
    return found


def conflicts(facts: SidecarSetFacts, other: SidecarSetFacts) -> Iterator[tuple[Path, str]]:
    """(where in `facts`, what) two SidecarSets would bring twice to a pod that both choose."""
    if other.name == facts.name or _pair(facts, other) or not _meet(facts, other):
        return
    yield from _container_conflicts(facts, other)
    yield from _volume_conflicts(facts.volumes, other)
    yield from _annotation_conflicts(facts, other)


def _pair(one: SidecarSetFacts, other: SidecarSetFacts) -> bool:
    """A canary and its base: a pod gets one of the two."""
    return one.name == other.canary_of or other.name == one.canary_of


def _meet(one: SidecarSetFacts, other: SidecarSetFacts) -> bool:
    """Return whether one pod can match both sets."""
    spaces = one.namespace_selector, other.namespace_selector
    apart = spaces[0] is not None and spaces[1] is not None and not overlap(spaces[0], spaces[1])
    return not apart and overlap(one.selector, other.selector)


def _container_conflicts(
    facts: SidecarSetFacts, other: SidecarSetFacts
) -> Iterator[tuple[Path, str]]:
    """Names in one list, and names that meet only in the pod: of hot pairs, or across the lists."""
    clashes = sorted(_init_names(facts) & _init_names(other))
    clashes += sorted(_names(facts.containers) & _names(other.containers))
    for name in clashes:
        yield _CONTAINERS, f"container {name}"
    if not clashes:
        met = sorted(_names_in_pod(facts) & _names_in_pod(other))
        yield from ((_CONTAINERS, f"container {name} of a pod") for name in met)


def _names(sidecars: Sequence[Sidecar]) -> set[str]:
    return {sidecar.name for sidecar in sidecars}


def _init_names(facts: SidecarSetFacts) -> set[str]:
    return _names(facts.init_containers)


def _names_in_pod(facts: SidecarSetFacts) -> set[str]:
    out = {name for sidecar in facts.containers for name in sidecar.names}
    for sidecar in facts.init_containers:
        out.update(sidecar.names if sidecar.native else (sidecar.name,))
    return out


def _volume_conflicts(volumes: Sequence[Obj], other: SidecarSetFacts) -> Iterator[tuple[Path, str]]:
    theirs = {volume.get("name"): volume for volume in other.volumes}
    for volume in volumes:
        name = volume.get("name")
        if name in theirs and not same(volume, theirs[name]):
            yield ("spec", "volumes"), f"volume {name}"


def _annotation_conflicts(
    facts: SidecarSetFacts, other: SidecarSetFacts
) -> Iterator[tuple[Path, str]]:
    ours, theirs = _policies(facts), _policies(other)
    for key in sorted(ours.keys() & theirs.keys()):
        if OVERWRITE in (ours[key], theirs[key]):
            yield _METADATA, f"annotation {key}"


def _policies(facts: SidecarSetFacts) -> dict[str, Any]:
    """The policy of each annotation that changes what is there."""
    return {
        key: patch.get("patchPolicy")
        for patch in facts.pod_metadata
        if (patch.get("patchPolicy") or RETAIN) != RETAIN
        for key in patch.get("annotations") or {}
    }
