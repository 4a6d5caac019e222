"""The closed set of states, the same words on the command line, in git, JSON and annotations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple


class State(StrEnum):
    """State of an object or a unit, as shown to people."""

    DONE = "Done"
    HELD = "Held"
    ROLLING = "Rolling"
    WAITING = "Waiting"
    PAUSED = "Paused"
    STUCK = "Stuck"
    DRIFTED = "Drifted"
    REJECTED = "Rejected"
    UNKNOWN = "Unknown"


class Look(NamedTuple):
    """Presentation of a state; the word always goes with the glyph."""

    glyph: str
    ascii: str
    colour: str
    commit_status: str


LOOKS: Final[dict[State, Look]] = {
    State.DONE: Look("✓", "[ok]", "green", "success"),
    State.HELD: Look("⏸", "[hold]", "cyan", "success"),
    State.ROLLING: Look("◐", "[roll]", "blue", "pending"),
    State.WAITING: Look("…", "[wait]", "blue", "pending"),
    State.PAUSED: Look("▮", "[pause]", "cyan", "success"),
    State.STUCK: Look("✗", "[stuck]", "red", "failure"),
    State.DRIFTED: Look("≠", "[drift]", "yellow", "failure"),
    State.REJECTED: Look("!", "[bad]", "red", "error"),
    State.UNKNOWN: Look("?", "[?]", "yellow", "error"),
}

# Worst first: a unit shows the state of its neediest object.
_SEVERITY: Final = (
    State.REJECTED,
    State.STUCK,
    State.DRIFTED,
    State.UNKNOWN,
    State.ROLLING,
    State.WAITING,
    State.PAUSED,
    State.HELD,
    State.DONE,
)

STUCK_FOR: Final = timedelta(seconds=10)  # pods that a newer commit mends look stuck for a moment
# Reasons of a Ready condition that is False because somebody chose so.
CHOSEN: Final = frozenset(
    {"Suspended", "WindowClosed", "ApprovalRequired", "DependencyNotReady", "Terminating"}
)
SUSPENDED: Final = "suspended"  # begins the message of a unit that is
READY: Final = frozenset({State.DONE, State.HELD})
SETTLED: Final = READY | {State.PAUSED}  # as git asks


def stuck_for_good(state: State, since: datetime | None, now: datetime) -> bool:
    """Return whether a waiting command should give up: Stuck, and for longer than a moment.

    A `since` that is ahead is of a clock that is ahead of ours, or that was set back: waiting for
    ours to show it could take hours.
    """
    return state is State.STUCK and (since is None or abs(now - since) >= STUCK_FOR)


def worst(states: Iterable[State]) -> State:
    """The state that needs attention most; Done for no objects at all."""
    found = set(states)
    return next((s for s in _SEVERITY if s in found), State.DONE)
