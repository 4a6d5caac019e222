"""The words for how an object is doing, the same for every kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The words of kstatus, and `Held` for a rollout at the partition that git states."""

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
