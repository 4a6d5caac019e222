"""Checks of references, of `dependsOn` and of expressions when the configuration is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import Finding, SourcePlace
from gitkruise.kube.system.cel import BadCelExpression, holds
from gitkruise.model.gitops.config import (
    FIELDS,
    Config,
    Receiver,
    Reference,
    Sink,
    Unit,
    resolve_reference,
)
from gitkruise.model.gitops.document import FieldPath
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


def places(owner: Unit | Sink | Receiver, *path: str | int) -> tuple[SourcePlace, ...]:
    """Return the place in the file of a field of the owner's spec."""
    return (owner.origin.place(("spec", *path)),) if owner.origin is not None else ()


def named_by(owner: Unit | Sink | Receiver) -> Iterator[tuple[FieldPath, str, Reference]]:
    """Yield the field, the kind, and the name of each source and sink that `owner` refers to."""
    match owner:
        case Unit():
            yield ("sourceRef",), "GitSource", owner.spec.source_ref
            if owner.spec.sink_ref:
                yield ("sinkRef",), "Sink", owner.spec.sink_ref
        case Sink():
            if owner.spec.git:
                yield ("git", "sourceRef"), "GitSource", owner.spec.git.source_ref
        case Receiver():
            for index, ref in enumerate(owner.spec.sources):
                yield ("sources", index), "GitSource", ref


def missing_for(owner: Unit | Sink | Receiver, config: Config) -> Iterator[Finding]:
    """Yield GK7007 for each source or sink that `owner` refers to and `config` lacks, GK7076 for
    one that does not fit."""
    for path, kind, ref in named_by(owner):
        yield from _missing(owner, path, ref, getattr(config, FIELDS[kind]))
    if isinstance(owner, Unit):
        yield from _unknown_to_forge(owner, config)
    elif isinstance(owner, Sink):
        yield from _unwritable(owner, config)


def missing_units(unit: Unit, config: Config) -> Iterator[Finding]:
    """Yield GK7007 for each unit that `unit` depends on and `config` lacks."""
    for index, other in enumerate(unit.spec.depends_on):
        ref = Reference(other.name, other.namespace)
        yield from _missing(unit, ("dependsOn", index), ref, config.units)


def _unwritable(sink: Sink, config: Config) -> Iterator[Finding]:
    """GK7076 for a status branch in what is no git repository."""
    name = resolve_reference(sink.spec.git.source_ref, sink.namespace) if sink.spec.git else ""
    source = config.sources.get(name)
    if source is not None and source.spec.is_artifact:
        yield Finding(
            code="GK7076",
            message=f"Sink {sink.namespace}/{sink.name}: spec.git.sourceRef names {name}, an"
            " artifact of a registry, which has no branches",
            places=places(sink, "git", "sourceRef"),
            notes=(
                ("why", "records of units are written to a branch of a git repository"),
                ("next", "name a GitSource of a git repository, or take git out of the Sink"),
            ),
        )


def _unknown_to_forge(unit: Unit, config: Config) -> Iterator[Finding]:
    """GK7076 for commits that are artifacts, and that a forge should know."""
    ref = unit.spec.sink_ref
    sink = config.sinks.get(resolve_reference(ref, unit.namespace)) if ref else None
    source = config.sources.get(resolve_reference(unit.spec.source_ref, unit.namespace))
    if sink is not None and sink.spec.forge and source is not None and source.spec.is_artifact:
        yield Finding(
            code="GK7076",
            message=f"Unit {unit.id}: Sink {sink.name} has a forge, and the unit's source is an"
            " artifact of a registry, whose commits no forge knows",
            places=places(unit, "sinkRef"),
            notes=(("next", "name a Sink without forge"),),
        )


def _missing(
    owner: Unit | Sink | Receiver, path: FieldPath, ref: Reference, known: Mapping[str, object]
) -> Iterator[Finding]:
    wanted = resolve_reference(ref, owner.namespace)
    if wanted not in known:
        listed = ", ".join(sorted(known)) or "none"
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        yield Finding(
            code="GK7007",
            message=f"{type(owner).__name__} {owner.namespace}/{owner.name}: "
            f"spec{field} names {wanted}, which is not configured",
            places=places(owner, *path),
            notes=(("next", f"configured: {listed}"),),
        )
