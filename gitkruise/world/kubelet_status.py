"""The status a kubelet reports for a pod: container statuses, phase and conditions.

Source: kubelet of Kubernetes 1.34 (generateAPIPodStatus, getPhase, the readiness conditions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gitkruise.planner.qos import qos_class
from gitkruise.wire.names import Obj
from gitkruise.wire.times import format_time
from gitkruise.world.alike import Alike
from gitkruise.world.containers import (
    Container,
    PodRuntime,
    Run,
    every,
    initial,
    is_sidecar,
    policy_of,
    regular,
)

OWNED_CONDITIONS: Final = frozenset(
    {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}
)
ENDED: Final = frozenset({"Succeeded", "Failed"})


def pod_status(
    pod: Obj, runtime: PodRuntime, now: datetime, *, host_ip: str = "", alike: Alike | None = None
) -> Obj:
    """The whole status; conditions of others and fields we do not know are kept.

    Equal to the present one when nothing changed, so that nobody writes it again.
    """
    old: Obj = pod.get("status") or {}
    phase = phase_of(pod, runtime)
    fresh: dict[str, Any] = {
        **{key: value for key, value in old.items() if key not in _REBUILT},
        "phase": phase,
        "startTime": old.get("startTime") or format_time(now),
        "qosClass": old.get("qosClass") or qos_class(pod["spec"]),
        "containerStatuses": [
            container_status(pod, spec, runtime)
            for spec in sorted(regular(pod), key=lambda s: str(s["name"]))
        ],
    }
    if initial(pod):
        fresh["initContainerStatuses"] = [container_status(pod, s, runtime) for s in initial(pod)]
    if host_ip:
        fresh |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    if runtime.sandbox and runtime.sandbox.ip:
        fresh |= {"podIP": runtime.sandbox.ip, "podIPs": [{"ip": runtime.sandbox.ip}]}
    generation = pod["metadata"].get("generation")
    if generation:
        fresh["observedGeneration"] = generation
    fresh["conditions"] = conditions(pod, runtime, phase, now, alike or Alike())
    return fresh


def only_seen(pod: Obj, status: Obj) -> bool:
    """Whether `status` says nothing new but which generation was seen: that can wait for news."""
    old: Obj = pod.get("status") or {}
    if any(old.get(n) != status.get(n) for n in (old.keys() | status.keys()) - _SEEN):
        return False
    before, after = old.get("conditions") or (), status.get("conditions") or ()
    return len(before) == len(after) and all(map(_alike, before, after))


def in_transit(pod: Obj, runtime: PodRuntime) -> bool:
    """Whether a status would only tell that containers of a pod out of service are down meanwhile.

    No controller acts on that: what counts is that they are up (again), with which image.
    """
    old: Obj = pod.get("status") or {}
    if old.get("phase") != "Running" or policy_of(pod) != "Always" or runtime.waiting:
        return False
    if pod["metadata"].get("deletionTimestamp") or _stands(old, "Ready") != "False":
        return False
    listed = (*(old.get("initContainerStatuses") or ()), *(old.get("containerStatuses") or ()))
    told = {entry["name"]: entry for entry in listed}
    known = runtime.containers
    if not all(_as_told(pod, s, known.get(s["name"]), told.get(s["name"], {})) for s in every(pod)):
        return False
    return _ready(pod, containers_ready(pod, runtime, "Running"), old["conditions"])[0] != "True"


def _as_told(pod: Obj, spec: Obj, seen: Container | None, entry: Obj) -> bool:
    """Whether a container is the one that was reported, and as it was unless it is down."""
    if seen is None or seen.id != entry.get("containerID"):
        return False
    alike = is_ready(pod, spec, seen) == entry["ready"] and seen.resources == entry.get(
        "resources", {}
    )
    return alike or not seen.up


def is_starting(pod: Obj, status: Obj) -> bool:
    """Whether a new pod's `status` says that all its containers wait for their turn, and no more.

    No controller acts on that, either.
    """
    old: Obj = pod.get("status") or {}
    if "containerStatuses" in old or {old.get("phase"), status["phase"]} != {"Pending"}:
        return False
    listed = [*(status.get("initContainerStatuses") or ()), *status["containerStatuses"]]
    return all(entry["state"].get("waiting") in _IDLE for entry in listed)


def _stands(status: Obj, type_: str) -> str | None:
    found = (c.get("status") for c in status.get("conditions") or () if c["type"] == type_)
    return next(found, None)


def _alike(was: Obj, now: Obj) -> bool:
    """Whether two conditions say the same, of whatever generation."""
    if was is now:
        return True
    return all(was.get(n) == now.get(n) for n in (was.keys() | now.keys()) - _SEEN)


_SEEN: Final = frozenset({"observedGeneration", "conditions"})
_IDLE: Final = ({"reason": "ContainerCreating"}, {"reason": "PodInitializing"})
_REBUILT: Final = frozenset({"phase", "containerStatuses", "initContainerStatuses", "conditions"})


def container_status(pod: Obj, spec: Obj, runtime: PodRuntime) -> Obj:
    """One entry of containerStatuses or initContainerStatuses."""
    name = spec["name"]
    seen = runtime.containers.get(name)
    reason, message = runtime.waiting.get(name, ("", ""))
    if seen is None:
        idle = "PodInitializing" if initial(pod) else "ContainerCreating"
        return {
            "name": name,
            "state": {"waiting": _texts(reason=reason or idle, message=message)},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "started": False,
            "image": spec["image"],
            "imageID": "",
        }
    state, last = _state(seen), seen.last
    if reason and not seen.up:
        state, last = {"waiting": _texts(reason=reason, message=message)}, state["terminated"]
    entry: dict[str, Any] = {
        "name": name,
        "state": state,
        "lastState": {"terminated": last} if last else {},
        "ready": is_ready(pod, spec, seen),
        "restartCount": seen.restarts,
        "started": seen.up and bool(seen.startup),
        "image": seen.image,
        "imageID": seen.image_id,
        "containerID": seen.id,
    }
    if seen.resources:
        entry["resources"] = seen.resources
        if requests := seen.resources.get("requests"):
            entry["allocatedResources"] = requests
    return entry


def is_ready(pod: Obj, spec: Obj, seen: Container | None) -> bool:
    """Running and ready; a plain init container is ready once it exited with 0."""
    if seen is None:
        return False
    inits = initial(pod)
    if inits and not is_sidecar(spec) and any(spec is init for init in inits):
        return seen.run is Run.EXITED and seen.exit_code == 0
    return seen.up and seen.ready and bool(seen.startup)


def terminated(seen: Container) -> Obj:
    """The `terminated` state of an exited container."""
    pairs: dict[str, Any] = {
        "exitCode": seen.exit_code,
        "reason": "Completed" if seen.exit_code == 0 else "Error",
        "startedAt": format_time(seen.started) if seen.started else None,
        "finishedAt": format_time(seen.finished) if seen.finished else None,
        "containerID": seen.id or None,
    }
    return {key: value for key, value in pairs.items() if value is not None}


def _state(seen: Container) -> dict[str, Any]:
    if seen.run is Run.RUNNING:
        return {"running": {"startedAt": format_time(seen.started)} if seen.started else {}}
    if seen.run is Run.EXITED:
        return {"terminated": terminated(seen)}
    if seen.run is Run.UNKNOWN:
        return {
            "terminated": {
                "exitCode": 137,
                "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated",
            }
        }
    return {"waiting": {}}


def phase_of(pod: Obj, runtime: PodRuntime) -> str:
    """The phase; Succeeded and Failed are final. A pod being deleted ends when all stopped."""
    old = (pod.get("status") or {}).get("phase")
    if old in ENDED:
        return str(old)
    policy = policy_of(pod)
    deleting = bool(pod["metadata"].get("deletionTimestamp"))
    init = _init_phase(pod, runtime, policy)
    if init and not (deleting and _all_stopped(runtime)):
        return init
    tally = [_standing(spec["name"], runtime) for spec in regular(pod)]
    if "waiting" in tally or ("unknown" in tally and not deleting):
        return "Pending"
    return "Running" if "running" in tally else _stopped_phase(tally, policy, deleting=deleting)


def _stopped_phase(tally: Sequence[str], policy: str, *, deleting: bool) -> str:
    well = bool(tally) and all(standing == "succeeded" for standing in tally)
    if deleting:
        return "Succeeded" if well else "Failed"
    if policy == "Always":
        return "Running"
    if well:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _init_phase(pod: Obj, runtime: PodRuntime, policy: str) -> str:
    pending = failed = False
    inits = initial(pod)
    if not inits:
        return ""
    started_any = any(spec["name"] in runtime.containers for spec in regular(pod))
    for spec in inits:
        seen = runtime.containers.get(spec["name"])
        if is_sidecar(spec):
            idle = seen is None or (seen.up and not seen.startup)
            pending = pending or (idle and not started_any)
        elif seen is None or seen.up:
            pending = pending or not started_any
        elif seen.exit_code != 0:
            failed = True
    if failed and policy == "Never":
        return "Failed"
    return "Pending" if pending or (failed and not started_any) else ""


def _standing(name: str, runtime: PodRuntime) -> str:
    seen = runtime.containers.get(name)
    if seen is None:
        return "waiting" if name in runtime.waiting else "unknown"
    if seen.up:
        return "running"
    if name in runtime.waiting or seen.exit_code != 0 or seen.run is not Run.EXITED:
        return "stopped"
    return "succeeded"


def _all_stopped(runtime: PodRuntime) -> bool:
    return not any(c.up for c in runtime.containers.values())


def conditions(
    pod: Obj, runtime: PodRuntime, phase: str, now: datetime, alike: Alike
) -> Sequence[Obj]:
    """The kubelet's five conditions first, then everybody else's as they stand."""
    listed = (pod.get("status") or {}).get("conditions") or ()
    containers = containers_ready(pod, runtime, phase)
    wanted = {
        "PodReadyToStartContainers": (_truth(runtime.sandbox is not None), "", ""),
        "Initialized": _initialized(pod, runtime, phase),
        "Ready": _ready(pod, containers, listed),
        "ContainersReady": containers,
        "PodScheduled": ("True", "", ""),
    }
    generation = pod["metadata"].get("generation") or None
    return alike.made("conditions", _moved, listed, wanted, now, generation)


def _moved(
    listed: Iterable[Obj],
    wanted: Mapping[str, tuple[str, str, str]],
    now: datetime,
    generation: int | None,
) -> Sequence[Obj]:
    before = {c["type"]: c for c in listed if c["type"] in OWNED_CONDITIONS}
    made = [_condition(t, told, before.get(t), now, generation) for t, told in wanted.items()]
    return made + [c for c in listed if c["type"] not in OWNED_CONDITIONS]


def _condition(
    type_: str,
    verdict: tuple[str, str, str],
    old: Obj | None,
    now: datetime,
    generation: int | None,
) -> Obj:
    status, reason, message = verdict
    if old is not None and _stands_so(old, verdict, generation):
        return old
    moved = old["lastTransitionTime"] if old and old.get("status") == status else None
    return {
        "type": type_,
        **({"observedGeneration": generation} if generation else {}),
        "status": status,
        "lastTransitionTime": moved or format_time(now),
        **_texts(reason=reason, message=message),
    }


_NAMES: Final = frozenset(
    {"type", "observedGeneration", "status", "lastTransitionTime", "reason", "message"}
)


def _stands_so(old: Obj, verdict: tuple[str, str, str], generation: int | None) -> bool:
    """Whether a condition says this already, and nothing else."""
    get = old.get
    if get("observedGeneration") != generation:
        return False
    if (get("status"), get("reason", ""), get("message", "")) != verdict:
        return False
    return old.keys() <= _NAMES


def _initialized(pod: Obj, runtime: PodRuntime, phase: str) -> tuple[str, str, str]:
    if phase == "Succeeded":
        return "True", "PodCompleted", ""
    if not initial(pod) or any(spec["name"] in runtime.containers for spec in regular(pod)):
        return "True", "", ""
    unknown = [s["name"] for s in initial(pod) if s["name"] not in runtime.containers]
    incomplete = [s["name"] for s in initial(pod) if not _init_done(s, runtime)]
    if not incomplete and not unknown:
        return "True", "", ""
    return (
        "False",
        "ContainersNotInitialized",
        f"containers with incomplete status: {_go(incomplete)}",
    )


def _init_done(spec: Obj, runtime: PodRuntime) -> bool:
    seen = runtime.containers.get(spec["name"])
    if seen is None:
        return False
    if is_sidecar(spec):
        return seen.up and bool(seen.startup)
    return seen.run is Run.EXITED and seen.exit_code == 0


def containers_ready(pod: Obj, runtime: PodRuntime, phase: str) -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    if phase in ENDED:
        return "False", "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
    staying = [*filter(is_sidecar, initial(pod)), *regular(pod)]
    known = runtime.containers
    unready = [s["name"] for s in staying if not is_ready(pod, s, known.get(s["name"]))]
    if unready:
        return "False", "ContainersNotReady", f"containers with unready status: {_go(unready)}"
    return "True", "", ""


def _ready(
    pod: Obj, containers: tuple[str, str, str], listed: Iterable[Obj]
) -> tuple[str, str, str]:
    if containers[0] != "True":
        return containers
    others = (c for c in listed if c["type"] not in OWNED_CONDITIONS)
    states: Mapping[str, str] = {c["type"]: c.get("status", "") for c in others}
    unmet = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        if name not in states:
            unmet.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif states[name] != "True":
            unmet.append(
                f'the status of pod readiness gate "{name}" is not "True", but {states[name]}'
            )
    if unmet:
        return "False", "ReadinessGatesNotReady", ", ".join(unmet)
    return "True", "", ""


def _go(names: Sequence[str]) -> str:
    return "[" + " ".join(names) + "]"


def _truth(value: bool) -> str:
    return "True" if value else "False"


def _texts(*, reason: str = "", message: str = "") -> dict[str, str]:
    return {k: v for k, v in (("reason", reason), ("message", message)) if v}
