"""Discovery: which groups, versions and resources are served, in every form clients ask for."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from gitkruise import __version__
from gitkruise.kube.client.codec import encode
from gitkruise.kube.system.package_data import KUBERNETES
from gitkruise.sandbox.http.negotiation import ResponseForm
from gitkruise.sandbox.http.routing import no_such_path, not_found
from gitkruise.wire.catalog.catalog import Catalog, Kind

SUBRESOURCE_VERBS: Final = ("get", "patch", "update")
# Custom kinds are listed by another part of a server, in an order of its own.
_CUSTOM_VERBS: Final = (
    "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One entry of a resource list: a resource (`pods`) or a subresource (`pods/status`).

    `group` and `version` name the body's kind where it is not the group's own; aggregated
    discovery names them for custom kinds, too (`named`).
    """

    path: str
    kind: str
    verbs: tuple[str, ...]
    namespaced: bool
    singular: str = ""
    group: str = ""
    version: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    named: bool = False


_SUBRESOURCES: Final[Mapping[str, tuple[str, str, str, tuple[str, ...]]]] = {
    # subresource: (group, version, kind, verbs); a group of "" and no version is the parent's own
    "scale": ("autoscaling", "v1", "Scale", SUBRESOURCE_VERBS),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "binding": ("", "", "Binding", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "exec": ("", "", "PodExecOptions", ("create", "get")),
    "attach": ("", "", "PodAttachOptions", ("create", "get")),
    "portforward": ("", "", "PodPortForwardOptions", ("create", "get")),
    "proxy": ("", "", "{kind}ProxyOptions", ("create", "delete", "get", "patch", "update")),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
}


def version() -> dict[str, str]:
    """/version, as kubectl and client libraries read it."""
    major, minor = KUBERNETES
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{major}.{minor}.0+gitkruise-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "gitkruise/sandbox",
    }


class Discovery:
    """Discovery documents of a catalog, encoded once a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._pages: dict[tuple[str, tuple[str, ...], ResponseForm], bytes] = {}

    def use(self, catalog: Catalog) -> None:
        """Serve another catalog from now on (a CRD came or went)."""
        if catalog is not self._catalog:
            self._catalog = catalog
            self._pages.clear()

    def page(self, root: str, rest: tuple[str, ...], form: ResponseForm) -> bytes:
        """The page at /api or /apis and below; raises NotFound for an unknown group or version."""
        plain = ResponseForm() if rest else form
        known = self._pages.get((root, rest, plain))
        if known is None:
            known = self._pages[root, rest, plain] = encode(self._page(root, rest, plain))
        return known

    def _page(self, root: str, rest: tuple[str, ...], form: ResponseForm) -> dict[str, Any]:
        if form.shape:
            names = [g for g in self._groups() if (g == "") == (root == "api")]
            return {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"{form.group}/{form.version}",
                "metadata": {},
                "items": [self._aggregated(group) for group in names],
            }
        match root, rest:
            case "api", ():
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case "api", (version,):
                return self._resources("", version)
            case "apis", ():
                groups = [self._group(group) for group in self._groups() if group]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case "apis", (group,) if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case "apis", (group, version):
                return self._resources(group, version)
            case _:
                raise no_such_path()

    def _groups(self) -> dict[str, list[str]]:
        """Groups with their versions, preferred first; those of definitions last, by name."""
        groups: dict[str, list[str]] = {}
        defined: set[str] = set()
        for kind in self._catalog.kinds():
            versions = groups.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
            if kind.crd:
                defined.add(kind.group)
        last = {name: groups.pop(name) for name in sorted(defined)}
        return groups | last

    def _group(self, group: str) -> dict[str, Any]:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self._groups()[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resources(self, group: str, version: str) -> dict[str, Any]:
        if version not in self._groups().get(group, ()):
            builtin = any(k.group == group and not k.crd for k in self._catalog.kinds())
            raise not_found() if builtin else no_such_path()
        name = f"{group}/{version}" if group else version
        entries = [_plain(entry, group, version) for entry in self._served(group, version)]
        return {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if group else {}),  # the oldest list has none
            "groupVersion": name,
            "resources": entries,
        }

    def _served(self, group: str, version: str) -> Iterator[Served]:
        for kind in self._catalog.kinds():
            if (kind.group, kind.version) == (group, version):
                yield from _entries(kind)

    def _aggregated(self, group: str) -> dict[str, Any]:
        meta = {"name": group} if group else {}
        versions = [
            {
                "version": version,
                "resources": list(_tree(self._served(group, version), group, version)),
                "freshness": "Current",
            }
            for version in self._groups()[group]
        ]
        return {"metadata": meta, "versions": versions}


def _entries(kind: Kind) -> Iterator[Served]:
    yield Served(
        path=kind.plural,
        kind=kind.kind,
        verbs=_CUSTOM_VERBS if kind.crd else tuple(sorted(kind.verbs)),
        namespaced=kind.namespaced,
        singular=kind.singular,
        short_names=kind.short_names,
        categories=kind.categories,
        named=kind.crd,
    )
    for name in sorted(kind.subresources, reverse=kind.crd):
        default = ("", "", "", SUBRESOURCE_VERBS)
        group, version, other, verbs = _SUBRESOURCES.get(name, default)
        yield Served(
            path=f"{kind.plural}/{name}",
            kind=other.format(kind=kind.kind) or kind.kind,
            verbs=verbs,
            namespaced=kind.namespaced,
            group=group,
            version=version,
            named=kind.crd,
        )


def _plain(entry: Served, group: str, version: str) -> dict[str, Any]:
    """A meta/v1 APIResource."""
    out: dict[str, Any] = {
        "name": entry.path,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
        "kind": entry.kind,
        "verbs": entry.verbs,
    }
    if entry.version:
        out |= {"group": entry.group, "version": entry.version}
    if entry.short_names:
        out["shortNames"] = list(entry.short_names)
    if entry.categories:
        out["categories"] = list(entry.categories)
    if "/" not in entry.path and "list" in entry.verbs:
        seed = f"{group}/{version}/{entry.kind}".encode()
        out["storageVersionHash"] = b64encode(sha256(seed).digest()[:8]).decode()
    return out


def _tree(entries: Iterable[Served], group: str, version: str) -> Iterator[dict[str, Any]]:
    """apidiscovery resources, with subresources inside their resource."""
    out: dict[str, dict[str, Any]] = {}
    for entry in entries:
        plural, _, sub = entry.path.partition("/")
        kind = {
            "group": entry.group if entry.version or not entry.named else group,
            "version": entry.version or (version if entry.named else ""),
            "kind": entry.kind,
        }
        if sub:
            child = {"subresource": sub, "responseKind": kind, "verbs": entry.verbs}
            out[plural].setdefault("subresources", []).append(child)
            continue
        out[plural] = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if entry.namespaced else "Cluster",
            "singularResource": entry.singular,
            "verbs": entry.verbs,
        }
        if entry.short_names:
            out[plural]["shortNames"] = list(entry.short_names)
        if entry.categories:
            out[plural]["categories"] = list(entry.categories)
    yield from out.values()
