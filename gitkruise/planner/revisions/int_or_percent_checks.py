"""Amounts of an update strategy that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gitkruise.errors import Problem
from gitkruise.wire.values.intstr import IntOrString, resolve, resolve_decimal

PARTITION: Final = "partition"


def bad_amounts(amounts: Mapping[str, IntOrString | None]) -> tuple[Problem, ...]:
    """Those of `amounts`, by their field in updateStrategy, that mean nothing.

    A planner that read them as 0 would update everything.
    """
    found = []
    for field, value in amounts.items():
        if isinstance(value, str) and not _readable(field, value):
            path = ("spec", "updateStrategy", field)
            text = f'Invalid value: "{value}": must be an integer or a percentage such as "25%"'
            found.append(Problem(path, "FieldValueInvalid", text))
    return tuple(found)


def _readable(field: str, value: str) -> bool:
    """Partition takes decimals; the others whole percentages only, as OpenKruise reads them."""
    try:
        if field == PARTITION:
            resolve_decimal(value, 100, round_up=True)
        else:
            resolve(value, 100, round_up=True)
    except ValueError:
        return False
    return True
