"""The row of a pod: readiness, restarts, and the one word that says what is the matter with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gitkruise.model.workloads.pod import FINISHED
from gitkruise.sandbox.tables.cells import Cell, age, since
from gitkruise.sandbox.tables.printed_kinds import NONE
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get


@dataclass(frozen=True, slots=True)
class _StatusCounts:
    """Counts of a group of container statuses for the row."""

    reason: str
    ready: int = 0
    restarts: int = 0
    running: bool = False


def pod(obj: Obj, now: datetime) -> list[Cell]:
    """NAME READY STATUS RESTARTS AGE and the wide columns, as kube-apiserver's printPod."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    reason, ready, restarts = _summary(obj, spec, status, {c.get("name", "") for c in sidecars})
    total = len(spec.get("containers") or ()) + len(sidecars)
    shown = str(restarts)
    last = _last_restart(status)
    if restarts and last:
        shown = f"{restarts} ({since(last, now)} ago)"
    addresses = status.get("podIPs") or ()
    return [
        obj["metadata"].get("name"),
        f"{ready}/{total}",
        reason,
        shown,
        age(obj, now),
        (addresses[0].get("ip") if addresses else status.get("podIP")) or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _summary(
    obj: Obj, spec: Mapping[str, Any], status: Mapping[str, Any], sidecars: set[str]
) -> tuple[str, int, int]:
    """(status word, ready containers, restarts)."""
    reason = status.get("reason") or status.get("phase") or ""
    if _condition(status, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    inits = status.get("initContainerStatuses") or ()
    before, initializing = _of_inits(inits, len(spec.get("initContainers") or ()), sidecars, reason)
    count, ready = before, before.ready
    restarts = before.restarts
    if not initializing or _condition(status, "Initialized").get("status") == "True":
        count = _of_containers(
            status.get("containerStatuses") or (), reason if not initializing else before.reason
        )
        ready += count.ready
        restarts = count.restarts + sum(
            entry.get("restartCount", 0) for entry in inits if entry.get("name") in sidecars
        )
    reason = count.reason
    if reason == "Completed" and count.running:
        is_ready = _condition(status, "Ready").get("status") == "True"
        reason = "Running" if is_ready else "NotReady"
    if obj["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in FINISHED:
            reason = "Terminating"
    return reason, ready, restarts


def _of_inits(
    statuses: Sequence[Mapping[str, Any]], total: int, sidecars: set[str], reason: str
) -> tuple[_StatusCounts, bool]:
    """The count of init containers up to the first that is not done, and whether there is one."""
    ready = restarts = 0
    for index, entry in enumerate(statuses):
        restarts += entry.get("restartCount", 0)
        state = entry.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if entry.get("name") in sidecars and entry.get("started"):
            ready += int(bool(entry.get("ready")))
            continue
        if terminated is not None:
            word = "Init:" + _end_of(terminated)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            word = f"Init:{waiting['reason']}"
        else:
            word = f"Init:{index}/{total}"
        return _StatusCounts(word, ready, restarts), True
    return _StatusCounts(reason, ready, restarts), False


def _of_containers(statuses: Sequence[Mapping[str, Any]], reason: str) -> _StatusCounts:
    ready = restarts = 0
    running = False
    for entry in reversed(statuses):
        restarts += entry.get("restartCount", 0)
        state = entry.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _end_of(terminated)
        elif entry.get("ready") and "running" in state:
            running = True
            ready += 1
    return _StatusCounts(reason, ready, restarts, running)


def _end_of(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _last_restart(status: Mapping[str, Any]) -> str:
    """The latest end of an earlier run of any container, RFC 3339 (which sorts as text)."""
    entries = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    ends = (get(entry, "lastState", "terminated", "finishedAt", default="") for entry in entries)
    return max(ends, default="")


def _gates(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    met = sum(_condition(status, g.get("conditionType", "")).get("status") == "True" for g in gates)
    return f"{met}/{len(gates)}"


def _condition(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return next((entry for entry in conditions if entry.get("type") == name), {})
