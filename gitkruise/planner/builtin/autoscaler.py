"""HorizontalPodAutoscaler: keeps a size within its bounds, and says that there are no metrics.

Source: podautoscaler controller of Kubernetes 1.34 on a cluster without the three APIs of metrics,
every message included. Upstream looks again every 15 seconds; without metrics nothing can follow
from that, so only changes of the autoscaler and its target are looked at. Not here: the condition
AmbiguousSelector of two autoscalers for one workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitkruise.model.planning.plan import Applied, Event, Outcome, Patch, Plan, Refused
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads import conditions
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.autoscale import AUTOSCALERS, target_of
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.selectors import label_selector

KIND: Final = AUTOSCALERS[0]
NAME: Final = "horizontal-pod-autoscaler"
_SPEC_SELECTOR: Final = ("spec", "selector")
# kind that can be sized: plural, path of its selector
_TARGETS: Final = {
    wire.DEPLOYMENT: ("deployments", _SPEC_SELECTOR),
    wire.REPLICASET: ("replicasets", _SPEC_SELECTOR),
    wire.STATEFULSET: ("statefulsets", _SPEC_SELECTOR),
    wire.CLONESET: ("clonesets", ("status", "labelSelector")),
}
_ABLE, _ACTIVE = "AbleToScale", "ScalingActive"
_NOT_SIZED: Final = (
    "the embedded cluster sizes Deployments, ReplicaSets, StatefulSets and CloneSets"
)
_NO_API: Final = "the server could not find the requested resource"
_NO_CUSTOM: Final = (
    "unable to fetch metrics from custom metrics API: no custom metrics API "
    "(custom.metrics.k8s.io) registered"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleTarget:
    """The workload that an autoscaler sizes."""

    key: ObjectKey
    raw: Obj

    @property
    def size(self) -> int:
        return int(get(self.raw, "spec", "replicas", default=0))

    @property
    def selector(self) -> str:
        """The selector of its Scale, as text; "" without one."""
        found = get(self.raw, *_TARGETS[self.key.group_kind][1], default="")
        return found if isinstance(found, str) else str(label_selector(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerFacts:
    """One autoscaler with its target (None: it does not exist, or is of another kind)."""

    raw: Obj
    target: ScaleTarget | None
    now: datetime


def observe_autoscaler(view: ClusterView, key: ObjectKey, now: datetime) -> AutoscalerFacts | None:
    """None when the autoscaler is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    at = target_of(raw)
    found = view.get(at) if at is not None and at.group_kind in _TARGETS else None
    target = ScaleTarget(key=at, raw=found) if at is not None and found is not None else None
    return AutoscalerFacts(raw=raw, target=target, now=now)


def plan_autoscaler(s: AutoscalerFacts, gates: Gates) -> Plan:
    """Bring the size of the target within the bounds; otherwise report."""
    del gates
    if s.raw["metadata"].get("deletionTimestamp"):
        return Plan()
    status, target = _NextStatus(s), s.target
    if target is None:
        why = _unknown_target(s.raw)
        message = f"the HPA controller was unable to get the target's current scale: {why}"
        status.set(_ABLE, "False", "FailedGetScale", message)
        return status.plan(Event("Warning", "FailedGetScale", why))
    message = "the HPA controller was able to get the target's current scale"
    status.set(_ABLE, "True", "SucceededGetScale", message)
    least, most = s.raw["spec"].get("minReplicas", 1), s.raw["spec"]["maxReplicas"]
    current = target.size
    if not current and least:
        message = "scaling is disabled since the replica count of the target is zero"
        status.set(_ACTIVE, "False", "ScalingDisabled", message)
        return status.sized(current, desired=0).plan()
    if current > most:
        why = "Current number of replicas above Spec.MaxReplicas"
        return _rescale(target, status, most, why)
    if current < least:
        why = "Current number of replicas below Spec.MinReplicas"
        return _rescale(target, status, least, why)
    return _without_metrics(s.raw, status, target)


def _unknown_target(raw: Obj) -> str:
    key = target_of(raw)
    if key is None or key.group_kind not in _TARGETS:
        return f"{_NOT_SIZED}, not {raw['spec']['scaleTargetRef'].get('kind')}"
    plural = _TARGETS[key.group_kind][0]
    return f'{plural}.{key.group} "{key.name}" not found'


def _rescale(target: ScaleTarget, status: _NextStatus, size: int, why: str) -> Plan:
    current = target.size
    patch = Patch.of(
        target.raw,
        {"spec": {"replicas": size}},
        subresource="scale",
        done=Event("Normal", "SuccessfulRescale", f"New size: {size}; reason: {why}"),
        failed=Event("Warning", "FailedRescale", f"New size: {size}; reason: {why}; error: "),
    )

    def conclude(outcomes: Sequence[Outcome]) -> Obj | None:
        (outcome,) = outcomes
        if isinstance(outcome, Refused):
            message = f"the HPA controller was unable to update the target scale: {outcome.error}"
            status.set(_ABLE, "False", "FailedUpdateScale", message)
            return status.sized(current).written()
        if not isinstance(outcome, Applied):
            return None
        message = f"the HPA controller was able to update the target scale to {size}"
        status.set(_ABLE, "True", "SucceededRescale", message)
        return status.sized(current, desired=size, scaled=True).written()

    return Plan(actions=(patch,), conclude=conclude)


def _without_metrics(raw: Obj, status: _NextStatus, target: ScaleTarget) -> Plan:
    """Report that the size cannot be computed; the words depend on the first metric."""
    current = target.size
    if not target.selector:
        message = "the HPA target's scale is missing a selector"
        status.set(_ACTIVE, "False", "InvalidSelector", message)
        required = "selector is required"
        return status.sized(current).plan(
            Event("Warning", "SelectorRequired", required),
            Event("Warning", "FailedComputeMetricsReplicas", required),
        )
    metrics = raw["spec"].get("metrics") or ()
    failures = [_failure(one, raw["metadata"]["namespace"]) for one in metrics]
    reason, error, whole = failures[0]
    message = f"the HPA was unable to compute the replica count: {error}"
    status.set(_ACTIVE, "False", reason, message)
    count = len(failures)
    text = f"invalid metrics ({count} invalid out of {count}), first error is: {whole}"
    return status.sized(current, metrics=[{"type": ""} for _ in metrics]).plan(
        *(Event("Warning", reason, error) for reason, error, _ in failures),
        Event("Warning", "FailedComputeMetricsReplicas", text),
    )


# reason, error of the event, error of the metric
_Failure = tuple[str, str, str]


def _failure(metric: Obj, namespace: str) -> _Failure:
    made: _Failure = _FAILURES[metric["type"]](metric, namespace)
    return made


def _of_resource(metric: Obj, _: str) -> _Failure:
    source = metric["resource"]
    error = _resource_error(source)
    whole = f"failed to get {source['name']} resource metric value: {error}"
    return "FailedGetResourceMetric", error, whole


def _of_container(metric: Obj, _: str) -> _Failure:
    source = metric["containerResource"]
    error = _resource_error(source)
    whole = f"failed to get {source['container']} container metric value: {error}"
    return "FailedGetContainerResourceMetric", error, whole


def _resource_error(source: Obj) -> str:
    name, target = source["name"], source.get("target") or {}
    what = "usage" if target.get("averageValue") is not None else "utilization"
    return (
        f"failed to get {name} {what}: unable to get metrics for resource {name}: unable to fetch "
        f"metrics from resource metrics API: {_NO_API} (get pods.metrics.k8s.io)"
    )


def _of_pods(metric: Obj, _: str) -> _Failure:
    error = f"unable to get metric {get(metric, 'pods', 'metric', 'name')}: {_NO_CUSTOM}"
    return "FailedGetPodsMetric", error, f"failed to get pods metric value: {error}"


def _of_object(metric: Obj, namespace: str) -> _Failure:
    source = metric["object"]
    name, described = source["metric"]["name"], source["describedObject"]
    where = f"{described['kind']} on {namespace} {described['name']}"
    error = f"unable to get metric {name}: {where}/{_NO_CUSTOM}"
    average = get(source, "target", "type") == "AverageValue"
    inner = f"failed to get {name} object metric: {error}" if average else error
    return "FailedGetObjectMetric", error, f"failed to get object metric value: {inner}"


def _of_external(metric: Obj, namespace: str) -> _Failure:
    source = metric["external"]
    name, selector = source["metric"]["name"], source["metric"].get("selector")
    error = (
        f"unable to get external metric {namespace}/{name}/{_go_selector(selector)}: unable to "
        f"fetch metrics from external metrics API: {_NO_API} (get {name}.external.metrics.k8s.io)"
    )
    average = get(source, "target", "averageValue") is not None
    inner = f"{name} external metric" if average else f"external metric {name}"
    whole = f"failed to get {name} external metric value: failed to get {inner}: {error}"
    return "FailedGetExternalMetric", error, whole


def _go_selector(selector: Obj | None) -> str:
    """A label selector as Go prints it."""
    if selector is None:
        return "nil"
    labels = sorted((selector.get("matchLabels") or {}).items())
    texts = "".join(f"{key}: {value}," for key, value in labels)
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    maps = f"map[string]string{{{texts}}}"
    listed = f"[]LabelSelectorRequirement{{{rules}}}"
    return f"&LabelSelector{{MatchLabels:{maps},MatchExpressions:{listed},}}"


_FAILURES: Final[Mapping[str, Callable[[Obj, str], _Failure]]] = {
    "Resource": _of_resource,
    "ContainerResource": _of_container,
    "Pods": _of_pods,
    "Object": _of_object,
    "External": _of_external,
}


class _NextStatus:
    """The next status: conditions in their order, and the sizes."""

    def __init__(self, s: AutoscalerFacts) -> None:
        self._now = s.now
        self._old: Obj = s.raw.get("status") or {}
        self._conditions: list[Obj] = list(self._old.get("conditions") or ())
        self._new: dict[str, Any] = {
            key: value for key, value in self._old.items() if key != "conditions"
        }

    def set(self, type_: str, status: str, reason: str, message: str) -> None:
        """A condition; its transition time follows its status."""
        condition = {"type": type_, "status": status, "reason": reason, "message": message}
        fresh = conditions.dated(condition, conditions.find(self._conditions, type_), self._now)
        at = next((at for at, c in enumerate(self._conditions) if c["type"] == type_), None)
        if at is None:
            self._conditions.append(fresh)
        else:
            self._conditions[at] = fresh

    def sized(
        self,
        current: int,
        *,
        desired: int | None = None,
        metrics: Sequence[Obj] | None = None,
        scaled: bool = False,
    ) -> _NextStatus:
        """With sizes; the desired one stays as it was unless given."""
        kept = int(self._old.get("desiredReplicas") or 0)
        self._new = {
            "currentReplicas": current,
            "desiredReplicas": kept if desired is None else desired,
            "currentMetrics": metrics,
        }
        at = format_time(self._now) if scaled else self._old.get("lastScaleTime")
        if at:
            self._new["lastScaleTime"] = at
        if not current:
            del self._new["currentReplicas"]  # omitempty
        return self

    def written(self) -> Obj | None:
        """The status to write; None when it is as it was."""
        made = {"desiredReplicas": 0, "currentMetrics": None, **self._new}
        made["conditions"] = self._conditions
        return None if made == self._old else made

    def plan(self, *events: Event) -> Plan:
        """A plan that writes the status; events only with news."""
        made = self.written()
        return Plan() if made is None else Plan(status=made, events=events)


def _of_target(view: ClusterView, key: ObjectKey) -> Iterator[ObjectKey]:
    """The autoscalers of a workload."""
    for raw in view.objects(KIND, key.namespace):
        if target_of(raw) == key:
            yield ObjectKey(*KIND, key.namespace, raw["metadata"]["name"])


AUTOSCALER: Final[Workload[AutoscalerFacts]] = Workload(
    kind=KIND,
    version="v2",
    owns=(),
    observe=observe_autoscaler,
    decide=plan_autoscaler,
    watches=dict.fromkeys(_TARGETS, _of_target),
    speaker=NAME,
)
