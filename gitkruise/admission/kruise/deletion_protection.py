"""Deletion protection: objects whose label forbids their deletion.

Source: the label policy.kruise.io/delete-protection of OpenKruise (PROT-1 to PROT-36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Forbidden, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

LABEL: Final = "policy.kruise.io/delete-protection"
ALWAYS, CASCADING = "Always", "Cascading"
_PREFIX: Final = "forbidden by ResourcesProtectionDeletion for " + LABEL
_CRD_GATE_OFF: Final = "feature-gate DeletionProtectionForCRDCascadingGate is not enabled"
_POD, _CLAIM = GroupKind("", "Pod"), GroupKind("", "PersistentVolumeClaim")

# What still lives below `old`, as the end of the refusal; "" when nothing does.
Cascade: TypeAlias = Callable[[AdmissionRequest, Obj], str]


class _Guard(NamedTuple):
    """The webhook that answers for a kind (`.kb.io` is left out), and what Cascading means there.

    No cascade: it means nothing.
    """

    webhook: str
    cascade: Cascade | None = None


def _going(obj: Obj) -> bool:
    return bool(get(obj, "metadata", "deletionTimestamp"))


def _replicas(_: AdmissionRequest, old: Obj) -> str:
    """Only the wanted number counts: pods still terminating do not."""
    wanted = get(old, "spec", "replicas") or 0
    return f" and replicas {wanted}>0" if wanted > 0 else ""


def _namespaced(request: AdmissionRequest, old: Obj) -> str:
    name = old["metadata"]["name"]
    phases = [
        get(pod, "status", "phase") for pod in request.view.objects(_POD, name) if not _going(pod)
    ]
    active = sum(phase not in FINISHED for phase in phases)
    if active:
        return f" and active pods {active}>0"
    claims = request.view.objects(_CLAIM, name)
    bound = sum(get(c, "status", "phase") == "Bound" and not _going(c) for c in claims)
    return f' and "Bound" status pvc {bound}>0' if bound else ""


def _defined(definition: Obj) -> GroupKind:
    return GroupKind(definition["spec"]["group"], definition["spec"]["names"]["kind"])


def _instances(request: AdmissionRequest, old: Obj) -> str:
    active = sum(not _going(obj) for obj in request.view.objects(_defined(old), ""))
    return f" and active CRs {active}>0" if active else ""


_CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_KRUISE: Final = "apps.kruise.io"
_GUARDS: Final[Mapping[GroupKind, _Guard]] = MappingProxyType(
    {
        GroupKind("", "Namespace"): _Guard("vnamespace", _namespaced),
        _CRD: _Guard("vcustomresourcedefinition", _instances),
        GroupKind("apps", "Deployment"): _Guard("vbuiltindeployment", _replicas),
        GroupKind("apps", "ReplicaSet"): _Guard("vbuiltinreplicaset", _replicas),
        GroupKind("apps", "StatefulSet"): _Guard("vbuiltinstatefulset", _replicas),
        GroupKind(_KRUISE, "CloneSet"): _Guard("vcloneset", _replicas),
        GroupKind(_KRUISE, "StatefulSet"): _Guard("vstatefulset", _replicas),
        GroupKind(_KRUISE, "UnitedDeployment"): _Guard("vuniteddeployment", _replicas),
        GroupKind("", "Service"): _Guard("vservice"),
        GroupKind("networking.k8s.io", "Ingress"): _Guard("vingress"),
    }
)
KINDS: Final = frozenset(_GUARDS)


def protect(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Raises Forbidden when the stored object may not be deleted; a dry run is refused alike.

    Decides from the object as stored. Who asks does not matter: the garbage collector and the
    namespace controller are refused too.
    """
    why = _refusal(request, gates)
    if why:
        webhook = _GUARDS[request.key.group_kind].webhook
        raise Forbidden(f'admission webhook "{webhook}.kb.io" denied the request: {why}')
    return ()


def protect_by_webhook(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """The same where we are the webhook: the server that asked says so itself."""
    why = _refusal(request, gates)
    if why:
        raise Forbidden(why)
    return ()


def looked_at(group_kind: GroupKind, old: Obj) -> tuple[tuple[GroupKind, str], ...]:
    """(kind, namespace) of the objects that decide whether a protected `old` may go."""
    if get(old, "metadata", "labels", LABEL) != CASCADING:
        return ()
    if group_kind == GroupKind("", "Namespace"):
        name = old["metadata"]["name"]
        return ((_POD, name), (_CLAIM, name))
    return ((_defined(old), ""),) if group_kind == _CRD else ()


def _refusal(request: AdmissionRequest, gates: Gates) -> str:
    """Return why the deletion is forbidden; "" when it is allowed."""
    old, guard = request.old, _GUARDS[request.key.group_kind]
    if not gates.resources_deletion_protection or old is None or _going(old):
        return ""
    chosen = get(old, "metadata", "labels", LABEL)
    if chosen == ALWAYS:
        return f"{_PREFIX}={ALWAYS}"
    if chosen != CASCADING or guard.cascade is None:
        return ""
    definition = request.key.group_kind == _CRD
    if definition and not gates.deletion_protection_for_crd_cascading_gate:
        return _CRD_GATE_OFF
    left = guard.cascade(request, old)
    return f"{_PREFIX}={CASCADING}{left}" if left else ""
