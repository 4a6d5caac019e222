"""Fields that only sidecar containers have: placement, upgrade, transfers, resource formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gitkruise.admission.injection.expression import BadAmountExpression, amount, evaluate
from gitkruise.admission.injection.resources_policy import RESOURCES, variable_of
from gitkruise.admission.pods.env import SUBSCRIPT
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import (
    Path,
    forbidden,
    invalid,
    named,
    required,
    unsupported,
)
from gitkruise.errors import Problem
from gitkruise.model.workloads.sidecarset import HOT_UPGRADE
from gitkruise.model.workloads.sidecarset_hash import is_native
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.schema.patterns import BadPattern, compile_pattern

_PLACES: Final = ("AfterAppContainer", "BeforeAppContainer")
_SHARING: Final = ("disabled", "enabled")
_NAME_MAX: Final = 63
_PAIR_SUFFIX: Final = 2  # characters


def sidecar_problems(spec: Obj) -> Iterator[Problem]:
    """The rules of Kruise's own fields in both lists of sidecars.

    OpenKruise names the fields of both lists by `spec` and the index alone.
    """
    for index, container in enumerate(spec.get("initContainers") or ()):
        at: Path = ("spec", "initContainers", index)
        if container.get("resourcesPolicy") is not None and not is_native(container):
            text = "only a container that keeps running may have a resourcesPolicy"
            problem = forbidden((*at, "resourcesPolicy"), text)
            yield named(problem, ("spec", index, "resourcesPolicy"))
        else:
            yield from _policy_problems(container, at)
        yield from _transfer_problems(container, at)
        yield from _pair_problems(container, at, is_pair=is_native(container))
    for index, container in enumerate(spec.get("containers") or ()):
        at = ("spec", "containers", index)
        yield from _placing_problems(container, at)
        yield from _policy_problems(container, at)
        yield from _transfer_problems(container, at)
        yield from _pair_problems(container, at, is_pair=True)


def _placing_problems(container: Obj, at: Path) -> Iterator[Problem]:
    place = container.get("podInjectPolicy") or ""
    if place not in _PLACES:
        problem = unsupported((*at, "podInjectPolicy"), place, _PLACES)
        yield named(problem, ("spec", "container", "podInjectPolicy"))
    sharing = get(container, "shareVolumePolicy", "type", default="")
    if sharing not in _SHARING:
        problem = unsupported((*at, "shareVolumePolicy", "type"), sharing, _SHARING)
        yield named(problem, ("spec", "container", "shareVolumePolicy"))


def _pair_problems(container: Obj, at: Path, *, is_pair: bool) -> Iterator[Problem]:
    """The two containers of a hot upgrade have longer names, and one of them an empty image.

    OpenKruise admits one without that image, and then no pod of the selector any more.
    """
    name = container.get("name") or ""
    hot = get(container, "upgradeStrategy", "upgradeType") == HOT_UPGRADE
    if is_pair and hot and _NAME_MAX - _PAIR_SUFFIX < len(name) <= _NAME_MAX:
        text = f"must be no more than {_NAME_MAX - _PAIR_SUFFIX} characters for a HotUpgrade"
        yield invalid((*at, "name"), name, text)
    if is_pair and hot and not get(container, "upgradeStrategy", "hotUpgradeEmptyImage"):
        text = "the image of the container that waits for the next upgrade"
        yield required((*at, "upgradeStrategy", "hotUpgradeEmptyImage"), text)


def _transfer_problems(container: Obj, at: Path) -> Iterator[Problem]:
    field: Path = ("spec", at[-1], "transferEnv", "fieldRef")
    for number, term in enumerate(container.get("transferEnv") or ()):
        source = term.get("sourceContainerNameFrom")
        if source is None:
            continue
        path = (*at, "transferEnv", number, "sourceContainerNameFrom", "fieldRef")
        ref = source.get("fieldRef")
        if ref is None:
            problem = required(path, "sourceContainerNameFrom needs a fieldRef")
            yield named(problem, field)
            continue
        for problem in _reference_problems(ref, path):
            yield named(problem, (*field, *problem.path[len(path) :]))


def _reference_problems(ref: Obj, at: Path) -> Iterator[Problem]:
    version = ref.get("apiVersion") or ""
    if version != "v1":
        path = (*at, "apiVersion")
        yield invalid(path, version, "must be v1") if version else required(path)
    yield from _field_problems(ref.get("fieldPath") or "", (*at, "fieldPath"))


def _field_problems(path: str, at: Path) -> Iterator[Problem]:
    found = SUBSCRIPT.fullmatch(path)
    if not path:
        yield required(at)
    elif not found:
        text = "must be metadata.labels['<key>'] or metadata.annotations['<key>']"
        yield invalid(at, path, text)
    else:
        key = found[2] if found[1] == "metadata.labels" else found[2].lower()
        yield from (invalid(at, path, sentence) for sentence in formats.qualified_name(key))


def _policy_problems(container: Obj, at: Path) -> Iterator[Problem]:
    policy = container.get("resourcesPolicy")
    if policy is None:
        return
    resources = container.get("resources") or {}
    place = (*at, "resourcesPolicy")
    if resources.get("limits") or resources.get("requests"):
        problems = iter((forbidden(place, "resources and resourcesPolicy exclude each other"),))
    else:
        problems = _rule_problems(policy, place)
    for problem in problems:
        yield named(problem, ("spec", *problem.path[2:]))


def _rule_problems(policy: Obj, at: Path) -> Iterator[Problem]:
    yield from _pattern_problems(policy, (*at, "targetContainersNameRegex"))
    formulas: Obj = policy.get("resourcesExpr") or {}
    sides = [side for side in ("limits", "requests") if formulas.get(side) is not None]
    if not sides:
        yield required((*at, "resourcesExpr"), "one of limits and requests must be given")
    for side in sides:
        for name in RESOURCES:
            expression = formulas[side].get(name) or ""
            if expression:
                yield from _formula_problems(expression, (*at, "resourcesExpr", side, name))


def _pattern_problems(policy: Obj, at: Path) -> Iterator[Problem]:
    pattern = policy.get("targetContainersNameRegex") or ""
    if not pattern:
        yield required(at)
        return
    try:
        compile_pattern(pattern)
    except BadPattern as error:
        yield invalid(at, pattern, str(error))


def _formula_problems(expression: str, at: Path) -> Iterator[Problem]:
    """A formula is tried with the number 1, as OpenKruise does, and with one unit of a quantity.

    The second try refuses what would deny every pod; that its result is negative says nothing.
    """
    variable = variable_of(expression)
    try:
        evaluate(expression, {variable: 1.0}, strict=True)
        evaluate(f"max(0, {expression})", {variable: amount("1")}, strict=True)
    except BadAmountExpression as error:
        yield invalid(at, expression, str(error))
