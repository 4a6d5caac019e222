"""The admission chain: one table of the stages that every write passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias

from gitkruise.admission.builtin.autoscalers import KINDS as AUTOSCALERS
from gitkruise.admission.builtin.autoscalers import autoscaler_problems, default_autoscaler
from gitkruise.admission.builtin.config_objects import (
    claim_problems,
    config_map_problems,
    default_claim_object,
    default_config_map,
    default_node,
    default_secret,
    node_problems,
    secret_problems,
)
from gitkruise.admission.builtin.definitions import definition_problems
from gitkruise.admission.builtin.endpoints import KINDS as ENDPOINTS
from gitkruise.admission.builtin.endpoints import default_endpoints, endpoints_problems
from gitkruise.admission.builtin.events import EVENT_KINDS, event_problems
from gitkruise.admission.builtin.networking import KINDS as NETWORKING
from gitkruise.admission.builtin.networking import default_networking, networking_problems
from gitkruise.admission.builtin.policies import KINDS as POLICIES
from gitkruise.admission.builtin.policies import PRIORITIES, default_priority, policy_problems
from gitkruise.admission.builtin.quotas import KINDS as QUOTAS
from gitkruise.admission.builtin.quotas import default_quota, quota_problems
from gitkruise.admission.builtin.roles import KINDS as ROLES
from gitkruise.admission.builtin.roles import default_role, role_problems
from gitkruise.admission.builtin.services import (
    allocation_problems,
    default_service,
    service_problems,
)
from gitkruise.admission.builtin.statuses import KINDS as COUNTED
from gitkruise.admission.builtin.statuses import status_problems
from gitkruise.admission.builtin.storage import KINDS as STORAGE
from gitkruise.admission.builtin.storage import default_storage, storage_problems
from gitkruise.admission.builtin.webhook_configurations import KINDS as CONFIGURATIONS
from gitkruise.admission.builtin.webhook_configurations import (
    configuration_problems,
    default_configuration,
)
from gitkruise.admission.builtin.workloads import KINDS as WORKLOADS
from gitkruise.admission.builtin.workloads import default_workload, workload_problems
from gitkruise.admission.kruise.canary import KINDS as WITH_CANARY
from gitkruise.admission.kruise.canary import canary_problems
from gitkruise.admission.kruise.cloneset import cloneset_problems, default_cloneset
from gitkruise.admission.kruise.deletion_protection import KINDS as PROTECTED
from gitkruise.admission.kruise.deletion_protection import protect, protect_by_webhook
from gitkruise.admission.kruise.launch_priority import order_launch
from gitkruise.admission.kruise.lazy_stages import (
    budget_conflicts,
    budget_problems,
    default_sidecarset,
    default_stateful_set,
    fill_in_node_image,
    fill_in_pull_job,
    fill_in_recreate_request,
    inject_sidecars,
    inject_subset,
    injected,
    name_budget,
    neighbour_problems,
    sidecarset_problems,
    spread_conflicts,
    spread_problems,
    stateful_set_problems,
    with_subset,
)
from gitkruise.admission.kruise.update_strategy import daemon_set_problems
from gitkruise.admission.pods.pods import (
    add_readiness_gate,
    debugging_problems,
    default_pod,
    pod_problems,
)
from gitkruise.admission.pods.resizing import resize_problems
from gitkruise.admission.rules.request import CREATE, DELETE, UPDATE, AdmissionRequest
from gitkruise.errors import BadRequest, Forbidden, Problem, invalid_object
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.revision_data import Malformed
from gitkruise.wire.primitives.names import GroupKind, Obj

Mutate: TypeAlias = Callable[[AdmissionRequest, Gates], Obj]
Examine: TypeAlias = Callable[[AdmissionRequest, Gates], Iterable[Problem]]
WRITES: Final = frozenset({CREATE, UPDATE})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """One link: first every `mutate` runs in order, then every `examine`.

    No kinds means all kinds. `examine` gives the broken rules, or raises Forbidden to refuse the
    write as a whole. The subresource "" is the object itself. `asks_cluster`: what it says
    depends on other objects, so a manifest alone cannot be judged by it. `webhook` is the name of
    OpenKruise's webhook whose refusals a server puts into its own words.
    """

    kinds: frozenset[GroupKind] = frozenset()
    operations: frozenset[str] = WRITES
    subresources: frozenset[str] = field(default_factory=lambda: frozenset({""}))
    asks_cluster: bool = False
    mutate: Mutate | None = None
    examine: Examine | None = None
    webhook: str = ""

    def concerns(self, group_kind: GroupKind, operation: str, subresource: str) -> bool:
        return (
            (not self.kinds or group_kind in self.kinds)
            and operation in self.operations
            and subresource in self.subresources
        )

    def mutated(self, request: AdmissionRequest, gates: Gates) -> Obj | None:
        """Return the object after `mutate`. Raises what it raises, in a server's words about the
        webhook."""
        try:
            return self.mutate(request, gates) if self.mutate else request.obj
        except (BadRequest, Forbidden) as error:
            if not self.webhook:
                raise
            message = f'admission webhook "{self.webhook}" denied the request: {error}'
            raise type(error)(message) from error


def _kinds(group: str, *kinds: str) -> frozenset[GroupKind]:
    return frozenset(GroupKind(group, kind) for kind in kinds)


def _kruise(*kinds: str) -> frozenset[GroupKind]:
    return _kinds("apps.kruise.io", *kinds)


_POD, _BUDGET = _kinds("", "Pod"), _kinds("policy.kruise.io", "PodUnavailableBudget")
_DEFINITION: Final = _kinds("apiextensions.k8s.io", "CustomResourceDefinition")
_CREATES, _UPDATES = frozenset({CREATE}), frozenset({UPDATE})


# What a kube-apiserver itself does to the kinds it serves.
SERVER_STAGES: Final = (
    Stage(kinds=_POD, mutate=default_pod, examine=pod_problems),
    Stage(
        kinds=_POD,
        operations=_UPDATES,
        subresources=frozenset({"ephemeralcontainers"}),
        mutate=default_pod,
        examine=debugging_problems,
    ),
    Stage(
        kinds=_POD,
        operations=_UPDATES,
        subresources=frozenset({"resize"}),
        mutate=default_pod,
        examine=resize_problems,
    ),
    Stage(kinds=WORKLOADS, mutate=default_workload, examine=workload_problems),
    Stage(kinds=_kinds("", "Service"), mutate=default_service, examine=service_problems),
    Stage(kinds=_kinds("", "Service"), asks_cluster=True, examine=allocation_problems),
    Stage(kinds=ENDPOINTS, mutate=default_endpoints, examine=endpoints_problems),
    Stage(kinds=_kinds("", "Secret"), mutate=default_secret, examine=secret_problems),
    Stage(kinds=_kinds("", "ConfigMap"), mutate=default_config_map, examine=config_map_problems),
    Stage(
        kinds=_kinds("", "PersistentVolumeClaim"),
        mutate=default_claim_object,
        examine=claim_problems,
    ),
    Stage(kinds=AUTOSCALERS, mutate=default_autoscaler, examine=autoscaler_problems),
    Stage(kinds=NETWORKING, mutate=default_networking, examine=networking_problems),
    Stage(kinds=STORAGE, mutate=default_storage, examine=storage_problems),
    Stage(kinds=QUOTAS, mutate=default_quota, examine=quota_problems),
    Stage(kinds=ROLES, mutate=default_role, examine=role_problems),
    Stage(kinds=PRIORITIES, mutate=default_priority),
    Stage(kinds=POLICIES, examine=policy_problems),
    Stage(
        kinds=COUNTED,
        operations=_UPDATES,
        subresources=frozenset({"status"}),
        examine=status_problems,
    ),
    Stage(kinds=CONFIGURATIONS, mutate=default_configuration, examine=configuration_problems),
    Stage(kinds=_kinds("", "Node"), mutate=default_node, examine=node_problems),
    Stage(kinds=EVENT_KINDS, examine=event_problems),
    Stage(kinds=_DEFINITION, examine=definition_problems),
)
# What OpenKruise's webhooks do, once the server is done; and our check of canaries.
KRUISE_STAGES: Final = (
    Stage(kinds=_POD, operations=_CREATES, mutate=add_readiness_gate),
    Stage(kinds=_POD, operations=_CREATES, asks_cluster=True, mutate=inject_subset),
    Stage(kinds=_POD, operations=_CREATES, asks_cluster=True, mutate=inject_sidecars),
    Stage(kinds=_POD, operations=_CREATES, mutate=order_launch),
    Stage(kinds=_kruise("CloneSet"), mutate=default_cloneset, examine=cloneset_problems),
    Stage(kinds=_kruise("StatefulSet"), mutate=default_stateful_set, examine=stateful_set_problems),
    Stage(kinds=_kruise("SidecarSet"), mutate=default_sidecarset, examine=sidecarset_problems),
    Stage(kinds=_kruise("SidecarSet"), asks_cluster=True, examine=neighbour_problems),
    Stage(kinds=_POD, operations=_CREATES, asks_cluster=True, mutate=name_budget),
    Stage(kinds=_BUDGET, examine=budget_problems),
    Stage(
        kinds=_BUDGET,
        asks_cluster=True,  # whether the gates are on there, and other budgets
        examine=budget_conflicts,
    ),
    Stage(kinds=_kruise("WorkloadSpread"), examine=spread_problems),
    Stage(
        kinds=_kruise("WorkloadSpread"),
        asks_cluster=True,  # whether the gate is on there, and others
        examine=spread_conflicts,
    ),
    Stage(kinds=WITH_CANARY, examine=canary_problems),
    Stage(kinds=_kruise("DaemonSet"), examine=daemon_set_problems),
    Stage(
        kinds=_kruise("ContainerRecreateRequest"),
        asks_cluster=True,
        mutate=fill_in_recreate_request,
        webhook="mcontainerrecreaterequest.kb.io",
    ),
    Stage(
        kinds=_kruise("ImagePullJob", "ImageListPullJob"),
        asks_cluster=True,  # whether the gates are on there
        mutate=fill_in_pull_job,
        webhook="mimagepulljob.kb.io",
    ),
    Stage(
        kinds=_kruise("NodeImage"),
        asks_cluster=True,  # as above
        mutate=fill_in_node_image,
        webhook="mnodeimage.kb.io",
    ),
    Stage(kinds=PROTECTED, operations=frozenset({DELETE}), examine=protect),
)
STAGES: Final = (*SERVER_STAGES, *KRUISE_STAGES)
_BY_WEBHOOK: Final[dict[Mutate | None, Mutate]] = {
    inject_sidecars: injected,
    inject_subset: with_subset,
}
WEBHOOK_STAGES: Final = tuple(  # a server gives its defaults again to what a webhook leaves
    replace(
        stage,
        mutate=_BY_WEBHOOK.get(stage.mutate, stage.mutate),
        webhook="",
        examine=protect_by_webhook if stage.examine is protect else stage.examine,
    )
    for stage in KRUISE_STAGES
)
OFFLINE: Final = tuple(stage for stage in STAGES if not stage.asks_cluster)


def admit(
    request: AdmissionRequest, gates: Gates, stages: tuple[Stage, ...] = STAGES
) -> Obj | None:
    """The object as it is to be stored, in the version of `request.obj`; None on DELETE.

    Raises BadRequest (a value no type can hold), InvalidObject (every broken rule with its field),
    Forbidden (a protected deletion) and InternalError (a sidecar that cannot be injected).
    """
    request = replace(request, obj=mutate(request, gates, stages))
    examine(request, gates, stages)
    return request.obj


def mutate(request: AdmissionRequest, gates: Gates, stages: tuple[Stage, ...]) -> Obj | None:
    """The first half of `admit`, as a mutating webhook answers it."""
    try:
        for stage in _concerned(stages, request):
            if (obj := stage.mutated(request, gates)) is not request.obj:
                request = replace(request, obj=obj)
    except Malformed as error:
        raise _malformed(request, error) from error
    return request.obj


def examine(request: AdmissionRequest, gates: Gates, stages: tuple[Stage, ...]) -> None:
    """The second half of `admit`, as a validating webhook answers it."""
    chosen = _concerned(stages, request)
    try:
        problems = [p for stage in chosen if stage.examine for p in stage.examine(request, gates)]
    except Malformed as error:
        raise _malformed(request, error) from error
    if problems:
        key = request.key
        raise invalid_object(key.kind, key.group, key.name, problems)


def _concerned(stages: tuple[Stage, ...], request: AdmissionRequest) -> tuple[Stage, ...]:
    return _chosen(stages, request.key.group_kind, request.operation, request.subresource)


@lru_cache(maxsize=1024)
def _chosen(
    stages: tuple[Stage, ...], group_kind: GroupKind, operation: str, subresource: str
) -> tuple[Stage, ...]:
    return tuple(s for s in stages if s.concerns(group_kind, operation, subresource))


def _malformed(request: AdmissionRequest, error: Malformed) -> BadRequest:
    kind, version = request.key.kind, request.kind.version
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}')
