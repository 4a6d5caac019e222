"""Preflight: rejections of a commit's changes by our rules and by the API server's dry run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from gitkruise.errors import Concern, Finding, Forbidden
from gitkruise.gitops.build.kruise_defaulting import as_webhook_keeps, dialect_of
from gitkruise.gitops.build.validate import CRD, check_object, defined_kind
from gitkruise.gitops.cluster.engine import heeds_canaries
from gitkruise.gitops.reconcile.applier import Sent
from gitkruise.gitops.reconcile.rejections import JUDGED_HERE, not_served
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired, DesiredSet
from gitkruise.model.planning.canary import ANNOTATION
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.planner.sync.annotations import annotation
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import NAMESPACES, apply_request

NAMESPACE: Final = GroupKind("", "Namespace")
_NAMESPACE_MANAGER: Final = "gitkruise-namespace"
_ADMISSION, _RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
# What a rejection says of the object that causes it: its name, or that of one of its webhooks.
_CAUSES: Final = {
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"): ' webhook "{}"',
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"): ' webhook "{}"',
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicy"): ": ValidatingAdmissionPolicy '{}' with ",
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicyBinding"): " with binding '{}' denied ",
    GroupKind(_ADMISSION, "MutatingAdmissionPolicy"): "policy '{}' with ",
    GroupKind(_ADMISSION, "MutatingAdmissionPolicyBinding"): " with binding '{}' denied ",
    GroupKind("", "ResourceQuota"): ": exceeded quota: {}, ",
    GroupKind(_RBAC, "Role"): ' "{}" not found',
    GroupKind(_RBAC, "ClusterRole"): ' "{}" not found',
}


def check_updates(
    changed: Sequence[Desired], live: Mapping[ObjectKey, Obj], catalog: Catalog, gates: Gates
) -> list[Finding]:
    """Check updates of live objects against the rules of our own kinds."""
    return [
        finding
        for d in changed
        if d.key.group_kind in JUDGED_HERE and d.key in live
        for old in [as_webhook_keeps(live[d.key], catalog, gates)]
        for finding in check_object(d, catalog, gates, old=old)
    ]


async def ignored_canaries(changed: Sequence[Desired], transport: Transport) -> list[Finding]:
    """Return GK2404 for each Deployment with a canary where the cluster would not pause at it.

    The plain key may be another program's. Raises ApiError.
    """
    asking = [
        d for d in changed if d.key.group_kind == DEPLOYMENT and annotation(d.obj, ANNOTATION)
    ]
    if not asking or await heeds_canaries(transport):
        return []
    return [
        Finding(
            code="GK2404",
            message=f"{d.key}: this cluster would not pause its rollout at the canary",
            places=(d.document.place(("metadata", "annotations", ANNOTATION)),),
            notes=(
                ("why", "Kubernetes' Deployment controller does not know canaries: it updates all"),
                ("unchanged", f"the live {d.key}"),
                (
                    "next",
                    "run gitkruise with engine: own there, or take the annotation out",
                ),
            ),
            object=str(d.key),
        )
        for d in asking
    ]


def misfits(findings: Iterable[Finding], catalog: Catalog) -> bool:
    """Return whether an object of a kind that only the cluster defines has an error: the
    definition may be older than the commit."""
    wrong = {f.object.partition(" ")[0] for f in findings if f.is_error and f.object}
    if not wrong:
        return False
    recorded = {kind.kind for kind in load_catalog().kinds()}
    return any(kind.crd and kind.kind in wrong - recorded for kind in catalog.kinds())


def testable(changed: Sequence[Desired], missing: frozenset[str]) -> list[Desired]:
    """Return the objects that can be dry-run: not those in a namespace that the commit itself
    creates, or of a kind whose definition it changes."""
    defined = {defined_kind(d.obj) for d in changed if d.key.group_kind == CRD}
    return [
        d for d in changed if d.key.namespace not in missing and d.key.group_kind not in defined
    ]


def target_namespaces(units: Iterable[Unit]) -> frozenset[str]:
    """Return the namespaces that units create, those with target.createNamespace."""
    targets = (unit for unit in units if unit.spec.target.create_namespace)
    return frozenset(unit.spec.target.namespace or unit.namespace for unit in targets)


async def brought(
    desired: DesiredSet,
    live: Mapping[ObjectKey, Obj],
    transport: Transport,
    *,
    ensured: AbstractSet[str] = frozenset(),
) -> frozenset[str]:
    """Return the namespaces that the commit creates and that do not exist yet, and those of
    `ensured`, which its units will create before they write.

    Without the right to list namespaces, those that carry no unit's label count as new, and
    `ensured` ones without a live object. Raises ApiError.
    """
    unseen = {
        d.key.name for d in desired.objects if d.key.group_kind == NAMESPACE and d.key not in live
    }
    unseen |= ensured - {key.namespace for key in live}
    if not unseen:
        return frozenset()
    try:
        there = {namespace["metadata"]["name"] for namespace in await listed(transport, NAMESPACES)}
    except Forbidden:
        there = set()
    return frozenset(unseen - there)


async def ensure_namespace(transport: Transport, name: str, catalog: Catalog) -> None:
    """Create the namespace of a unit with target.createNamespace. Raises ApiError.

    An existing one stays as it is: another unit may have its labels in git, and an apply under the
    manager of units would remove them.
    """
    kind = catalog.stored(NAMESPACE)
    assert kind is not None, "every cluster serves namespaces"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await transport.send(apply_request(kind.ref, body, _NAMESPACE_MANAGER))


def unreachable(sent: Sequence[Sent]) -> Finding | None:
    """Return the first finding that the cluster could not be reached."""
    found = (s.finding for s in sent if s.retry and s.finding is not None)
    return next((f for f in found if f.concern is Concern.CONNECTION), None)


def refusals(
    desired: DesiredSet,
    sent: Sequence[Sent],
    live: Mapping[ObjectKey, Obj],
    moving: AbstractSet[ObjectKey],
) -> Iterator[Finding]:
    """Return the final rejections. Objects cannot be tried whose kind the commit itself creates,
    or that are rejected because of an object that it changes or removes (`moving`)."""
    known = brings_kinds(desired.objects)
    for item in sent:
        if item.finding is None or (known and item.unserved):
            continue
        if not causes((item,), live, moving):
            yield item.finding


def warnings(sent: Iterable[Sent]) -> Iterator[Finding]:
    """Return what the API server warns of in objects that it accepts."""
    return (finding for item in sent for finding in item.warnings)


def causes(
    sent: Iterable[Sent], live: Mapping[ObjectKey, Obj], keys: AbstractSet[ObjectKey]
) -> frozenset[ObjectKey]:
    """Return those of `keys` that a rejection names as its cause: webhooks, policies, quotas, and
    roles that do not exist."""
    refused = [item for item in sent if item.server_message]
    if not refused:
        return frozenset()
    able = [key for key in keys if key.group_kind in _CAUSES]
    return frozenset(key for key in able if any(_causes(key, live, item) for item in refused))


def _causes(key: ObjectKey, live: Mapping[ObjectKey, Obj], item: Sent) -> bool:
    if key.namespace not in {"", item.desired.key.namespace}:
        return False
    pattern = _CAUSES[key.group_kind]
    ref = item.desired.obj.get("roleRef", {}) if key.group == _RBAC else {}
    if key.group == _RBAC and (ref.get("kind"), ref.get("name")) != (key.kind, key.name):
        return False
    names = [hook["name"] for hook in live.get(key, {}).get("webhooks") or ()]
    return any(pattern.format(name) in item.server_message for name in names or [key.name])


def brings_kinds(objects: Iterable[Desired]) -> bool:
    """Return whether a commit has definitions: it may define the kinds of its other objects."""
    return any(d.key.group_kind == CRD for d in objects)


def unserved(
    objects: Sequence[Desired], catalog: Catalog, units: Mapping[ObjectKey, Unit]
) -> Iterator[Finding]:
    """Yield GK4201 for each object whose kind neither the cluster nor its commit knows.

    `units` are by object: a unit with definitions tries its other objects after those.
    """
    crds = [d for d in objects if d.key.group_kind == CRD]
    defined, bringing = {defined_kind(d.obj) for d in crds}, {units[d.key].id for d in crds}
    for d in objects:
        known = d.key.group_kind in defined or dialect_of(d, catalog) is not None
        if not known and units[d.key].id not in bringing:
            yield not_served(d, catalog)
