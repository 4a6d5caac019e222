"""What is wrong with a unit's promotion, beyond what the schema can say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.waits import places
from gitkruise.model.config import Config, Unit, resolve_reference
from gitkruise.model.promotion import Promotion
from gitkruise.wire.times import parse_duration


def impossible_promotions(config: Config) -> Iterator[Finding]:
    """GK7033 for promotions that could never make a step. References must resolve."""
    for unit in config.units.values():
        if unit.spec.promotion is not None:
            yield from _impossible(config, unit, unit.spec.promotion)


def check_promotion(config: Config, unit: Unit) -> None:
    """Raises UsageProblem GK7033. For units that come from elsewhere than a checked file."""
    assert unit.spec.promotion is not None
    findings = list(_impossible(config, unit, unit.spec.promotion))
    if findings:
        raise UsageProblem(*findings)


def _impossible(config: Config, unit: Unit, promotion: Promotion) -> Iterator[Finding]:
    yield from _steps(unit, promotion)
    yield from _way(config, unit, promotion)


def _steps(unit: Unit, promotion: Promotion) -> Iterator[Finding]:
    if not promotion.steps:
        yield _bad(unit, ("steps",), "there is no step", "name partitions, highest first")
    for number, step in enumerate(promotion.steps):
        if not _is_partition(step.partition):
            why = f"{step.partition!r} is no partition"
            yield _bad(unit, ("steps", number, "partition"), why, "write 28, or 30%")
        try:
            parse_duration(step.soak)
        except ValueError as error:
            yield _bad(unit, ("steps", number, "soak"), str(error), "write 30s, 10m or 1h30m")
    for number, (one, other) in enumerate(pairwise(promotion.steps), 1):
        here, there = _size(one.partition), _size(other.partition)
        if here is not None and there is not None and here[0] == there[0] and here <= there:
            why = f"{other.partition} keeps no fewer pods back than {one.partition} before it"
            yield _bad(unit, ("steps", number, "partition"), why, "let partitions go down")


def _is_partition(value: int | str) -> bool:
    if isinstance(value, int):
        return value >= 0
    digits = value.removesuffix("%")
    number = digits.isascii() and digits.isdigit() and len(digits) < 10
    return number and (digits == value or int(digits) <= 100)


def _size(value: int | str) -> tuple[bool, int] | None:
    """(whether it is a share, how much); None for what is no partition."""
    if not _is_partition(value):
        return None
    text = str(value)
    return text.endswith("%"), int(text.removesuffix("%"))


def _way(config: Config, unit: Unit, promotion: Promotion) -> Iterator[Finding]:
    """Whether its commits have a way into git, and from there back to the unit."""
    source, sink = config.source_of(unit), config.sink_of(unit)
    ref = source.spec.ref
    if ref.commit or ref.name or ref.semver or ref.tag:
        why = "the unit's source follows no branch, so that a commit does not move it"
        yield _bad(unit, (), why, "let the GitSource follow ref.branch")
    git = sink.spec.git if sink is not None else None
    if sink is None or git is None:
        why = "the unit has no Sink that may write its repository"
        yield _bad(unit, (), why, "name a sinkRef whose Sink has git")
        return
    written = config.sources[resolve_reference(git.source_ref, sink.namespace)]
    if written.spec.url != source.spec.url:
        why = f"Sink {sink.name} writes another repository than the unit's own"
        yield _bad(unit, (), why, "let its git.sourceRef name the unit's GitSource")
    if promotion.via == "pull-request" and sink.spec.forge is None:
        why = f"Sink {sink.name} has no forge to open a pull request on"
        yield _bad(unit, ("via",), why, "give it forge, or write via: commit")
    if promotion.via == "commit" and promotion.merge != "manual":
        why = "without pull requests there is nothing to merge"
        yield _bad(unit, ("merge",), why, "take merge out")


def _bad(unit: Unit, path: tuple[str | int, ...], why: str, next_: str) -> Finding:
    dotted = ".".join(str(part) for part in ("promotion", *path))
    return Finding(
        code="GK7033",
        message=f"Unit {unit.id}: spec.{dotted}: {why}",
        places=places(unit, "promotion", *path),
        notes=(("next", next_),),
    )
