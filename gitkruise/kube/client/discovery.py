"""Discovery of the resources that a cluster serves: the catalog plus its own custom kinds."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from gitkruise.admission.conversion.registry import convertible
from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Finding,
    Forbidden,
    InvalidObject,
    NotFound,
    WatchExpired,
)
from gitkruise.kube.client.transport import Transport
from gitkruise.model.workloads.conditions import find
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, join_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef

CRDS: Final = ResourceRef("apiextensions.k8s.io", "v1", "customresourcedefinitions")
VERSION: Final = ResourceRef("", "", "version")
PAGES_MAX: Final = 200
_GROUPS: Final = ResourceRef("", "", "apis")
_WRITTEN: Final = frozenset({"create", "delete", "get", "list", "patch", "watch"})
_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_FOUND: Final = "discovered"  # mark of a definition that is none of the cluster
log = logging.getLogger(__name__)


async def listed(transport: Transport, ref: ResourceRef, *, namespace: str = "") -> list[Obj]:
    """All objects of a resource. Raises what `send` raises."""
    return [item async for item in each(transport, ref, namespace=namespace)]


async def server_version(transport: Transport) -> str:
    """The version of the API server, as "v1.34.1". Raises ApiError."""
    reply = await transport.send(ApiRequest(verb="get", resource=VERSION))
    return str(reply.body.get("gitVersion", ""))


async def is_served(transport: Transport, ref: ResourceRef) -> bool:
    """Return whether the API server lists a resource, to an account without any right to it.

    A server that does not let this account see its resources may serve it. Raises ApiError.
    """
    page = ResourceRef("", "", ref.root.removeprefix("/"))
    try:
        reply = await transport.send(ApiRequest(verb="get", resource=page))
    except NotFound:
        return False
    except Forbidden:
        return True
    return any(one["name"] == ref.plural for one in reply.body.get("resources") or ())


async def definitions(
    transport: Transport, catalog: Catalog, before: Sequence[Obj] = ()
) -> list[Obj]:
    """Return the CustomResourceDefinitions of a cluster, and one for each other kind that users
    may write and that `catalog` does not have: of an API server behind an APIService, or built
    into Kubernetes. These have no schema.

    What was known `before` of a group stays while its API server does not show it. Raises ApiError.
    """
    crds = await listed(transport, CRDS)
    known = {kind.group for kind in catalog.kinds()} | {crd["spec"]["group"] for crd in crds}
    found: list[Obj] = []
    for group in await _groups(transport):
        if group["name"] in known:
            continue
        try:
            found += await _defined(transport, group)
        except ApiError as error:
            log.info(log_line("api-group-unavailable", group=group["name"], error=error))
            found += [d for d in before if _FOUND in d and d["spec"]["group"] == group["name"]]
    return [*crds, *found]


async def _groups(transport: Transport) -> Sequence[Obj]:
    """Return the API groups of a server; none where it does not show them."""
    try:
        reply = await transport.send(ApiRequest(verb="get", resource=_GROUPS))
    except (NotFound, Forbidden):
        return ()
    return reply.body.get("groups") or ()


async def _defined(transport: Transport, group: Obj) -> list[Obj]:
    """Return the kinds of an API group as definitions; the group's preferred version is stored."""
    first = group["preferredVersion"]["version"]
    versions = dict.fromkeys([first, *(one["version"] for one in group["versions"])])
    served: dict[str, list[tuple[str, Obj]]] = {}
    for version in versions:
        page = ResourceRef("", "", f"apis/{group['name']}/{version}")
        reply = await transport.send(ApiRequest(verb="get", resource=page))
        for one in reply.body.get("resources") or ():
            if "/" not in one["name"] and {*one["verbs"]} >= _WRITTEN:
                served.setdefault(one["name"], []).append((version, one))
    return [_definition(group["name"], plural, found) for plural, found in served.items()]


def _definition(group: str, plural: str, served: Sequence[tuple[str, Obj]]) -> Obj:
    one = served[0][1]
    names = {
        "plural": plural,
        "kind": one["kind"],
        "singular": one.get("singularName") or one["kind"].lower(),
        "shortNames": one.get("shortNames") or [],
    }
    versions = [
        {"name": name, "served": True, "storage": not i, "schema": {"openAPIV3Schema": _ANY}}
        for i, (name, _) in enumerate(served)
    ]
    scope = "Namespaced" if one["namespaced"] else "Cluster"
    return {
        "metadata": {"name": f"{plural}.{group}", "uid": ",".join(name for name, _ in served)},
        "spec": {"group": group, "scope": scope, "names": names, "versions": versions},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
        _FOUND: True,
    }


async def served_catalog(
    transport: Transport, catalog: Catalog, before: Sequence[Obj] = ()
) -> Catalog:
    """`catalog` with exactly the other kinds that the cluster serves; `before` as in
    `definitions`.

    Built-in kinds stay as they are. A definition that cannot be served is reported and left out.
    Versions the cluster does not serve and that we convert to one it serves come last and without
    verbs: manifests may be written in them, requests may not.
    """
    return served_by(catalog, await definitions(transport, catalog, before))


def served_by(catalog: Catalog, crds: Sequence[Obj]) -> Catalog:
    """`served_catalog` of a cluster with these definitions."""
    known = catalog
    present = {crd["metadata"]["name"] for crd in crds}
    for kind in catalog.kinds():
        name = f"{kind.plural}.{kind.group}"
        if kind.crd and name not in present:
            catalog = catalog.without_crd(name)
    for crd in crds:
        try:
            catalog = catalog.with_crd(crd, tried=_established(crd))
        except InvalidObject as error:
            log.warning(log_line("crd-skipped", crd=crd["metadata"]["name"], error=error))
    return Catalog((*catalog.kinds(), *_readable(known, catalog)), catalog.core, crds)


def with_foreign(catalog: Catalog, crds: Iterable[Obj]) -> Catalog:
    """`catalog` with the kinds of those definitions that it has no kind of."""
    known = {f"{kind.plural}.{kind.group}" for kind in catalog.kinds()}
    for crd in crds:
        if crd["metadata"]["name"] not in known:
            with suppress(InvalidObject):
                catalog = catalog.with_crd(crd, tried=_established(crd))
    return catalog


def _established(crd: Obj) -> bool:
    """An API server compiled the schema and serves it: to compile every field again would cost
    5 ms for each definition, and a cluster has hundreds."""
    known = find(get(crd, "status", "conditions", default=()), "Established")
    return known is not None and known.get("status") == "True"


def _readable(known: Catalog, served: Catalog) -> Iterable[Kind]:
    for kind in known.kinds():
        there = served.stored(kind.group_kind)
        if there is None or served.by_kind(kind.group, kind.version, kind.kind) is not None:
            continue
        if convertible(kind.group_kind, kind.version, there.version):
            yield replace(kind, verbs=frozenset())


def require(catalog: Catalog, kinds: Iterable[tuple[GroupKind, str]]) -> tuple[Kind, ...]:
    """The kinds as served, each named by group, kind and version.

    Raises ClusterFailed with one GK4201 finding for each kind the cluster does not know.
    """
    found, missing = [], []
    for (group, name), version in kinds:
        kind = catalog.by_kind(group, version, name)
        if kind is not None:
            found.append(kind)
        else:
            missing.append(_unknown(catalog, GroupKind(group, name), version))
    if missing:
        raise ClusterFailed(*missing)
    return tuple(found)


async def each(
    transport: Transport,
    ref: ResourceRef,
    *,
    namespace: str = "",
    selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[Obj]:
    """The objects of a resource that selectors choose, page by page; all together once the token
    of a page expired. Raises what `send` raises."""
    chosen = {"labelSelector": selector, "fieldSelector": field_selector}
    whole = {name: text for name, text in chosen.items() if text}
    params, seen = {"limit": "500", **whole}, set[tuple[str, str]]()
    for _ in range(PAGES_MAX):
        request = ApiRequest(verb="list", resource=ref, namespace=namespace, params=params)
        try:
            body = (await transport.send(request)).body
        except WatchExpired:
            if "continue" not in params:
                raise
            params = whole
            continue
        for item in body.get("items") or ():
            place = (get(item, "metadata", "namespace", default=""), item["metadata"]["name"])
            if place not in seen:
                seen.add(place)
                yield item
        token = get(body, "metadata", "continue", default="")
        if not token:
            return
        params = {**params, "continue": token}
    raise ClusterFailed(Finding(code="GK4199", message=f"the list of {ref.plural} does not end"))


def _unknown(catalog: Catalog, kind: GroupKind, version: str) -> Finding:
    other = catalog.preferred(kind.group, kind.kind)
    served = f"it serves {other.api_version}" if other else "nothing of that name is installed"
    return Finding(
        code="GK4201",
        message=f"this cluster does not know kind {kind.kind}"
        f" ({join_api_version(kind.group, version)})",
        notes=(
            ("found", served),
            ("unchanged", "nothing was applied"),
            ("next", "gitkruise install --crds --dry-run"),
        ),
    )
