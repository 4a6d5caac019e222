"""Field errors in Kubernetes' words: one constructor per kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from gitkruise.errors import Problem
from gitkruise.wire.primitives.gojson import plain

Path: TypeAlias = tuple[str | int, ...]
Check: TypeAlias = Callable[[Any, Path], Iterable[Problem]]  # the value at a path, maybe None

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"


def required(at: Path, detail: str = "") -> Problem:
    return Problem(at, "FieldValueRequired", _with("Required value", detail))


def invalid(at: Path, value: Any, detail: str) -> Problem:
    return Problem(at, "FieldValueInvalid", _with(f"Invalid value: {shown(value)}", detail))


def unsupported(
    at: Path, value: Any, allowed: Iterable[str], *, as_listed: bool = False
) -> Problem:
    """Most of the server's rules list what is allowed in order, some as they have it."""
    choices = ", ".join(f'"{choice}"' for choice in (allowed if as_listed else sorted(allowed)))
    return Problem(
        at,
        "FieldValueNotSupported",
        f"Unsupported value: {shown(value)}: supported values: {choices}",
    )


def duplicate(at: Path, value: Any) -> Problem:
    return Problem(at, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def not_found(at: Path, value: Any) -> Problem:
    return Problem(at, "FieldValueNotFound", f"Not found: {shown(value)}")


def forbidden(at: Path, detail: str) -> Problem:
    return Problem(at, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(at: Path, limit: int) -> Problem:
    return Problem(at, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def named(problem: Problem, field: Path) -> Problem:
    """Replace the field by the name that the server reports, which differs from its path."""
    return replace(problem, named=field)


def shown(value: Any) -> str:
    """A value as a message quotes it: strings in quotes, the rest as compact JSON."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=plain
    )


def _with(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what
