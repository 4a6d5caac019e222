"""What the phases of a round hand back: actions, pods left alone and why, when to look again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gitkruise.model.plan import Action, Event, Held, Hold
from gitkruise.model.pod import PodFacts


@dataclass(slots=True)
class Findings:
    """What a phase decided. `trouble` are sentences about pods or specs that stay as they are,
    and become a condition; they never stop the other pods. Of a workload whose pods live in
    several namespaces, pods go under `namespace/name` (`spaces`)."""

    actions: list[Action] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    wake: list[datetime] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)  # pods acted upon or reserved this round
    spaces: bool = False

    def called(self, pod: PodFacts) -> str:
        """What the pod is called here."""
        return f"{pod.namespace}/{pod.name}" if self.spaces else pod.name

    def hold(self, pod: PodFacts, why: Hold, detail: str = "") -> None:
        """Remember the first reason a pod is left alone for."""
        name = self.called(pod)
        if name not in self.held:
            self.held[name] = Held(name, why, detail)

    def hold_all(self, pods: Iterable[PodFacts], why: Hold) -> None:
        """The same for many pods at once."""
        if self.spaces:
            names = [f"{pod.namespace}/{pod.name}" for pod in pods]
        else:
            names = [pod.name for pod in pods]
        held = {name: Held(name, why) for name in names}
        self.held = held | self.held if self.held else held

    def act(self, pod: PodFacts, action: Action) -> None:
        self.actions.append(action)
        self.busy.add(self.called(pod))

    def add(self, other: Findings) -> None:
        """Everything of a later phase; reasons found earlier stay."""
        self.actions += other.actions
        self.held = other.held | self.held if self.held else dict(other.held)
        self.events += other.events
        self.trouble += other.trouble
        self.wake += other.wake
        self.busy |= other.busy


def earliest(instants: Iterable[datetime]) -> datetime | None:
    return min(instants, default=None)
