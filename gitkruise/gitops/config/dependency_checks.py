"""Checks of `dependsOn` and of expressions when the configuration is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import Finding, SourcePlace
from gitkruise.kube.system.cel import BadCelExpression, holds
from gitkruise.model.gitops.config import Config, Reference, Unit, resolve_reference
from gitkruise.planner.sync.dependencies import cycle

# Fields of a health rule and their names; asked in this order, the first that is true decides.
WORDS: Final = {
    "in_progress": "inProgress", "failed": "failed", "held": "held", "current": "current",
}  # fmt: skip
# What `ready` expressions know of a unit.
_SAMPLE: Final[Mapping[str, Any]] = {
    "phase": "Current", "state": "Done", "message": "", "updated": 1, "total": 1,
}  # fmt: skip
_BARE: Final[Mapping[str, Any]] = {"metadata": {}, "spec": {}, "status": {}, "data": {}}


@dataclass(frozen=True, slots=True)
class ExpressionGroup:
    """Expressions of a unit, each at its path, and a sample of what they are evaluated on."""

    sample: Mapping[str, Any]
    paths: tuple[tuple[str | int, ...], ...]
    texts: tuple[str, ...]


def impossible_waits(config: Config) -> Iterator[Finding]:
    """Findings for units that wait for each other, and for invalid `ready` expressions."""
    for unit in config.units.values():
        yield from bad_expressions(unit)
    circle = cycle({name: waits_of(unit) for name, unit in config.units.items()})
    if circle:
        yield Finding(
            code="GK7030",
            message=f"units wait for each other: {' → '.join(circle)}",
            places=tuple(
                place for name in circle[:-1] for place in places(config.units[name], "dependsOn")
            ),
            notes=(
                ("why", "each would wait until the other is ready, for ever"),
                ("next", "take one of the dependencies out"),
            ),
        )


def waits_of(unit: Unit) -> list[str]:
    """Return the units that `unit` depends on, as `namespace/name`."""
    return [
        resolve_reference(Reference(other.name, other.namespace), unit.namespace)
        for other in unit.spec.depends_on
    ]


def bad_expressions(unit: Unit) -> Iterator[Finding]:
    """GK7031 for each invalid expression of the unit, which an operator wrote: an object's
    expressions are for a worker process."""
    for group in expression_groups(unit):
        for path, text in zip(group.paths, group.texts, strict=True):
            try:
                holds(text, group.sample)
            except BadCelExpression as error:
                yield bad_expression(unit, path, str(error))


def expression_groups(unit: Unit) -> Iterator[ExpressionGroup]:
    """Yield the expressions of the unit that are not empty."""
    waits: dict[tuple[str | int, ...], str] = {
        ("dependsOn", index, "ready"): other.ready
        for index, other in enumerate(unit.spec.depends_on)
        if other.ready
    }
    rules: dict[tuple[str | int, ...], str] = {
        ("health", "exprs", index, WORDS[word]): getattr(rule, word)
        for index, rule in enumerate(unit.spec.health.exprs)
        for word in WORDS
        if getattr(rule, word)
    }
    for sample, found in ((_SAMPLE, waits), (_BARE, rules), ({}, dict(_conditions(unit)))):
        if found:
            yield ExpressionGroup(sample, tuple(found), tuple(found.values()))


def _conditions(unit: Unit) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the conditions of metrics; any value may be their result, so there is no sample."""
    promotion = unit.spec.promotion
    for index, metric in enumerate(promotion.metrics if promotion is not None else ()):
        path = ("promotion", "metrics", index)
        for word, text in (
            ("failureCondition", metric.failure_condition),
            ("successCondition", metric.success_condition),
        ):
            if text:
                yield (*path, word), text


def bad_expression(unit: Unit, path: tuple[str | int, ...], why: str) -> Finding:
    """Return the finding for an invalid expression of the unit."""
    dotted = ".".join(str(part) for part in path)
    return Finding(
        code="GK7031",
        message=f"Unit {unit.id}: spec.{dotted}: {why}",
        places=places(unit, *path),
        notes=(
            ("why", "an expression is written in CEL and is true or false"),
            ("next", "correct it; docs/configuration.md says which names it may use"),
        ),
    )


def places(unit: Unit, *path: str | int) -> tuple[SourcePlace, ...]:
    """Return the place in the file of a field of the unit's spec."""
    return (unit.origin.place(("spec", *path)),) if unit.origin is not None else ()
