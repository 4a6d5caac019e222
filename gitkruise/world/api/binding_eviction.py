"""Pod subresources: binding to a node, and eviction within disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from gitkruise.admission.rules.request import CREATE
from gitkruise.errors import (
    BadRequest,
    Cause,
    InternalError,
    Problem,
    StatusDetails,
    TooManyRequests,
    invalid_object,
)
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.requests import ApiReply
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.selectors import label_selector
from gitkruise.world.api.delete import delete
from gitkruise.world.api.unavailable_budgets import spend
from gitkruise.world.store import api_errors
from gitkruise.world.store.commit import store
from gitkruise.world.store.request_context import RequestContext, read_dry_run
from gitkruise.world.write.decoding import check_body
from gitkruise.world.write.webhook_pipeline import judge_part, reviewed_part

BUDGET: Final = GroupKind("policy", "PodDisruptionBudget")
RETRY_AFTER_S: Final = 10
_VERSIONS: Final = {"Binding": "v1", "Eviction": "policy/v1"}
_EVICTED: Final = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
_BOUND: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def bind(call: RequestContext) -> ApiReply:
    """POST pods/binding: sets nodeName and PodScheduled; Conflict when the pod has a node."""
    body = _body(call, "Binding")
    target = body.get("target") or {}
    problems = []
    if target.get("kind") not in (None, "", "Node"):
        why = f'Unsupported value: "{target.get("kind")}": supported values: "Node", "<empty>"'
        problems.append(Problem(("target", "kind"), "FieldValueNotSupported", why))
    if not target.get("name"):
        problems.append(Problem(("target", "name"), "FieldValueRequired", "Required value"))
    if problems:
        raise invalid_object("Binding", "", call.name, problems)
    body = reviewed_part(call, CREATE, body, None)
    target = body.get("target") or {}
    judge_part(call, CREATE, body, None)
    pod = call.stored()
    why = unbindable(pod)
    if why:
        raise api_errors.conflict(call.kind, call.name, why, subresource="binding")
    if not call.options.dry_run:
        made = _bound(pod, body, target["name"], call.now)
        store(call.state, call.state.stored_kind(call.kind), made)
    return ApiReply(status=201, body=_BOUND)


def unbindable(pod: Obj) -> str:
    """Return why the pod cannot be bound to a node now, or ""."""
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(pod: Obj, binding: Mapping[str, Any], node: str, now: datetime) -> Obj:
    """The pod on that node, with the labels and annotations its binding brings along."""
    status = scheduled(pod.get("status") or {}, now)
    out: Obj = {**pod, "spec": placed(pod["spec"], node), "status": status}
    for part in ("labels", "annotations"):
        added = get(binding, "metadata", part)
        if added:
            known = get(out, "metadata", part, default={})
            out = put(out, ("metadata", part), {**known, **added})
    return out


def placed(spec: Obj, node: str) -> Obj:
    """The spec of a pod on that node."""
    return {**spec, "nodeName": node}


def scheduled(status: Obj, now: datetime) -> Obj:
    """The status of a pod that has a node since `now`."""
    return _with_condition(status, "PodScheduled", now)


def _with_condition(status: Obj, name: str, now: datetime, **words: str) -> Obj:
    """The status of a pod with a condition that is true since `now`."""
    others = [c for c in status.get("conditions") or () if c["type"] != name]
    condition = {
        "type": name,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(now),
        **words,
    }
    return {**status, "conditions": [*others, condition]}


def _body(call: RequestContext, kind: str) -> Mapping[str, Any]:
    body = check_body(call.state.catalog.core, kind, call.request.body)
    version = _VERSIONS[kind]
    if get(body, "metadata", "name") != call.name:
        raise BadRequest(f"name in URL does not match name in {kind} object")
    meta = {**(body.get("metadata") or {}), "namespace": call.request.namespace}
    return {"apiVersion": version, "kind": kind, **body, "metadata": meta}


def evict(call: RequestContext) -> ApiReply:
    """POST pods/eviction: a delete that a PodDisruptionBudget may refuse (429)."""
    body = _body(call, "Eviction")
    pod = call.stored()
    eviction = reviewed_part(call, CREATE, body, None)
    judge_part(call, CREATE, eviction, None)
    options = eviction.get("deleteOptions") or {}
    dry_run = call.options.dry_run or read_dry_run("DeleteOptions", options)
    spend(call, pod, PodOperation.EVICT, dry_run=dry_run)
    phase = get(pod, "status", "phase")
    if not (
        pod["metadata"].get("deletionTimestamp") or phase in ("Succeeded", "Failed", "Pending")
    ):
        _spend_budget(call, pod, dry_run=dry_run)
    request = replace(call.request, verb="delete", subresource="", body=options)
    # The eviction was reviewed and paid for, and the deletion is it.
    delete(replace(call, request=request, reviews=None), evicted=True)
    left = call.state.get(call.key())  # the pod itself where it was being deleted before
    if left is not None and left is not pod and not dry_run:
        status = _with_condition(left.get("status") or {}, "DisruptionTarget", call.now, **_EVICTED)
        store(call.state, call.state.stored_kind(call.kind), {**left, "status": status})
    return ApiReply(status=201, body=_BOUND)


def _spend_budget(call: RequestContext, pod: Obj, *, dry_run: bool) -> None:
    found = [
        budget
        for budget in call.state.objects(BUDGET, call.request.namespace)
        if label_selector(get(budget, "spec", "selector")).matches(pod["metadata"].get("labels"))
    ]
    if not found:
        return
    if len(found) > 1:
        raise InternalError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does"
            " not support."
        )
    budget, status = found[0], found[0].get("status") or {}
    if _free_to_go(pod, budget, status):
        return
    allowed = int(status.get("disruptionsAllowed") or 0)
    if allowed < 1 or _is_behind(budget, status):
        raise _refused(budget, status)
    if dry_run:
        return
    disrupted = {**(status.get("disruptedPods") or {}), call.name: format_time(call.now)}
    spent = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    kind = call.state.catalog.stored(BUDGET)
    assert kind is not None
    store(call.state, kind, {**budget, "status": spent})


def _free_to_go(pod: Obj, budget: Obj, status: Mapping[str, Any]) -> bool:
    """A pod that is not ready costs nothing when enough others are, or by policy."""
    conditions = get(pod, "status", "conditions", default=())
    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
        return False
    if get(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = int(status.get("desiredHealthy") or 0)
    return 0 < desired <= int(status.get("currentHealthy") or 0)


def _is_behind(budget: Obj, status: Mapping[str, Any]) -> bool:
    """Return whether the budget's status lags behind its spec."""
    return int(status.get("observedGeneration") or 0) < int(budget["metadata"]["generation"])


def _refused(budget: Obj, status: Mapping[str, Any]) -> TooManyRequests:
    name, behind = budget["metadata"]["name"], _is_behind(budget, status)
    desired, current = (int(status.get(key) or 0) for key in ("desiredHealthy", "currentHealthy"))
    why = f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if behind:
        why = f"The disruption budget {name} is still being processed by the server."
    retry_after_s = RETRY_AFTER_S if behind else 0
    return TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        StatusDetails(causes=(Cause("", "DisruptionBudget", why),), retry_after_s=retry_after_s),
    )
