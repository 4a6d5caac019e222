"""Resource requests and limits: names, amounts, and requests within limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import NOT_NEGATIVE, Path, forbidden, invalid, required
from gitkruise.errors import MapKey, Problem
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.quantity import parse_quantity

_COMPUTE: Final = {"cpu", "memory", "ephemeral-storage"}
_STANDARD: Final = _COMPUTE | {
    "storage", "pods", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "resourcequotas", "services.nodeports", "services.loadbalancers",
}  # fmt: skip
_HUGE: Final = "hugepages-"


def resource_problems(resources: Obj, at: Path) -> Iterator[Problem]:
    """ValidateResourceRequirements of Kubernetes' core validation."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _amount_problems(name, amount, (*at, "limits", MapKey(name)))
    for name, amount in requests.items():
        yield from _amount_problems(name, amount, (*at, "requests", MapKey(name)))
        yield from _request_problems(name, amount, limits, at)
    named = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        yield forbidden(at, "HugePages require cpu or memory")


def overhead_problems(overhead: Obj, at: Path) -> Iterator[Problem]:
    """A pod's overhead: amounts of compute resources."""
    for name, amount in overhead.items():
        yield from _amount_problems(name, amount, (*at, MapKey(name)))


def _request_problems(name: str, amount: Any, limits: Obj, at: Path) -> Iterator[Problem]:
    limit = limits.get(name)
    may_exceed = _may_overcommit(name)
    if limit is None:
        if not may_exceed:
            yield required((*at, "limits"), "Limit must be set for non overcommit resources")
        return
    asked, allowed = parse_quantity(amount), parse_quantity(limit)
    if not may_exceed and asked.value != allowed.value:
        text = f"must be equal to {name} limit of {allowed.text}"
        yield invalid((*at, "requests"), asked.text, text)
    elif asked.value > allowed.value:
        text = f"must be less than or equal to {name} limit of {allowed.text}"
        yield invalid((*at, "requests"), asked.text, text)


def _amount_problems(name: str, amount: Any, at: Path) -> Iterator[Problem]:
    yield from _name_problems(name, at)
    quantity = parse_quantity(amount)
    if quantity.value < 0:
        yield invalid(at, quantity.text, NOT_NEGATIVE)
    if is_extended(name) and quantity.value.denominator != 1:
        yield invalid(at, quantity.text, "must be an integer")


def _name_problems(name: str, at: Path) -> Iterator[Problem]:
    if name in _COMPUTE:
        return
    sentences = formats.qualified_name(name)
    yield from (invalid(at, name, sentence) for sentence in sentences)
    if sentences:
        return
    if "/" not in name:
        if name not in _STANDARD and not name.startswith(_HUGE):
            yield invalid(at, name, "must be a standard resource type or fully qualified")
        if not name.startswith(_HUGE):
            yield invalid(at, name, "must be a standard resource for containers")
    elif "kubernetes.io/" not in name and not is_extended(name):
        yield invalid(at, name, "doesn't follow extended resource name standard")


def is_extended(name: str) -> bool:
    """A device such as `nvidia.com/gpu`: qualified, not Kubernetes' own, counted in whole units."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not formats.qualified_name(f"requests.{name}")


def _may_overcommit(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(_HUGE)
