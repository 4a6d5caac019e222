"""The workloads we drive: how each is observed and decided."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.model.labels import CLONESET as CLONESET_KIND
from gitkruise.model.labels import SIDECARSET as SIDECARSET_KIND
from gitkruise.model.pod import POD
from gitkruise.model.revision import REVISION
from gitkruise.model.snapshot import CloneSetSnapshot, SidecarSetSnapshot
from gitkruise.model.workload import Workload
from gitkruise.planner.builtin.deployment import DEPLOYMENT
from gitkruise.planner.builtin.job import JOB
from gitkruise.planner.builtin.replicaset import REPLICASET
from gitkruise.planner.cloneset.observe import CLAIM, observe_cloneset
from gitkruise.planner.cloneset.plan import plan_cloneset
from gitkruise.planner.pods import PODS
from gitkruise.planner.sidecarset.match import named_by
from gitkruise.planner.sidecarset.observe import NAMESPACE, observe_sidecarset
from gitkruise.planner.sidecarset.plan import plan_sidecarset

CLONESET: Final[Workload[CloneSetSnapshot]] = Workload(
    kind=CLONESET_KIND,
    version="v1beta1",
    owns=(POD, CLAIM, REVISION),
    observe=observe_cloneset,
    decide=plan_cloneset,
)

SIDECARSET: Final[Workload[SidecarSetSnapshot]] = Workload(
    kind=SIDECARSET_KIND,
    version="v1beta1",
    owns=(POD, REVISION, NAMESPACE),
    observe=observe_sidecarset,
    decide=plan_sidecarset,
    named_by=named_by,
)

WORKLOADS: Final[tuple[Workload[Any], ...]] = (CLONESET, SIDECARSET, PODS)

# Kubernetes' own, driven only where no kube-controller-manager does (embedded cluster, previews).
BUILTIN: Final[tuple[Workload[Any], ...]] = (DEPLOYMENT, REPLICASET, JOB)
EMBEDDED: Final[tuple[Workload[Any], ...]] = (*WORKLOADS, *BUILTIN)
