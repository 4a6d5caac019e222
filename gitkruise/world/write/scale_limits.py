"""Validation of the replica counts behind a custom resource's scale subresource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.errors import Problem
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

COUNT_MAX: Final = 2**31 - 1
_GO: Final = {str: "string", bool: "bool", float: "float64", list: "[]interface {}"}


def count_problems(kind: Kind, obj: Obj, subresource: str) -> Iterator[Problem]:
    """Validate the replica counts of `obj`.

    Source: ValidateScaleSpec and ValidateScaleStatus of customResourceValidator; a write of
    the status does not validate the spec.
    """
    if not kind.crd or kind.scale is None:
        return
    paths = kind.scale.replicas, kind.scale.status_replicas
    for path in paths[1:] if subresource == "status" else paths:
        why = _wrong(path, get(obj, *path, default=0))
        if why:
            yield Problem(("." + ".".join(path),), "FieldValueInvalid", f"Invalid value: {why}")


def _wrong(path: tuple[str, ...], count: Any) -> str:
    if isinstance(count, bool) or not isinstance(count, int):
        shown = str(count).lower() if isinstance(count, bool) else count
        reason = f"{shown} is of the type {_GO.get(type(count), 'map[string]interface {}')}"
        return f"0: .{'.'.join(path)} accessor error: {reason}, expected int64"
    if count < 0:
        return f"{count}: should be a non-negative integer"
    return f"{count}: should be less than or equal to {COUNT_MAX}" if count > COUNT_MAX else ""
