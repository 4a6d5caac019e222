"""Result of a planning phase: actions, held pods with reasons, and the time of the next look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from gitkruise.model.planning.plan import Action, Event, Hold, Holds, Reason
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import PodGroup

_NAME: Final = attrgetter("name")


@dataclass(slots=True)
class RoundResult:
    """Result of a phase. `problems` are sentences about pods or specs that stay unchanged; they
    become a condition and never stop the other pods. For a workload whose pods live in several
    namespaces, pods are named `namespace/name` (`spaces`)."""

    actions: list[Action] = field(default_factory=list)
    held: list[tuple[Reason, frozenset[str]]] = field(default_factory=list)  # as found
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    wake: list[datetime] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)  # pods acted upon or reserved this round
    spaces: bool = False

    def called(self, pod: PodFacts) -> str:
        """The pod's name in this result."""
        return f"{pod.namespace}/{pod.name}" if self.spaces else pod.name

    def hold(self, pod: PodFacts, why: Hold, detail: str = "") -> None:
        """A reason the pod is left alone for; the first one found counts."""
        self.held.append(((why, detail), frozenset((self.called(pod),))))

    def hold_all(self, pods: Iterable[PodFacts], why: Hold) -> None:
        """Hold many pods for one reason."""
        called = self.called if self.spaces else _NAME
        self.held.append(((why, ""), frozenset(map(called, pods))))

    def hold_group(self, group: PodGroup, why: Hold, detail: str = "") -> None:
        """The same for a whole group, of a workload whose pods live in one namespace."""
        if self.spaces:
            raise ValueError("groups hold pods of one namespace")
        self.held.append(((why, detail), group.names))

    def holds(self, acted: Set[str]) -> Holds:
        """Held pods and their reasons, without pods acted upon."""
        named = set(acted)
        found: dict[Reason, list[frozenset[str]]] = {}
        for reason, names in self.held:
            if fresh := names if named.isdisjoint(names) else names - named:
                named |= fresh
                found.setdefault(reason, []).append(fresh)
        return {
            reason: parts[0] if len(parts) == 1 else frozenset().union(*parts)
            for reason, parts in found.items()
        }

    def act(self, pod: PodFacts, action: Action) -> None:
        self.actions.append(action)
        self.busy.add(self.called(pod))

    def add(self, other: RoundResult) -> None:
        """Everything of a later phase; reasons found earlier count."""
        self.actions += other.actions
        self.held += other.held
        self.events += other.events
        self.problems += other.problems
        self.wake += other.wake
        self.busy |= other.busy


def earliest(instants: Iterable[datetime]) -> datetime | None:
    return min(instants, default=None)


def becoming_available(pods: Iterable[PodFacts], min_ready_s: int) -> list[datetime]:
    """The instants at which ready pods become available: strictly after `min_ready_s`."""
    if not min_ready_s:
        return []
    span = timedelta(seconds=min_ready_s, milliseconds=1)
    return [pod.ready_since + span for pod in pods if pod.ready and pod.ready_since]


def summed_up(problems: Sequence[str]) -> str:
    """The first of these sentences, and how many more there are."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0] + more
