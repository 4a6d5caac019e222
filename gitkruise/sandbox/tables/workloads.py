"""Rows of workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gitkruise.sandbox.tables.cells import Cell, age, human_duration, selector_cell, since
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

NONE: Final = "<none>"


def deployment(obj: Obj, now: datetime) -> list[Cell]:
    status = _status(obj)
    return [
        obj["metadata"].get("name"),
        f"{status.get('readyReplicas', 0)}/{_desired(obj)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_template(obj),
        _selector(obj),
    ]


def replica_set(obj: Obj, now: datetime) -> list[Cell]:
    status = _status(obj)
    return [
        obj["metadata"].get("name"),
        _desired(obj),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *_template(obj),
        _selector(obj),
    ]


def stateful_set(obj: Obj, now: datetime) -> list[Cell]:
    ready = f"{_status(obj).get('readyReplicas', 0)}/{_desired(obj)}"
    return [obj["metadata"].get("name"), ready, age(obj, now), *_template(obj)]


def daemon_set(obj: Obj, now: datetime) -> list[Cell]:
    status = _status(obj)
    nodes = get(obj, "spec", "template", "spec", "nodeSelector", default={})
    return [
        obj["metadata"].get("name"),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        ",".join(f"{key}={value}" for key, value in sorted(nodes.items())) or NONE,
        age(obj, now),
        *_template(obj),
        _selector(obj),
    ]


_JOB_WORDS: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def job(obj: Obj, now: datetime) -> list[Cell]:
    spec, status = obj.get("spec") or {}, _status(obj)
    wanted, parallel = spec.get("completions"), spec.get("parallelism") or 0
    goal = f"{wanted}" if wanted is not None else f"1 of {parallel}" if parallel > 1 else "1"
    begun = parse_time(status.get("startTime"))
    ended = parse_time(status.get("completionTime"))
    held = {c.get("type", "") for c in status.get("conditions") or () if c.get("status") == "True"}
    word = next((shown for name, shown in _JOB_WORDS if name in held), "Running")
    if word == "Running" and obj["metadata"].get("deletionTimestamp"):
        word = "Terminating"
    return [
        obj["metadata"].get("name"),
        word,
        f"{status.get('succeeded', 0)}/{goal}",
        human_duration(((ended or now) - begun).total_seconds()) if begun else "",
        age(obj, now),
        *_template(obj),
        _selector(obj),
    ]


def cron_job(obj: Obj, now: datetime) -> list[Cell]:
    spec, status = obj.get("spec") or {}, _status(obj)
    last = status.get("lastScheduleTime")
    template = get(spec, "jobTemplate", default={})
    return [
        obj["metadata"].get("name"),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *_template(template),
        _selector(template),
    ]


def _status(obj: Obj) -> Mapping[str, Any]:
    status: Mapping[str, Any] = obj.get("status") or {}
    return status


def _desired(obj: Obj) -> int:
    replicas = get(obj, "spec", "replicas", default=0)
    return int(replicas)


def _template(obj: Obj) -> tuple[str, str]:
    """Names and images of the template's containers, joined by commas."""
    containers = get(obj, "spec", "template", "spec", "containers", default=())
    return (
        ",".join(c.get("name", "") for c in containers),
        ",".join(c.get("image", "") for c in containers),
    )


def _selector(obj: Obj) -> str:
    return selector_cell(get(obj, "spec", "selector")) or NONE
