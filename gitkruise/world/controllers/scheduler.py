"""The model cluster's scheduler and its nodes: a pod gets the least loaded node that fits.

Source: the filters of kube-scheduler's default profile that depend on one node (selector, required
affinity, taints, cordon, ports, resources); ties go to the first name, so runs repeat.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError
from gitkruise.model.node.node_fit import SIMULATED
from gitkruise.model.planning.plan import Event
from gitkruise.model.workloads.conditions import condition, dated, drop, find
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.controllers import event_recorder as event_log
from gitkruise.world.controllers.client import ObjectWriter, bind, write_status
from gitkruise.world.controllers.node_resources import Nodes, PodRequests, node_load, pod_requests
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

POD, NODE = GroupKind("", "Pod"), GroupKind("", "Node")
NAME: Final = "default-scheduler"
USER: Final = "system:kube-scheduler"
_ADMIN: Final = ObjectWriter("system:admin")
CAPACITY: Final = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "200Gi", "pods": "500"}


def node_objects(count: int) -> list[Obj]:
    """`count` v1 Nodes, ready, spread over three zones. They send no heartbeats."""
    if count < 0:
        raise ValueError(f"{count} nodes")
    return [_node(f"node-{i}", i, f"zone-{'abc'[i % 3]}") for i in range(count)]


def _node(name: str, index: int, zone: str) -> Obj:
    number = index + 1
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"podCIDR": f"10.244.{number % 256}.0/24"},
        "status": {
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.{number // 250}.{number % 250 + 1}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": SIMULATED,
                "kernelVersion": "simulated",
                "containerRuntimeVersion": "containerd://2.0.0",
                "kubeletVersion": "v1.34.1",
                "kubeProxyVersion": "",
                "machineID": name,
                "systemUUID": name,
                "bootID": name,
            },
        },
    }


def add_nodes(world: World, count: int, now: datetime) -> None:
    """Create those of `node_objects(count)` that are missing, with their status."""
    for node in node_objects(count):
        name = node["metadata"]["name"]
        if world.get(ObjectKey("", "Node", "", name)) is not None:
            continue
        made = _ADMIN.create(world, node, now)
        status = {**node["status"], "conditions": _conditions(now)}
        _ADMIN.update(world, {**made, "status": status}, now, subresource="status")


def _conditions(now: datetime) -> list[Obj]:
    rows = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("Ready", "True", "KubeletReady"),
    )
    stamp = format_time(now)
    return [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "simulated",
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }
        for type_, status, reason in rows
    ]


class Scheduler:
    """Binds pods to nodes. `run` does what is due at `now` and says when to call again.

    With `any_node`, a pod that fits nowhere gets the least loaded node: the nodes are made up.
    """

    def __init__(
        self, *, events: bool = True, report: Report | None = None, any_node: bool = False
    ) -> None:
        self.events = events
        self._any_node = any_node
        self._backoff = ObjectBackoff(report)
        self._due = False  # something may let a pod be placed now
        self._seen: int | None = None
        self._nodes = Nodes()
        self._placed: dict[str, tuple[str, PodRequests]] = {}  # uid → node, requests
        self._waiting: dict[str, ObjectKey] = {}  # uid → key
        self._stuck: dict[str, str] = {}  # uid → the refusal last reported

    def run(self, world: World, now: datetime) -> datetime | None:
        """Place every pod that waits and fits; asks to be called again for those that rest."""
        for _ in range(100):
            self._backoff.retry(now)
            self._news(world, now)
            if not self._due:
                return self._backoff.next()
            self._due = False
            for uid, key in sorted(self._waiting.items(), key=lambda item: item[1]):
                self._backoff.attempt(uid, now, self._place, world, uid, key)
        raise AssertionError("the scheduler never settles")

    def _news(self, world: World, now: datetime) -> None:
        """Count what changed."""
        records = world.changes_since(self._seen)
        self._seen = world.version
        if records is None:
            self._start_over(world, now)
            return
        for record in records:
            kind = record.key[:2]
            if kind in (NODE, POD):
                news = record.before, record.after
                self._backoff.attempt(record.key, now, self._count, world, kind, *news)

    def _start_over(self, world: World, now: datetime) -> None:
        self._nodes, self._placed, self._waiting = Nodes(), {}, {}
        self._due = True
        for kind in (NODE, POD):
            for obj in world.objects(kind):
                self._backoff.attempt(key_of(obj), now, self._count, world, kind, None, obj)

    def _count(
        self,
        world: World,
        kind: tuple[str, str],
        before: Obj | None,
        after: Obj | None,
        _: datetime,
    ) -> None:
        """Take in the newest state of a node or a pod."""
        obj, gone = after or before, after is None
        assert obj is not None, "a change has a state before or after it"
        if kind == NODE:
            self._count_node(obj["metadata"]["name"], None if gone else obj)
            self._due = True
        else:
            self._due = self._count_pod(world, obj, gone=gone) or self._due

    def _count_node(self, name: str, node: Obj | None) -> None:
        if node is None:
            self._nodes.drop(name)
            return
        fresh = node_load(node)
        for where, wants in self._placed.values():
            if where == name:
                fresh.take(wants)
        self._nodes.put(name, fresh)

    def _count_pod(self, world: World, pod: Obj, *, gone: bool) -> bool:
        """Keep the books of one pod; whether it waits for a node or gave one back."""
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        ended = gone or (pod.get("status") or {}).get("phase") in FINISHED
        if not ended and uid in self._placed:
            return False
        node, leaves = spec.get("nodeName"), pod["metadata"].get("deletionTimestamp")
        if node or ended or leaves:
            self._waiting.pop(uid, None)
            self._stuck.pop(uid, None)
        if node and not ended:
            wants = _wants(world, spec)
            self._placed[uid] = node, wants
            self._nodes.take(node, wants)
        if ended and uid in self._placed:
            where, wants = self._placed.pop(uid)
            self._nodes.take(where, wants, sign=-1)
            return True
        if node or ended or leaves:
            return False
        if (spec.get("schedulerName") or NAME) == NAME and not spec.get("schedulingGates"):
            known = uid in self._waiting
            self._waiting[uid] = key_of(pod)
            return not known
        return False

    def _place(self, world: World, uid: str, key: ObjectKey, now: datetime) -> None:
        pod = world.get(key)
        if pod is None or pod["metadata"]["uid"] != uid:
            self._waiting.pop(uid, None)
            return
        chosen, refusals = self._nodes.fitting(pod["spec"], _wants(world, pod["spec"]))
        if not chosen and self._any_node:
            chosen = self._nodes.least_loaded()
        if not chosen:
            self._report(world, pod, _sentence(len(self._nodes.loads), refusals), now)
            return
        bind(world, key, pod, chosen, now, user=USER)
        bound = world.get(key)
        assert bound is not None
        self._count_pod(world, bound, gone=False)
        if self.events:
            message = f"Successfully assigned {key.namespace}/{key.name} to {chosen}"
            event = Event("Normal", "Scheduled", message)
            event_log.record(world, bound, event, now, component=NAME)

    def _report(self, world: World, pod: Obj, message: str, now: datetime) -> None:
        uid = pod["metadata"]["uid"]
        if self._stuck.get(uid) == message:
            return
        self._stuck[uid] = message
        old = (pod.get("status") or {}).get("conditions") or ()
        reported = condition("PodScheduled", "False", reason="Unschedulable", message=message)
        unplaced = dated(reported, find(old, "PodScheduled"), now)
        conditions = [*drop(old, "PodScheduled"), unplaced]
        status = {**(pod.get("status") or {}), "conditions": conditions}
        try:
            write_status(world, pod, status, now, user=USER)
            if self.events:
                event = Event("Warning", "FailedScheduling", message)
                event_log.record(world, pod, event, now, component=NAME)
        except ApiError:  # the status write was rejected; the pod stays queued
            self._stuck.pop(uid, None)


def _wants(world: World, spec: Obj) -> PodRequests:
    """Return the requests of a pod with this spec."""
    containers, inits = spec.get("containers") or (), spec.get("initContainers") or ()
    wants: PodRequests = world.state.memo.get("wants", pod_requests, containers, inits)
    return wants


def _sentence(nodes: int, refusals: Counter[str]) -> str:
    if not nodes:
        return "no nodes available to schedule pods"
    reasons = sorted(f"{count} {why}" for why, count in refusals.items())
    return f"0/{nodes} nodes are available: {', '.join(reasons)}."
