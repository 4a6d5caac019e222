"""The status a kubelet reports for a pod: container statuses, phase and conditions.

Source: kubelet of Kubernetes 1.34 (generateAPIPodStatus, getPhase, the readiness conditions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from gitkruise.planner.qos import qos_class
from gitkruise.wire.names import Obj
from gitkruise.wire.times import format_time
from gitkruise.world.alike import Alike
from gitkruise.world.container_status import entry_of, is_ready, signed, texts
from gitkruise.world.containers import (
    Identity,
    PodRuntime,
    Run,
    Sandbox,
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


class _Told(NamedTuple):
    """What a status says of the containers, whoever the pod is: ids are left open."""

    phase: str
    entries: Sequence[Obj]
    init_entries: Sequence[Obj]
    initialized: tuple[str, str, str]
    ready: tuple[str, str, str]  # of the containers; gates not asked


def pod_status(
    pod: Obj,
    runtime: PodRuntime,
    who: Identity,
    now: datetime,
    *,
    host_ip: str = "",
    alike: Alike | None = None,
) -> Obj:
    """The whole status; conditions of others and fields we do not know are kept.

    Equal to the present one when nothing changed, so that nobody writes it again.
    """
    old, spec = pod.get("status") or {}, pod["spec"]
    told = _told_of(pod, runtime, alike or Alike())
    fresh: dict[str, Any] = {
        **{key: value for key, value in old.items() if key not in _REBUILT},
        "phase": told.phase,
        "startTime": old.get("startTime") or format_time(now),
        "qosClass": old.get("qosClass") or qos_class(spec),
        "containerStatuses": [signed(entry, who) for entry in told.entries],
    }
    if told.init_entries:
        fresh["initContainerStatuses"] = [signed(entry, who) for entry in told.init_entries]
    if host_ip:
        fresh |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    if runtime.sandbox and who.ip:
        fresh |= {"podIP": who.ip, "podIPs": [{"ip": who.ip}]}
    generation = pod["metadata"].get("generation")
    if generation:
        fresh["observedGeneration"] = generation
    fresh["conditions"] = _conditions(pod, told, runtime, now, alike or Alike())
    return fresh


def _told_of(pod: Obj, runtime: PodRuntime, alike: Alike) -> _Told:
    """What is told of the containers; made once for pods in which all of it is the same."""
    phase = (pod.get("status") or {}).get("phase")
    going = bool(pod["metadata"].get("deletionTimestamp"))
    made_from = runtime, phase, going, initial(pod), regular(pod), policy_of(pod)
    return alike.made("containers", lambda *_: _tell(pod, runtime), *made_from)


def _tell(pod: Obj, runtime: PodRuntime) -> _Told:
    phase = phase_of(pod, runtime)
    in_order = sorted(regular(pod), key=lambda s: str(s["name"]))
    return _Told(
        phase=phase,
        entries=[entry_of(pod, s, runtime) for s in in_order],
        init_entries=[entry_of(pod, s, runtime) for s in initial(pod)],
        initialized=_initialized(pod, runtime, phase),
        ready=containers_ready(pod, runtime, phase),
    )


def only_seen(pod: Obj, status: Obj) -> bool:
    """Whether `status` says nothing new but which generation was seen: that can wait for news."""
    old: Obj = pod.get("status") or {}
    if any(old.get(n) != status.get(n) for n in (old.keys() | status.keys()) - _SEEN):
        return False
    before, after = old.get("conditions") or (), status.get("conditions") or ()
    return len(before) == len(after) and all(map(_alike, before, after))


def in_transit(pod: Obj, runtime: PodRuntime, told: PodRuntime) -> bool:
    """Whether a status would only tell that containers of a pod out of service are down meanwhile.

    No controller acts on that: what counts is that they are up (again), with which image. `told` is
    what the present status was made from.
    """
    old: Obj = pod.get("status") or {}
    if old.get("phase") != "Running" or policy_of(pod) != "Always" or runtime.waiting:
        return False
    if pod["metadata"].get("deletionTimestamp") or _stands(old, "Ready") != "False":
        return False
    for spec in every(pod):
        seen, known = runtime.containers.get(spec["name"]), told.containers.get(spec["name"])
        if seen is None or known is None or seen.restarts != known.restarts:
            return False
        if seen.up and seen is not known:
            return False
    gates = pod["spec"].get("readinessGates") or ()
    ready = _ready(gates, containers_ready(pod, runtime, "Running"), old["conditions"])
    return ready[0] != "True"


def is_starting(pod: Obj, runtime: PodRuntime) -> bool:
    """Whether a status of a new pod would say that all its containers wait for their turn.

    No controller acts on that, either.
    """
    old: Obj = pod.get("status") or {}
    if runtime.containers or runtime.waiting or pod["metadata"].get("deletionTimestamp"):
        return False
    return "containerStatuses" not in old and old.get("phase") == "Pending"


def first_conditions(pod: Obj, runtime: PodRuntime, now: datetime, alike: Alike) -> dict[str, Any]:
    """What the first status of a starting pod would say that later ones keep."""
    told = _told_of(pod, runtime, alike)
    made = _conditions(pod, told, runtime, now, alike)
    start = (pod.get("status") or {}).get("startTime") or format_time(now)
    ours = [c for c in made if c["type"] in OWNED_CONDITIONS]
    return {"startTime": start, "conditions": ours}


def _stands(status: Obj, type_: str) -> str | None:
    found = (c.get("status") for c in status.get("conditions") or () if c["type"] == type_)
    return next(found, None)


def _alike(was: Obj, now: Obj) -> bool:
    """Whether two conditions say the same, of whatever generation."""
    if was is now:
        return True
    return all(was.get(n) == now.get(n) for n in (was.keys() | now.keys()) - _SEEN)


_SEEN: Final = frozenset({"observedGeneration", "conditions"})
_REBUILT: Final = frozenset({"phase", "containerStatuses", "initContainerStatuses", "conditions"})


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


def _conditions(
    pod: Obj, told: _Told, runtime: PodRuntime, now: datetime, alike: Alike
) -> Sequence[Obj]:
    """The kubelet's five conditions first, then everybody else's as they stand."""
    listed = (pod.get("status") or {}).get("conditions") or ()
    gates = pod["spec"].get("readinessGates") or ()
    generation = pod["metadata"].get("generation") or None
    made_from = listed, told, gates, runtime.sandbox, generation, now
    return alike.made("conditions", _moved, *made_from)


def _moved(
    listed: Sequence[Obj],
    told: _Told,
    gates: Sequence[Obj],
    sandbox: Sandbox | None,
    generation: int | None,
    now: datetime,
) -> Sequence[Obj]:
    wanted = {
        "PodReadyToStartContainers": (_truth(sandbox is not None), "", ""),
        "Initialized": told.initialized,
        "Ready": _ready(gates, told.ready, listed),
        "ContainersReady": told.ready,
        "PodScheduled": ("True", "", ""),
    }
    before = {c["type"]: c for c in listed if c["type"] in OWNED_CONDITIONS}
    made = [_condition(t, says, before.get(t), now, generation) for t, says in wanted.items()]
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
        **texts(reason=reason, message=message),
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
    gates: Iterable[Obj], containers: tuple[str, str, str], listed: Iterable[Obj]
) -> tuple[str, str, str]:
    if containers[0] != "True":
        return containers
    others = (c for c in listed if c["type"] not in OWNED_CONDITIONS)
    states: Mapping[str, str] = {c["type"]: c.get("status", "") for c in others}
    unmet = []
    for gate in gates:
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
