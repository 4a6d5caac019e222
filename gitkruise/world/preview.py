"""What a set of writes will do to the CloneSets of a cluster, played on a copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gitkruise.model.settings import Gates
from gitkruise.model.trace import Trace
from gitkruise.wire.names import ObjectKey
from gitkruise.wire.request import ApiRequest
from gitkruise.world.profiles import GENERAL, Profile

if TYPE_CHECKING:
    from gitkruise.world.cluster import World


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMove:
    """One pod that will be replaced, restarted in place, created or removed."""

    pod: str
    how: str  # in-place | recreate | create | delete


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedStep:
    """What maxUnavailable and maxSurge let through at once."""

    moves: tuple[PodMove, ...]
    starts: timedelta  # after the change
    lasts: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One wave of one CloneSet: what its partition lets through, and where it will stand after.

    `hold` is "" when the rollout ends complete, else why it stops: PartitionReached, Paused,
    OnDelete, or Stuck when new pods never become available.
    """

    key: ObjectKey
    steps: tuple[PredictedStep, ...]
    revision: str  # the update revision's name
    previous: str
    replicas: int
    updated_before: int
    updated_after: int
    max_unavailable: int
    max_surge: int
    partition: int  # pods kept on the old revision
    hold: str
    held: tuple[tuple[str, str], ...]  # (pod, reason) at the end
    lasts: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """All predictions of one set of writes, in key order, and the whole trace behind them."""

    predictions: tuple[Prediction, ...]
    trace: Trace


def predict(
    world: World,
    writes: Sequence[ApiRequest],
    now: datetime,
    *,
    gates: Gates = Gates(),
    profile: Profile = GENERAL,
    horizon: timedelta = timedelta(hours=1),
) -> Forecast:
    """Play `writes` on a fork of `world`. Raises the ApiError a write meets."""
    raise AssertionError(world, writes, now, gates, profile, horizon)
