"""Pods at admission: defaults, plug-ins, OpenKruise's readiness gate, and what may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.pods.defaults import fill_spec
from gitkruise.admission.pods.template import SERVER_POD, pod_spec_problems
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid
from gitkruise.admission.rules.labels import deletion_cost_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Forbidden, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import KRUISE_GROUP
from gitkruise.wire.kruise.go_round_trip import settle
from gitkruise.wire.primitives import paths
from gitkruise.wire.primitives.names import (
    GroupKind,
    Obj,
    ObjectKey,
    controller_of,
    split_api_version,
)

KRUISE_POD_READY: Final = "KruisePodReady"
_SECONDS: Final = 300
_PRIORITY: Final = ("priority", "preemptionPolicy")
_INT32_MAX: Final = 2**31 - 1
_UNWELL: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_CLASS: Final = GroupKind("scheduling.k8s.io", "PriorityClass")
_BUILT_IN: Final = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_UPDATES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
_EPHEMERAL: Final[Path] = ("spec", "ephemeralContainers")
_FREE: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def default_pod(request: AdmissionRequest, _gates: Gates) -> Obj:
    """The pod with the defaults of v1 and of the plug-ins every cluster runs.

    Plug-ins: ServiceAccount (the name alone, no token volume), Priority and
    DefaultTolerationSeconds. Raises Forbidden for an unknown priority class.
    """
    before, after = (request.old or {}).get("spec"), request.new.get("spec")
    if before and after and (only_images(before, after) or before == after):
        return request.new
    spec = settle("PodSpec", after)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if request.old is None:
        spec.setdefault("serviceAccountName", spec.get("serviceAccount") or "default")
        prioritise(request, spec)
    else:
        before = request.old.get("spec") or {}
        kept = (name for name in _PRIORITY if name in before)  # as the plug-in set it
        spec.update({name: before[name] for name in kept if name not in spec})
    _tolerate(spec)
    fill_spec(spec, is_pod=True)
    return {**request.new, "spec": spec}


def prioritise(request: AdmissionRequest, spec: dict[str, Any]) -> None:
    """Give a new pod the priority of its class. Raises Forbidden for an unknown class."""
    name = spec.get("priorityClassName")
    if name is None:
        classes = request.view.objects(_CLASS, "")
        chosen = next((one for one in classes if one.get("globalDefault")), None)
    else:
        chosen = request.view.get(ObjectKey(*_CLASS, "", name))
        if chosen is None and (name in _BUILT_IN or request.assumed):
            chosen = {"metadata": {"name": name}, "value": _BUILT_IN.get(name, 0)}
        if chosen is None:
            why = f"no PriorityClass with name {name} was found"
            raise Forbidden(f'pods "{request.key.name}" is forbidden: {why}')
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    value = (chosen or {}).get("value", 0)
    if spec.get("priority") not in (None, value) and not request.assumed:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise Forbidden(f'pods "{request.key.name}" is forbidden: {why}')
    spec["priority"] = value
    policy = (chosen or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    spec.setdefault("preemptionPolicy", policy)


def _tolerate(spec: dict[str, Any]) -> None:
    """Five minutes on a node that is not ready or unreachable, unless the pod says otherwise."""
    listed = spec.get("tolerations", [])
    missing = [key for key in _UNWELL if not any(_covers(t, key) for t in listed)]
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for key in missing
    ]
    if added:
        spec["tolerations"] = [*listed, *added]


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (
        None,
        "",
        "NoExecute",
    )


def add_readiness_gate(request: AdmissionRequest, gates: Gates) -> Obj:
    """OpenKruise's pod webhook: readiness gate KruisePodReady on pods its controllers own.

    With gate KruisePodReadinessGate on every pod; never without the pod webhook.
    """
    if not gates.pod_webhook:
        return request.new
    owner = controller_of(request.new)
    ours = owner is not None and split_api_version(owner["apiVersion"])[0] == KRUISE_GROUP
    listed = paths.get(request.new, "spec", "readinessGates", default=())
    there = any(gate.get("conditionType") == KRUISE_POD_READY for gate in listed)
    if there or not (ours or gates.kruise_pod_readiness_gate):
        return request.new
    added = [*listed, {"conditionType": KRUISE_POD_READY}]
    return paths.put(request.new, ("spec", "readinessGates"), added)  # type: ignore[no-any-return]  # an object


def pod_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidatePodCreate, or what ValidatePodUpdate adds to it."""
    spec: Obj = request.new.get("spec") or {}
    at: Path = ("spec",)
    notes = request.new["metadata"].get("annotations")
    known = request.old["metadata"].get("annotations") if request.old is not None else None
    if notes != known:
        yield from deletion_cost_problems(notes, ("metadata", "annotations"))
    if request.old is None:
        yield from pod_spec_problems(spec, at, SERVER_POD)
        if spec.get("ephemeralContainers"):
            yield forbidden(_EPHEMERAL, "cannot be set on create")
        return
    before: Obj = request.old.get("spec") or {}
    if only_images(before, spec) or before == spec:
        return
    yield from pod_spec_problems(spec, at, SERVER_POD)
    found = [*_count_problems(before, spec), *_deadline_problems(before, spec)]
    yield from found
    if found:
        return
    yield from _removed_deadline(before, spec)
    yield from _toleration_problems(before, spec)
    yield from _gate_problems(before, spec)
    grace_s = spec.get("terminationGracePeriodSeconds")
    if grace_s == 1 and before.get("terminationGracePeriodSeconds", 0) < 0:
        before = {**before, "terminationGracePeriodSeconds": grace_s}
    if _fixed(before) != _fixed(spec):
        yield forbidden(at, _UPDATES)


def debugging_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidatePodEphemeralContainersUpdate: containers are added, and stay as they were."""
    spec: Obj = request.new.get("spec") or {}
    yield from pod_spec_problems(spec, ("spec",), SERVER_POD)
    before = settle("PodSpec", (request.old or {}).get("spec"))
    fill_spec(before, is_pod=True)
    listed = {one.get("name"): one for one in spec.get("ephemeralContainers") or ()}
    for known in before.get("ephemeralContainers") or ():
        name = known["name"]
        if listed.get(name) != known:
            what = "changed" if name in listed else "removed"
            why = f'existing ephemeral containers "{name}" may not be {what}\n'
            yield forbidden(_EPHEMERAL, why)


def only_images(old: Obj, new: Obj) -> bool:
    """Return whether two specs differ only in container images, and none is empty.

    Such a spec needs no defaults and breaks no rule when the old one did not.
    """
    if not _shares(old, new, "containers") or len(old["containers"]) != len(new["containers"]):
        return False
    pairs = zip(old["containers"], new["containers"], strict=True)
    return all(_shares(a, b, "image") and _is_image(b.get("image")) for a, b in pairs)


def _shares(old: Obj, new: Obj, name: str) -> bool:
    """Return whether two maps differ only in the value of `name`, which both have."""
    if name not in old or old.keys() != new.keys():
        return False
    return all(_is_one(new[key], old[key]) for key in old if key != name)


def _is_one(value: Any, old: Any) -> bool:
    """The same part; a patch names containers in texts of its own."""
    return value is old or (isinstance(value, str) and bool(value == old))


def _is_image(text: Any) -> bool:
    return isinstance(text, str) and text.strip() == text != ""


def _count_problems(before: Obj, after: Obj) -> Iterator[Problem]:
    for kind in ("containers", "initContainers"):
        if len(before.get(kind) or ()) != len(after.get(kind) or ()):
            yield forbidden(("spec", kind), "pod updates may not add or remove containers")


def _deadline_problems(before: Obj, after: Obj) -> Iterator[Problem]:
    old, new = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    at: Path = ("spec", "activeDeadlineSeconds")
    if new is not None and not 0 <= new <= _INT32_MAX:
        yield invalid(at, new, f"must be between 0 and {_INT32_MAX}, inclusive")
    elif new is not None and old is not None and new > old:
        yield invalid(at, new, "must be less than or equal to previous value")


def _removed_deadline(before: Obj, after: Obj) -> Iterator[Problem]:
    if (
        before.get("activeDeadlineSeconds") is not None
        and after.get("activeDeadlineSeconds") is None
    ):
        why = "must not update from a positive integer to nil value"
        yield invalid(("spec", "activeDeadlineSeconds"), None, why)


def _toleration_problems(before: Obj, after: Obj) -> Iterator[Problem]:
    """Each old toleration stays, but for its seconds."""

    def named(spec: Obj) -> set[frozenset[tuple[str, Any]]]:
        return {
            frozenset(pair for pair in toleration.items() if pair[0] != "tolerationSeconds")
            for toleration in spec.get("tolerations") or ()
        }

    if not named(before) <= named(after):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden(("spec", "tolerations"), text)


def _gate_problems(before: Obj, after: Obj) -> Iterator[Problem]:
    known = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    for index, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(("spec", "schedulingGates", index), text)


def _fixed(spec: Obj) -> Obj:
    """Return the immutable part of a pod's spec."""
    out = {key: value for key, value in settle("PodSpec", spec).items() if key not in _FREE}
    for kind in ("containers", "initContainers"):
        if kind in out:
            out[kind] = [{k: v for k, v in one.items() if k != "image"} for one in out[kind]]
    return out
