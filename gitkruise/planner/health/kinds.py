"""The kinds that roll out over pods: what to look at for each, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    REPLICASET,
    SIDECARSET,
    STATEFULSET,
)
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.revision import REVISION
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.model.workloads.sidecarset_revision import REVISION_NAMESPACE
from gitkruise.planner.builtin.deployment_rollout import observe_deployment_rollout
from gitkruise.planner.health.health import health
from gitkruise.planner.progress.builtin import observe_daemon_set, observe_stateful_set
from gitkruise.planner.progress.cloneset import observe_rollout
from gitkruise.planner.sidecarset.matching import matched
from gitkruise.planner.sidecarset.progress import observe_sidecars
from gitkruise.wire.primitives.names import GroupKind, Obj

RolloutOf = Callable[[Obj, Sequence[PodFacts], Sequence[Obj], datetime], Rollout]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutKind:
    """`pods` and `revisions` of an object from a view that follows them; `progress` needs no more.

    `kept_in` is the kind of its revisions. `everywhere`: its pods are not those of its own
    namespace.
    """

    pods: Callable[[ClusterView, Obj], Sequence[PodFacts]]
    revisions: Callable[[ClusterView, Obj], Sequence[Obj]]
    progress: RolloutOf
    kept_in: GroupKind = REVISION
    everywhere: bool = False

    def judge(
        self, obj: Obj, pods: Sequence[PodFacts], revisions: Sequence[Obj], now: datetime
    ) -> Rollout:
        """Return the rollout of an object; one that is being deleted waits for its end."""
        rollout = self.progress(obj, pods, revisions, now)
        if not obj["metadata"].get("deletionTimestamp"):
            return rollout
        return replace(rollout, state=State.WAITING, message=health(obj).message)


def _own_pods(view: ClusterView, raw: Obj) -> Sequence[PodFacts]:
    return tuple(view.pods_of(raw["metadata"]["uid"], raw["metadata"].get("namespace") or ""))


def _own_revisions(view: ClusterView, raw: Obj) -> Sequence[Obj]:
    meta = raw["metadata"]
    return view.owned(meta["uid"], REVISION, meta.get("namespace") or "")


def _replica_sets(view: ClusterView, raw: Obj) -> Sequence[Obj]:
    meta = raw["metadata"]
    return view.owned(meta["uid"], REPLICASET, meta.get("namespace") or "")


def _pods_of_sets(view: ClusterView, raw: Obj) -> Sequence[PodFacts]:
    namespace = raw["metadata"].get("namespace") or ""
    sets = _replica_sets(view, raw)
    return tuple(pod for one in sets for pod in view.pods_of(one["metadata"]["uid"], namespace))


def _injected_pods(view: ClusterView, raw: Obj) -> Sequence[PodFacts]:
    """By what they list. Namespaces are not asked for again: they were, when it was injected."""
    return matched(sidecarset_facts(raw), view.pods(""))


def _central_revisions(view: ClusterView, raw: Obj) -> Sequence[Obj]:
    return view.owned(raw["metadata"]["uid"], REVISION, REVISION_NAMESPACE)


ROLLOUTS: Final[Mapping[GroupKind, RolloutKind]] = {
    CLONESET: RolloutKind(pods=_own_pods, revisions=_own_revisions, progress=observe_rollout),
    DEPLOYMENT: RolloutKind(
        pods=_pods_of_sets,
        revisions=_replica_sets,
        progress=observe_deployment_rollout,
        kept_in=REPLICASET,
    ),
    ADVANCED_STATEFULSET: RolloutKind(
        pods=_own_pods, revisions=_own_revisions, progress=observe_stateful_set
    ),
    STATEFULSET: RolloutKind(
        pods=_own_pods, revisions=_own_revisions, progress=observe_stateful_set
    ),
    DAEMONSET: RolloutKind(pods=_own_pods, revisions=_own_revisions, progress=observe_daemon_set),
    SIDECARSET: RolloutKind(
        pods=_injected_pods,
        revisions=_central_revisions,
        progress=observe_sidecars,
        everywhere=True,
    ),
}
