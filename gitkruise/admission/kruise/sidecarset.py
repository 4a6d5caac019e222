"""SidecarSet at admission: the defaults and rules of OpenKruise's webhooks, in both versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gitkruise.admission.conversion.registry import convert
from gitkruise.admission.kruise.sidecar_containers import sidecar_problems
from gitkruise.admission.kruise.update_strategy import priority_problems, scatter_problems
from gitkruise.admission.pods.template import KRUISE, pod_spec_problems
from gitkruise.admission.rules.field_errors import (
    Path,
    duplicate,
    forbidden,
    invalid,
    named,
    required,
    unsupported,
)
from gitkruise.admission.rules.labels import annotation_problems, is_empty, selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import BadRequest, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.sidecarset import (
    ALWAYS,
    BASE,
    NOT_UPDATE,
    PARTIAL,
    ROLLING_UPDATE,
    canary_base,
)
from gitkruise.model.workloads.sidecarset_hash import (
    HASH,
    HASH_WITHOUT_IMAGE,
    hash_without_image,
    is_native,
    sidecarset_hash,
)
from gitkruise.wire.kruise.sidecar_defaults import default_sidecarset_spec
from gitkruise.wire.primitives.names import Obj, split_api_version
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.values.selectors import label_selector

HUB: Final = "v1beta1"
_NAME: Final = re.compile(r"[a-zA-Z0-9-]+")
_NAME_MAX: Final = 63
_PERCENT: Final = re.compile(r"[0-9]+%")
_META: Final[Path] = ("metadata",)
_STRATEGY: Final[Path] = ("spec", "updateStrategy")
_PIN: Final[Path] = ("spec", "injectionStrategy", "revision")
_METADATA: Final[Path] = ("spec", "patchPodMetadata")
_STAND_IN: Final = {
    "name": "stand-in",
    "image": "stand-in",
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePolicy": "File",
}
_POD: Final = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}


def default_sidecarset(request: AdmissionRequest, _gates: Gates) -> Obj:
    """The SidecarSet as OpenKruise's mutating webhook stores it: typed, defaulted, hashed.

    The hashes are what it says they are, whatever the annotations held. Raises Malformed.
    """
    sent: Obj = request.new.get("spec") or {}
    _, version = split_api_version(request.new["apiVersion"])
    spec = default_sidecarset_spec(sent, version)
    # a list that came empty is hashed as one, though it is stored as none
    empty: Obj = {"containers": []} if sent.get("containers") == [] else {}
    hashed = {"spec": {**spec, **empty}}
    notes = {
        **(get(request.new, "metadata", "annotations") or {}),
        HASH: sidecarset_hash(hashed),
        HASH_WITHOUT_IMAGE: hash_without_image(hashed),
    }
    out: Obj = put({**request.new, "spec": spec}, ("metadata", "annotations"), notes)
    return out


def sidecarset_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Validate a SidecarSet as OpenKruise's webhook does, with the field paths of v1beta1.

    Rules that read other objects are in `neighbour_problems`.
    """
    obj = convert(request.new, HUB)
    old = None if request.old is None else convert(request.old, HUB)
    spec: Obj = obj.get("spec") or {}
    yield from _name_problems(request.key.name)
    yield from _canary_problems(obj, old)
    yield from _native_problems(spec)
    yield from _selectors_problems(spec)
    yield from _strategy_problems(spec.get("updateStrategy") or {})
    yield from _pin_problems(spec)
    yield from sidecar_problems(spec)
    yield from _pod_problems(spec)
    yield from _metadata_problems(spec.get("patchPodMetadata") or ())
    if old is not None:
        yield from _change_problems(old.get("spec") or {}, spec)


def _name_problems(name: str) -> Iterator[Problem]:
    at = (*_META, "name")
    if not _NAME.fullmatch(name):
        yield invalid(at, name, "must consist of letters, digits and '-'")
    if len(name) > _NAME_MAX:
        yield invalid(at, name, f"must be no more than {_NAME_MAX} characters")


def _canary_problems(obj: Obj, old: Obj | None) -> Iterator[Problem]:
    base = canary_base(get(obj, "metadata", "annotations", default={}))
    if not base:
        return
    at: Path = (*_META, "annotations", BASE)
    if base == get(obj, "metadata", "name"):
        yield named(invalid(at, base, "a canary cannot be its own base"), _META)
    before = None if old is None else get(old, "metadata", "annotations", BASE, default="")
    if before is not None and before != base:
        problem = forbidden(at, f"the base of a canary cannot change from {before!r}")
        yield named(problem, _META)
    if get(obj, "spec", "updateStrategy", "type") != NOT_UPDATE:
        text = f"a canary's updateStrategy.type must be {NOT_UPDATE}"
        yield named(forbidden((*_STRATEGY, "type"), text), _META)


def _native_problems(spec: Obj) -> Iterator[Problem]:
    if get(spec, "updateStrategy", "type") != ROLLING_UPDATE:
        return
    for container in spec.get("initContainers") or ():
        if is_native(container):
            text = f"init container {container.get('name')} keeps running: it needs {NOT_UPDATE}"
            yield invalid(_STRATEGY, ROLLING_UPDATE, text)


def _selectors_problems(spec: Obj) -> Iterator[Problem]:
    if spec.get("selector") is None:
        yield required(("spec", "selector"), "no selector defined for SidecarSet")
    for field in ("selector", "namespaceSelector"):
        if spec.get(field) is not None:
            yield from _selector_problems(spec[field], ("spec", field))


def _selector_problems(selector: Obj, at: Path) -> Iterator[Problem]:
    """The rules of label selectors, and once more that it can be used at all."""
    yield from selector_problems(selector, at)
    if is_empty(selector):
        yield invalid(at, selector, "empty selector is not valid for sidecarset.")
    try:
        label_selector(selector)
    except BadRequest:
        yield named(invalid(at, selector, ""), (*at, "selector"))


def _strategy_problems(strategy: Obj) -> Iterator[Problem]:
    """Only rolling updates are looked at."""
    if strategy.get("type") != ROLLING_UPDATE:
        return
    partition = strategy.get("partition")
    if strategy.get("selector") is not None:
        if isinstance(partition, str) or partition:
            problem = forbidden(_STRATEGY, "partition and selector exclude each other")
            yield named(problem, ("updateStrategy",))
        yield from _selector_problems(strategy["selector"], (*_STRATEGY, "selector"))
    for field in ("partition", "maxUnavailable"):
        yield from _amount_problems(strategy.get(field), (*_STRATEGY, field))
    yield from priority_problems(strategy.get("priorityStrategy"), (*_STRATEGY, "priorityStrategy"))
    yield from scatter_problems(strategy.get("scatterStrategy"), (*_STRATEGY, "scatterStrategy"))


def _amount_problems(value: int | str | None, at: Path) -> Iterator[Problem]:
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        yield invalid(at, value, "must be an integer or a percentage such as 30%")
    elif isinstance(value, int) and value < 0:
        yield invalid(at, value, "must be greater than or equal to 0")


def _pin_problems(spec: Obj) -> Iterator[Problem]:
    revision = get(spec, "injectionStrategy", "revision")
    if revision is None:
        return
    policy = revision.get("policy") or ""
    if policy not in ("", ALWAYS, PARTIAL):  # the CRD's schema says so before any webhook is asked
        yield unsupported((*_PIN, "policy"), policy, (ALWAYS, PARTIAL))
    elif revision.get("revisionName") is None and revision.get("customVersion") is None:
        problem = required(_PIN, "one of revisionName and customVersion must be given")
        yield named(problem, ("revision",))


def _pod_problems(spec: Obj) -> Iterator[Problem]:
    """The sidecars and volumes as a pod of their own, with a stand-in if it has no container."""
    if not spec.get("containers") and not spec.get("initContainers"):
        text = "one of initContainers and containers must be given"
        yield required(("spec",), text)
        return
    pod = {
        **_POD,
        "containers": spec.get("containers") or [_STAND_IN],
        "initContainers": spec.get("initContainers") or [],
        "volumes": spec.get("volumes") or [],
    }
    yield from pod_spec_problems(pod, ("spec",), KRUISE)


def _metadata_problems(patches: list[Obj] | tuple[Obj, ...]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, patch in enumerate(patches):
        at = (*_METADATA, index)
        notes: Obj = patch.get("annotations") or {}
        if not notes:
            yield named(required(at, "each element needs an annotation"), _METADATA)
        if not patch.get("patchPolicy"):
            yield named(required(at, "each element needs a patchPolicy"), _METADATA)
        for problem in annotation_problems(notes, (*at, "annotations")):
            yield named(problem, ("patchPodMetadata", "annotations"))
        for key in sorted(seen & notes.keys()):
            yield named(duplicate((*at, "annotations", key), key), _METADATA)
        seen |= notes.keys()


def _change_problems(before: Obj, after: Obj) -> Iterator[Problem]:
    """Ordinary sidecars may go, but none may come or change the way it is upgraded."""
    known = {container.get("name") or "": container for container in before.get("containers") or ()}
    for index, container in enumerate(after.get("containers") or ()):
        name, at = container.get("name") or "", ("spec", "containers", index)
        if name not in known:
            text = "a container cannot be added or renamed"
            yield named(invalid((*at, "name"), name, text), (*at[:2], "name"))
            continue
        was, now = (get(c, "upgradeStrategy", "upgradeType") for c in (known[name], container))
        if was and was != now:
            text = f"the upgradeType of container {name} cannot change from {was}"
            path = (*at, "upgradeStrategy", "upgradeType")
            yield named(invalid(path, now, text), (*at[:2], *path[3:]))
