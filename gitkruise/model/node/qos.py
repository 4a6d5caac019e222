"""Quality of service class of a pod spec, as the kubelet derives it from requests and limits."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.quantity import parse_quantity

_COUNTED: Final = ("cpu", "memory")


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort. Raises ValueError on a malformed amount."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    seen = [dict(_amounts(c)) for c in containers]
    if not any(seen):
        return "BestEffort"
    guaranteed = all(
        ("limits", name) in amounts
        and amounts.get(("requests", name), amounts["limits", name]) == amounts["limits", name]
        for amounts in seen
        for name in _COUNTED
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(container: Obj) -> Iterator[tuple[tuple[str, str], Fraction]]:
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        for name, text in (resources.get(kind) or {}).items():
            amount = parse_quantity(text).value
            if name in _COUNTED and amount > 0:
                yield (kind, name), amount
