"""A forecast rollout: the pods that move, step by step, and its state afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gitkruise.model.planning.workload_spread import Division
from gitkruise.wire.primitives.names import ObjectKey

RECREATE, CREATE, DELETE, HOT = "recreate", "create", "delete", "hot"
STUCK: Final = "Stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMove:
    """One pod that will be restarted in place, replaced, created or removed.

    `how` is in-place | hot | recreate | create | delete; a recreated pod goes by its old name, a
    pod whose sidecars change as `namespace/name`. `of` are pods any of which it may be, where
    the engine's order leaves that open.
    """

    pod: str
    how: str
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveCounts:
    """Pods of a Deployment right after a step: of the new ReplicaSet, of old ones, and how many
    of all are available."""

    new: int
    old: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastStep:
    """One step that maxUnavailable and maxSurge allow; `starts` counts from the writes.

    `counts` is None for kinds other than Deployment.
    """

    moves: tuple[PodMove, ...]
    starts: timedelta
    lasts: timedelta
    counts: WaveCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecars:
    """Forecast of a SidecarSet: pods that cannot be updated, and the sidecars of new pods.

    `barred` are (pod, why) of running pods that differ in more than images; `left_out` counts
    those that the update selector does not match, `emptied` those of `barred` whose idle container
    of a hot upgrade gets another empty image. `born` are (container, image) as injected,
    `born_with` the revision they come from and "" when nothing is injected any more.
    """

    barred: tuple[tuple[str, str], ...]
    left_out: int
    born: tuple[tuple[str, str], ...]
    born_with: str
    emptied: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutForecast:
    """One wave of one CloneSet, SidecarSet or Deployment: what its partition or canary lets
    through, and where it will stand after.

    `hold` is "" when the rollout ends complete, else why it stops: PartitionReached, CanaryReached,
    Paused, OnDelete, CannotUpdateInPlace, NotUpdate, NotSelected, or Stuck when the pods asked for
    do not become available; `message` says more. `replicas` of a SidecarSet are the pods it
    matches. `partition` is the number of pods kept on the old revision; `previous` is "" at
    creation. `canary` is the value at which a Deployment holds, as written. Its revisions are
    ReplicaSets, and a new one goes by the name that the embedded cluster gives it. `staying` counts
    the pods of a CloneSet or StatefulSet that keep another revision, by its name. `budgets` are
    the PodUnavailableBudgets that held pods back on the way. `division` are the pods at the end by
    subset of their WorkloadSpread.
    """

    key: ObjectKey
    steps: tuple[ForecastStep, ...]
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
    sidecars: Sidecars | None = None
    canary: str = ""
    staying: tuple[tuple[str, int], ...] = ()
    budgets: tuple[str, ...] = ()
    division: Division | None = None

    def count(self, how: str) -> int:
        """Pods that move that way in all steps."""
        return sum(move.how == how for step in self.steps for move in step.moves)
