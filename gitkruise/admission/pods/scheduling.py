"""Scheduling fields of a pod: affinity, tolerations, topology spread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import (
    EACH,
    Table,
    at_least,
    between,
    each,
    like,
    need,
    one_of,
    present,
)
from gitkruise.admission.rules.field_errors import (
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from gitkruise.admission.rules.labels import selector_problems
from gitkruise.errors import Problem
from gitkruise.wire.primitives.names import Obj

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_WITH_VALUES, _WITHOUT = {"In", "NotIn"}, {"Exists", "DoesNotExist"}
_ONE_NUMBER: Final = {"Gt", "Lt"}
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHT: Final = between(1, 100, "must be in the range 1-100")
_EMPTY: Final = "can not be empty"

_SPREAD: Final = Table(
    (("maxSkew",), (at_least(1, "must be greater than zero"),)),
    (("topologyKey",), (need(_EMPTY), like(formats.qualified_name))),
    (("whenUnsatisfiable",), (present, one_of("DoNotSchedule", "ScheduleAnyway"))),
    (("minDomains",), (at_least(1, "must be greater than 0"),)),
    ((("nodeAffinityPolicy", "nodeTaintsPolicy"),), (one_of("Honor", "Ignore"),)),
    (("labelSelector",), (selector_problems,)),
)
_TERM: Final = Table(
    (("topologyKey",), (need(_EMPTY), like(formats.qualified_name))),
    (("labelSelector",), (selector_problems,)),
    (("namespaceSelector",), (selector_problems,)),
    (("namespaces", EACH), (like(formats.dns_label),)),
)


def affinity_problems(affinity: Any, at: Path) -> Iterator[Problem]:
    """Node affinity, pod affinity and pod anti-affinity (validateAffinity)."""
    chosen = affinity or {}
    node = chosen.get("nodeAffinity") or {}
    yield from _node_problems(node, (*at, "nodeAffinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = chosen.get(kind) or {}
        yield from each(rules.get(_REQUIRED), (*at, kind, _REQUIRED), _term_problems)
        yield from each(rules.get(_PREFERRED), (*at, kind, _PREFERRED), _weighted_problems)


def _node_problems(node: Obj, at: Path) -> Iterator[Problem]:
    wanted = node.get(_REQUIRED)
    if wanted is not None:
        terms = (*at, _REQUIRED, "nodeSelectorTerms")
        if not wanted.get("nodeSelectorTerms"):
            yield required(terms, "must have at least one node selector term")
        yield from each(wanted.get("nodeSelectorTerms"), terms, selector_term_problems)
    yield from each(node.get(_PREFERRED), (*at, _PREFERRED), preference_problems)


def preference_problems(choice: Obj, at: Path) -> Iterator[Problem]:
    """One preferred node selector term (ValidatePreferredSchedulingTerms)."""
    yield from _WEIGHT(choice.get("weight") or 0, (*at, "weight"))
    yield from selector_term_problems(choice.get("preference") or {}, (*at, "preference"))


def selector_term_problems(term: Obj, at: Path) -> Iterator[Problem]:
    """One node selector term (ValidateNodeSelectorTerm)."""
    yield from each(term.get("matchExpressions"), (*at, "matchExpressions"), _node_requirement)
    for index, field in enumerate(term.get("matchFields") or ()):
        path = (*at, "matchFields", index)
        if field.get("key") != "metadata.name":
            yield invalid((*path, "key"), field.get("key"), "not a valid field selector key")
        if field.get("operator") not in _WITH_VALUES:
            yield invalid(
                (*path, "operator"), field.get("operator"), "not a valid selector operator"
            )
        elif len(field.get("values") or ()) != 1:
            text = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            yield required((*path, "values"), text)


def _node_requirement(requirement: Obj, at: Path) -> Iterator[Problem]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in _WITH_VALUES and not values:
        yield required((*at, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden((*at, "values"), text)
    elif operator in _ONE_NUMBER and len(values) != 1:
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        yield required((*at, "values"), text)
    elif operator in _ONE_NUMBER and not re.fullmatch(r"[+-]?[0-9]+", values[0]):
        yield invalid((*at, "values", 0), values[0], "must be an integer for 'Lt' and 'Gt'")
    elif operator not in _WITH_VALUES | _WITHOUT | _ONE_NUMBER:
        yield invalid((*at, "operator"), operator, "not a valid selector operator")
    key = requirement.get("key") or ""
    yield from (invalid((*at, "key"), key, text) for text in formats.qualified_name(key))


def _term_problems(term: Obj, at: Path) -> Iterator[Problem]:
    yield from _TERM.problems(term, at)


def _weighted_problems(choice: Obj, at: Path) -> Iterator[Problem]:
    yield from _WEIGHT(choice.get("weight") or 0, (*at, "weight"))
    yield from _term_problems(choice.get("podAffinityTerm") or {}, (*at, "podAffinityTerm"))


def toleration_problems(toleration: Obj, at: Path) -> Iterator[Problem]:
    """One toleration (ValidateTolerations)."""
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    effect = toleration.get("effect") or ""
    yield from like(formats.qualified_name)(key, (*at, "key"))
    if not key and operator != "Exists":
        text = (
            "operator must be Exists when `key` is empty, "
            'which means "match all values and all keys"'
        )
        yield invalid((*at, "operator"), operator, text)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid((*at, "effect"), effect, text)
    value = toleration.get("value") or ""
    if operator == "Exists" and value:
        text = "value must be empty when `operator` is 'Exists'"
        yield invalid((*at, "operator"), toleration, text)
    elif operator in {"", "Equal"}:
        yield from (invalid((*at, "operator"), value, s) for s in formats.label_value(value))
    elif operator != "Exists":
        yield unsupported((*at, "operator"), operator, ("Equal", "Exists"))
    yield from one_of(*_EFFECTS)(effect, (*at, "effect"))


def spread_problems(constraints: Any, at: Path) -> Iterator[Problem]:
    """topologySpreadConstraints (validateTopologySpreadConstraints)."""
    seen: set[tuple[Any, Any]] = set()
    for index, constraint in enumerate(constraints or ()):
        path = (*at, index)
        yield from _SPREAD.problems({"maxSkew": 0, **constraint}, path)
        policy = constraint.get("whenUnsatisfiable")
        if constraint.get("minDomains") is not None and policy != "DoNotSchedule":
            text = "can only use minDomains if whenUnsatisfiable=DoNotSchedule"
            yield invalid((*path, "minDomains"), constraint["minDomains"], text)
        pair = (constraint.get("topologyKey"), policy)
        if pair in seen:
            text = f"{{{pair[0]}, {policy}}}"
            yield duplicate((*path, "{topologyKey, whenUnsatisfiable}"), text)
        seen.add(pair)
