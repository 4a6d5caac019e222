"""Scheduler, kubelet and garbage collector of a scenario, one tick at a time, on the World.

A tick: terminating pods go away, unbound pods are bound, containers whose image differs from
what runs are restarted, and every pod that nothing holds back becomes ready.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gitkruise.errors import AlreadyExists, Conflict, NotFound
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from tests.conformance.api import Api

Pod = dict[str, Any]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Node:
    """Plays all nodes. `hold` says which pods never become ready; `frozen` keeps deleted ones."""

    def __init__(self, api: Api, count: int) -> None:
        self.api, self.names, self.turn = api, [f"node-{i}" for i in range(count)], 0
        self.hold: Callable[[Obj], bool] | None = None
        self.frozen = False
        for name in self.names:
            meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
            with suppress(AlreadyExists):
                api.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})

    def tick(self) -> bool:
        """True when anything changed."""
        pods = sorted(
            self.api.list("Pod"),
            key=lambda p: (p["metadata"]["creationTimestamp"], p["metadata"]["name"]),
        )
        changed = False
        for pod in pods:
            try:
                changed |= self._sync(pod)
            except (NotFound, Conflict):
                continue
        return changed

    def _sync(self, pod: Obj) -> bool:
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            held = meta.get("deletionGracePeriodSeconds") == 0 and meta.get("finalizers")
            if self.frozen or held:
                return False
            self.api.delete("Pod", meta["name"], gracePeriodSeconds=0)
            return True
        bound = False
        if not pod["spec"].get("nodeName"):
            self._bind(meta["name"])
            bound = True
        return self._report(pod) or bound

    def _bind(self, name: str) -> None:
        target = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self.names[self.turn % len(self.names)],
        }
        self.turn += 1
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.api.bind(name, body)

    def _report(self, pod: Obj) -> bool:
        status = pod.get("status") or {}
        had = {c["name"]: c for c in status.get("containerStatuses") or ()}
        held = bool(self.hold and self.hold(pod))
        containers = [
            self._container(pod, c, had.get(c["name"]), held) for c in pod["spec"]["containers"]
        ]
        conditions = self._conditions(pod, containers)
        phase = "Running"
        if containers and all("waiting" in c.get("state", {}) for c in containers):
            phase = "Pending"
        if _outline(phase, containers) == _outline(status.get("phase"), had.values()) and all(
            _status_of(status, c["type"]) == c["status"] for c in conditions
        ):
            return False
        made = {"phase": phase, "containerStatuses": containers, "conditions": conditions}
        self.api.patch_status("Pod", pod["metadata"]["name"], {"status": made})
        return True

    def _container(self, pod: Obj, spec: Obj, had: Obj | None, held: bool) -> dict[str, Any]:
        missing = self._missing_key(spec)
        if missing:
            waiting = {"reason": "CreateContainerConfigError", "message": f"no key {missing}"}
            return {"name": spec["name"], "image": spec["image"], "imageID": "", "ready": False,
                    "restartCount": 0, "started": False, "state": {"waiting": waiting}}  # fmt: skip
        if had and had.get("image") == spec["image"] and had.get("containerID"):
            return {**had, "ready": not held}
        restarts = had["restartCount"] + 1 if had and had.get("containerID") else 0
        identity = digest(f"{pod['metadata']['uid']}{spec['name']}{restarts}")
        return {
            "name": spec["name"],
            "image": spec["image"],
            "imageID": f"sha256:{digest(spec['image'])}",
            "containerID": f"containerd://{identity}",
            "ready": not held,
            "restartCount": restarts,
            "started": True,
            "state": {"running": {"startedAt": self.api.stamp}},
        }

    def _missing_key(self, spec: Obj) -> str:
        for env in spec.get("env") or ():
            ref = get(env, "valueFrom", "configMapKeyRef")
            if ref is None:
                continue
            found = self.api.find("ConfigMap", ref["name"])
            if ref["key"] not in (get(found, "data", default={}) or {}):
                return str(ref["key"])
        return ""

    def _conditions(self, pod: Obj, containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        status = pod.get("status") or {}
        gates = pod["spec"].get("readinessGates") or ()
        up = all(c["ready"] for c in containers)
        passed = all(_status_of(status, g["conditionType"]) == "True" for g in gates)
        values = {
            "PodScheduled": True,
            "Initialized": True,
            "ContainersReady": up,
            "Ready": up and passed,
        }
        made = []
        for kind, value in values.items():
            text = "True" if value else "False"
            old = next((c for c in status.get("conditions") or () if c["type"] == kind), None)
            if old is None or old["status"] != text:
                old = {"type": kind, "status": text, "lastTransitionTime": self.api.stamp}
            made.append(old)
        return made


def _status_of(status: Obj, kind: str) -> str | None:
    return next((c["status"] for c in status.get("conditions") or () if c["type"] == kind), None)


def _outline(phase: str | None, containers: Any) -> Any:
    rows = [(c["name"], c.get("containerID"), c["ready"], c["restartCount"]) for c in containers]
    return phase, rows
