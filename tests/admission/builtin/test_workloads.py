"""Built-in workloads are stored and refused as a kube-apiserver does it."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.paths import get, put
from tests.admission.writes import admitted, fields, refusal

VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1"}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    policy = {"restartPolicy": "Never"} if kind in VERSIONS else {}
    template = {
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": None},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}], **policy},
    }
    if kind == "CronJob":
        content: dict[str, Any] = {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": template}},
        }
    else:
        content = {"template": template}
    if kind not in VERSIONS:
        content["selector"] = {"matchLabels": {"a": "b"}}
    return {
        "apiVersion": VERSIONS.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": "w", "uid": "u1"},
        "spec": {**content, **spec},
    }


KINDS = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"]
DEFAULTS: list[tuple[str, dict[str, Any]]] = [
    (
        "Deployment",
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            },
        },
    ),
    ("ReplicaSet", {"replicas": 1}),
    (
        "StatefulSet",
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
        },
    ),
    (
        "DaemonSet",
        {
            "revisionHistoryLimit": 10,
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
            },
        },
    ),
    (
        "Job",
        {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}},
        },
    ),
    (
        "CronJob",
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    ),
]


@pytest.mark.parametrize(("kind", "added"), DEFAULTS, ids=[kind for kind, _ in DEFAULTS])
def test_defaults(kind: str, added: dict[str, Any]) -> None:
    given = workload(kind)
    stored = admitted(given)
    rest = {k: v for k, v in stored["spec"].items() if k not in given["spec"]}
    assert rest == added
    assert admitted(stored, stored) is stored
    assert admitted({**stored, "spec": {**stored["spec"]}})["spec"] == stored["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_templates_get_a_servers_defaults_and_no_pods(kind: str) -> None:
    path = ("jobTemplate", "spec", "template") if kind == "CronJob" else ("template",)
    template = get(admitted(workload(kind)), "spec", *path)
    assert "creationTimestamp" not in template["metadata"]
    assert template["spec"]["containers"] == [
        {
            "name": "c",
            "image": "nginx:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]
    assert not {"enableServiceLinks", "tolerations", "priority"} & set(template["spec"])


def test_the_labels_of_a_jobs_pods_are_generated() -> None:
    stored = admitted(workload("Job"))
    assert stored["spec"]["template"]["metadata"]["labels"] == {
        "a": "b",
        "controller-uid": "u1",
        "job-name": "w",
        "batch.kubernetes.io/controller-uid": "u1",
        "batch.kubernetes.io/job-name": "w",
    }


def test_claim_templates_of_a_stateful_set() -> None:
    claim = {"metadata": {"name": "d"},
             "spec": {"accessModes": ["ReadWriteOnce"],
                      "resources": {"requests": {"storage": "1024Mi"}}}}  # fmt: skip
    mount = {"name": "d", "mountPath": "/d"}
    given = workload("StatefulSet", volumeClaimTemplates=[claim])
    given = put(given, ("spec", "template", "spec", "containers", 0, "volumeMounts"), [mount])
    assert admitted(given)["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "d"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        }
    ]


LABELS = "spec.template.metadata.labels"
REFUSED: list[tuple[dict[str, Any], set[str]]] = [
    (workload("Deployment", replicas=-1), {"spec.replicas"}),
    (workload("Deployment", selector=None), {"spec.selector", LABELS}),
    (workload("Deployment", selector={}), {"spec.selector"}),
    (workload("Deployment", selector={"matchLabels": {"a": "c"}}), {LABELS}),
    (workload("ReplicaSet", selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
     {"spec.selector.matchExpressions[0].values"}),
    (workload("Deployment", progressDeadlineSeconds=5, minReadySeconds=5),
     {"spec.progressDeadlineSeconds"}),
    (workload("Deployment", strategy={"type": "Wild"}), {"spec.strategy.type"}),
    (workload("Deployment", strategy={"type": "Recreate", "rollingUpdate": {}}),
     {"spec.strategy.rollingUpdate"}),
    (workload("Deployment", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
     {"spec.strategy.rollingUpdate.maxUnavailable"}),
    (workload("Deployment", strategy={"rollingUpdate": {"maxUnavailable": "101%"}}),
     {"spec.strategy.rollingUpdate.maxUnavailable"}),
    (workload("Deployment", strategy={"rollingUpdate": {"maxSurge": "5"}}),
     {"spec.strategy.rollingUpdate.maxSurge"}),
    (workload("Deployment", strategy={"rollingUpdate": {"maxSurge": -1}}),
     {"spec.strategy.rollingUpdate.maxSurge"}),
    (workload("StatefulSet", podManagementPolicy="Wild"), {"spec.podManagementPolicy"}),
    (workload("StatefulSet", updateStrategy={"rollingUpdate": {"partition": -1}}),
     {"spec.updateStrategy.rollingUpdate.partition"}),
    (workload("DaemonSet", updateStrategy={"type": "OnDelete"}), set()),
    (workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": 1}}),
     {"spec.updateStrategy.rollingUpdate.maxSurge"}),
    (workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
     set()),
    (workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
     {"spec.updateStrategy.rollingUpdate.maxUnavailable"}),
    (workload("DaemonSet",
              updateStrategy={"rollingUpdate": {"maxSurge": "101%", "maxUnavailable": 0}}),
     {"spec.updateStrategy.rollingUpdate.maxSurge"}),
    (workload("StatefulSet", ordinals={"start": -1}), {"spec.ordinals.start"}),
    (workload("StatefulSet", persistentVolumeClaimRetentionPolicy={"whenDeleted": "Never"}),
     {"spec.persistentVolumeClaimRetentionPolicy.whenDeleted"}),
    (put(workload("Deployment"), ("spec", "template", "spec", "restartPolicy"), "Never"),
     {"spec.template.spec.restartPolicy"}),
    (put(workload("Deployment"), ("spec", "template", "spec", "activeDeadlineSeconds"), 5),
     {"spec.template.spec.activeDeadlineSeconds"}),
    (put(workload("Job"), ("spec", "template", "spec", "restartPolicy"), "Always"),
     {"spec.template.spec.restartPolicy"}),
    (workload("Job", completions=-1), {"spec.completions"}),
    (workload("CronJob", schedule="now"), {"spec.schedule"}),
    (workload("CronJob", schedule="@daily"), set()),
    (workload("CronJob", concurrencyPolicy="Wild"), {"spec.concurrencyPolicy"}),
    ({**workload("CronJob"), "metadata": {"name": "x" * 53}}, {"metadata.name"}),
    (put(workload("Deployment"), ("spec", "template", "spec", "containers", 0, "name"), "A"),
     {"spec.template.spec.containers[0].name"}),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "refused"), REFUSED)
def test_creates(obj: dict[str, Any], refused: set[str]) -> None:
    assert fields(refusal(obj)) == refused


@pytest.mark.parametrize(
    ("kind", "path", "value", "refused"),
    [
        ("Deployment", ("spec", "replicas"), 3, set()),
        ("Deployment", ("spec", "selector", "matchExpressions"),
         [{"key": "a", "operator": "Exists"}], {"spec.selector"}),
        ("StatefulSet", ("spec", "replicas"), 3, set()),
        ("StatefulSet", ("spec", "serviceName"), "s", {"spec"}),
        ("Job", ("spec", "parallelism"), 3, set()),
        ("Job", ("spec", "template", "spec", "containers", 0, "image"), "x", {"spec.template"}),
        ("CronJob", ("spec", "schedule"), "1 * * * *", set()),
    ],
)  # fmt: skip
def test_updates(kind: str, path: tuple[str | int, ...], value: Any, refused: set[str]) -> None:
    old = admitted(workload(kind))
    assert fields(refusal(put(old, path, value), old)) == refused


def test_a_bad_amount_is_a_bad_request() -> None:
    path = ("spec", "template", "spec", "containers", 0, "resources")
    error = refusal(put(workload("Deployment"), path, {"limits": {"cpu": "x"}}))
    assert error
    assert error.status == 400
