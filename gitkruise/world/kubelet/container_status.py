"""Container statuses: the entries of containerStatuses and initContainerStatuses.

Source: kubelet of Kubernetes 1.34 (convertToAPIContainerStatuses).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.kubelet.runtime import (
    PodRuntime,
    RuntimeContainer,
    RuntimeIdentity,
    RuntimeState,
    image_id,
    initial,
    is_sidecar,
)


def entry_of(pod: Obj, spec: Obj, runtime: PodRuntime) -> Obj:
    """One entry of containerStatuses or initContainerStatuses."""
    name = spec["name"]
    seen = runtime.containers.get(name)
    reason, message = runtime.waiting.get(name, ("", ""))
    if seen is None:
        idle = "PodInitializing" if initial(pod) else "ContainerCreating"
        return {
            "name": name,
            "state": {"waiting": texts(reason=reason or idle, message=message)},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "started": False,
            "image": spec["image"],
            "imageID": "",
        }
    state, last = _state(seen), seen.last
    if reason and not seen.up:
        state, last = {"waiting": texts(reason=reason, message=message)}, state["terminated"]
    entry: dict[str, Any] = {
        "name": name,
        "state": state,
        "lastState": {"terminated": last} if last else {},
        "ready": is_ready(pod, spec, seen),
        "restartCount": seen.restarts,
        "started": seen.up and bool(seen.startup),
        "image": seen.image,
        "imageID": seen.image_id,
        "containerID": "",
    }
    if seen.resources:
        entry["resources"] = seen.resources
        if requests := seen.resources.get("requests"):
            entry["allocatedResources"] = requests
    return entry


def signed(entry: Obj, who: RuntimeIdentity) -> Obj:
    """An entry with the ids of its containers, where it leaves them open."""
    if "containerID" not in entry:
        return entry
    name, restarts, state = entry["name"], entry["restartCount"], entry["state"]
    now = who.container(name, restarts)
    out = {**entry, "containerID": now}
    if "terminated" in state:
        out["state"] = {"terminated": _filled(state["terminated"], now)}
    if last := entry["lastState"].get("terminated"):
        before = now if "waiting" in state else who.container(name, restarts - 1)
        out["lastState"] = {"terminated": _filled(last, before)}
    return out


def ephemeral_statuses(pod: Obj, who: RuntimeIdentity, now: datetime, *, over: bool) -> list[Obj]:
    """Statuses of a pod's ephemeral containers: each runs from its first report to the pod's end.

    They are never ready and never restarted. `over`: the pod has ended.
    """
    listed = get(pod, "status", "ephemeralContainerStatuses", default=())
    known = {entry["name"]: entry for entry in listed if "containerID" in entry}
    made = []
    for spec in pod["spec"].get("ephemeralContainers") or ():
        image = spec.get("image") or ""  # no rule asks for one
        started = get(known.get(spec["name"]) or {}, "state", "running", "startedAt")
        entry = known.get(spec["name"]) or {
            "name": spec["name"],
            "state": {"running": {"startedAt": format_time(now)}},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": image,
            "imageID": image_id(image),
            "containerID": who.container(spec["name"], 0),
        }
        if over and (started or spec["name"] not in known):
            end = {"exitCode": 137, "reason": "Error", "finishedAt": format_time(now)}
            since = {"startedAt": started} if started else {}
            ended = {**end, **since, "containerID": entry["containerID"]}
            entry = {**entry, "state": {"terminated": ended}}
        made.append(entry)
    return made


def _filled(terminated: Obj, id_: str) -> Obj:
    if "containerID" not in terminated:
        return terminated
    if id_:
        return {**terminated, "containerID": id_}
    return {name: value for name, value in terminated.items() if name != "containerID"}


def is_ready(pod: Obj, spec: Obj, seen: RuntimeContainer | None) -> bool:
    """Running and ready; a plain init container is ready once it exited with 0."""
    if seen is None:
        return False
    inits = initial(pod)
    if inits and not is_sidecar(spec) and any(spec is init for init in inits):
        return seen.run is RuntimeState.EXITED and seen.exit_code == 0
    return seen.up and seen.ready and bool(seen.startup)


def terminated(seen: RuntimeContainer) -> Obj:
    """The `terminated` state of an exited container, its id left open."""
    pairs: dict[str, Any] = {
        "exitCode": seen.exit_code,
        "reason": "Completed" if seen.exit_code == 0 else "Error",
        "startedAt": format_time(seen.started) if seen.started else None,
        "finishedAt": format_time(seen.finished) if seen.finished else None,
        "containerID": "",
    }
    return pairs


def _state(seen: RuntimeContainer) -> dict[str, Any]:
    if seen.run is RuntimeState.RUNNING:
        return {"running": {"startedAt": format_time(seen.started) if seen.started else None}}
    if seen.run is RuntimeState.EXITED:
        return {"terminated": terminated(seen)}
    if seen.run is RuntimeState.UNKNOWN:
        return {
            "terminated": {
                "exitCode": 137,
                "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated",
                "startedAt": None,
                "finishedAt": None,
            }
        }
    return {"waiting": {}}


def texts(*, reason: str = "", message: str = "") -> dict[str, str]:
    return {k: v for k, v in (("reason", reason), ("message", message)) if v}
