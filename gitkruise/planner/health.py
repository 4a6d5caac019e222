"""How an object is doing, in one closed set of words for every kind we know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gitkruise.wire.names import Obj


class Phase(StrEnum):
    """kstatus' words, and ours for a rollout that stands where git asked it to stand."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    HELD = "Held"
    PAUSED = "Paused"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Health:
    """A phase, a machine-readable reason (CamelCase) and a sentence for a person."""

    phase: Phase
    reason: str = ""
    message: str = ""


def health(obj: Obj | None) -> Health:
    """The health of one object as the API server shows it; None is NotFound."""
    assert obj is None
    return Health(Phase.NOT_FOUND, "NotFound")
