"""Advanced StatefulSet at admission: the defaults and rules of OpenKruise's webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.conversion.registry import POLICIES, convert
from gitkruise.admission.kruise.cloneset import (
    default_templates,
    pod_template_problems,
    template_selector_problems,
)
from gitkruise.admission.kruise.update_strategy import priority_problems
from gitkruise.admission.rules.engine import Table, count_or_percent, not_negative
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid, required, unsupported
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import INPLACE_READY
from gitkruise.wire.kruise.revision_data import normalise
from gitkruise.wire.primitives import paths
from gitkruise.wire.primitives.names import Obj, split_api_version
from gitkruise.wire.values.intstr import IntOrString, UnreadableAmount, resolve

_TYPE: Final = "AdvancedStatefulSetSpec"
_TOP: Final = {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10}
_ROLLING: Final = {
    "partition": 0,
    "maxUnavailable": 1,
    "podUpdatePolicy": POLICIES[0],
    "minReadySeconds": 0,
}
_RETENTION: Final = ("whenDeleted", "whenScaled")
_RETAINED: Final = ("Retain", "Delete")
_CLAIM_UPDATES: Final = ("OnDelete", "OnPodRollingUpdate")
_RANGE: Final = re.compile(r"([0-9]+)-([0-9]+)")
_READY_MAX_S: Final = 300
_SPEC: Final[Path] = ("spec",)
_UPDATE: Final[Path] = ("spec", "updateStrategy")
_MUTABLE: Final = (
    "replicas", "ordinals", "template", "reserveOrdinals", "lifecycle", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "volumeClaimTemplates", "volumeClaimUpdateStrategy",
    "scaleStrategy", "updateStrategy",
)  # fmt: skip
_NUMBERS: Final = Table(
    (("replicas",), (not_negative,)),
    (
        ("updateStrategy", "rollingUpdate", ("partition", "minReadySeconds")),
        (not_negative,),
    ),
    (
        ("updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy", "gracePeriodSeconds"),
        (not_negative,),
    ),
    (("revisionHistoryLimit",), (not_negative,)),
    (("ordinals", "start"), (not_negative,)),
)


def default_stateful_set(request: AdmissionRequest, gates: Gates) -> Obj:
    """The object as OpenKruise's mutating webhook stores it: typed, then defaulted.

    Templates get defaults when they are new or changed. Raises Malformed.
    """
    spec: dict[str, Any] = normalise(_TYPE, request.new.get("spec"))
    default_templates(spec, request.old, gates)
    for field, value in _TOP.items():
        spec.setdefault(field, value)
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_ROLLING, **strategy.get("rollingUpdate", {})}
    if gates.stateful_set_auto_delete_pvc:
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        chosen = {**dict.fromkeys(_RETENTION, _RETAINED[0]), **policy}
        spec["persistentVolumeClaimRetentionPolicy"] = chosen
    if gates.stateful_set_auto_resize_pvc_gate:
        chosen = {"type": _CLAIM_UPDATES[0], **(spec.get("volumeClaimUpdateStrategy") or {})}
        spec["volumeClaimUpdateStrategy"] = chosen
    return {**request.new, "spec": spec}


def stateful_set_problems(request: AdmissionRequest, gates: Gates) -> Iterator[Problem]:
    """Validate an Advanced StatefulSet as OpenKruise's webhook does, with its field paths."""
    spec: Obj = request.new.get("spec") or {}
    policy = spec.get("podManagementPolicy")
    parallel = policy == "Parallel"
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        yield invalid((*_SPEC, "podManagementPolicy"), policy, text)
    yield from _NUMBERS.problems(spec, _SPEC)
    yield from _reserved_problems(spec)
    limit = paths.get(spec, "scaleStrategy", "maxUnavailable")
    if limit is not None:
        at = (*_SPEC, "scaleStrategy", "maxUnavailable")
        yield from _budget_problems(limit, at, parallel=parallel)
    yield from _strategy_problems(spec, parallel=parallel)
    yield from _retention_problems(spec)
    chosen = paths.get(spec, "volumeClaimUpdateStrategy", "type") or _CLAIM_UPDATES[0]
    if chosen not in _CLAIM_UPDATES:
        yield unsupported((*_SPEC, "volumeClaimUpdateStrategy", "type"), chosen, _CLAIM_UPDATES)
    yield from template_selector_problems(spec, "empty selector is invalid for statefulset")
    yield from pod_template_problems(spec, "StatefulSet", replace=True)
    if request.old is not None:
        _, version = split_api_version(request.new["apiVersion"])
        before: Obj = convert(request.old, version).get("spec") or {}
        yield from _change_problems(before, spec)
        if gates.stateful_set_auto_resize_pvc_gate:
            yield from _claim_changes(before, spec)


def _reserved_problems(spec: Obj) -> Iterator[Problem]:
    at = (*_SPEC, "reserveOrdinals")
    for index, value in enumerate(spec.get("reserveOrdinals") or ()):
        if isinstance(value, int):
            if value < 0:
                yield invalid((*at, index), value, "a reserved ordinal is not negative")
            continue
        found = _RANGE.fullmatch(value)
        if found is None or len(value) > len("2147483647-2147483647"):
            text = "a range is two numbers with a dash between them, such as 3-5"
            yield invalid((*at, index), value, text)
        elif int(found[1]) > int(found[2]):
            yield invalid((*at, index), value, "a range begins with its lower number")


def _budget_problems(value: IntOrString, at: Path, *, parallel: bool) -> Iterator[Problem]:
    yield from count_or_percent(value, at)
    try:
        least = resolve(value, 1, round_up=True)
    except UnreadableAmount as error:
        yield invalid(at, value, f"getValueFromIntOrPercent error: {error}")
        return
    if least < 1:
        yield invalid(at, value, "should not be less than 1")
    if not parallel and value != 1:
        yield invalid(at, value, "can only work with Parallel PodManagementPolicyType")


def _strategy_problems(spec: Obj, *, parallel: bool) -> Iterator[Problem]:
    strategy: Obj = spec.get("updateStrategy") or {}
    rolling, at = strategy.get("rollingUpdate"), (*_UPDATE, "rollingUpdate")
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        yield invalid(_UPDATE, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    if rolling is None:
        return
    if strategy.get("type") == "OnDelete":
        yield invalid(at, rolling, "only allowed for updateStrategy 'RollingUpdate'")
        return
    seconds = rolling.get("minReadySeconds") or 0
    if seconds > _READY_MAX_S:
        text = f"must be no more than {_READY_MAX_S} seconds"
        yield invalid((*at, "minReadySeconds"), seconds, text)
    limit = rolling.get("maxUnavailable")
    if limit is None:
        yield required((*at, "maxUnavailable"))
    else:
        yield from _budget_problems(limit, (*at, "maxUnavailable"), parallel=parallel)
    yield from _policy_problems(spec, rolling, at)
    unordered = rolling.get("unorderedUpdate")
    if unordered is not None:
        at = (*at, "unorderedUpdate")
        if not parallel:
            text = "unorderedUpdate can only work with Parallel PodManagementPolicyType"
            yield required(at, text)
        priority = unordered.get("priorityStrategy")
        yield from priority_problems(priority, (*at, "priorityStrategy"))


def _policy_problems(spec: Obj, rolling: Obj, at: Path) -> Iterator[Problem]:
    policy = rolling.get("podUpdatePolicy")
    if policy not in POLICIES:
        text = f"must be '{POLICIES[0]}', '{POLICIES[1]}' or '{POLICIES[2]}'"
        yield invalid((*at, "podUpdatePolicy"), policy, text)
    elif policy != POLICIES[0]:
        gates = paths.get(spec, "template", "spec", "readinessGates", default=())
        if not any(gate.get("conditionType") == INPLACE_READY for gate in gates):
            place = ("spec", "template", "spec", "readinessGates")
            text = f"must contains {INPLACE_READY} when podUpdatePolicy is {policy}"
            yield invalid(place, gates or None, text)


def _retention_problems(spec: Obj) -> Iterator[Problem]:
    policy: Obj | None = spec.get("persistentVolumeClaimRetentionPolicy")
    if policy is None:
        return
    for field in _RETENTION:
        if policy.get(field) not in _RETAINED:
            at = (*_SPEC, "persistentVolumeClaimRetentionPolicy", field)
            yield unsupported(at, policy.get(field) or "", _RETAINED)


def _change_problems(before: Obj, after: Obj) -> Iterator[Problem]:
    """Forbid changes of the selector, the service and the pod management policy."""
    rest = [
        {k: v for k, v in normalise(_TYPE, spec).items() if k not in _MUTABLE}
        for spec in (before, after)
    ]
    if rest[0] != rest[1]:
        listed = ", ".join(f"'{name}'" for name in _MUTABLE[:-1])
        text = (
            "updates to statefulset spec for fields other than "
            f"{listed} and '{_MUTABLE[-1]}' are forbidden"
        )
        yield forbidden(_SPEC, text)


def _claim_changes(before: Obj, after: Obj) -> Iterator[Problem]:
    """Forbid changes of claim templates that no claim can follow (ASTS-22)."""
    if paths.get(after, "volumeClaimUpdateStrategy", "type") != _CLAIM_UPDATES[1]:
        return
    at: Path = (*_SPEC, "volumeClaimTemplates")
    old, new = (
        {paths.get(c, "metadata", "name"): c for c in spec.get("volumeClaimTemplates") or ()}
        for spec in (before, after)
    )
    if old.keys() != new.keys():
        text = f"no claim template is added or removed under {_CLAIM_UPDATES[1]}"
        yield invalid(at, sorted(map(str, new)), text)
        return
    for index, template in enumerate(after.get("volumeClaimTemplates") or ()):
        name = paths.get(template, "metadata", "name")
        if _differs(old[name].get("spec") or {}, template.get("spec") or {}):
            text = f"only the size of a claim template changes under {_CLAIM_UPDATES[1]}"
            yield invalid((*at, index), name, text)


def _differs(before: Obj, after: Obj) -> bool:
    """Return whether a claim of the one spec cannot follow the other by its size."""
    classes = {spec.get("storageClassName") for spec in (before, after)} - {None}
    modes = [list(spec.get("accessModes") or ()) for spec in (before, after)]
    return len(classes) > 1 or modes[0] != modes[1]
