"""Capacity of nodes and requests of their pods: the arithmetic of the scheduler."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

from gitkruise.model.node.node_fit import selected, tolerates_cordon, untolerated
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.quantity import parse_quantity

PODS_MAX: Final = 110  # of a node that does not say


@dataclass(frozen=True, slots=True)
class PodRequests:
    """Requests of a pod: exact amounts, and host ports."""

    amounts: Mapping[str, Fraction]
    ports: set[tuple[str, int]]


def pod_requests(containers: Sequence[Obj], inits: Sequence[Obj]) -> PodRequests:
    """Return the requests of a pod with these containers and init containers."""
    return PodRequests(_requests(containers, inits), _host_ports(containers))


@dataclass(slots=True)
class NodeLoad:
    """One node and what is taken of it. Amounts are exact; ports are (protocol, number)."""

    node: Obj
    room: Mapping[str, Fraction]
    most: int = PODS_MAX  # pods
    taken: dict[str, Fraction] = field(default_factory=dict)
    pods: int = 0
    ports: set[tuple[str, int]] = field(default_factory=set)
    _share: float = 0.0
    _judged: tuple[Obj | None, str] = (None, "")  # the spec last looked at, and what was said

    def take(self, requests: PodRequests, *, sign: int = 1) -> None:
        """Add (sign 1) or give back (sign -1) what a pod wants."""
        for name, amount in requests.amounts.items():
            self.taken[name] = self.taken.get(name, Fraction(0)) + sign * amount
        self.pods += sign
        if requests.ports:
            self.ports = self.ports | requests.ports if sign > 0 else self.ports - requests.ports
        if requests.amounts:
            self._share = self._greatest_share()

    @property
    def share(self) -> tuple[float, int]:
        """Return the load: the greatest share of any resource, then the number of pods."""
        return self._share, self.pods

    def _greatest_share(self) -> float:
        shares = [
            self.taken.get(name, Fraction(0)) / room
            for name, room in self.room.items()
            if room and name in {"cpu", "memory"}
        ]
        return float(max(shares, default=0))

    def refusal(self, spec: Obj, requests: PodRequests) -> str:
        """Return why a pod with these requests does not fit, in the scheduler's words, or ""."""
        if self._judged[0] is not spec:  # pods of one owner often share theirs
            self._judged = spec, self._unwanted(spec)
        return self._judged[1] or self._full(requests)

    def _unwanted(self, spec: Obj) -> str:
        if (self.node.get("spec") or {}).get("unschedulable") and not tolerates_cordon(spec):
            return "node(s) were unschedulable"
        if taint := untolerated(self.node, spec):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
        if not selected(self.node, spec):
            return "node(s) didn't match Pod's node affinity/selector"
        return ""

    def _full(self, requests: PodRequests) -> str:
        if not self.ports.isdisjoint(requests.ports):
            return "node(s) didn't have free ports for the requested pod ports"
        if self.pods >= self.most:
            return "Too many pods"
        for name, amount in requests.amounts.items():
            if amount and self.taken.get(name, Fraction(0)) + amount > self.room.get(name, 0):
                return f"Insufficient {name}"
        return ""


class Nodes:
    """The loads of nodes by name, and which one comes first: the least loaded, then by name."""

    def __init__(self) -> None:
        self.loads: dict[str, NodeLoad] = {}
        self._order: list[tuple[tuple[float, int], str]] = []

    def put(self, name: str, load: NodeLoad) -> None:
        self.drop(name)
        self.loads[name] = load
        insort(self._order, (load.share, name))

    def drop(self, name: str) -> None:
        if (known := self.loads.pop(name, None)) is not None:
            self._unrank(known, name)

    def take(self, name: str, requests: PodRequests, *, sign: int = 1) -> None:
        """Let a pod come to a node (sign 1) or leave it (sign -1); of an unknown node nothing."""
        if (load := self.loads.get(name)) is not None:
            self._unrank(load, name)
            load.take(requests, sign=sign)
            insort(self._order, (load.share, name))

    def fitting(self, spec: Obj, requests: PodRequests) -> tuple[str, Counter[str]]:
        """The first node that takes such a pod, or ""; and what those before it said."""
        refusals: Counter[str] = Counter()
        for _, name in self._order:
            why = self.loads[name].refusal(spec, requests)
            if not why:
                return name, refusals
            refusals[why] += 1
        return "", refusals

    def least_loaded(self) -> str:
        """The first node of all, whether a pod fits or not; "" without nodes."""
        return self._order[0][1] if self._order else ""

    def _unrank(self, load: NodeLoad, name: str) -> None:
        del self._order[bisect_left(self._order, (load.share, name))]


def node_load(node: Obj) -> NodeLoad:
    status = node.get("status") or {}
    room = status.get("allocatable") or status.get("capacity") or {}
    amounts = {name: _amount(text) for name, text in room.items()}
    return NodeLoad(node=node, room=amounts, most=ceil(amounts.get("pods", PODS_MAX)))


def _requests(containers: Sequence[Obj], inits: Sequence[Obj]) -> Mapping[str, Fraction]:
    """Return the larger of containers plus sidecars and the largest init container."""
    total: dict[str, Fraction] = {}
    for container in containers:
        _add(total, container)
    peak: dict[str, Fraction] = {}
    for init in inits:
        if init.get("restartPolicy") == "Always":
            _add(total, init)
        else:
            for name, amount in _wants(init).items():
                peak[name] = max(peak.get(name, Fraction(0)), amount)
    return {
        name: max(total.get(name, Fraction(0)), peak.get(name, Fraction(0)))
        for name in {**total, **peak}
    }


def _add(total: dict[str, Fraction], container: Obj) -> None:
    for name, amount in _wants(container).items():
        total[name] = total.get(name, Fraction(0)) + amount


def _wants(container: Obj) -> Mapping[str, Fraction]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: _amount(text) for name, text in wanted.items()}


@lru_cache(maxsize=4096)
def _amount(text: str | int | float) -> Fraction:
    return parse_quantity(text).value


def _host_ports(containers: Sequence[Obj]) -> set[tuple[str, int]]:
    return {
        (port.get("protocol") or "TCP", port["hostPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
