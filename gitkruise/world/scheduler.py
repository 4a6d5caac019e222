"""The model cluster's scheduler and its nodes: a pod gets the least loaded node that fits.

Source: the filters of kube-scheduler's default profile that depend on one node (selector, required
affinity, taints, cordon, ports, resources); ties go to the first name, so runs repeat.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError
from gitkruise.model.plan import Event
from gitkruise.wire.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.request import ApiRequest
from gitkruise.wire.times import format_time
from gitkruise.world import events as event_log
from gitkruise.world.node_load import Nodes, Wants, node_load, wants_of
from gitkruise.world.writes import NODES, bind, write_status

if TYPE_CHECKING:
    from gitkruise.world.cluster import World

POD, NODE = GroupKind("", "Pod"), GroupKind("", "Node")
NAME: Final = "default-scheduler"
USER: Final = "system:kube-scheduler"
CAPACITY: Final = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "200Gi", "pods": "500"}
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def node_objects(count: int, *, zones: int = 3, prefix: str = "node") -> list[Obj]:
    """`count` v1 Nodes, ready, spread over `zones`. They send no heartbeats."""
    assert count >= 0
    assert zones > 0
    return [_node(f"{prefix}-{i}", i, f"zone-{chr(ord('a') + i % zones)}") for i in range(count)]


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
                "osImage": "gitkruise simulated node",
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


def add_nodes(world: World, count: int, now: datetime, *, zones: int = 3) -> None:
    """Create those of `node_objects(count)` that are missing, with their status."""
    for node in node_objects(count, zones=zones):
        name = node["metadata"]["name"]
        if world.get(ObjectKey("", "Node", "", name)) is not None:
            continue
        world.handle(ApiRequest(verb="create", resource=NODES, body=node), now)
        made = world.get(ObjectKey("", "Node", "", name))
        assert made is not None
        status = {**node["status"], "conditions": _conditions(now)}
        request = ApiRequest(
            verb="update",
            resource=NODES,
            name=name,
            subresource="status",
            body={**made, "status": status},
        )
        world.handle(request, now)


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
    """Binds pods to nodes. `run` does what is due at `now` and says when to call again."""

    def __init__(self, *, events: bool = True) -> None:
        self.events = events
        self._seen: int | None = None
        self._nodes = Nodes()
        self._placed: dict[str, tuple[str, Wants]] = {}  # uid → its node, and what it takes there
        self._waiting: dict[str, ObjectKey] = {}  # uid → key
        self._stuck: dict[str, str] = {}  # uid → the refusal last reported

    def run(self, world: World, now: datetime) -> datetime | None:
        """Place every pod that waits and fits; never asks to be called at an instant."""
        for _ in range(100):
            if not self._news(world):
                return None
            for uid, key in sorted(self._waiting.items(), key=lambda item: item[1]):
                self._place(world, uid, key, now)
        raise AssertionError("the scheduler never settles")

    def _news(self, world: World) -> bool:
        """Count what changed; whether anything may let a pod be placed now."""
        records = world.news_since(self._seen)
        self._seen = world.version
        if records is None:
            self._start_over(world)
            return True
        news = False
        for record in records:
            kind, after = record.key[:2], record.after
            if kind == NODE:
                self._count_node(record.key.name, after)
                news = True
            elif kind == POD:
                pod = after or record.before
                assert pod is not None
                news = self._count_pod(world, pod, gone=after is None) or news
        return news

    def _start_over(self, world: World) -> None:
        self._nodes, self._placed, self._waiting = Nodes(), {}, {}
        for node in world.objects(NODE):
            self._count_node(node["metadata"]["name"], node)
        for pod in world.objects(POD):
            self._count_pod(world, pod, gone=False)

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
        ended = gone or (pod.get("status") or {}).get("phase") in _ENDED
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
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": format_time(now),
            "reason": "Unschedulable",
            "message": message,
        }
        before: Obj = next((c for c in old if c["type"] == "PodScheduled"), {})
        if before.get("status") == "False":
            condition["lastTransitionTime"] = before["lastTransitionTime"]
        conditions = [*(c for c in old if c["type"] != "PodScheduled"), condition]
        status = {**(pod.get("status") or {}), "conditions": conditions}
        try:
            write_status(world, pod, status, now, user=USER)
            if self.events:
                event = Event("Warning", "FailedScheduling", message)
                event_log.record(world, pod, event, now, component=NAME)
        except ApiError:  # somebody refuses the note; the pod stays in line all the same
            self._stuck.pop(uid, None)


def _wants(world: World, spec: Obj) -> Wants:
    """What a pod with such a spec takes of its node."""
    containers, inits = spec.get("containers") or (), spec.get("initContainers") or ()
    wants: Wants = world.state.alike.made("wants", wants_of, containers, inits)
    return wants


def _sentence(nodes: int, refusals: Counter[str]) -> str:
    if not nodes:
        return "no nodes available to schedule pods"
    reasons = sorted(f"{count} {why}" for why, count in refusals.items())
    return f"0/{nodes} nodes are available: {', '.join(reasons)}."
