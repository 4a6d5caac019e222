"""Admission of ContainerRecreateRequests: what the request names must be there to be restarted.

The webhook fills in what the node agent needs: node and uid of the pod as labels, and of each
container its id, restart count and pre-stop hook.

Source: OpenKruise's mutating webhook for the kind (CRR-20 to CRR-24).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules.request import CREATE, AdmissionRequest
from gitkruise.errors import BadRequest, Forbidden
from gitkruise.model.node.recreate_request import (
    ACTIVE,
    DEADLINE_MIN_S,
    NODE_NAME,
    POD_UID,
    FailurePolicy,
    type_problem,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SIDECAR_TERMINATED
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

_TYPE, _VIRTUAL = "type", "virtual-kubelet"
_GRACES: Final = ("terminationGracePeriodSeconds", "unreadyGracePeriodSeconds")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket")


def filled_in(request: AdmissionRequest, gates: Gates) -> Obj:
    """The request as OpenKruise's webhook answers it. Raises BadRequest and Forbidden."""
    if not gates.kruise_daemon:
        raise Forbidden("feature-gate KruiseDaemon is not enabled")
    new, old = request.new, request.old
    if request.operation == CREATE or old is None:
        return _created(request, new)
    if new.get("spec") != old.get("spec"):
        raise Forbidden("spec of ContainerRecreateRequest is immutable")
    for key in (POD_UID, NODE_NAME):
        if get(new, "metadata", "labels", key) != get(old, "metadata", "labels", key):
            raise Forbidden(f"not allowed to update immutable label {key}")
    return new


def _created(request: AdmissionRequest, new: Obj) -> Obj:
    spec: Obj = new.get("spec") or {}
    if problem := type_problem(spec):
        raise BadRequest(f"json: cannot decode spec: {problem}")
    if problem := next(_shape_problems(spec), ""):
        raise BadRequest(problem)
    namespace = request.key.namespace
    pod = request.view.get(ObjectKey("", "Pod", namespace, spec["podName"]))
    if pod is None:
        raise BadRequest(f"no found Pod named {spec['podName']}")
    node_name = get(pod, "spec", "nodeName", default="")
    if problem := _pod_problem(pod, node_name):
        raise BadRequest(problem)
    node = request.view.get(ObjectKey("", "Node", "", node_name))
    if node is None:
        raise BadRequest(f"no found Node named {node_name}")
    containers = [_container(pod, given) for given in _distinct(spec["containers"])]
    given = spec.get("strategy") or {}
    grace = given.get(_GRACES[0])
    pod_grace = get(pod, "spec", "terminationGracePeriodSeconds", default=30)
    strategy = {
        **given,
        "failurePolicy": given.get("failurePolicy") or FailurePolicy.FAIL.value,
        _GRACES[0]: pod_grace if grace is None else grace,
    }
    labels = {
        **(get(new, "metadata", "labels") or {}),
        POD_UID: pod["metadata"]["uid"],
        NODE_NAME: node_name,
        ACTIVE: "true",
    }
    if get(node, "metadata", "labels", _TYPE) == _VIRTUAL:
        labels[_TYPE] = _VIRTUAL
    return {
        **new,
        "metadata": {**new["metadata"], "labels": labels},
        "spec": {**spec, "containers": containers, "strategy": strategy},
    }


def _shape_problems(spec: Obj) -> Iterator[str]:
    """Faults of the request by itself, in OpenKruise's order."""
    if not spec.get("podName"):
        yield "podName can not be empty"
    if not spec.get("containers"):
        yield "containers list can not be null"
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and deadline < DEADLINE_MIN_S:
        yield f"activeDeadlineSeconds can not be less than {DEADLINE_MIN_S}s"
    strategy = spec.get("strategy") or {}
    for field in _GRACES:
        if (strategy.get(field) or 0) < 0:
            yield f"{field} must be non-negative integer"
    policy = strategy.get("failurePolicy")
    if policy and policy not in {known.value for known in FailurePolicy}:
        yield f"unknown failurePolicy {policy}"


def _pod_problem(pod: Obj, node_name: str) -> str:
    """Reason why no container of the pod can be recreated; "" when some can."""
    conditions = get(pod, "status", "conditions", default=())
    ends = get(pod, "status", "phase") in FINISHED or pod["metadata"].get("deletionTimestamp")
    if ends and all(condition.get("type") != SIDECAR_TERMINATED for condition in conditions):
        return "not allowed to recreate containers in an inactive Pod"
    return "" if node_name else "not allowed to recreate containers in a pending Pod"


def _distinct(containers: list[Obj]) -> Iterator[Obj]:
    seen = set()
    for container in containers:
        name = container.get("name")
        if name in seen:
            raise BadRequest(f"can not recreate {name} multi times")
        seen.add(name)
        yield container


def _container(pod: Obj, given: Obj) -> Obj:
    """One entry with hook, ports and the picture before. Raises BadRequest."""
    if any(given.get(field) for field in ("preStop", "ports", "statusContext")):
        raise BadRequest("preStop, ports, statusContext in container are ready-only fields")
    name, spec = given.get("name"), pod["spec"]
    listed = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = next((c for c in listed if c["name"] == name), None)
    if found is None:
        raise BadRequest(f"container {name} not found in Pod")
    statuses = get(pod, "status", "containerStatuses", default=())
    status = next((s for s in statuses if s["name"] == name), None)
    if status is None:
        raise BadRequest(f"not found {name} containerStatus in Pod Status")
    if not status.get("containerID"):
        reason = "maybe the container has not been initialized"
        raise BadRequest(f"no containerID in {name} containerStatus, {reason}")
    out: dict[str, Any] = {
        "name": name,
        "statusContext": {
            "containerID": status["containerID"],
            "restartCount": status.get("restartCount") or 0,
        },
    }
    hook = get(found, "lifecycle", "preStop")
    if hook is not None:
        out["preStop"] = {kind: hook[kind] for kind in _HANDLERS if hook.get(kind)}
        if hook.get("httpGet") and found.get("ports"):
            out["ports"] = found["ports"]
    return out
