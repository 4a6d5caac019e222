"""Checks of commits that gitkruise writes itself: promotions, rollbacks on failure, and newer
images."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.config.analysis_checks import bad_analysis
from gitkruise.gitops.config.dependency_checks import places
from gitkruise.gitops.config.registry_checks import (
    address_problem,
    range_findings,
    registry_address,
)
from gitkruise.model.gitops.config import Config, Unit, resolve_reference
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.model.gitops.promotion import PROMOTED, Promotion, PromotionStep
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_duration
from gitkruise.wire.schema.patterns import BadPattern, compile_pattern
from gitkruise.wire.values.images import is_image
from gitkruise.wire.values.images import repository as repository_of


def impossible_promotions(config: Config) -> Iterator[Finding]:
    """GK7033 for a unit whose commits could never be written. References must resolve."""
    for unit in config.units.values():
        yield from _impossible(config, unit)


def check_promotion(config: Config, unit: Unit) -> None:
    """Check a unit that does not come from a checked file. Raises UsageProblem GK7033."""
    findings = list(_impossible(config, unit))
    if findings:
        raise UsageProblem(*findings)


def _impossible(config: Config, unit: Unit) -> Iterator[Finding]:
    promotion, failure_handler = unit.spec.promotion, unit.spec.on_failure
    if promotion is not None:
        yield from _workload(unit, promotion)
        yield from _steps(unit, promotion)
        for path, why, next_ in bad_analysis(unit, promotion):
            yield _bad(unit, ("promotion", *path), why, next_)
        pull = promotion.via == "pull-request"
        yield from _way(config, unit, ("promotion",), pull="via" if pull else "")
        if not pull and promotion.merge != "manual":
            why = "without pull requests there is nothing to merge"
            yield _bad(unit, ("promotion", "merge"), why, "take merge out")
    if failure_handler != "hold":
        pull_field = "onFailure" if failure_handler == "revert-pr" else ""
        yield from _way(config, unit, ("onFailure",), pull=pull_field)
    for number, image in enumerate(unit.spec.images):
        if image.write != "none":
            pull_field = "write" if image.write == "pullRequest" else ""
            yield from _way(config, unit, ("images", number), pull=pull_field)


def _workload(unit: Unit, promotion: Promotion) -> Iterator[Finding]:
    workload = promotion.workload
    if workload.group_kind in PROMOTED:
        return
    known = [kind for kind in PROMOTED if kind.kind == workload.kind]
    groups = " or ".join(kind.group for kind in known)
    why = f"{workload.api_version} has no {workload.kind} that can be promoted"
    next_ = f"name a version of {groups}, or take apiVersion out"
    yield _bad(unit, ("promotion", "workload", "apiVersion"), why, next_)


def _steps(unit: Unit, promotion: Promotion) -> Iterator[Finding]:
    if not promotion.steps:
        yield _bad(
            unit,
            ("promotion", "steps"),
            "there is no step",
            "name partitions, highest first, or updated pods, lowest first",
        )
    for number, step in enumerate(promotion.steps):
        yield from _amount(unit, step, number)
        try:
            parse_duration(step.soak)
        except ValueError as error:
            yield _bad(
                unit, ("promotion", "steps", number, "soak"), str(error), "write 30s, 10m or 1h30m"
            )
    for number, (one, other) in enumerate(pairwise(promotion.steps), 1):
        here, there = _kept(one), _kept(other)
        if here is not None and there is not None and here[0] == there[0] and here[1] <= there[1]:
            why = f"{_written(other)} keeps no fewer pods back than {_written(one)} before it"
            field = "partition" if other.updated is None else "updated"
            path = ("promotion", "steps", number, field)
            yield _bad(unit, path, why, "let partitions go down, or updated go up")


# Images -----------------------------------------------------------------------------------------

_IMAGE_INTERVAL_MIN: Final = timedelta(seconds=10)


def image_findings(document: Document) -> Iterator[Finding]:
    """GK7003, GK7005 and GK7022 for images that could never be followed as they are written."""
    known: set[str] = set()
    images = get(document.obj, "spec", "images", default=())
    for number, image in enumerate(images):
        for path, why, next_ in (*_repository(image, known), *_policy(image)):
            at: FieldPath = ("spec", "images", number, *path)
            yield _wrong(document, at, why, next_)
        yield from _interval(document, number, str(image.get("interval", "5m")))
        text = get(image, "policy", "semver", "range")
        if text is not None:
            at = ("spec", "images", number, "policy", "semver", "range")
            yield from range_findings(document, text, at)
        known.add(repository_of(image["repository"]))
    chart = get(document.obj, "spec", "render", "kind") == "helm"
    if chart and any(image.get("write") != "none" for image in images):
        why = "a chart computes its images from values, which gitkruise does not edit"
        next_ = "write write: none, which only shows newer tags, or take images out"
        yield _wrong(document, ("spec", "images"), why, next_)


def _repository(image: Obj, known: Collection[str]) -> Iterator[tuple[FieldPath, str, str]]:
    text = image["repository"]
    next_ = "write HOST/NAME, without a tag: registry.example.com/shop/web"
    if not is_image(f"{text}:tag"):
        yield ("repository",), f"{shown(text)} is not the name of an image without a tag", next_
        return
    why = address_problem(registry_address(text), secret="secretRef" in image)
    if why:
        yield ("repository",), why, next_
    if repository_of(text) in known:
        yield ("repository",), f"{shown(text)} has a policy already", "keep one of the two"


def _policy(image: Obj) -> Iterator[tuple[FieldPath, str, str]]:
    if len(image["policy"]) != 1:
        why = "an image has one policy"
        yield ("policy",), why, "write semver, alphabetical or numerical"
    chosen = image.get("filterTags", {})
    try:
        compile_pattern(chosen.get("pattern", ""))
    except BadPattern as error:
        yield ("filterTags", "pattern"), str(error), "write a regular expression of RE2"
    if chosen.get("extract") and not chosen.get("pattern"):
        why = "without a pattern there is nothing to extract from"
        yield ("filterTags", "extract"), why, "write pattern, or take extract out"


def _interval(document: Document, number: int, text: str) -> Iterator[Finding]:
    try:
        why = "" if parse_duration(text) >= _IMAGE_INTERVAL_MIN else f"{text} is less than 10s"
    except ValueError as error:
        why = str(error)
    if why:
        yield Finding(
            code="GK7005",
            message=f"spec.images.{number}.interval: {why}",
            places=(document.place(("spec", "images", number, "interval")),),
        )


def _wrong(document: Document, path: FieldPath, why: str, next_: str) -> Finding:
    return Finding(
        code="GK7003",
        message=f"Unit {'.'.join(map(str, path))}: {why}",
        places=(document.place(path),),
        notes=(("next", next_),),
    )


# Steps ------------------------------------------------------------------------------------------


def bare_step(document: Document, path: tuple[str | int, ...], value: object) -> Finding | None:
    """Return GK7033 for a step that is an amount alone; None for any other value."""
    if path[:3] != ("spec", "promotion", "steps") or len(path) != 4:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    dotted = ".".join(str(part) for part in path)
    return Finding(
        code="GK7033",
        message=f"Unit {dotted}: {value} does not say which pods it counts, the updated or the "
        "remaining ones",
        places=(document.place(path),),
        notes=_both_spellings(value),
    )


def _both_spellings(amount: object) -> tuple[tuple[str, str], ...]:
    return (
        ("next", f"write {{updated: {amount}}}: that many pods on the new revision; or"),
        ("", f"write {{partition: {amount}}}: that many stay on the old one"),
    )


def _amount(unit: Unit, step: PromotionStep, number: int) -> Iterator[Finding]:
    """Findings for a step that does not have one readable amount."""
    path = ("promotion", "steps", number)
    if step.partition is None and step.updated is None:
        why = "the step does not say how many pods it is about"
        yield _bad(unit, path, why, "write updated: 70%, or the same as partition: 30%")
    elif step.partition is not None and step.updated is not None:
        why = "updated and partition set the same field"
        yield _bad(unit, path, why, f"write {_written(step)} alone, or partition alone")
    elif step.partition is not None and not _is_amount(step.partition):
        why = f"{step.partition!r} is no partition"
        yield _bad(unit, (*path, "partition"), why, "write 28, or 30%")
    elif step.updated is not None and not _is_amount(step.updated):
        why = f"{step.updated!r} is no number of updated pods"
        yield _bad(unit, (*path, "updated"), why, "write 12, or 70%")


def _is_amount(value: int | str) -> bool:
    if isinstance(value, int):
        return value >= 0
    digits = value.removesuffix("%")
    number = digits != value and digits.isascii() and digits.isdigit() and len(digits) < 10
    return number and int(digits) <= 100


def _kept(step: PromotionStep) -> tuple[str, int] | None:
    """Return what pods are counted in, and how many stay; None for an invalid step."""
    amount = step.partition if step.updated is None else step.updated
    if amount is None or not _is_amount(amount):
        return None
    text = str(amount)
    number = int(text.removesuffix("%"))
    if text.endswith("%"):
        return "%", number if step.updated is None else 100 - number
    return ("pods", number) if step.updated is None else ("updated pods", -number)


def _written(step: PromotionStep) -> str:
    return f"{step.partition}" if step.updated is None else f"updated: {step.updated}"


# Fields that ask for pull requests, and their value for commits to the branch.
_PUSHED: Final = {"via": "commit", "write": "commit", "onFailure": "revert-push"}


def _way(config: Config, unit: Unit, field: FieldPath, *, pull: str) -> Iterator[Finding]:
    """Findings for a unit whose commits have no way into git, or from there back to the unit.

    `pull` names the field that requires pull requests, if any does.
    """
    source, sink = config.source_of(unit), config.sink_of(unit)
    if source.spec.is_artifact:
        why = "the unit's source is an artifact of a registry, which no commit changes"
        yield _bad(unit, field, why, "take it out, or let the unit follow a git repository")
        return
    if not source.spec.ref.is_branch:
        why = "the unit's source follows no branch, so that a commit does not move it"
        yield _bad(unit, field, why, "let the GitSource follow ref.branch")
    git = sink.spec.git if sink is not None else None
    if sink is None or git is None:
        why = "the unit has no Sink that may write its repository"
        yield _bad(unit, field, why, "name a sinkRef whose Sink has git")
        return
    written = config.sources[resolve_reference(git.source_ref, sink.namespace)]
    if written.spec.url != source.spec.url:
        why = f"Sink {sink.name} writes another repository than the unit's own"
        yield _bad(unit, field, why, "let its git.sourceRef name the unit's GitSource")
    if pull and sink.spec.forge is None:
        why = f"Sink {sink.name} has no forge to open a pull request on"
        where = field if pull in field else (*field, pull)
        yield _bad(unit, where, why, f"give the Sink a forge, or write {pull}: {_PUSHED[pull]}")
    verify = source.spec.verify
    # The merge of a pull request is signed by others; `range` verifies what it merges, too.
    verified = verify is not None and (verify.mode == "range" or not pull)
    if verified and git.signing is None:
        why = f"GitSource {source.name} requires signatures, and Sink {sink.name} does not sign"
        yield _bad(unit, field, why, "give it git.signing, and its public key to verify.secretRef")


def _bad(unit: Unit, path: tuple[str | int, ...], why: str, next_: str) -> Finding:
    dotted = ".".join(str(part) for part in path)
    return Finding(
        code="GK7033",
        message=f"Unit {unit.id}: spec.{dotted}: {why}",
        places=places(unit, *path),
        notes=(("next", next_),),
    )
