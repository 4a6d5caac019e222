"""Reports of plans from two states of git, without a repository."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from gitkruise.errors import Finding
from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.document import Desired, GitCommit
from gitkruise.model.gitops.report import PlanReport
from gitkruise.model.planning.forecast import ForecastStep, PodMove, RolloutForecast
from gitkruise.planner.report.report import Heading, plan_report
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.planner.sync.build import desired

KEY = b"a key that stays in here"
CATALOG = load_catalog()
OLD, NEW = GitCommit(id="a" * 40, subject="before"), GitCommit(id="b" * 40, subject="after")


def side(objects: Iterable[Desired], **more: Any) -> PlanSide:
    """One side of a plan, without units."""
    return PlanSide(commit=NEW, objects=tuple(objects), **more)


def report(
    before: Sequence[Obj],
    after: Sequence[Obj],
    rollouts: Sequence[RolloutForecast] = (),
    *,
    subject: str = "after",
    key: bytes = KEY,
    findings: Sequence[Finding] = (),
    rejected: Mapping[ObjectKey, str] | None = None,
) -> PlanReport:
    """The way from `before` to `after`, offline."""
    target = [desired(obj) for obj in after]
    changes = changes_between([desired(obj) for obj in before], target, CATALOG)
    heading = Heading(base=OLD, target=GitCommit(id=NEW.id, subject=subject))
    return plan_report(
        changes, rollouts, target, heading, key=key, findings=findings, rejected=rejected
    )


def prediction(key: ObjectKey, how: str = "in-place", pods: int = 4) -> RolloutForecast:
    """All pods of a CloneSet of ten moved that way, two at a time."""
    moves = [PodMove(pod=f"{key.name}-{n}", how=how) for n in range(pods)]
    second = timedelta(seconds=2)
    return RolloutForecast(
        key=key,
        steps=tuple(
            ForecastStep(moves=tuple(moves[n : n + 2]), starts=n * second, lasts=second)
            for n in range(0, pods, 2)
        ),
        revision=f"{key.name}-new",
        previous=f"{key.name}-old",
        replicas=10,
        updated_before=0,
        updated_after=pods,
        max_unavailable=2,
        max_surge=0,
        partition=10 - pods,
        hold="PartitionReached" if pods < 10 else "",
        message="",
        held=(),
        staying=((f"{key.name}-old", 10 - pods),) if pods < 10 else (),
        lasts=pods * second,
    )
