"""A rollout foretold: pods that move, step by step, and where it stands afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gitkruise.model.trace import IN_PLACE
from gitkruise.wire.names import ObjectKey

RECREATE, CREATE, DELETE = "recreate", "create", "delete"
HOW: Final = (IN_PLACE, RECREATE, CREATE, DELETE)
STUCK: Final = "Stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMove:
    """One pod that will be restarted in place, replaced, created or removed.

    `how` is in-place | recreate | create | delete; a recreated pod goes by its old name.
    """

    pod: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedStep:
    """What maxUnavailable and maxSurge let through at once; `starts` counts from the writes."""

    moves: tuple[PodMove, ...]
    starts: timedelta
    lasts: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One wave of one CloneSet: what its partition lets through, and where it will stand after.

    `hold` is "" when the rollout ends complete, else why it stops: PartitionReached, Paused,
    OnDelete, or Stuck when the pods asked for do not become available; `message` says more.
    `partition` is the number of pods kept on the old revision; `previous` is "" at creation.
    """

    key: ObjectKey
    steps: tuple[PredictedStep, ...]
    revision: str
    previous: str
    replicas: int
    updated_before: int
    updated_after: int
    max_unavailable: int
    max_surge: int
    partition: int
    hold: str
    message: str
    held: tuple[tuple[str, str], ...]  # (pod, reason) when all has settled
    lasts: timedelta

    def count(self, how: str) -> int:
        """Pods that move that way in all steps."""
        return sum(move.how == how for step in self.steps for move in step.moves)
