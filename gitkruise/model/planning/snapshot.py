"""Snapshots: everything one planning round of a workload may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gitkruise.model.planning.unavailable_budget import BudgetFacts
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import PodGroups
from gitkruise.model.workloads.revision import Revision
from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.wire.primitives.names import Obj, ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSetSnapshot:
    """One CloneSet and all that belongs to it, at one instant, in name order.

    `pods` carry any owner reference to it, finished and terminating pods among them; so do
    `claims`. `revisions` are those its selector matches and no other object controls, oldest first;
    `other_revisions` hold foreign revisions by name, because a name can be taken. `nodes` maps node
    names to labels, and is filled only when spreading needs it. `seed` names new pods: derived,
    never drawn, so that the same snapshot gives the same plan; `foreign_ids` are ids it would give
    whose pod names belong to other owners; `pull_jobs` are ImagePullJobs that refer to it;
    `conflicts` are sentences about foreign objects that conflict with it; `budgets` are the
    PodUnavailableBudgets of its namespace.
    """

    key: ObjectKey
    owner: CloneSetFacts
    pods: PodGroups
    claims: tuple[Obj, ...] = ()
    revisions: tuple[Revision, ...] = ()
    other_revisions: Mapping[str, Revision] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    now: datetime
    seed: int = 0
    foreign_ids: frozenset[str] = frozenset()
    pull_jobs: tuple[Obj, ...] = ()
    conflicts: tuple[str, ...] = ()
    budgets: tuple[BudgetFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSetSnapshot:
    """One SidecarSet, the pods it answers for and its revisions, at one instant.

    `pods` are matched ones, in the order of namespace and name. `revisions` are its own, oldest
    first; `other_revisions` hold foreign ones by name, because a name can be taken. `homeless`:
    the namespace of SidecarSets' revisions is not there yet.
    """

    key: ObjectKey
    owner: SidecarSetFacts
    pods: tuple[PodFacts, ...] = ()
    revisions: tuple[Revision, ...] = ()
    other_revisions: Mapping[str, Revision] = field(default_factory=dict)
    homeless: bool = False
    now: datetime
