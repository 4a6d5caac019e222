"""The status a kubelet reports for a pod: container statuses, phase and conditions.

Source: kubelet of Kubernetes 1.34 (generateAPIPodStatus, getPhase, the readiness conditions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from gitkruise.model.node.qos import qos_class
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.kubelet.container_status import (
    entry_of,
    ephemeral_statuses,
    is_ready,
    signed,
    texts,
)
from gitkruise.world.kubelet.runtime import (
    PodRuntime,
    PodSandbox,
    RuntimeIdentity,
    RuntimeState,
    every,
    initial,
    is_sidecar,
    policy_of,
    regular,
    was_replaced,
)
from gitkruise.world.store.memo import Memo

OWNED_CONDITIONS: Final = frozenset(
    {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}
)


class _ContainersStatus(NamedTuple):
    """Container part of a status, without the identity of the pod: no ids."""

    phase: str
    entries: Sequence[Obj]
    init_entries: Sequence[Obj]
    initialized: tuple[str, str, str]
    ready: tuple[str, str, str]  # of the containers; gates not asked


def pod_status(
    pod: Obj,
    runtime: PodRuntime,
    identity: RuntimeIdentity,
    now: datetime,
    *,
    host_ip: str = "",
    memo: Memo | None = None,
) -> Obj:
    """The whole status; conditions of others and fields we do not know are kept.

    Equal to the present one when nothing changed, so that it is not written again.
    """
    old, spec = pod.get("status") or {}, pod["spec"]
    containers = _containers_status(pod, runtime, memo or Memo())
    fresh: dict[str, Any] = {
        **{key: value for key, value in old.items() if key not in _REBUILT},
        "phase": containers.phase,
        "startTime": old.get("startTime") or format_time(now),
        "qosClass": old.get("qosClass") or qos_class(spec),
        "containerStatuses": [signed(entry, identity) for entry in containers.entries],
    }
    if containers.init_entries:
        fresh["initContainerStatuses"] = [
            signed(entry, identity) for entry in containers.init_entries
        ]
    if spec.get("ephemeralContainers") and runtime.sandbox:
        over = containers.phase in FINISHED
        fresh["ephemeralContainerStatuses"] = ephemeral_statuses(pod, identity, now, over=over)
    if host_ip:
        fresh |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    if runtime.sandbox and identity.ip:
        fresh |= {"podIP": identity.ip, "podIPs": [{"ip": identity.ip}]}
    generation = pod["metadata"].get("generation")
    if generation:
        fresh["observedGeneration"] = generation
    fresh["conditions"] = _conditions(pod, containers, runtime, now, memo or Memo())
    return fresh


def _containers_status(pod: Obj, runtime: PodRuntime, memo: Memo) -> _ContainersStatus:
    """Return the container part of the status; computed once for pods with equal inputs."""
    phase = (pod.get("status") or {}).get("phase")
    going = bool(pod["metadata"].get("deletionTimestamp"))
    made_from = runtime, phase, going, initial(pod), regular(pod), policy_of(pod)
    return memo.get("containers", lambda *_: _compute_containers(pod, runtime), *made_from)


def _compute_containers(pod: Obj, runtime: PodRuntime) -> _ContainersStatus:
    phase = phase_of(pod, runtime)
    in_order = sorted(regular(pod), key=lambda s: str(s["name"]))
    return _ContainersStatus(
        phase=phase,
        entries=[entry_of(pod, s, runtime) for s in in_order],
        init_entries=[entry_of(pod, s, runtime) for s in initial(pod)],
        initialized=_initialized(pod, runtime, phase),
        ready=containers_ready(pod, runtime, phase),
    )


def only_seen(pod: Obj, status: Obj) -> bool:
    """Return whether only the observed generation changed: the write can wait."""
    old: Obj = pod.get("status") or {}
    if any(old.get(n) != status.get(n) for n in (old.keys() | status.keys()) - _SEEN):
        return False
    before, after = old.get("conditions") or (), status.get("conditions") or ()
    return len(before) == len(after) and all(map(_same_condition, before, after))


def in_transit(pod: Obj, runtime: PodRuntime, reported: PodRuntime) -> bool:
    """Return whether a status would only report stopped containers of a pod that is not ready.

    No controller acts on that; controllers wait until the containers run again. `reported` is
    the runtime state behind the present status.
    """
    old: Obj = pod.get("status") or {}
    if old.get("phase") != "Running" or policy_of(pod) != "Always" or runtime.waiting:
        return False
    if pod["metadata"].get("deletionTimestamp") or _condition_status(old, "Ready") != "False":
        return False
    for spec in every(pod):
        seen, known = runtime.containers.get(spec["name"]), reported.containers.get(spec["name"])
        if seen is None or known is None or seen.restarts != known.restarts:
            return False
        if seen.up and seen is not known:
            return False
    gates = pod["spec"].get("readinessGates") or ()
    ready = _ready(gates, containers_ready(pod, runtime, "Running"), old["conditions"])
    return ready[0] != "True"


def is_starting(pod: Obj, runtime: PodRuntime) -> bool:
    """Return whether all containers of a new pod still wait; no controller acts on that either."""
    old: Obj = pod.get("status") or {}
    if runtime.containers or runtime.waiting or pod["metadata"].get("deletionTimestamp"):
        return False
    return "containerStatuses" not in old and old.get("phase") == "Pending"


def first_conditions(pod: Obj, runtime: PodRuntime, now: datetime, memo: Memo) -> dict[str, Any]:
    """Return the parts of a starting pod's first status that later ones keep."""
    containers = _containers_status(pod, runtime, memo)
    made = _conditions(pod, containers, runtime, now, memo)
    start = (pod.get("status") or {}).get("startTime") or format_time(now)
    ours = [c for c in made if c["type"] in OWNED_CONDITIONS]
    return {"startTime": start, "conditions": ours}


def _condition_status(status: Obj, type_: str) -> str | None:
    found = (c.get("status") for c in status.get("conditions") or () if c["type"] == type_)
    return next(found, None)


def _same_condition(was: Obj, now: Obj) -> bool:
    """Return whether two conditions are equal except for their generation."""
    if was is now:
        return True
    return all(was.get(n) == now.get(n) for n in (was.keys() | now.keys()) - _SEEN)


_SEEN: Final = frozenset({"observedGeneration", "conditions"})
_REBUILT: Final = frozenset({"phase", "containerStatuses", "initContainerStatuses", "conditions"})


def phase_of(pod: Obj, runtime: PodRuntime) -> str:
    """The phase; Succeeded and Failed are final. A pod being deleted ends when all stopped."""
    old = (pod.get("status") or {}).get("phase")
    if old in FINISHED:
        return str(old)
    policy = policy_of(pod)
    deleting = bool(pod["metadata"].get("deletionTimestamp"))
    init = _init_phase(pod, runtime, policy)
    if init and not (deleting and _all_stopped(runtime)):
        return init
    tally = [_container_state(spec, runtime, policy, going=deleting) for spec in regular(pod)]
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


def _container_state(spec: Obj, runtime: PodRuntime, policy: str, *, going: bool) -> str:
    name = spec["name"]
    seen = runtime.containers.get(name)
    if seen is not None and not going and was_replaced(spec, seen, policy):
        return "running"
    if seen is None:
        return "waiting" if name in runtime.waiting else "unknown"
    if seen.up:
        return "running"
    if name in runtime.waiting or seen.exit_code != 0 or seen.run is not RuntimeState.EXITED:
        return "stopped"
    return "succeeded"


def _all_stopped(runtime: PodRuntime) -> bool:
    return not any(c.up for c in runtime.containers.values())


def _conditions(
    pod: Obj, containers: _ContainersStatus, runtime: PodRuntime, now: datetime, memo: Memo
) -> Sequence[Obj]:
    """The kubelet's five conditions first, then the unchanged conditions of others."""
    listed = (pod.get("status") or {}).get("conditions") or ()
    gates = pod["spec"].get("readinessGates") or ()
    generation = pod["metadata"].get("generation") or None
    made_from = listed, containers, gates, runtime.sandbox, generation, now
    return memo.get("conditions", _compute_conditions, *made_from)


def _compute_conditions(
    listed: Sequence[Obj],
    containers: _ContainersStatus,
    gates: Sequence[Obj],
    sandbox: PodSandbox | None,
    generation: int | None,
    now: datetime,
) -> Sequence[Obj]:
    wanted = {
        "PodReadyToStartContainers": (_truth(sandbox is not None), "", ""),
        "Initialized": containers.initialized,
        "Ready": _ready(gates, containers.ready, listed),
        "ContainersReady": containers.ready,
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
    if old is not None and _has_values(old, verdict, generation):
        return old
    moved = old.get("lastTransitionTime") if old and old.get("status") == status else None
    return {
        "type": type_,
        **({"observedGeneration": generation} if generation else {}),
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": moved or format_time(now),
        **texts(reason=reason, message=message),
    }


_NAMES: Final = frozenset(
    {
        *("type", "observedGeneration", "status", "lastProbeTime", "lastTransitionTime"),
        *("reason", "message"),
    }
)


def _has_values(old: Obj, verdict: tuple[str, str, str], generation: int | None) -> bool:
    """Return whether a condition already has exactly these values."""
    get = old.get
    if get("observedGeneration") != generation or get("lastProbeTime"):
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
    return seen.run is RuntimeState.EXITED and seen.exit_code == 0


def containers_ready(pod: Obj, runtime: PodRuntime, phase: str) -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    if phase in FINISHED:
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
