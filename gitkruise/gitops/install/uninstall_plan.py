"""Plan of a removal: objects of an installation on a cluster, and those of them that stay.

An object of `deploy/` counts as installed when it bears the label that its manifest has, or a field
that `gitkruise install` applied. Whatever has the same name only is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import Final

from gitkruise.errors import ApiError, Finding, MethodNotAllowed, NotFound, UsageProblem
from gitkruise.gitops.install.definitions import defined, listed_key
from gitkruise.gitops.install.installer import (
    CRD,
    HOME,
    MANAGER,
    NAMESPACE,
    defines_kruise,
    every_object,
    managers_of,
    provider_of,
)
from gitkruise.kube.client.discovery import CRDS, each, listed, served_catalog
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.lease_terms import is_held_for_good
from gitkruise.planner.node.pull_secrets import SECRET
from gitkruise.planner.sync.annotations import MANAGER as APPLIER
from gitkruise.printable import listing, many
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import (
    OWN_GROUP,
    GroupKind,
    Obj,
    ObjectKey,
    join_api_version,
    key_of,
)
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ResourceRef

LABEL: Final = "app.kubernetes.io/name"
NAMED: Final = 5  # objects that a message names
_FLEETING: Final = frozenset({"Event", "Endpoints", "EndpointSlice"})  # they follow others
_OF_EVERY_NAMESPACE: Final = frozenset(
    {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
)
_WORKLOADS: Final = frozenset({"Deployment", "DaemonSet"})


class UninstallChange(StrEnum):
    """Change of one object, made or planned."""

    REMOVED = "removed"
    CONFIGURED = "configured"
    STAYS = "stays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uninstalled:
    """Outcome for one object. `next` is the command that removes an object that stays; `objects`
    are those of a definition or a namespace that stays."""

    key: ObjectKey
    change: UninstallChange
    why: str = ""
    next: str = ""
    objects: tuple[ObjectKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledObject:
    """An object on the cluster, and the resource to reach it by."""

    live: Obj
    ref: ResourceRef

    @property
    def key(self) -> ObjectKey:
        return key_of(self.live)

    @property
    def uid(self) -> str:
        return str(self.live["metadata"]["uid"])

    @property
    def selector(self) -> Mapping[str, str]:
        """Labels of the pods of a workload of ours; empty for other objects."""
        if self.key.kind not in _WORKLOADS:
            return {}
        labels: Mapping[str, str] = get(self.live, "spec", "selector", "matchLabels", default={})
        return labels


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstallOptions:
    """`crds` also removes the definitions of workloads. `driver` says who drives the workloads
    after the end, as part of a sentence."""

    namespace: str = HOME
    crds: bool = False
    driver: str = "no controller drives them any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstallPlan:
    """Everything of an installation that is on the cluster.

    `custom` are the objects of gitkruise.io, `written` what the processes write for themselves
    (leases, certificates), `spaces` the namespaces that the installation created.
    """

    catalog: Catalog
    objects: tuple[InstalledObject, ...]
    custom: tuple[InstalledObject, ...]
    written: tuple[InstalledObject, ...]
    spaces: tuple[InstalledObject, ...]
    stays: tuple[Uninstalled, ...]

    @property
    def goes(self) -> tuple[InstalledObject, ...]:
        """The objects to remove, namespaces last."""
        return (*self.custom, *self.objects, *self.written, *self.spaces)


class UninstallPlanner:
    """Reads one cluster."""

    def __init__(self, transport: Transport, catalog: Catalog, options: UninstallOptions) -> None:
        self._transport, self._catalog, self._options = transport, catalog, options

    async def plan(self) -> UninstallPlan:
        """Read what is there. Raises ApiError, UsageProblem GK4505 and GK7057."""
        catalog = await served_catalog(self._transport, self._catalog)
        manifests = every_object(self._options.namespace)
        objects: list[InstalledObject] = []
        spaces: list[InstalledObject] = []
        stays: list[Uninstalled] = []
        for manifest in manifests:
            target = await self._find(catalog, key_of(manifest))
            if target is None or target.key in {other.key for other in objects}:
                continue
            self._check_namespace(manifest, target.live)
            if defines_kruise(target.key):
                if kept := await self._definition(target):
                    stays.append(kept)
                else:
                    objects.append(target)
            elif why := _not_installed(manifest, target.live):
                stays.append(_kept(target.key, why))
            else:
                (spaces if target.key.group_kind == NAMESPACE else objects).append(target)
        kinds = (*(key_of(obj).group_kind for obj in manifests), SECRET)  # a deploy key's
        older = await older_objects(self._transport, catalog, manifests, kinds)
        known = {target.key for target in objects}
        objects += [target for target in older if target.key not in known]
        written = await self._written(catalog, manifests)
        lasting = [target for target in written if is_held_for_good(target.live)]
        stays += [_kept(target.key, "an embedded cluster holds it for good") for target in lasting]
        found = UninstallPlan(
            catalog=catalog, objects=tuple(objects), custom=await self._custom(catalog),
            written=tuple(target for target in written if target not in lasting),
            spaces=(), stays=tuple(stays),
        )  # fmt: skip
        return await self._with_spaces(found, spaces)

    async def objects_of(self, definition: Obj) -> tuple[Obj, ...]:
        """Return the objects that a definition defines. Raises ApiError, also if it has no API."""
        kind, ref = defined(definition)
        return tuple(_typed(kind, ref, obj) for obj in await listed(self._transport, ref))

    async def space_kept(self, space: InstalledObject, plan: UninstallPlan) -> Uninstalled | None:
        """A namespace as it stays because of other objects in it; None if it is to be removed."""
        gone = {target.key for target in plan.goes}
        uids = {target.uid for target in plan.goes}
        pods = [target.selector for target in plan.objects if target.selector]
        found: list[ObjectKey] = []
        unseen: list[str] = []
        for kind, ref in await self._namespaced(plan.catalog):
            try:
                objects = await listed(self._transport, ref, namespace=space.key.name)
            except (NotFound, MethodNotAllowed):
                continue  # an older or newer server without this kind
            except ApiError:
                unseen.append(ref.plural)
                continue
            for obj in objects:
                key = listed_key(kind, obj)
                if key not in gone and not _goes_along(key, obj, uids, pods):
                    found.append(key)
        if not found and not unseen:
            return None
        why = f"gitkruise did not install {_named(found)}" if found else ""
        if unseen:
            why += f"{'; ' if why else ''}the API server does not list its {', '.join(unseen)}"
        next_ = f"kubectl delete namespace {space.key.name}"
        return _kept(space.key, why, next_=next_, objects=tuple(found))

    # Reading ---------------------------------------------------------------------------------

    async def _find(self, catalog: Catalog, key: ObjectKey) -> InstalledObject | None:
        kind = catalog.stored(key.group_kind)
        if kind is None:
            return None
        live = await find_object(self._transport, kind.ref, key.name, key.namespace)
        return InstalledObject(live=live, ref=kind.ref) if live is not None else None

    async def _namespaced(self, catalog: Catalog) -> list[tuple[GroupKind, ResourceRef]]:
        """The kinds of objects in namespaces; custom ones as their definitions say."""
        names = {k.group_kind for k in catalog.kinds() if k.namespaced and not k.crd}
        builtin = [kind for name in sorted(names) if (kind := catalog.stored(name)) is not None]
        custom = await listed(self._transport, CRDS)
        return [
            *((k.group_kind, k.ref) for k in builtin
              if "list" in k.verbs and k.kind not in _FLEETING),
            *(defined(crd) for crd in custom if crd["spec"]["scope"] == "Namespaced"),
        ]  # fmt: skip

    def _check_namespace(self, manifest: Obj, live: Obj) -> None:
        wanted, found = accounts(manifest), accounts(live)
        if wanted and found and not wanted & found:
            raise UsageProblem(elsewhere(key_of(live), self._options.namespace, min(found)))

    async def _definition(self, target: InstalledObject) -> Uninstalled | None:
        """The definition of a kind of OpenKruise as it stays; None if it is to be removed."""
        owners = managers_of(target.live)
        name, key = target.key.name, target.key
        try:
            there = await self.objects_of(target.live)
        except NotFound:
            return _kept(key, "the API server does not list its objects")
        objects = tuple(map(key_of, there))
        has = f"{many(len(objects), 'object')}: {_named(objects)}; {self._options.driver}"
        if held := [key_of(obj) for obj in there if obj["metadata"].get("finalizers")]:
            has += f"; only a controller takes the finalizers off {_named(held)}"
        if MANAGER not in owners:
            why = provider_of(target.live)
            return _kept(key, f"{why}; {has}" if objects else why, objects=objects)
        if not objects:
            if self._options.crds:
                return None
            why = "it has no objects; only --crds removes definitions of workloads"
            return _kept(key, why, next_="gitkruise uninstall --crds")
        if self._options.crds:
            raise UsageProblem(objects_left(name, objects))
        return _kept(key, has, next_=_deletion(name), objects=objects)

    async def _custom(self, catalog: Catalog) -> tuple[InstalledObject, ...]:
        names = sorted({k.group_kind for k in catalog.kinds() if k.group == OWN_GROUP})
        found = []
        for kind in filter(None, map(catalog.stored, names)):
            with suppress(NotFound):  # a definition that is being removed
                for obj in await listed(self._transport, kind.ref):
                    live = _typed(kind.group_kind, kind.ref, obj)
                    found.append(InstalledObject(live=live, ref=kind.ref))
        return tuple(found)

    async def _written(
        self, catalog: Catalog, manifests: Sequence[Obj]
    ) -> tuple[InstalledObject, ...]:
        keys = dict.fromkeys(key for obj in manifests for key in _written_by(catalog, obj))
        found = [await self._find(catalog, key) for key in keys]
        return tuple(target for target in found if target is not None)

    async def _with_spaces(
        self, plan: UninstallPlan, spaces: Sequence[InstalledObject]
    ) -> UninstallPlan:
        goes, stays = [], list(plan.stays)
        for space in spaces:
            if kept := _foreign(space.live) or await self.space_kept(space, plan):
                stays.append(kept)
            else:
                goes.append(space)
        return replace(plan, spaces=tuple(goes), stays=tuple(stays))


async def older_objects(
    transport: Transport, catalog: Catalog, manifests: Sequence[Obj], kinds: Iterable[GroupKind]
) -> list[InstalledObject]:
    """Objects of earlier versions, found by label and manager, whether `manifests` have them or
    not. Raises ApiError."""
    spaces = {"", *(key_of(obj).namespace for obj in manifests)}
    found = []
    for group_kind in dict.fromkeys(kinds):
        kind = catalog.stored(group_kind)
        if kind is None or group_kind in {CRD, NAMESPACE}:
            continue
        async for obj in each(transport, kind.ref, selector=f"{LABEL}=gitkruise"):
            live = _typed(group_kind, kind.ref, obj)
            if MANAGER in managers_of(obj) and key_of(live).namespace in spaces:
                found.append(InstalledObject(live=live, ref=kind.ref))
    return found


def _kept(
    key: ObjectKey, why: str, *, next_: str = "", objects: tuple[ObjectKey, ...] = ()
) -> Uninstalled:
    return Uninstalled(key=key, change=UninstallChange.STAYS, why=why, next=next_, objects=objects)


def _not_installed(manifest: Obj, live: Obj) -> str:
    """Reason against an object with a name of deploy/ being ours; "" for one of ours."""
    key, owners = key_of(live), managers_of(live)
    label = get(manifest, "metadata", "labels", LABEL)
    own = key.group_kind == CRD and key.name.endswith(f".{OWN_GROUP}")
    if own or MANAGER in owners or (label and get(live, "metadata", "labels", LABEL) == label):
        return ""
    return f"no mark says that gitkruise installed it (applied by {', '.join(sorted(owners))})"


def _foreign(namespace: Obj) -> Uninstalled | None:
    """A namespace that others wrote, too, and that may have been there before."""
    owners = managers_of(namespace)
    if MANAGER in owners and owners <= {MANAGER, APPLIER}:
        return None
    key, others = key_of(namespace), sorted(owners - {MANAGER})
    why = f"gitkruise install may not have created it: {', '.join(others)} wrote it, too"
    why += "; labels that install applied stay on it" if MANAGER in owners else ""
    return _kept(key, why, next_=f"kubectl delete namespace {key.name}")


def _written_by(catalog: Catalog, role: Obj) -> Iterator[ObjectKey]:
    """Objects that a Role of ours lets our processes update by name: leases, certificates."""
    if role["kind"] != "Role":
        return
    plurals: dict[tuple[str, str], str] = {(k.group, k.plural): k.kind for k in catalog.kinds()}
    namespace = role["metadata"]["namespace"]
    for rule in role.get("rules") or ():
        if "update" in rule["verbs"]:
            names = rule.get("resourceNames") or ()
            for group, plural, name in product(rule["apiGroups"], rule["resources"], names):
                yield ObjectKey(group, plurals[group, plural], namespace, name)


def _goes_along(
    key: ObjectKey, obj: Obj, uids: Collection[str], pods: Sequence[Mapping[str, str]]
) -> bool:
    """Return whether an object is in every namespace, or goes with an object that goes."""
    meta = obj["metadata"]
    if (key.kind, key.name) in _OF_EVERY_NAMESPACE:
        return True
    if any(ref.get("uid") in uids for ref in meta.get("ownerReferences") or ()):
        return True
    labels = (meta.get("labels") or {}).items()
    return key.kind == "Pod" and any(selector.items() <= labels for selector in pods)


def accounts(obj: Obj) -> set[str]:
    """Namespaces of the service accounts of a binding."""
    return {str(s["namespace"]) for s in obj.get("subjects") or () if s.get("namespace")}


def _typed(kind: GroupKind, ref: ResourceRef, obj: Obj) -> Obj:
    """An item of a list, which may lack its kind, as an object of its own."""
    return {**obj, "apiVersion": join_api_version(ref.group, ref.version), "kind": kind.kind}


def _named(keys: Sequence[ObjectKey]) -> str:
    return listing(keys, NAMED)


def _deletion(definition: str) -> str:
    return f"kubectl delete {definition} --all --all-namespaces, then gitkruise uninstall --crds"


def objects_left(name: str, objects: Sequence[ObjectKey]) -> Finding:
    return Finding(
        code="GK4505",
        message=f"{name} has {many(len(objects), 'object')}: {_named(objects)}",
        notes=(
            ("why", "without their definition these objects and their pods would be deleted"),
            ("unchanged", "the definition and its objects"),
            ("next", f"gitkruise uninstall without --crds, or {_deletion(name)}"),
        ),
        object=f"CustomResourceDefinition {name}",
    )


def elsewhere(key: ObjectKey, namespace: str, found: str, command: str = "uninstall") -> Finding:
    """Another namespace has the installation: `key` names its account."""
    return Finding(
        code="GK7057",
        message=f"gitkruise is not installed in namespace {namespace}: {key} names {found}",
        notes=(
            ("unchanged", "everything: nothing was changed or removed"),
            ("next", f"gitkruise {command} --namespace {found}"),
        ),
        object=str(key),
    )
