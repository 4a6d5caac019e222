"""Installation on a cluster: server-side apply of the objects of deploy/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml

from gitkruise.errors import (
    ApplyConflict,
    ClusterFailed,
    Finding,
    InvalidManifests,
    TimedOut,
)
from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.install.definitions import Relabelled, relabelled
from gitkruise.gitops.install.shards import sets_replicas, with_shards
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.package_data import KRUISE_GROUPS, data_dir
from gitkruise.model.gitops.change import FieldChange
from gitkruise.planner.sync.annotations import MANAGER as APPLIER
from gitkruise.planner.sync.annotations import UNIT_REF, annotation
from gitkruise.planner.sync.diff import all_differences
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.primitives.paths import drop, get, put
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef, apply_request

MANAGER: Final = "gitkruise-install"
WEBHOOK_MANAGER: Final = "gitkruise-webhook"
HOME: Final = "gitkruise-system"  # the namespace deploy/ is written for
CONTROLLER: Final = "gitkruise"
_FILE: Final = ("--config", "/etc/gitkruise")
CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
ESTABLISHED_WITHIN_S: Final = 30.0
_BY_CHOICE: Final = ("webhook", "bootstrap", "agent", "monitoring")  # folders of deploy/
_CONFIG: Final = GroupKind("", "ConfigMap")
NAMESPACE: Final = GroupKind("", "Namespace")
_NOT_SHOWN: Final = (
    ("metadata", "managedFields"), ("metadata", "resourceVersion"), ("metadata", "generation"),
    ("metadata", "uid"), ("metadata", "creationTimestamp"), ("status",),
)  # fmt: skip


class InstallChange(StrEnum):
    """Change of one object, made or planned."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    KEPT = "left alone"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One object after it was sent. `changes` are its fields that differ; `why` says why it was
    kept or removed."""

    key: ObjectKey
    change: InstallChange
    changes: tuple[FieldChange, ...] = ()
    why: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """Paths of the fields that differ."""
        return tuple(".".join(map(str, change.path)) for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """`take_over` also overwrites OpenKruise's CRDs and fields that others own; `webhooks` adds
    admission and conversion; `kept_in_git` leaves out the configuration in a ConfigMap, and adds
    the account by which the controller keeps itself as git says. `shards` spreads units over so
    many replicas. `command` is that of the user."""

    crds_only: bool = False
    webhooks: bool = False
    kept_in_git: bool = False
    namespace: str = HOME
    image: str = ""
    shards: int = 1
    dry_run: bool = False
    take_over: bool = False
    command: str = "install"


def manifests(options: InstallOptions) -> tuple[Obj, ...]:
    """The objects of deploy/ in the order they are applied, in the namespace that is wished for.

    Raises FileNotFoundError or InvalidManifests when the installation is damaged.
    """
    folder = data_dir("deploy")
    more = {"webhook": options.webhooks, "bootstrap": options.kept_in_git}
    folders = (folder, *(folder / name for name, wanted in more.items() if wanted))
    objects = tuple(obj for one in folders for obj in _kustomization(one))
    if options.crds_only:
        return tuple(obj for obj in objects if key_of(obj).group_kind == CRD)
    if options.kept_in_git:
        objects = tuple(_without_file(o) for o in objects if key_of(o).group_kind != _CONFIG)
    moved = (with_shards(_moved(obj, options.namespace), options.shards) for obj in objects)
    return tuple(_with_image(obj, options.image) for obj in moved)


def roles(shards: int = 1) -> Iterator[Obj]:
    """The roles of deploy/ for a number of shards.

    Definitions of kinds, most of the text there, are not read.

    Raises FileNotFoundError or InvalidManifests when the installation is damaged.
    """
    objects = _kustomization(data_dir("deploy"), leave_out=("crds/",))
    found = (obj for obj in objects if obj["kind"] in {"Role", "ClusterRole"})
    return (with_shards(obj, shards) for obj in found)


def every_object(namespace: str) -> tuple[Obj, ...]:
    """Everything that deploy/ can bring into a cluster: `install` and `bootstrap` with each flag,
    and what kubectl applies by hand, the agent and the monitoring.

    Raises FileNotFoundError or InvalidManifests when the installation is damaged.
    """
    folder = data_dir("deploy")
    folders = (folder, *(folder / name for name in _BY_CHOICE))
    objects = [obj for one in folders for obj in (*_kustomization(one), *_generated(one))]
    objects += _read(folder / "agent" / "pull-secrets.yaml")
    return tuple(_moved(obj, namespace) for obj in objects)


def optional_objects(folder: str, namespace: str) -> tuple[Obj, ...]:
    """The objects of one folder of deploy/ that is installed by choice, as its kustomization lists
    them.

    Raises FileNotFoundError or InvalidManifests when the installation is damaged.
    """
    return tuple(_moved(obj, namespace) for obj in _kustomization(data_dir("deploy") / folder))


def defines_kruise(key: ObjectKey) -> bool:
    """Return whether an object is the definition of a kind of OpenKruise."""
    return key.group_kind == CRD and key.name.partition(".")[2] in KRUISE_GROUPS


class _Readable(yaml.CSafeDumper):
    """Writes a text of several lines as a block. libyaml's, because CRDs are long."""


def _as_block(dumper: _Readable, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)


_Readable.add_representer(str, _as_block)


def manifest_text(objects: Iterable[Obj]) -> str:
    """Multi-document YAML."""
    plain = [dict(obj) for obj in objects]
    text: str = yaml.dump_all(
        plain, None, _Readable, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def _without_file(obj: Obj) -> Obj:
    """The controller without its ConfigMap: objects of the cluster say what to follow."""
    if obj["kind"] != "Deployment" or get(obj, "metadata", "name") != CONTROLLER:
        return obj
    pod, first = ("spec", "template", "spec"), ("spec", "template", "spec", "containers", 0)
    args = [word for word in get(obj, *first, "args") if word not in _FILE]
    obj = put(obj, (*first, "args"), args)
    for path in ((*first, "volumeMounts"), (*pod, "volumes")):
        obj = put(obj, path, [one for one in get(obj, *path) if one["name"] != "config"])
    return obj


def _kustomization(folder: Path, leave_out: tuple[str, ...] = ()) -> Iterator[Obj]:
    """Objects of a kustomization, apart from those of some folders."""
    (index,) = _read(folder / "kustomization.yaml")
    for name in index["resources"]:
        if not name.startswith(leave_out):
            yield from _read(folder / name)


def _generated(folder: Path) -> Iterator[Obj]:
    """The ConfigMaps that a kustomization makes out of files, without their data."""
    (index,) = _read(folder / "kustomization.yaml")
    for made in index.get("configMapGenerator") or ():
        labels = get(made, "options", "labels", default={})
        meta = {"name": made["name"], "namespace": made["namespace"], "labels": labels}
        yield {"apiVersion": "v1", "kind": _CONFIG.kind, "metadata": meta, "data": {}}


def _read(path: Path) -> Iterator[Obj]:
    parsed = parse_file(path.read_bytes(), str(path))
    if not parsed.ok:
        raise InvalidManifests(*parsed.findings)
    yield from (document.obj for document in parsed.documents)


def _moved(obj: Obj, namespace: str) -> Obj:
    """`obj` with the namespace it is written for replaced, wherever it is named."""
    if obj["kind"] == NAMESPACE.kind and get(obj, "metadata", "name") == HOME:
        obj = put(obj, ("metadata", "name"), namespace)
    if get(obj, "metadata", "namespace") == HOME:
        obj = put(obj, ("metadata", "namespace"), namespace)
    for at, subject in enumerate(obj.get("subjects") or ()):
        if subject.get("namespace") == HOME:
            obj = put(obj, ("subjects", at, "namespace"), namespace)
    if obj["kind"] == "Deployment":
        path = ("spec", "template", "spec", "containers", 0, "args")
        obj = put(obj, path, [namespace if word == HOME else word for word in get(obj, *path)])
    if obj["kind"] == _CONFIG.kind:
        texts = {k: text.replace(HOME, namespace) for k, text in obj["data"].items()}
        obj = put(obj, ("data",), texts)
    return obj


def _with_image(obj: Obj, image: str) -> Obj:
    if not image or obj["kind"] != "Deployment":
        return obj
    changed: Obj = put(obj, ("spec", "template", "spec", "containers", 0, "image"), image)
    return changed


class Installer:
    """Applies manifests to one cluster, one after the other."""

    def __init__(
        self, transport: Transport, catalog: Catalog, clock: Clock, options: InstallOptions
    ) -> None:
        self._transport, self._catalog, self._clock = transport, catalog, clock
        self._options = options
        self._coming: set[str] = set()  # namespaces that a dry run only pretends to make

    async def install(self, objects: Sequence[Obj]) -> list[Installed]:
        """Apply all, wait for CRDs to be served. Raises ApiError, ClusterFailed, TimedOut; before
        the first write UsageProblem GK4512."""
        stored = await self._relabelled(objects) if self._options.take_over else []
        done = [await self._one(obj) for obj in objects]
        if not self._options.dry_run:
            for item in done:
                if item.key.group_kind == CRD:
                    await self._established(item.key.name)
            for one in stored:
                await one.write(self._transport, MANAGER)
        return done

    async def _relabelled(self, objects: Sequence[Obj]) -> list[Relabelled]:
        found: list[Relabelled] = []
        for obj in objects:
            key = key_of(obj)
            if key.group_kind == CRD and (live := await self._get(self._ref(obj), key)) is not None:
                found += await relabelled(self._transport, self._clock, live, obj)
        return found

    async def _one(self, obj: Obj) -> Installed:
        key, ref = key_of(obj), self._ref(obj)
        live = await self._get(ref, key)
        why = self._not_ours(key, live)
        if why:
            return Installed(key=key, change=InstallChange.KEPT, why=why)
        if live is None and key.namespace in self._coming:
            return Installed(key=key, change=InstallChange.CREATED)
        reply = await self._apply(ref, key, obj)
        if live is None:
            if key.group_kind == NAMESPACE and self._options.dry_run:
                self._coming.add(key.name)
            return Installed(key=key, change=InstallChange.CREATED)
        changes = _differences(live, reply)
        change = InstallChange.CONFIGURED if changes else InstallChange.UNCHANGED
        return Installed(key=key, change=change, changes=changes)

    def _not_ours(self, key: ObjectKey, live: Obj | None) -> str:
        if live is None or self._options.take_over:
            return ""
        if key.group_kind == _CONFIG:
            return "it is yours to edit"
        owners = managers_of(live)
        if key.group_kind == CRD and WEBHOOK_MANAGER in owners:
            return "gitkruise webhook serves all its versions"
        if defines_kruise(key) and MANAGER not in owners:
            return provider_of(live)
        return ""

    async def _get(self, ref: ResourceRef, key: ObjectKey) -> Obj | None:
        return await find_object(self._transport, ref, key.name, key.namespace)

    async def _apply(self, ref: ResourceRef, key: ObjectKey, obj: Obj) -> Obj:
        request = apply_request(
            ref,
            obj,
            MANAGER,
            namespace=key.namespace,
            force=self._options.take_over,
            dry_run=self._options.dry_run,
        )
        try:
            return (await self._transport.send(request)).body
        except ApplyConflict as error:
            if not sets_replicas(key, error, self._options.shards):
                raise ClusterFailed(_conflict(key, error, self._options.command)) from error
        forced = replace(request, params={**request.params, "force": "true"})
        return (await self._transport.send(forced)).body

    async def _established(self, name: str) -> None:
        request = ApiRequest(verb="get", resource=CRDS, name=name)
        deadline = self._clock.monotonic() + ESTABLISHED_WITHIN_S
        while True:
            conditions = _conditions((await self._transport.send(request)).body)
            if conditions.get("Established") == "True":
                return
            if self._clock.monotonic() > deadline:
                raise TimedOut(_not_established(name, conditions))
            await self._clock.sleep(0.1)

    def _ref(self, obj: Obj) -> ResourceRef:
        group, version = split_api_version(obj["apiVersion"])
        kind = self._catalog.by_kind(group, version, obj["kind"])
        assert kind is not None, f"deploy/ names only kinds we know: {obj['kind']}"
        return kind.ref


def _differences(live: Obj, after: Obj) -> tuple[FieldChange, ...]:
    for path in _NOT_SHOWN:
        live, after = drop(live, path), drop(after, path)
    return all_differences(live, after, None)


def managers_of(obj: Obj) -> set[str]:
    """Field managers of an object, apart from those of its subresources."""
    entries: Sequence[Mapping[str, Any]] = get(obj, "metadata", "managedFields", default=())
    return {str(e.get("manager")) for e in entries if not e.get("subresource")} or {"no one"}


def provider_of(definition: Obj) -> str:
    """Return who brought a definition of OpenKruise that `install` did not apply."""
    owners = managers_of(definition)
    if unit := annotation(definition, UNIT_REF):
        return f"unit {unit} applies it from git"
    if owners == {APPLIER}:
        return "the embedded cluster brings it"
    return f"it belongs to OpenKruise (applied by {', '.join(sorted(owners))})"


def _conditions(crd: Obj) -> dict[str, str]:
    return {c["type"]: c["status"] for c in get(crd, "status", "conditions", default=())}


def _conflict(key: ObjectKey, error: ApplyConflict, command: str) -> Finding:
    fields = ", ".join(c.field for c in error.details.causes[:5])
    return Finding(
        code="GK4501",
        message=f"{key}: others own {fields}",
        notes=(
            ("", error.message),
            ("unchanged", f"the live {key} and everything after it in deploy/"),
            ("next", f"gitkruise {command} --take-over --dry-run"),
        ),
        object=str(key),
    )


def _not_established(name: str, conditions: Mapping[str, str]) -> Finding:
    seen = ", ".join(f"{k}={v}" for k, v in sorted(conditions.items())) or "no conditions"
    return Finding(
        code="GK4502",
        message=f"the cluster does not begin to serve {name}",
        notes=(("seen", seen), ("next", f"kubectl describe crd {name}")),
    )
