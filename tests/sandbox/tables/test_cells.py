"""Cells say what kubectl users are used to: ages, pod words, values of CRD columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gitkruise.sandbox.tables.cells import Cell, crd_cell, human_duration, selector_cell
from gitkruise.sandbox.tables.pods import pod

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CREATED = "2026-03-01T11:58:30Z"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"),
        (599, "9m59s"), (600, "10m"), (10_799, "179m"), (10_800, "3h"), (11_460, "3h11m"),
        (28_799, "7h59m"), (28_800, "8h"), (172_799, "47h"), (172_800, "2d"), (180_000, "2d2h"),
        (691_200, "8d"), (63_071_999, "729d"), (63_072_000, "2y"), (63_158_400, "2y1d"),
        (252_288_000, "8y"), (300_000_000, "9y"),
    ],
)  # fmt: skip
def test_ages(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown


OBJ: dict[str, Any] = {
    "metadata": {"creationTimestamp": CREATED, "labels": {"a.b/c": "x"}},
    "spec": {
        "replicas": 3,
        "paused": False,
        "partition": "50%",
        "containers": [{"name": "a", "image": "i"}, {"name": "b"}],
        "selector": {"matchLabels": {"x": "y"}},
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "ratio": 0.5, "when": "soon"},
}


@pytest.mark.parametrize(
    ("path", "kind", "cell"),
    [
        (".spec.replicas", "integer", 3),
        (".spec.replicas", "string", "3"),
        (".spec.partition", "string", "50%"),
        (".spec.partition", "integer", None),
        (".spec.paused", "boolean", False),
        (".status.ratio", "number", 0.5),
        (".spec.missing", "integer", None),
        (".spec.containers[*].name", "string", "a"),
        (".spec.containers[1].name", "string", "b"),
        (".spec.containers[9].name", "string", None),
        ('.status.conditions[?(@.type=="Ready")].status', "string", "True"),
        ('.status.conditions[?(@.type=="Other")].status', "string", None),
        (".spec.selector.matchLabels", "string", '{"x":"y"}'),
        (r".metadata.labels.a\.b/c", "string", None),
        (".metadata.labels['a.b/c']", "string", "x"),
        (".metadata.creationTimestamp", "date", "90s"),
        (".status.when", "date", "<invalid>"),
        ("{range .items}", "string", None),
    ],
)
def test_crd_columns(path: str, kind: str, cell: Cell) -> None:
    assert crd_cell(OBJ, path, kind, NOW) == cell


def container(*, ready: bool = True, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {
        "name": "app",
        "ready": ready,
        "restartCount": restarts,
        "state": state or {"running": {}},
    }


RUNNING: dict[str, Any] = {"phase": "Running", "containerStatuses": [container()]}
CRASHED = container(ready=False, restarts=2, waiting={"reason": "CrashLoopBackOff"})
CRASHED["lastState"] = {"terminated": {"finishedAt": "2026-03-01T11:59:55Z"}}
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("meta", "spec", "status", "cells"),
    [
        ({}, {}, {}, ("0/1", "", "0")),
        ({}, {}, {"phase": "Pending"}, ("0/1", "Pending", "0")),
        ({}, {}, RUNNING, ("1/1", "Running", "0")),
        ({"deletionTimestamp": CREATED}, {}, RUNNING, ("1/1", "Terminating", "0")),
        ({"deletionTimestamp": CREATED}, {}, {"phase": "Succeeded"}, ("0/1", "Succeeded", "0")),
        ({}, {}, {"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
        ({}, {}, {"phase": "Running", "containerStatuses": [CRASHED]},
         ("0/1", "CrashLoopBackOff", "2 (5s ago)")),
        ({}, {}, {"phase": "Failed", "containerStatuses": [
            container(ready=False, terminated={"exitCode": 3})]}, ("0/1", "ExitCode:3", "0")),
        ({}, {}, {"phase": "Failed", "containerStatuses": [
            container(ready=False, terminated={"signal": 9})]}, ("0/1", "Signal:9", "0")),
        ({}, {"initContainers": [{"name": "i"}, {"name": "j"}]},
         {"phase": "Pending", "initContainerStatuses": [
             {"name": "i", "state": {"terminated": {"exitCode": 0}}},
             {"name": "j", "state": {"running": {}}}]}, ("0/1", "Init:1/2", "0")),
        ({}, {"initContainers": [{"name": "i"}]},
         {"phase": "Pending", "initContainerStatuses": [
             {"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
         ("0/1", "Init:ErrImagePull", "0")),
        ({}, {"initContainers": [{"name": "i", "restartPolicy": "Always"}]},
         {**RUNNING, "initContainerStatuses": [
             {"name": "i", "started": True, "ready": True, "restartCount": 1,
              "state": {"running": {}}}]}, ("2/2", "Running", "1")),
        ({}, {}, {"phase": "Running", "containerStatuses": [
            container(), container(ready=False, terminated={"reason": "Completed"})]},
         ("1/1", "NotReady", "0")),
        ({}, {}, {"phase": "Running", "conditions": READY, "containerStatuses": [
            container(ready=False, terminated={"reason": "Completed"}), container()]},
         ("1/1", "Running", "0")),
        ({}, {}, {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
         ("0/1", "SchedulingGated", "0")),
    ],
)  # fmt: skip
def test_pods(
    meta: dict[str, Any], spec: dict[str, Any], status: dict[str, Any], cells: tuple[str, ...]
) -> None:
    obj = {
        "metadata": {"name": "web", "creationTimestamp": CREATED, **meta},
        "spec": {"containers": [{"name": "app"}], **spec},
        "status": status,
    }
    row = pod(obj, NOW)
    assert tuple(row[1:4]) == cells
    assert (row[0], row[4]) == ("web", "90s")


def test_wide_pod_columns() -> None:
    obj = {
        "metadata": {"name": "web"},
        "spec": {"containers": [], "nodeName": "n1", "readinessGates": [{"conditionType": "X"}]},
        "status": {"podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "X", "status": "True"}]},
    }
    assert pod(obj, NOW)[4:] == ["<unknown>", "10.0.0.1", "n1", "<none>", "1/1"]


@pytest.mark.parametrize(
    ("selector", "cell"),
    [
        (None, ""),
        ({"matchLabels": {"a": "b"}}, "a=b"),
        ({"matchExpressions": [{"key": "a", "operator": "a"}]}, "<error>"),
    ],
)
def test_selectors(selector: Any, cell: str) -> None:
    assert selector_cell(selector) == cell
