"""Requests to recreate containers in shorthand, and a node that carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.node.containers import ContainerPhase, NodeContainer
from gitkruise.model.node.recreate_request import RecreateRequest, recreate_request
from gitkruise.planner.node.recreate_agent import (
    StopContainer,
    Wait,
    WriteStatus,
    after_stop,
    next_step,
)
from gitkruise.wire.patch.json_patch import merge_patch
from gitkruise.wire.primitives.times import format_time
from tests.pods import NOW

RUNTIMES: Final = frozenset({"containerd"})


def request(
    *names: str, phase: str = "Recreating", status: Mapping[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A raw, admitted request for the containers `names` of the pod web-0; `spec` and its
    strategy's fields by their names on the wire."""
    top = {"activeDeadlineSeconds", "ttlSecondsAfterFinished", "containers"}
    strategy = {"failurePolicy": "Fail", "terminationGracePeriodSeconds": 30}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ContainerRecreateRequest",
        "metadata": {
            "name": "again",
            "namespace": "shop",
            "uid": "r",
            "resourceVersion": "5",
            "creationTimestamp": format_time(NOW),
            "labels": {
                "crr.apps.kruise.io/pod-uid": "pod-uid",
                "crr.apps.kruise.io/node-name": "n1",
                "crr.apps.kruise.io/active": "true",
            },
        },
        "spec": {
            "podName": "web-0",
            "containers": [
                {
                    "name": name,
                    "statusContext": {"containerID": f"containerd://{name}-0", "restartCount": 0},
                }
                for name in names
            ],
            "strategy": {**strategy, **{k: v for k, v in spec.items() if k not in top}},
            **{k: v for k, v in spec.items() if k in top},
        },
        "status": {"phase": phase, **(status or {})},
    }


def container(name: str, attempt: int = 0, *, started: float = -60, **more: Any) -> NodeContainer:
    """A running container; `started` in seconds from NOW."""
    at = NOW + timedelta(seconds=started)
    made = NodeContainer(name=name, id=f"containerd://{name}-{attempt}", attempt=attempt)
    return replace(made, created=at, started=at, **more)


@dataclass
class Node:
    """A node, its kubelet and a manager on virtual time: `run` carries out one request.

    A stopped container is back `restart_s` later; its readiness follows after `ready_s`.
    """

    raw: dict[str, Any]
    containers: dict[str, NodeContainer]
    now: datetime = NOW
    restart_s: float = 1
    ready_s: Mapping[str, float] = field(default_factory=dict)
    hook_s: Mapping[str, float] = field(default_factory=dict)
    fails: frozenset[str] = frozenset()
    stops: list[tuple[str, float]] = field(default_factory=list)  # container, seconds after NOW
    due: dict[str, datetime] = field(default_factory=dict)

    @property
    def facts(self) -> RecreateRequest:
        return recreate_request(self.raw)

    @property
    def states(self) -> list[str]:
        """`app Succeeded*` for each container; the asterisk: killed by the request."""
        return [f"{s.name} {s.phase}{'*' * s.is_killed}" for s in self.facts.status.states]

    def run(self, until_s: float = 120) -> None:
        """Until the request is complete, nothing happens any more, or time is over."""
        for _ in range(500):
            self._restart()
            self._snapshot()
            step = next_step(self.facts, self.containers, self.now, runtimes=RUNTIMES)
            if self.facts.over or not self._do(step, until_s):
                return
        raise AssertionError("the agent never rests")

    def _do(self, step: WriteStatus | StopContainer | Wait, until_s: float) -> bool:
        match step:
            case WriteStatus():
                self.write(step.status)
            case StopContainer():
                self.write(after_stop(self.facts, step.target.name, self.stop(step)))
            case Wait():
                times = [at for at in (step.until, *self.due.values()) if at and at > self.now]
                if not times or min(times) > NOW + timedelta(seconds=until_s):
                    return False
                self.now = min(times)
        return True

    def write(self, status: Mapping[str, Any]) -> None:
        self.raw = {**self.raw, "status": merge_patch(self.raw["status"], status)}

    def stop(self, step: StopContainer) -> str:
        """The error of the runtime, "" when the container ended."""
        name = step.target.name
        self.now += timedelta(seconds=self.hook_s.get(name, 0))
        if name in self.fails:
            return "runtime is busy"
        seen = self.containers[name]
        assert seen.id == step.id
        assert seen.runs
        self.stops.append((name, (self.now - NOW).total_seconds()))
        self.containers[name] = replace(seen, phase=ContainerPhase.EXITED)
        self.due[name] = self.now + timedelta(seconds=self.restart_s)
        return ""

    def _restart(self) -> None:
        for name, at in [(n, at) for n, at in self.due.items() if at <= self.now]:
            del self.due[name]
            seen = self.containers[name]
            if seen.phase is ContainerPhase.EXITED:
                since = (at - NOW).total_seconds()
                self.containers[name] = container(name, seen.attempt + 1, started=since)
                if wait := self.ready_s.get(name, 0):
                    self.due[name] = at + timedelta(seconds=wait)

    def _snapshot(self) -> None:
        """The manager sees what kubelet reports: new containers, ready once their time is over."""
        seen = [
            {
                "name": c.name,
                "containerID": c.id,
                "restartCount": c.attempt,
                "ready": c.name not in self.due,
            }
            for c in self.containers.values()
            if c.runs and c.attempt > 0
        ]
        if seen:
            self.write({"containerStatusSnapshot": seen})
