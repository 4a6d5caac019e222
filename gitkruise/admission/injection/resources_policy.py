"""resourcesPolicy: a sidecar's resources as a formula over those of the app containers.

Source: OpenKruise's injection; evaluated for every pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.injection.expression import (
    ZERO,
    Amount,
    BadAmountExpression,
    Value,
    amount,
    evaluate,
    in_milli,
    whole,
)
from gitkruise.model.workloads.sidecarset_hash import is_native
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.schema.patterns import BadPattern, compile_pattern

RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class _Totals:
    """The amounts a formula may use; a limit that is not there is unlimited."""

    limits: Mapping[str, Amount]
    requests: Mapping[str, Amount]


def planned_resources(policy: Obj, pod_spec: Obj, sidecar_names: frozenset[str]) -> dict[str, Any]:
    """`resources` of a sidecar with a resourcesPolicy, in a pod as it was sent.

    `sidecar_names` are those of all SidecarSets of the pod: they are never counted. Raises
    ValueError when no container is meant, or a formula cannot be computed.
    """
    try:
        pattern = compile_pattern(policy.get("targetContainersNameRegex") or "")
    except BadPattern as error:
        raise ValueError(f"targetContainersNameRegex: {error}") from error
    targets = [
        container
        for container in _candidates(pod_spec)
        if container["name"] not in sidecar_names and pattern.search(container["name"])
    ]
    if not targets:
        raise ValueError("targetContainersNameRegex matches no container of the pod")
    totals = _totals(targets, policy.get("targetContainersMode") or "")
    return _computed(policy.get("resourcesExpr") or {}, totals)


def variable_of(expression: str) -> str:
    """The one variable an expression may use."""
    return "memory" if "memory" in expression.lower() else "cpu"


def _candidates(pod_spec: Obj) -> Iterable[Obj]:
    yield from (c for c in pod_spec.get("initContainers") or () if is_native(c))
    yield from pod_spec.get("containers") or ()


def _totals(targets: Sequence[Obj], mode: str) -> _Totals:
    limits, requests = {}, {}
    for name in RESOURCES:
        limited = _amounts(targets, "limits", name)
        if limited and len(limited) == len(targets):
            limits[name] = _together(limited, mode)
        asked = _amounts(targets, "requests", name)
        if asked and (mode != "sum" or any(one.value for one in asked)):
            requests[name] = _together(asked, mode)
    return _Totals(limits, requests)


def _amounts(targets: Sequence[Obj], side: str, name: str) -> list[Amount]:
    listed = ((container.get("resources") or {}).get(side) or {} for container in targets)
    return [amount(amounts[name]) for amounts in listed if amounts.get(name) is not None]


def _together(amounts: Sequence[Amount], mode: str) -> Amount:
    if mode != "sum":
        return max(amounts, key=lambda one: one.value)
    style = next((one.style for one in amounts if one.value), amounts[0].style)
    return Amount(sum((one.value for one in amounts), start=ZERO.value), style)


def _computed(formulas: Obj, totals: _Totals) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for side, known in (("limits", totals.limits), ("requests", totals.requests)):
        amounts = {}
        for name in RESOURCES:
            expression = (formulas.get(side) or {}).get(name) or ""
            if not expression or (side == "limits" and name not in known):
                continue
            amounts[name] = _result(expression, known.get(name, ZERO), f"{side}.{name}")
        if amounts:
            out[side] = amounts
    return out


def _result(expression: str, total: Amount, where: str) -> str:
    variable = variable_of(expression)
    try:
        found: Value = evaluate(expression, {variable: total})
        if isinstance(found, Amount):
            return found.text
        return (in_milli(found) if variable == "cpu" else in_milli(float(whole(found)))).text
    except BadAmountExpression as error:
        raise ValueError(f"resourcesExpr.{where}: {expression!r}: {error}") from error
