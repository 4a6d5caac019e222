"""Nodes of a DaemonSet: which should run its pod, and which pods go or come in one round.

Source: podsShouldBeOnNode, rollingUpdate and NodeShouldRunDaemonPod of Kubernetes 1.34.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from gitkruise.model.node.node_fit import EVICTING, selected, untolerated
from gitkruise.model.planning.plan import Event
from gitkruise.model.workloads.pod import FINISHED, PodFacts
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import resolve

_ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")
_FIELD: Final = "metadata.name"
_FAILED_PAUSE: Final = timedelta(seconds=1)
# key, effect of the taints that every pod of a DaemonSet tolerates
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Pods to delete, nodes to create a pod for, and what to say about it."""

    delete: tuple[PodFacts, ...] = ()
    create: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    wake_at: datetime | None = None

    @property
    def idle(self) -> bool:
        return not self.delete and not self.create

    def and_then(self, more: Moves) -> Moves:
        return replace(self, delete=more.delete, create=more.create)


def with_defaults(spec: Obj) -> Sequence[Obj]:
    """The tolerations of a pod spec and those of every DaemonSet's pods."""
    found = list(spec.get("tolerations") or ())
    for key, effect in (*_TOLERATED, *((_ON_HOST,) if spec.get("hostNetwork") else ())):
        mine = {"key": key, "operator": "Exists", "effect": effect}
        for at, one in enumerate(found):
            if {k: v for k, v in one.items() if k != "tolerationSeconds" and v} == mine:
                found[at] = mine
                break
        else:
            found.append(mine)
    return found


def placed_on(pod: Obj) -> str:
    """The node that a pod without one was created for; "" when it names none."""
    required = get(
        pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    for term in get(required, "nodeSelectorTerms", default=()):
        for one in term.get("matchFields") or ():
            if one["key"] == _FIELD and one["operator"] == "In" and len(one["values"]) == 1:
                return str(one["values"][0])
    return ""


@dataclass(frozen=True, kw_only=True)
class DaemonNodes:
    """The nodes and the pods of one DaemonSet. `pods` of a node are the oldest first.

    `hash` is that of the newest revision; `generation` the number of the template, "" without.
    """

    raw: Obj
    nodes: tuple[Obj, ...]
    pods: Mapping[str, tuple[PodFacts, ...]]
    hash: str
    generation: str
    now: datetime

    @cached_property
    def _spec(self) -> Obj:
        spec: dict[str, Any] = {**self.raw["spec"]["template"]["spec"]}
        return {**spec, "tolerations": with_defaults(spec)}

    def should_run(self, node: Obj) -> bool:
        """Return whether the node gets a pod."""
        return self._fits(node) and untolerated(node, self._spec) is None

    def _may_stay(self, node: Obj) -> bool:
        """Return whether a pod that is on the node stays."""
        return self._fits(node) and untolerated(node, self._spec, EVICTING) is None

    def _fits(self, node: Obj) -> bool:
        pinned = self._spec.get("nodeName")
        return pinned in (None, "", node["metadata"]["name"]) and selected(node, self._spec)

    def available(self, pod: PodFacts) -> bool:
        least = timedelta(seconds=self.raw["spec"].get("minReadySeconds") or 0)
        if not pod.ready or not least:
            return pod.ready
        return pod.ready_since is not None and pod.ready_since + least < self.now

    def is_updated(self, pod: PodFacts) -> bool:
        numbered = self.generation and pod.labels.get("pod-template-generation")
        return pod.revision == self.hash or (bool(numbered) and numbered == self.generation)

    # What every node should have

    def manage(self) -> Moves:
        """Pods for nodes without one; pods that ended, are too many or do not belong there."""
        delete: list[PodFacts] = []
        create: list[str] = []
        events: list[Event] = []
        wakes: list[datetime] = []
        for node in self.nodes:
            name = node["metadata"]["name"]
            pods = self.pods.get(name)
            runs, stays = self.should_run(node), self._may_stay(node)
            if pods is None:
                create += [name] if runs else []
            elif not stays:
                delete += [p for p in pods if not p.deleting]
            else:
                running = self._running(pods, name, delete=delete, events=events, wakes=wakes)
                if self._surges and not running and runs:
                    create.append(name)
                delete += self._excess(running)
        known = {node["metadata"]["name"] for node in self.nodes}
        orphans = (p for name, pods in self.pods.items() if name not in known for p in pods)
        delete += [p for p in orphans if not p.node and not p.deleting]
        return Moves(
            delete=tuple(delete),
            create=tuple(create),
            events=tuple(events),
            wake_at=min(wakes, default=None),
        )

    def _running(
        self,
        pods: Sequence[PodFacts],
        node: str,
        *,
        delete: list[PodFacts],
        events: list[Event],
        wakes: list[datetime],
    ) -> list[PodFacts]:
        """Pods of a node that run or will; those that ended are added to `delete`."""
        running = []
        for pod in (p for p in pods if not p.deleting):
            who = f"{pod.namespace}/{pod.name} on node {node}"
            if pod.phase not in FINISHED:
                running.append(pod)
            elif pod.phase == "Succeeded":
                message = f"Found succeeded daemon pod {who}, will try to delete it"
                events.append(Event("Normal", "SucceededDaemonPod", message))
                delete.append(pod)
            elif pod.created and self.now < (at := pod.created + _FAILED_PAUSE):
                wakes.append(at)
            else:
                message = f"Found failed daemon pod {who}, will try to kill it"
                events.append(Event("Warning", "FailedDaemonPod", message))
                delete.append(pod)
        return running

    def _excess(self, running: Sequence[PodFacts]) -> Sequence[PodFacts]:
        """All but the oldest pod of a node; with a surge all but one of each revision."""
        if len(running) <= 1:
            return ()
        if not self._surges:
            return running[1:]
        new = [p for p in running if p.revision == self.hash]
        old = [p for p in running if p.revision != self.hash]
        gone = [*new[1:], *old[1:]]
        if new and old and (not old[0].ready or self.available(new[0])):
            gone.append(old[0])
        return gone

    @property
    def _surges(self) -> bool:
        return self._share("maxSurge", 1) > 0

    def _share(self, field: str, total: int) -> int:
        """A bound of the update as a number of nodes, rounded up; 0 with OnDelete."""
        if get(self.raw, "spec", "updateStrategy", "type") != "RollingUpdate":
            return 0
        return resolve(get(self.raw, *_ROLLING, field), total, round_up=True)

    # The update

    def update(self) -> Moves:
        """One step of a rolling update; nothing with OnDelete."""
        if get(self.raw, "spec", "updateStrategy", "type") != "RollingUpdate":
            return Moves()
        wanted = {n["metadata"]["name"] for n in self.nodes if self.should_run(n)}
        surge, most = (self._share(f, len(wanted)) for f in ("maxSurge", "maxUnavailable"))
        if wanted and not surge and not most:
            most = 1
        pairs = {name: self._pair(name) for name in sorted(wanted | self.pods.keys())}
        return self._with_surge(pairs, wanted, surge) if surge else self._in_turn(pairs, most)

    def _pair(self, node: str) -> tuple[PodFacts | None, PodFacts | None] | None:
        """(new, old) pod of a node; None where `manage` has to remove one first."""
        pods = [p for p in self.pods.get(node, ()) if not p.deleting]
        new = [p for p in pods if self.is_updated(p)]
        old = [p for p in pods if not self.is_updated(p)]
        if len(new) > 1 or len(old) > 1:
            return None
        return (new[0] if new else None), (old[0] if old else None)

    def _in_turn(
        self, pairs: Mapping[str, tuple[PodFacts | None, PodFacts | None] | None], most: int
    ) -> Moves:
        """Delete old pods that are down, and others while fewer than `most` nodes are down."""
        down = 0
        replaced: list[PodFacts] = []
        candidates: list[PodFacts] = []
        for pair in pairs.values():
            new, old = pair or (None, None)
            if new is None and old is not None:
                if not self.available(old):
                    replaced.append(old)
                    down += 1
                elif down < most:
                    candidates.append(old)
            elif new is None or old is not None or not self.available(new):
                down += 1
        return Moves(delete=(*replaced, *candidates[: max(most - down, 0)]))

    def _with_surge(
        self,
        pairs: Mapping[str, tuple[PodFacts | None, PodFacts | None] | None],
        wanted: set[str],
        most: int,
    ) -> Moves:
        """Create new pods next to old ones, and delete an old one once the new one serves."""
        delete: list[PodFacts] = []
        leaving: list[PodFacts] = []  # old pods of nodes that should have none any more
        allowed: list[str] = []
        candidates: list[str] = []
        surging = serving = 0
        for name, pair in pairs.items():
            if pair is None:
                surging += 1
                continue
            new, old = pair
            shown = old or new
            serving += shown is not None and self.available(shown)
            if old is None:
                continue
            if new is not None:
                if self.available(new):
                    delete.append(old)
                else:
                    surging += 1
            elif name not in wanted:
                (leaving if self.available(old) else delete).append(old)
            elif not self.available(old):
                allowed.append(name)
            elif surging < most:
                candidates.append(name)
        delete += leaving[: max(serving - len(wanted), 0)]
        return Moves(delete=tuple(delete), create=(*allowed, *candidates[: max(most - surging, 0)]))
