"""HorizontalPodAutoscalers in the model cluster. Every text is recorded from Kubernetes 1.34."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import Obj
from tests.worlds import Lab, cloneset, deployment

GOT_SCALE: Final = "the HPA controller was able to get the target's current scale"
NO_METRICS: Final = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch "
    "metrics from resource metrics API: the server could not find the requested resource "
    "(get pods.metrics.k8s.io)"
)
NO_CUSTOM: Final = (
    "unable to fetch metrics from custom metrics API: no custom metrics API "
    "(custom.metrics.k8s.io) registered"
)
NO_EXTERNAL: Final = (
    "unable to fetch metrics from external metrics API: the server could not find the requested "
    "resource (get q.external.metrics.k8s.io)"
)
VALUE: Final = {"type": "Value", "value": "1"}
LABELLED: Final = {"name": "q", "selector": {"matchLabels": {"a": "b"}}}
GO_SELECTOR: Final = (
    "&LabelSelector{MatchLabels:map[string]string{a: b,},"
    "MatchExpressions:[]LabelSelectorRequirement{},}"
)
RPS: Final = {"name": "rps"}
SERVICE: Final = {"apiVersion": "v1", "kind": "Service", "name": "s"}
USED: Final = {"type": "AverageValue", "averageValue": "1"}
HALF: Final = {"type": "Utilization", "averageUtilization": 50}


def autoscaler(kind: str = "Deployment", name: str = "web", **spec: Any) -> dict[str, Any]:
    group = "apps.kruise.io/v1beta1" if kind == "CloneSet" else "apps/v1"
    target = {"apiVersion": group, "kind": kind, "name": name}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "cpu"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, **spec},
    }


def started(target: Obj, **spec: Any) -> Lab:
    lab = Lab()
    lab.apply(target)
    lab.apply(autoscaler(target["kind"], **spec))
    lab.run()
    return lab


def status(lab: Lab) -> Obj:
    found: Obj = lab.get(autoscaler())["status"]
    return found


def conditions(lab: Lab) -> list[tuple[str, str, str, str]]:
    listed = status(lab)["conditions"]
    return [(c["type"], c["status"], c["reason"], c["message"]) for c in listed]


def test_ctl_91_without_metrics_it_says_so() -> None:
    lab = started(deployment(replicas=3))
    why = f"the HPA was unable to compute the replica count: {NO_METRICS}"
    assert conditions(lab) == [
        ("AbleToScale", "True", "SucceededGetScale", GOT_SCALE),
        ("ScalingActive", "False", "FailedGetResourceMetric", why),
    ]
    numbers = {k: v for k, v in status(lab).items() if k != "conditions"}
    metrics = [{"type": ""}]
    assert numbers == {"currentMetrics": metrics, "currentReplicas": 3, "desiredReplicas": 0}
    assert lab.events("cpu") == ["FailedGetResourceMetric", "FailedComputeMetricsReplicas"]


def test_the_size_belongs_to_the_manager_of_kubernetes_controllers() -> None:
    """As on a cluster: git gives way to it, and takes the size back without the autoscaler."""
    lab = started(deployment(replicas=1))
    sized = lab.get(deployment())
    managers = {
        entry["manager"]
        for entry in sized["metadata"]["managedFields"]
        if entry.get("subresource") == "scale"
    }
    assert (sized["spec"]["replicas"], managers) == (2, {"kube-controller-manager"})


@pytest.mark.parametrize(
    ("type_", "source", "error"),
    [
        ("ContainerResource", {"name": "cpu", "container": "app", "target": HALF}, NO_METRICS),
        ("Resource", {"name": "cpu", "target": USED}, NO_METRICS.replace("utilization", "usage")),
        ("Pods", {"metric": RPS, "target": USED}, f"unable to get metric rps: {NO_CUSTOM}"),
        (
            "Object",
            {"metric": RPS, "describedObject": SERVICE, "target": VALUE},
            f"unable to get metric rps: Service on shop s/{NO_CUSTOM}",
        ),
        (
            "External",
            {"metric": {"name": "q"}, "target": USED},
            f"unable to get external metric shop/q/nil: {NO_EXTERNAL}",
        ),
        (
            "External",
            {"metric": LABELLED, "target": USED},
            f"unable to get external metric shop/q/{GO_SELECTOR}: {NO_EXTERNAL}",
        ),
    ],
    ids=["container", "usage", "pods", "object", "external", "selector"],
)
def test_ctl_91_each_metric_has_its_words(type_: str, source: Obj, error: str) -> None:
    metric = {"type": type_, type_[0].lower() + type_[1:]: source}
    lab = started(deployment(replicas=3), metrics=[metric])
    why = f"the HPA was unable to compute the replica count: {error}"
    assert conditions(lab)[1] == ("ScalingActive", "False", f"FailedGet{type_}Metric", why)


@pytest.mark.parametrize("target", [deployment(replicas=9), cloneset(replicas=9)], ids=str)
def test_ctl_90_a_size_above_the_bounds_is_brought_down(target: Obj) -> None:
    lab = started(target)
    assert lab.get(target)["spec"]["replicas"] == len(lab.pods()) == 5
    assert lab.events("cpu")[0] == "SuccessfulRescale"
    assert (status(lab)["currentReplicas"], status(lab)["desiredReplicas"]) == (5, 5)
    assert status(lab)["lastScaleTime"] == "2026-11-21T10:00:00Z"


def test_ctl_90_a_size_below_the_bounds_is_brought_up_and_kept() -> None:
    lab = started(deployment(replicas=1))
    assert len(lab.pods()) == 2
    lab.patch(deployment(), {"spec": {"replicas": 7}})
    lab.run()
    assert len(lab.pods()) == 5
    lab.patch(autoscaler(), {"spec": {"maxReplicas": 4}})
    lab.run()
    assert len(lab.pods()) == 4


def test_ctl_90_a_target_of_size_zero_is_left_alone() -> None:
    lab = started(deployment(replicas=0))
    why = "scaling is disabled since the replica count of the target is zero"
    assert conditions(lab)[1] == ("ScalingActive", "False", "ScalingDisabled", why)
    assert lab.pods() == []


def test_ctl_90_a_missing_target_is_reported_until_it_exists() -> None:
    lab = Lab()
    lab.apply(autoscaler())
    lab.run()
    why = "the HPA controller was unable to get the target's current scale: "
    missing = f'{why}deployments.apps "web" not found'
    assert conditions(lab) == [("AbleToScale", "False", "FailedGetScale", missing)]
    lab.apply(deployment())
    lab.run()
    assert conditions(lab)[0] == ("AbleToScale", "True", "SucceededGetScale", GOT_SCALE)


def test_ctl_90_a_kind_that_is_not_sized_here_is_named() -> None:
    lab = Lab()
    lab.apply(autoscaler("DaemonSet"))
    lab.run()
    assert conditions(lab)[0][3].endswith("StatefulSets and CloneSets, not DaemonSet")


def test_ctl_91_an_autoscaler_at_rest_writes_nothing() -> None:
    lab = started(deployment(replicas=3))
    version = lab.world.version
    lab.patch(deployment(), {"metadata": {"labels": {"x": "y"}}})
    lab.run()
    assert lab.get(autoscaler())["metadata"]["resourceVersion"] <= str(version)
