"""From a pod back to who wanted it so: revision, commit, file, unit, and what holds it now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.gitops.inspect.cluster_view import Managed, Survey
from gitkruise.model.gitops.record import RevisionCount, RolloutStep
from gitkruise.model.planning.plan import HeldPod, Plan
from gitkruise.model.planning.workload_spread import SubsetMatch, subset_match
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    STATEFULSET,
)
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.names import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One pod. `commit` introduced its revision, `restored` asked for it again after another one,
    `step` is the newest that asks for it; "" or None if unknown. `held` is the reason why the
    controller leaves the pod unchanged, `subset` the one that it takes of a WorkloadSpread."""

    pod: PodFacts
    owner: Managed
    revision: RevisionCount | None
    commit: str = ""
    restored: str = ""
    step: RolloutStep | None = None
    held: HeldPod | None = None
    subset: SubsetMatch | None = None

    @property
    def artifact(self) -> str:
        """Return the artifact that `commit` was imported from; "" where that is not known: the
        owner names the artifact of its own commit."""
        return self.owner.artifact if self.commit == self.owner.commit else ""


OWNERS: Final = (CLONESET, DEPLOYMENT, STATEFULSET, ADVANCED_STATEFULSET, DAEMONSET)


def owner_of_pod(survey: Survey, name: str, now: datetime) -> tuple[Managed, PodFacts]:
    """Return the workload of a pod, and the pod. Raises ClusterFailed GK4010 without one."""
    found = [(m, pod) for m in survey.managed(now) for pod in m.pods]
    for m, pod in found:
        if pod.name == name:
            return m, pod
    import difflib  # noqa: PLC0415  only for a mistyped name

    names = [pod.name for _, pod in found]
    near = difflib.get_close_matches(name, names, 3) or names[:8]
    notes = (
        ("there are", ", ".join(near) or "none"),
        ("next", "gitkruise get pods -A lists those of all namespaces"),
    )
    *most, last = dict.fromkeys(gk.kind for gk in OWNERS)
    kinds = f"{', '.join(most)} or {last}"
    message = f'no {kinds} of namespace {survey.namespace} owns a pod "{name}"'
    raise ClusterFailed(Finding(code="GK4010", message=message, notes=notes))


def trace_pod(
    pod: PodFacts,
    owner: Managed,
    plan: Plan | None,
    steps: Sequence[tuple[ObjectKey, RolloutStep]],
) -> Traced:
    """Return the commits behind a pod; `steps` are the record's, newest first."""
    counts = owner.rollout.revisions if owner.rollout else ()
    revision = next((r for r in counts if r.hash == pod.short_revision), None)
    mine = [step for key, step in reversed(steps) if key == owner.key]
    runs = [
        list(run)
        for short, run in groupby(mine, lambda s: s.revision.rpartition("-")[2])
        if short == pod.short_revision
    ]
    first = runs[0][0].commit.id if runs else ""
    written = revision.commit if revision else ""
    if owner.key.group_kind == DEPLOYMENT:  # its ReplicaSet names the newest that asks for it
        first, written = first or written, ""
    introduced = written or first
    again = runs[-1][0].commit.id if runs else ""
    return Traced(
        pod=pod,
        owner=owner,
        revision=revision,
        commit=introduced,
        restored="" if again in {first, introduced} else again,
        step=runs[-1][-1] if runs else None,
        held=next((h for h in (plan.held if plan else ()) if h.pod == pod.name), None),
        subset=subset_match(pod.annotations),
    )
