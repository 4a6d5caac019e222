"""Plan of an upgrade: the changes that this version makes to an installation, object by object.

The options of the installation are read from the cluster. Objects are compared by dry runs of the
API server, so the plan has its defaults and its rejections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semver import Version

from gitkruise import __version__
from gitkruise.admission.conversion.registry import convertible
from gitkruise.errors import ClusterFailed, Finding, UsageProblem
from gitkruise.gitops.install.bootstrap import KEEPER, UNIT, UNITS
from gitkruise.gitops.install.definitions import defined, storage_version
from gitkruise.gitops.install.installer import (
    CONTROLLER,
    CRD,
    HOME,
    NAMESPACE,
    WEBHOOK_MANAGER,
    InstallChange,
    Installed,
    Installer,
    InstallOptions,
    every_object,
    managers_of,
    manifests,
)
from gitkruise.gitops.install.shards import shards_in
from gitkruise.gitops.install.uninstall_plan import (
    InstalledObject,
    accounts,
    elsewhere,
    older_objects,
)
from gitkruise.kube.client.discovery import CRDS, listed, served_catalog
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.planner.node.pull_secrets import SECRET
from gitkruise.planner.sync.annotations import UNIT_REF, annotation
from gitkruise.printable import many
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.catalog.crds import version_order
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.requests import ResourceRef

VERSION_LABEL: Final = "app.kubernetes.io/version"
WEBHOOK: Final = "gitkruise-webhook"
PROCESSES: Final = frozenset({"Deployment", "DaemonSet"})
DEPLOYMENTS: Final = ResourceRef("apps", "v1", "deployments")
_BINDINGS: Final = ResourceRef("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
_RBAC: Final = frozenset({"ServiceAccount", *(f"{c}{k}" for c in ("", "Cluster")
                                              for k in ("Role", "RoleBinding"))})  # fmt: skip
# Marks of other tools that would undo the upgrade: annotation or label, tool, and its command.
_TOOLS: Final = (
    ("meta.helm.sh/release-name", "Helm", "helm upgrade, then gitkruise upgrade --crds"),
    ("argocd.argoproj.io/tracking-id", "Argo CD", "gitkruise install --export for the new files"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux", "gitkruise install --export for the new files"),
    ("helm.toolkit.fluxcd.io/name", "Flux", "change the version of the chart in git"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOptions:
    """`downgrade` permits a version that is older than the installed one."""

    namespace: str = HOME
    image: str = ""
    crds_only: bool = False
    take_over: bool = False
    downgrade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageMigration:
    """Rewriting of the objects of one definition, which are stored in `stale` versions, too.

    `blocked` is the reason against it, "" if it can be done.
    """

    name: str
    ref: ResourceRef
    stale: tuple[str, ...]
    storage: str
    objects: int
    blocked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePlan:
    """`installed` is the version on the cluster, "" if it is unknown; `objects` are those to apply
    in this order, `changes` the outcome of a dry run of that. `final` are definitions that lose a
    version after the migration: `objects` has them with it."""

    installed: str
    options: InstallOptions
    objects: tuple[Obj, ...]
    final: tuple[Obj, ...]
    changes: tuple[Installed, ...]
    removals: tuple[InstalledObject, ...]
    migrations: tuple[StorageMigration, ...]

    @property
    def empty(self) -> bool:
        """Return whether the cluster has everything already."""
        same = {InstallChange.UNCHANGED, InstallChange.KEPT}
        due = [migration for migration in self.migrations if not migration.blocked]
        return not (due or self.removals) and all(item.change in same for item in self.changes)


class UpgradePlanner:
    """Reads one cluster."""

    def __init__(
        self, transport: Transport, catalog: Catalog, clock: Clock, options: UpgradeOptions
    ) -> None:
        self._transport, self._catalog, self._clock = transport, catalog, clock
        self._options = options

    async def plan(self) -> UpgradePlan:
        """Compare the cluster with this version.

        Raises ApiError, ClusterFailed GK4501 and GK4509, UsageProblem GK7057 and GK7072 to GK7075.
        """
        crds = {crd["metadata"]["name"]: crd for crd in await listed(self._transport, CRDS)}
        controller = await self._deployment(CONTROLLER)
        if controller is None:
            await self._check_installed(crds)
        else:
            await self._check_keeper(controller)
        installed = _version(controller) if controller is not None else ""
        _check_order(installed, allowed=self._options.downgrade)
        options = await self._install_options(controller, installed)
        wanted = _ordered(manifests(options))
        objects = tuple(_bridged(obj, crds) for obj in wanted)
        dry = replace(options, dry_run=True)
        installer = Installer(self._transport, self._catalog, self._clock, dry)
        changes = await installer.install(objects)
        return UpgradePlan(
            installed=installed,
            options=options,
            objects=objects,
            final=tuple(one for one, sent in zip(wanted, objects, strict=True) if one is not sent),
            changes=(*changes, *await self._dropped(wanted, crds)),
            removals=() if options.crds_only else await self._older(),
            migrations=await self._migrations(objects, changes, crds),
        )

    # Reading ---------------------------------------------------------------------------------

    async def _get(self, ref: ResourceRef, name: str, namespace: str = "") -> Obj | None:
        return await find_object(self._transport, ref, name, namespace)

    async def _deployment(self, name: str) -> Obj | None:
        found = await self._get(DEPLOYMENTS, name, self._options.namespace)
        return {**found, "apiVersion": "apps/v1", "kind": "Deployment"} if found else None

    async def _check_installed(self, crds: Mapping[str, Obj]) -> None:
        """Accept definitions without a controller, which may run elsewhere; raise for less."""
        namespace = self._options.namespace
        for manifest in manifests(InstallOptions(namespace=namespace)):
            if manifest["kind"] != "ClusterRoleBinding":
                continue
            live = await self._get(_BINDINGS, key_of(manifest).name)
            if live is not None and accounts(live) and namespace not in accounts(live):
                found = min(accounts(live))
                raise UsageProblem(elsewhere(key_of(manifest), namespace, found, "upgrade"))
        if not any(crd["spec"]["group"] == OWN_GROUP for crd in crds.values()):
            raise UsageProblem(_nothing_installed(namespace))

    async def _check_keeper(self, controller: Obj) -> None:
        """Raise UsageProblem GK7073 if git or another tool keeps the installation."""
        unit = await self._get(UNITS, UNIT, self._options.namespace)
        if unit is not None and get(unit, "spec", "serviceAccountName") == KEEPER:
            path = str(get(unit, "spec", "path", default="."))
            by = f"unit {self._options.namespace}/{UNIT}, from {path} in git"
            raise UsageProblem(_kept_by(key_of(controller), by, f"gitkruise bootstrap {path}"))
        if owner := annotation(controller, UNIT_REF):
            next_ = f"gitkruise install --export for the new files of unit {owner}"
            raise UsageProblem(_kept_by(key_of(controller), f"unit {owner}, from git", next_))
        marks = {
            **get(controller, "metadata", "labels", default={}),
            **get(controller, "metadata", "annotations", default={}),
        }
        for mark, tool, next_ in _TOOLS:
            if mark in marks and not self._options.crds_only:
                raise UsageProblem(_kept_by(key_of(controller), tool, next_))

    async def _install_options(self, controller: Obj | None, installed: str) -> InstallOptions:
        """The options that `install` had, as far as the cluster shows them."""
        crds_only = self._options.crds_only or controller is None
        return InstallOptions(
            crds_only=crds_only,
            webhooks=not crds_only and await self._deployment(WEBHOOK) is not None,
            namespace=self._options.namespace,
            image="" if crds_only else next_image(controller, installed, self._options.image),
            shards=1 if crds_only else shards_in(controller),
            take_over=self._options.take_over,
            command="upgrade",
        )

    async def _older(self) -> tuple[InstalledObject, ...]:
        """Objects that an earlier version installed and that this one has no more."""
        catalog = await served_catalog(self._transport, self._catalog)
        known = every_object(self._options.namespace)
        keys = {key_of(obj) for obj in known}
        kinds = sorted({key.group_kind for key in keys} - {SECRET})  # a deploy key has our label
        found = await older_objects(self._transport, catalog, known, kinds)
        return tuple(target for target in found if target.key not in keys)

    async def _dropped(
        self, wanted: Sequence[Obj], crds: Mapping[str, Obj]
    ) -> tuple[Installed, ...]:
        """Definitions of gitkruise.io that this version has no more: they are never removed,
        because the API server would delete their objects."""
        names = {key_of(obj).name for obj in wanted}
        out = []
        for name, crd in crds.items():
            if crd["spec"]["group"] == OWN_GROUP and name not in names:
                count = len(await listed(self._transport, defined(crd)[1]))
                why = f"{__version__} does not use it; it has {many(count, 'object')}"
                key = ObjectKey(*CRD, "", name)
                out.append(Installed(key=key, change=InstallChange.KEPT, why=why))
        return tuple(out)

    async def _migrations(
        self, objects: Sequence[Obj], changes: Sequence[Installed], crds: Mapping[str, Obj]
    ) -> tuple[StorageMigration, ...]:
        out = []
        for obj, change in zip(objects, changes, strict=True):
            live = crds.get(key_of(obj).name) if key_of(obj).group_kind == CRD else None
            if live is None:
                continue
            if change.change is InstallChange.KEPT and WEBHOOK_MANAGER not in managers_of(live):
                continue  # OpenKruise's
            after = live if change.change is InstallChange.KEPT else obj
            storage = storage_version(after)
            stale = tuple(v for v in stored_versions(live) if v != storage)
            if not stale:
                continue
            kind, ref = defined(after)
            out.append(
                StorageMigration(
                    name=key_of(obj).name, ref=ref, stale=stale, storage=storage,
                    objects=len(await listed(self._transport, defined(live)[1])),
                    blocked=_blocked(kind, stale, storage, live),
                )
            )  # fmt: skip
        return tuple(out)


def stored_versions(crd: Obj) -> tuple[str, ...]:
    """Return the versions that objects of a definition may be stored in."""
    return tuple(get(crd, "status", "storedVersions", default=()))


def _blocked(kind: GroupKind, stale: Sequence[str], storage: str, live: Obj) -> str:
    """Reason against rewriting the objects of a definition: without a conversion the API server
    would drop the fields that moved between the versions."""
    webhook = get(live, "spec", "conversion", "strategy", default="None") == "Webhook"
    if not webhook and any(convertible(kind, version, storage) for version in stale):
        return "gitkruise webhook must convert its objects: gitkruise install --webhooks"
    return ""


def _ordered(objects: Sequence[Obj]) -> tuple[Obj, ...]:
    """Definitions and namespaces first, then rights, then the rest, processes last."""

    def stage(obj: Obj) -> int:
        key = key_of(obj)
        if key.group_kind in {NAMESPACE, CRD}:
            return 0
        return 1 if key.kind in _RBAC else 3 if key.kind in PROCESSES else 2

    return tuple(sorted(objects, key=stage))


def _bridged(obj: Obj, crds: Mapping[str, Obj]) -> Obj:
    """A definition with the versions that it has no more and that objects are stored in.

    An API server refuses to drop those: they go after the migration. Raises ClusterFailed GK4509
    for a version that is newer than ours.
    """
    live = crds.get(key_of(obj).name) if key_of(obj).group_kind == CRD else None
    if live is None:
        return obj
    versions: Sequence[Obj] = obj["spec"]["versions"]
    known = {version["name"] for version in versions}
    stored = stored_versions(live)
    lost = [v for v in live["spec"]["versions"] if v["name"] in stored and v["name"] not in known]
    storage = storage_version(obj)
    for version in lost:
        if version_order(version["name"]) < version_order(storage):
            raise ClusterFailed(_stored_newer(key_of(obj), version["name"], storage))
    if not lost:
        return obj
    kept = [*versions, *({**version, "storage": False} for version in lost)]
    bridged: Obj = put(obj, ("spec", "versions"), kept)
    return bridged


def _version(controller: Obj) -> str:
    """The installed version: a label of the Deployment, otherwise the tag of its image."""
    label = get(controller, "metadata", "labels", VERSION_LABEL)
    return str(label) if label else _reference(controller)[1]


def _reference(controller: Obj) -> tuple[str, str]:
    """Repository and tag of the image; the tag is "" where there is none or a digest."""
    image = str(get(controller, "spec", "template", "spec", "containers", 0, "image", default=""))
    name, _, digest = image.partition("@")
    repository, _, tag = name.rpartition(":")
    if digest or not repository or "/" in tag:
        return name, ""
    return repository, tag


def next_image(controller: Obj | None, installed: str, chosen: str) -> str:
    """Return the image of this version where the installed one came from; "" for that of deploy/.

    Raises UsageProblem GK7074 if its name does not show it.
    """
    if chosen or controller is None:
        return chosen
    repository, tag = _reference(controller)
    if repository == CONTROLLER:
        return ""
    if tag and tag == installed:
        return f"{repository}:{__version__}"
    raise UsageProblem(_unknown_image(key_of(controller), repository + (f":{tag}" if tag else "")))


def _check_order(installed: str, *, allowed: bool) -> None:
    if allowed or not Version.is_valid(installed) or not Version.is_valid(__version__):
        return
    if Version.parse(installed) > Version.parse(__version__):
        raise UsageProblem(_older_program(installed))


# Errors ------------------------------------------------------------------------------------------

_NOTHING: Final = ("unchanged", "everything: nothing was changed")


def _nothing_installed(namespace: str) -> Finding:
    return Finding(
        code="GK7072",
        message=f"gitkruise is not installed: neither Deployment {namespace}/{CONTROLLER}"
        f" nor definitions of {OWN_GROUP} are on the cluster",
        notes=(_NOTHING, ("next", "gitkruise install --dry-run")),
    )


def _kept_by(key: ObjectKey, tool: str, next_: str) -> Finding:
    return Finding(
        code="GK7073",
        message=f"{key} is kept by {tool}",
        notes=(("why", "it would undo the upgrade"), _NOTHING, ("next", next_)),
        object=str(key),
    )


def _unknown_image(key: ObjectKey, image: str) -> Finding:
    return Finding(
        code="GK7074",
        message=f"{key} runs image {image}, whose name does not say that of {__version__}",
        notes=(_NOTHING, ("next", "gitkruise upgrade --image IMAGE")),
        object=str(key),
    )


def _older_program(installed: str) -> Finding:
    return Finding(
        code="GK7075",
        message=f"the cluster has gitkruise {installed}, and this is {__version__}",
        notes=(
            _NOTHING,
            ("next", f"run gitkruise {installed} or newer, or gitkruise upgrade --downgrade"),
        ),
    )


def _stored_newer(key: ObjectKey, version: str, storage: str) -> Finding:
    return Finding(
        code="GK4509",
        message=f"{key}: objects are stored in {version}, and {__version__} knows up to {storage}",
        notes=(_NOTHING, ("next", "run the gitkruise that is installed, or a newer one")),
        object=str(key),
    )
