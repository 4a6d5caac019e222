"""Drafts of ContainerRecreateRequests: options, checked against a pod and explained.

The checks name what admission would reject (CRR-20 to CRR-24) in words of the pod, and what it lets
through although no container would come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gitkruise.model.node.recreate_request import FailurePolicy
from gitkruise.model.node.wire_shapes import API_VERSION
from gitkruise.model.workloads.labels import KRUISE_READY, RECREATE, SIDECAR_TERMINATED
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.planner.node.recreate_agent import GRACE_DEFAULT_S
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

_HOOKS: Final = {"exec": "exec", "httpGet": "HTTP", "tcpSocket": "TCP"}
_NAME_MAX: Final = 200  # of the pod's part: the server adds a suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class RecreateOptions:
    """Options of a request in seconds; None: the default of the pod, or without limit.

    No `containers`: all of the pod.
    """

    containers: tuple[str, ...] = ()
    ordered: bool = False
    force: bool = False
    ignore_failures: bool = False
    grace_s: int | None = None
    unready_grace_s: int | None = None
    min_started_s: int = 0
    deadline_s: int | None = None
    ttl_s: int | None = None


class NotRecreatable(NamedTuple):
    """Reason why a pod or a container cannot be recreated, and what the user can do."""

    message: str
    next: str


class ContainerEffect(NamedTuple):
    """Effect of a request on one container, as a sentence."""

    container: str
    text: str


def recreate_problem(pod: Obj, options: RecreateOptions) -> NotRecreatable | None:
    """Return the first reason why the request would be rejected or fail; None without one."""
    name = pod["metadata"]["name"]
    phase, conditions = get(pod, "status", "phase"), get(pod, "status", "conditions", default=())
    kept = any(c.get("type") == SIDECAR_TERMINATED for c in conditions)
    if pod["metadata"].get("deletionTimestamp") and not kept:
        return NotRecreatable(f"pod {name} is being deleted", "wait for the pod that replaces it")
    if phase in FINISHED and not kept:
        return NotRecreatable(
            f"pod {name} has finished: {phase}", "delete the pod, or start its job again"
        )
    if not get(pod, "spec", "nodeName"):
        return NotRecreatable(
            f"pod {name} is not scheduled to a node yet", "kubectl describe pod " + name
        )
    return next(_container_problems(pod, options), None)


def _container_problems(pod: Obj, options: RecreateOptions) -> Iterator[NotRecreatable]:
    known = [c["name"] for c in pod["spec"]["containers"]]
    init = [c["name"] for c in pod["spec"].get("initContainers") or ()]
    statuses = {s["name"]: s for s in get(pod, "status", "containerStatuses", default=())}
    there = f"name one of: {', '.join(known)}"
    seen: set[str] = set()
    for name in targets(pod, options):
        if name in seen:
            yield NotRecreatable(f"container {name} is named twice", "name each container once")
        elif name in init:
            yield NotRecreatable(
                f"{name} is an init container, which no request can recreate", there
            )
        elif name not in known:
            yield NotRecreatable(f'pod {pod["metadata"]["name"]} has no container "{name}"', there)
        elif not (statuses.get(name) or {}).get("containerID"):
            reason = get(statuses.get(name) or {}, "state", "waiting", "reason", default="")
            why = f" ({reason})" if reason else ""
            message = f"container {name} has not started yet{why}: there is nothing to stop"
            yield NotRecreatable(message, f"kubectl describe pod {pod['metadata']['name']}")
        seen.add(name)


def targets(pod: Obj, options: RecreateOptions) -> tuple[str, ...]:
    """Names of the containers to recreate, in the order of the request."""
    return options.containers or tuple(c["name"] for c in pod["spec"]["containers"])


def draft_request(pod: Obj, options: RecreateOptions) -> Obj:
    """The request to create; the server completes its name."""
    strategy: dict[str, Any] = {
        "failurePolicy": (
            FailurePolicy.IGNORE if options.ignore_failures else FailurePolicy.FAIL
        ).value
    }
    optional = {
        "orderedRecreate": options.ordered or None,
        "forceRecreate": options.force or None,
        "terminationGracePeriodSeconds": options.grace_s,
        "unreadyGracePeriodSeconds": options.unready_grace_s,
        "minStartedSeconds": options.min_started_s or None,
    }
    strategy |= {field: value for field, value in optional.items() if value is not None}
    limits = {
        "activeDeadlineSeconds": options.deadline_s,
        "ttlSecondsAfterFinished": options.ttl_s,
    }
    meta = pod["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": RECREATE.kind,
        "metadata": {
            "generateName": f"{meta['name'][:_NAME_MAX]}-",
            "namespace": meta["namespace"],
        },
        "spec": {
            "podName": meta["name"],
            "containers": [{"name": name} for name in targets(pod, options)],
            "strategy": strategy,
            **{field: value for field, value in limits.items() if value is not None},
        },
    }


def effects(pod: Obj, options: RecreateOptions) -> list[ContainerEffect]:
    """The effect on each container, in order."""
    specs = {c["name"]: c for c in pod["spec"]["containers"]}
    grace = grace_of(pod, options)
    back = get(pod, "spec", "restartPolicy", default="Always") != "Never"
    then = "kubelet starts it again" if back else "it does not start again (restartPolicy Never)"
    if back and options.min_started_s:
        then += f" and it must run for more than {options.min_started_s} s"
    found = []
    for name in targets(pod, options):
        hook = get(specs[name], "lifecycle", "preStop") or {}
        kind = next((text for field, text in _HOOKS.items() if field in hook), "")
        if kind and grace > 0:
            stop = f"{kind} preStop hook, then stopped, together within {grace} s"
        else:
            stop = f"stopped within {max(grace, 2)} s"
        if "sleep" in hook:
            stop += "; its preStop sleep does not run: requests do not carry it"
        found.append(ContainerEffect(name, f"{stop}; {then}"))
    return found


def grace_of(pod: Obj, options: RecreateOptions) -> int:
    """Seconds that hook and stop of one container may take."""
    if options.grace_s is not None:
        return options.grace_s
    return int(get(pod, "spec", "terminationGracePeriodSeconds", default=GRACE_DEFAULT_S))


def conduct(pod: Obj, options: RecreateOptions) -> list[str]:
    """Sentences about the request as a whole: order, service, limits."""
    found = []
    if len(targets(pod, options)) > 1:
        found.append(
            "one at a time: the next container is stopped when the one before is ready again"
            if options.ordered
            else "one stop after the other, without waiting until a container is ready again"
        )
    if options.unready_grace_s is not None:
        gates = [g.get("conditionType") for g in pod["spec"].get("readinessGates") or ()]
        found.append(
            f"the pod leaves service for at least {options.unready_grace_s} s before the first stop"
            if KRUISE_READY in gates
            else f"the first stop waits {options.unready_grace_s} s, but the pod stays in service: "
            f"it has no readiness gate {KRUISE_READY}"
        )
    if options.force:
        found.append("also a container that restarted by itself in the meantime is stopped")
    if options.deadline_s is not None:
        found.append(f"the request ends after {options.deadline_s} s, whatever is done by then")
    if options.ttl_s is not None:
        found.append(f"the request is deleted {options.ttl_s} s after its end")
    return found


def warnings(pod: Obj, options: RecreateOptions) -> Sequence[str]:
    """Consequences that admission does not prevent."""
    if get(pod, "spec", "restartPolicy", default="Always") != "Never":
        return ()
    names = ", ".join(targets(pod, options))
    return (f"restartPolicy is Never: {names} ends for good, and the request never succeeds",)
