"""Quotas and limits of a namespace at admission: Kubernetes' defaults and rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.pods.defaults import fresh
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import (
    IMMUTABLE,
    NOT_NEGATIVE,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
)
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import MapKey, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.template_defaults import round_up
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.values.quantity import parse_quantity

QUOTA, LIMITS = GroupKind("", "ResourceQuota"), GroupKind("", "LimitRange")
KINDS: Final = frozenset({QUOTA, LIMITS})
_COUNTED: Final = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets"),
        *("configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
_MEASURED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD: Final = (
    _COUNTED
    | _MEASURED
    | {f"{part}.{name}" for part in ("requests", "limits") for name in _MEASURED}
    | {"requests.storage", "storage"}
)
_HUGE: Final = ("hugepages-", "requests.hugepages-")
_SCOPES: Final = frozenset(
    {
        *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"),
        *("CrossNamespacePodAffinity", "VolumeAttributesClass"),
    }
)
_BOUNDS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_AMOUNTED: Final = ("spec", "status")
_AMOUNTS: Final = (
    ("spec", ("hard",)),
    ("status", ("hard", "used")),
    ("spec", "limits", "*", _BOUNDS),
)
# lower bound, upper bound, the field that is wrong, the one that is shown, and the words
_ORDER: Final = (
    ("min", "max", "min", "min", "min value {0} is greater than max value {1}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest",
     "min value {0} is greater than default request value {1}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest",
     "default request value {0} is greater than max value {1}"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest",
     "default request value {0} is greater than default limit value {1}"),
    ("min", "default", "default", "min", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "max", "default value {0} is greater than max value {1}"),
)  # fmt: skip


def default_quota(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Amounts as Kubernetes prints them; what a container gets where its limits say nothing."""
    out = {key: fresh(part) if key in _AMOUNTED else part for key, part in request.new.items()}
    round_up(out, _AMOUNTS)
    if request.key.group_kind == LIMITS:
        limits = (out.get("spec") or {}).get("limits")
        for item in limits or ():
            if item.get("type") == "Container":
                _derive(item)
        out["spec"] = {**(out.get("spec") or {}), "limits": limits}
    return out


def _derive(item: dict[str, Any]) -> None:
    most, least = (item.get(name) or {} for name in ("max", "min"))
    default = {**most, **(item.get("default") or {})}
    asked = {**least, **default, **(item.get("defaultRequest") or {})}
    item |= {name: part for name, part in (("default", default), ("defaultRequest", asked)) if part}


def quota_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateResourceQuota, ValidateLimitRange and their updates."""
    obj: Any = request.obj
    spec: Obj = obj.get("spec") or {}
    if request.key.group_kind == QUOTA:
        yield from _quota(spec, (request.old or {}).get("spec"))
        return
    seen: set[str] = set()
    for index, item in enumerate(spec.get("limits") or ()):
        at: Path = ("spec", "limits", index)
        yield from _item(item, at, seen)
        seen.add(item.get("type") or "")


def _quota(spec: Obj, before: Obj | None) -> Iterator[Problem]:
    for name, amount in (spec.get("hard") or {}).items():
        at: Path = ("spec", "hard", MapKey(name))
        yield from _resource(name, at)
        value = parse_quantity(amount).value
        if value < 0:
            yield invalid(at, amount, NOT_NEGATIVE)
        if name in _COUNTED and value.denominator != 1:
            yield invalid(at, amount, "must be an integer")
    scopes = spec.get("scopes") or []
    if set(scopes) - _SCOPES:
        yield invalid(("spec", "scopes"), list(scopes), "unsupported scope")
    if before is not None and sorted(scopes) != sorted(before.get("scopes") or ()):
        yield invalid(("spec", "scopes"), list(scopes), IMMUTABLE)


def _resource(name: str, at: Path) -> Iterator[Problem]:
    yield from (invalid(at, name, text) for text in formats.qualified_name(name))
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        yield invalid(at, name, "must be a standard resource type or fully qualified")
        yield invalid(at, name, "must be a standard resource for quota")


def _item(item: Obj, at: Path, seen: set[str]) -> Iterator[Problem]:
    kind = item.get("type") or ""
    yield from (invalid((*at, "type"), kind, text) for text in formats.qualified_name(kind))
    if kind in seen:
        yield duplicate((*at, "type"), kind)
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            if item.get(name):
                yield forbidden((*at, name), "may not be specified when `type` is 'Pod'")
    if kind == "PersistentVolumeClaim" and not any(
        "storage" in (item.get(name) or {}) for name in ("min", "max")
    ):
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield required((*at, "limits"), text)
    names = dict.fromkeys(name for bound in _BOUNDS for name in item.get(bound) or ())
    for name in names:
        yield from _ordered(item, name, at)


def _ordered(item: Obj, name: str, at: Path) -> Iterator[Problem]:
    """Lower bounds of one resource are not above upper ones."""
    given = {bound: (item.get(bound) or {}).get(name) for bound in _BOUNDS}
    for low, high, field, reported, words in _ORDER:
        least, most = given[low], given[high]
        if least is None or most is None:
            continue
        if parse_quantity(least).value > parse_quantity(most).value:
            text = words.format(least, most)
            yield invalid((*at, field, MapKey(name)), given[reported], text)
    ratio = given["maxLimitRequestRatio"]
    if ratio is not None and parse_quantity(ratio).value < 1:
        text = f"ratio {ratio} is less than 1"
        yield invalid((*at, "maxLimitRequestRatio", MapKey(name)), ratio, text)
