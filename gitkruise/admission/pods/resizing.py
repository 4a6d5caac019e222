"""The resize subresource of pods: amounts of cpu and memory change, and nothing that they decide.

Source: ValidatePodResize of Kubernetes 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.pods.template import SERVER_POD, pod_spec_problems
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.node.qos import qos_class
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

_AT: Final[Path] = ("spec",)
_MUTABLE: Final = ("cpu", "memory")
_ONCE: Final = "resources for non-sidecar init containers are immutable"


def resize_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Broken rules of a changed pod; nothing where its resources are as they were."""
    old: Obj = request.old or {}
    before: Obj = old.get("spec") or {}
    after: Obj = request.new.get("spec") or {}
    if before == after:
        return
    wrong = list(pod_spec_problems(after, _AT, SERVER_POD))
    yield from wrong
    if wrong:
        return
    if qos_class(before) != qos_class(after):
        text = "Pod QOS Class may not change as a result of resizing"
        yield invalid(_AT, get(old, "status", "qosClass", default=""), text)
    for field in ("initContainers", "containers"):
        pairs = zip(before.get(field) or (), after.get(field) or (), strict=True)
        for index, (was, now) in enumerate(pairs):
            first, second = (one.get("resources") or {} for one in (was, now))
            if field == "initContainers" and was.get("restartPolicy") != "Always":
                if first != second:
                    yield forbidden(_AT, _ONCE)
                continue
            yield from _changes(first, second, (*_AT, field, index, "resources"))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Amounts that are gone, and others than cpu and memory."""
    other = False
    for side in ("requests", "limits"):
        was, now = (dict(one.get(side) or {}) for one in (before, after))
        if not was.keys() <= now.keys():
            yield forbidden((*at, side), f"resource {side} cannot be removed")
        other = other or _without(was) != _without(now)
    if other:
        yield forbidden(_AT, "only cpu and memory resources are mutable")


def _without(amounts: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: amount for name, amount in amounts.items() if name not in _MUTABLE}
