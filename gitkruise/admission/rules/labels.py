"""Validation of labels, annotations and label selectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid, required, too_long
from gitkruise.errors import MapKey, Problem
from gitkruise.model.workloads.labels import DELETION_COST
from gitkruise.wire.primitives.names import Obj

_OPERATORS: Final = ("DoesNotExist", "Exists", "In", "NotIn")
_COST: Final = re.compile(r"0|[1-9][0-9]*|-[0-9]+", re.ASCII)
_ANNOTATION_BYTES: Final = 256 * 1024


def label_problems(labels: Any, at: Path) -> Iterator[Problem]:
    """metav1validation.ValidateLabels."""
    for key, value in (labels or {}).items():
        yield from (invalid(at, key, sentence) for sentence in formats.qualified_name(key))
        yield from (invalid(at, value, sentence) for sentence in formats.label_value(value or ""))


def annotation_problems(annotations: Any, at: Path) -> Iterator[Problem]:
    """apimachinery's ValidateAnnotations: keys in any case, 256 KiB together."""
    total = 0
    for key, value in (annotations or {}).items():
        yield from (invalid(at, key, text) for text in formats.qualified_name(key.lower()))
        total += len(key.encode()) + len((value or "").encode())
    if total > _ANNOTATION_BYTES:
        yield too_long(at, _ANNOTATION_BYTES)


def deletion_cost_problems(annotations: Any, at: Path) -> Iterator[Problem]:
    """Problem of a pod-deletion-cost that is no plain integer of 32 bits (1.34)."""
    text = (annotations or {}).get(DELETION_COST)
    if text is None or (_COST.fullmatch(text) and -(1 << 31) <= int(text) < 1 << 31):
        return
    yield invalid((*at, MapKey(DELETION_COST)), text, "must be a 32bit integer")


def selector_problems(selector: Obj | None, at: Path) -> Iterator[Problem]:
    """metav1validation.ValidateLabelSelector."""
    if not selector:
        return
    yield from label_problems(selector.get("matchLabels"), (*at, "matchLabels"))
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        yield from _requirement_problems(requirement, (*at, "matchExpressions", index))


def _requirement_problems(requirement: Obj, at: Path) -> Iterator[Problem]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in {"In", "NotIn"} and not values:
        yield required((*at, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"} and values:
        yield forbidden(
            (*at, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        )
    elif operator not in _OPERATORS:
        yield invalid((*at, "operator"), operator, "not a valid selector operator")
    key = requirement.get("key") or ""
    yield from (invalid((*at, "key"), key, text) for text in formats.qualified_name(key))
    for index, value in enumerate(values):
        for text in formats.label_value(value):
            yield invalid((*at, "values", index), value, text)


def is_empty(selector: Obj | None) -> bool:
    """No requirement at all: matches everything."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))
