"""A rollout that git lets further step by step: its strategy and its progress.

Steps are partitions of a CloneSet or a StatefulSet; a Deployment gets the canaries that let the
same pods through.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from gitkruise.model.gitops.analysis import AnalysisRun, Metric
from gitkruise.model.gitops.strict_struct import Strict
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET, DEPLOYMENT, STATEFULSET
from gitkruise.wire.primitives.names import GroupKind, ObjectKey, split_api_version
from gitkruise.wire.primitives.times import parse_duration
from gitkruise.wire.values.intstr import Partition

PROMOTED: Final = (CLONESET, DEPLOYMENT, STATEFULSET, ADVANCED_STATEFULSET)


class PromotedWorkload(Strict, frozen=True):
    """By name, in the namespace the unit's objects go to."""

    name: str
    kind: Literal["CloneSet", "Deployment", "StatefulSet"] = "CloneSet"
    api_version: str = ""

    @property
    def group_kind(self) -> GroupKind:
        """Without an API version the first of its kind that can be promoted."""
        group, _ = split_api_version(self.api_version)
        default = next(known for known in PROMOTED if known.kind == self.kind)
        return GroupKind(group, self.kind) if self.api_version else default


class PromotionStep(Strict, frozen=True):
    """Pods that stay on the old revision or, as `updated`, those on the new one; for how long the
    step must be Held and healthy before the next, and the metrics that must be successful."""

    partition: int | str | None = None
    updated: int | str | None = None
    soak: str = "0s"
    analysis: tuple[str, ...] = ()

    def asks(self, replicas: int) -> Partition:
        """Return the partition of the step; it counts pods where `updated` does."""
        match self.updated:
            case None:
                return Partition(self.partition)
            case int(pods):
                return Partition(max(replicas - pods, 0) if pods else "100%")
            case share:
                kept = 100 - int(share.removesuffix("%"))
                return Partition(f"{kept}%" if kept else 0)


class Promotion(Strict, frozen=True):
    """`steps` go down; the first that keeps fewer pods back than git does is the next one."""

    workload: PromotedWorkload
    steps: tuple[PromotionStep, ...]
    via: Literal["pull-request", "commit"] = "pull-request"
    merge: Literal["manual", "whenReady"] = "manual"
    metrics: tuple[Metric, ...] = ()

    def reached(self, kept: int, replicas: int) -> int:
        """The number of steps that a partition of `kept` of `replicas` pods has reached."""
        return sum(step.asks(replicas).kept(replicas) >= kept for step in self.steps)

    def next(self, kept: int, replicas: int) -> PromotionStep | None:
        """The step after those; None when all are reached."""
        behind = self.reached(kept, replicas)
        return self.steps[behind] if behind < len(self.steps) else None

    def soak(self, kept: int, replicas: int) -> timedelta:
        """For how long the rollout must stand well where it is."""
        behind = self.reached(kept, replicas)
        return parse_duration(self.steps[behind - 1].soak) if behind else timedelta()

    def measured(self, kept: int, replicas: int) -> tuple[Metric, ...]:
        """Return the metrics that must be successful before the next step."""
        behind = self.reached(kept, replicas)
        names = self.steps[behind - 1].analysis if behind else ()
        return tuple(metric for metric in self.metrics if metric.name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRecord:
    """Progress of a promotion. `step` of `steps` are reached; `next` is "" when all are.

    `due` is when the next step may start; `why` is what blocks it, "" when only time does.
    `offered` is the address of the pull request that proposes it. `analysis` is the newest run of
    measurements, of this step or of an earlier one; it stays when a rollback ends the promotion.
    """

    key: ObjectKey
    step: int
    steps: int
    next: str = ""
    due: datetime | None = None
    why: str = ""
    offered: str = ""
    note: str = ""  # why the soak counts from another time than the arrival
    analysis: AnalysisRun | None = None
