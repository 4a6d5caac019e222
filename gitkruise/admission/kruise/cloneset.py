"""CloneSet at admission: the defaults and rules of OpenKruise's webhooks, in both versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.conversion.registry import POLICIES, convert
from gitkruise.admission.kruise.update_strategy import strategy_problems
from gitkruise.admission.pods.template import KRUISE, template_problems
from gitkruise.admission.rules.field_errors import (
    NOT_NEGATIVE,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from gitkruise.admission.rules.labels import is_empty, selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.revision_data import default_claim, default_template, normalise
from gitkruise.wire.primitives import paths
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_of, split_api_version
from gitkruise.wire.values.selectors import label_selector

_SPEC_TYPES: Final = {"v1alpha1": "CloneSetSpecV1alpha1", "v1beta1": "CloneSetSpecV1beta1"}
_TOP: Final = {"replicas": 1, "revisionHistoryLimit": 10}
_ROLLING: Final = {"partition": 0, "maxUnavailable": "20%", "maxSurge": 0}
_NO_DEADLINE: Final = 2**31 - 1
_MUTABLE: Final = (
    "'replicas', 'template', 'updateStrategy', 'scaleStrategy', 'minReadySeconds', 'lifecycle', "
    "'revisionHistoryLimit', 'volumeClaimTemplates' and 'progressDeadlineSeconds'"
)


def default_cloneset(request: AdmissionRequest, gates: Gates) -> Obj:
    """The CloneSet as OpenKruise's mutating webhook stores it: typed, then defaulted.

    Templates get defaults when they are new or changed, so an edit elsewhere never changes the
    revision. Raises Malformed.
    """
    obj = request.new
    version = version_of(obj)
    spec = normalise(_SPEC_TYPES[version], obj.get("spec"))
    old = convert(request.old, version) if request.old is not None else None
    default_templates(spec, old, gates)
    for field, value in _TOP.items():
        spec.setdefault(field, value)
    fill = _fill_alpha if version == "v1alpha1" else _fill_beta
    fill(spec["updateStrategy"])
    return {**obj, "spec": spec}


def version_of(obj: Obj) -> str:
    return split_api_version(obj["apiVersion"])[1]


def default_templates(spec: dict[str, Any], old: Obj | None, gates: Gates) -> None:
    """Give a workload's templates their defaults when that of its pods is new or changed."""
    if gates.template_no_defaults:
        return
    before = paths.get(old, "spec", "template")
    if old is not None and normalise("PodTemplateSpec", before) == spec["template"]:
        return
    spec["template"] = default_template(
        spec["template"], host_ports=gates.default_host_network_host_ports_in_pod_templates
    )
    if "volumeClaimTemplates" in spec:
        spec["volumeClaimTemplates"] = [default_claim(c) for c in spec["volumeClaimTemplates"]]


def _fill_alpha(strategy: dict[str, Any]) -> None:
    strategy.setdefault("type", POLICIES[0])
    if strategy["type"] in POLICIES[1:]:
        strategy.setdefault("inPlaceUpdateStrategy", {})
    for field, value in _ROLLING.items():
        strategy.setdefault(field, value)


def _fill_beta(strategy: dict[str, Any]) -> None:
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] != "RollingUpdate":
        return
    rolling = strategy.setdefault("rollingUpdate", {})
    rolling.setdefault("podUpdatePolicy", POLICIES[0])
    if rolling["podUpdatePolicy"] in POLICIES[1:]:
        rolling.setdefault("inPlaceUpdateStrategy", {})
    for field, value in _ROLLING.items():
        rolling.setdefault(field, value)


def cloneset_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Validate a CloneSet as OpenKruise's webhook does, with its field paths."""
    version = version_of(request.new)
    spec: Obj = request.new.get("spec") or {}
    replicas = spec.get("replicas") or 0
    if replicas < 0:
        yield invalid(("spec", "replicas"), replicas, NOT_NEGATIVE)
    yield from template_selector_problems(spec, "empty selector is not valid for cloneset.")
    yield from pod_template_problems(spec, "cloneset")
    yield from _deletion_problems(request, spec, version)
    yield from strategy_problems(spec, version)
    if version == "v1alpha1":
        yield from _deadline_problems(spec)
    if request.old is not None:
        before: Obj = convert(request.old, version).get("spec") or {}
        yield from _change_problems(before, spec, version)


def template_selector_problems(spec: Obj, empty: str) -> Iterator[Problem]:
    """Problems of a workload's selector; `empty` is the message for one without requirements."""
    at: Path = ("spec", "selector")
    selector = spec.get("selector")
    if selector is None:
        yield required(at)
        return
    found = list(selector_problems(selector, at))
    yield from found
    if found:
        yield invalid(at, selector, "")
    elif is_empty(selector):
        yield invalid(at, selector, empty)
    else:
        labels = paths.get(spec, "template", "metadata", "labels", default={})
        if not label_selector(selector).matches(labels):
            text = "`selector` does not match template `labels`"
            yield invalid(("spec", "template", "metadata", "labels"), labels, text)


def pod_template_problems(spec: Obj, kind: str, *, replace: bool = False) -> Iterator[Problem]:
    """Core validation, with each claim template as a volume, which may `replace` its namesake.

    A template is judged with its defaults, also where it is stored without.
    """
    template: Obj = default_template(spec.get("template"))
    pod: Obj = template.get("spec") or {}
    names = [paths.get(c, "metadata", "name") for c in spec.get("volumeClaimTemplates") or ()]
    claims = [
        {"name": name or "", "persistentVolumeClaim": {"claimName": name or ""}} for name in names
    ]
    own = [v for v in pod.get("volumes") or () if not replace or v.get("name") not in names]
    volumes = [*own, *claims]
    at: Path = ("spec", "template")
    yield from template_problems(paths.put(template, ("spec", "volumes"), volumes), at, KRUISE)
    policy = pod.get("restartPolicy")
    if policy not in (None, "", "Always"):
        yield unsupported((*at, "spec", "restartPolicy"), policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden((*at, "spec", "activeDeadlineSeconds"), text)


def _deletion_problems(request: AdmissionRequest, spec: Obj, version: str) -> Iterator[Problem]:
    """podsToDelete: no name twice; through v1alpha1 each new name must be a live pod of ours."""
    at: Path = ("spec", "scaleStrategy", "podsToDelete")
    names = paths.get(spec, "scaleStrategy", "podsToDelete", default=())
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        yield from (duplicate(at, name) for name in repeated)
        return
    if version != "v1alpha1":
        return
    known = set(paths.get(request.old, "spec", "scaleStrategy", "podsToDelete", default=()))
    uid = paths.get(request.obj, "metadata", "uid", default="")
    for name in names:
        if name in known:
            continue
        pod = request.view.get(ObjectKey("", "Pod", request.key.namespace, name))
        owner = controller_of(pod) if pod else None
        if pod is None:
            yield invalid(at, name, f'pods "{name}" not found')
        elif paths.get(pod, "metadata", "deletionTimestamp"):
            yield invalid(at, name, f"find pod {name} terminating")
        elif not owner or owner.get("uid") != uid:
            yield invalid(at, name, f"find pod {name} owner is not this CloneSet")


def _deadline_problems(spec: Obj) -> Iterator[Problem]:
    deadline, ready_s = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    at: Path = ("spec", "progressDeadlineSeconds")
    if deadline is None:
        return
    if deadline < 0:
        yield invalid(at, deadline, NOT_NEGATIVE)
    if deadline != _NO_DEADLINE and deadline <= ready_s:
        yield invalid(at, deadline, "must be greater than minReadySeconds")


def _change_problems(before: Obj, after: Obj, version: str) -> Iterator[Problem]:
    """On update: the selector stays, and InPlaceOnly changes nothing but images."""
    selectors = [normalise("LabelSelector", spec.get("selector")) for spec in (before, after)]
    if after.get("selector") is not None and selectors[0] != selectors[1]:
        text = f"updates to cloneset spec for fields other than {_MUTABLE} are forbidden"
        yield forbidden(("spec",), text)
    if version != "v1alpha1" or paths.get(after, "updateStrategy", "type") != "InPlaceOnly":
        return
    old, new = (_without_images(spec.get("template")) for spec in (before, after))
    if old != new:
        text = "only allowed to update images in spec for InPlaceOnly update strategy type"
        yield forbidden(("spec",), text)


def _without_images(template: Any) -> Any:
    """A typed pod spec whose container images are only said to be there or not."""
    spec = normalise("PodTemplateSpec", template)["spec"]
    for container in spec["containers"] or ():
        container["image"] = "image" in container
    return spec
