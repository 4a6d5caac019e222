"""The workloads we drive: how each is observed and decided."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.model.planning.budget_matching import workloads_of
from gitkruise.model.planning.snapshot import CloneSetSnapshot, SidecarSetSnapshot
from gitkruise.model.planning.workload import Shows, Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET
from gitkruise.model.workloads.labels import CLONESET as CLONESET_KIND
from gitkruise.model.workloads.labels import SIDECARSET as SIDECARSET_KIND
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.revision import REVISION
from gitkruise.planner.budgets.status import BUDGETS
from gitkruise.planner.builtin.autoscaler import AUTOSCALER
from gitkruise.planner.builtin.cronjob import CRONJOB
from gitkruise.planner.builtin.daemonset import DAEMONSET
from gitkruise.planner.builtin.deployment import DEPLOYMENT
from gitkruise.planner.builtin.job import JOB
from gitkruise.planner.builtin.replicaset import REPLICASET, REPLICATION_CONTROLLER
from gitkruise.planner.builtin.statefulset import STATEFULSET
from gitkruise.planner.cloneset.observe import CLAIM, observe_cloneset
from gitkruise.planner.cloneset.plan import plan_cloneset
from gitkruise.planner.cloneset.status import is_interim
from gitkruise.planner.node.list_pull_job import LIST_PULL_JOBS
from gitkruise.planner.node.node_image import NODE_IMAGES, NODES
from gitkruise.planner.node.pull_job import PULL_JOBS
from gitkruise.planner.node.recreate_controller import REQUESTS
from gitkruise.planner.pods.pod_controller import PODS
from gitkruise.planner.sidecarset.matching import named_by
from gitkruise.planner.sidecarset.observe import NAMESPACE, observe_sidecarset
from gitkruise.planner.sidecarset.plan import plan_sidecarset
from gitkruise.planner.spread.controller import SPREADS
from gitkruise.planner.statefulset.plan import ADVANCED

CLONESET: Final[Workload[CloneSetSnapshot]] = Workload(
    kind=CLONESET_KIND,
    version="v1beta1",
    owns=(POD, CLAIM, REVISION),
    observe=observe_cloneset,
    decide=plan_cloneset,
    watches={BUDGET: workloads_of(CLONESET_KIND)},
    stalls=Shows.CONDITION,
    later=is_interim,
)

SIDECARSET: Final[Workload[SidecarSetSnapshot]] = Workload(
    kind=SIDECARSET_KIND,
    version="v1beta1",
    owns=(POD, REVISION, NAMESPACE),
    observe=observe_sidecarset,
    decide=plan_sidecarset,
    named_by=named_by,
    stalls=Shows.ANNOTATION,
)

WORKLOADS: Final[tuple[Workload[Any], ...]] = (
    CLONESET, SIDECARSET, ADVANCED, PODS, BUDGETS, SPREADS,
)  # fmt: skip

# Objects between controllers and node agents.
NODE: Final[tuple[Workload[Any], ...]] = (REQUESTS, NODES, NODE_IMAGES, PULL_JOBS, LIST_PULL_JOBS)

# Kubernetes' own, driven only where no kube-controller-manager does (embedded cluster, previews).
_ROLLED_OUT: Final[tuple[Workload[Any], ...]] = (DEPLOYMENT, REPLICASET, STATEFULSET, JOB)
BUILTIN: Final[tuple[Workload[Any], ...]] = (
    *_ROLLED_OUT, REPLICATION_CONTROLLER, DAEMONSET, CRONJOB, AUTOSCALER,
)  # fmt: skip
EMBEDDED: Final[tuple[Workload[Any], ...]] = (*WORKLOADS, *NODE, *BUILTIN)
# A forecast ends when all is quiet: a schedule never is, and an autoscaler has no metrics there.
FORECAST: Final[tuple[Workload[Any], ...]] = (*WORKLOADS, *NODE, *_ROLLED_OUT)


def node_workloads(gates: Gates) -> tuple[Workload[Any], ...]:
    """Those of NODE that the gates leave anything to do."""
    if gates.pulls_images:
        return NODE
    return (REQUESTS,) if gates.kruise_daemon else ()
