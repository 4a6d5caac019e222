"""A catalog from the discovery documents and OpenAPI of a recorded API server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.catalog.crds import columns_of, scale_of
from gitkruise.wire.catalog.kinds import Kind, ScalePaths
from gitkruise.wire.catalog.kruise_schemas import typed_templates
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.schema.nodes import Components, Node, Raw

LoadDocument = Callable[[str, str], Mapping[str, Raw]]  # (group, version) -> components by name

_BUILTIN_SCALE: Final = ScalePaths(
    replicas=("spec", "replicas"),
    status_replicas=("status", "replicas"),
    selector=("spec", "selector"),
)


def recorded_catalog(
    core: Mapping[str, Any],
    aggregated: Mapping[str, Any],
    crds: Sequence[Mapping[str, Any]],
    served: Iterable[tuple[str, str]],
    load: LoadDocument,
) -> Catalog:
    """The catalog of what was recorded.

    `core` is the APIResourceList of `/api/v1`, `aggregated` the APIGroupDiscoveryList of `/apis`;
    `crds` add printer columns and scale paths; `served` are the group versions with an OpenAPI
    document, which `load` gives (called at most once each, on first use of a schema).
    """
    wanted = frozenset(served)
    documents = _Documents(load)
    definitions = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd for crd in crds}
    preferred: dict[GroupKind, str] = {}
    kinds = []
    for (group, version), resources in ((("", "v1"), _core_resources(core)), *_groups(aggregated)):
        for resource in resources if (group, version) in wanted else ():
            group_kind = GroupKind(group, resource["responseKind"]["kind"])
            stored = preferred.setdefault(group_kind, version)  # the preferred version comes first
            place = _Place(group, version, stored, definitions.get(group_kind))
            kinds.append(_kind(place, resource, documents))
    return Catalog(kinds, documents.core)


class _Documents:
    """OpenAPI documents, read when first needed; every document also sees core/v1's components."""

    __slots__ = ("_components", "_load")

    def __init__(self, load: LoadDocument) -> None:
        self._load = cache(load)
        self._components = cache(lambda gv: Components(lambda name: self.component(gv, name)))

    def component(self, group_version: tuple[str, str], name: str) -> Raw:
        own = self._load(*group_version)
        return own[name] if name in own else self._load("", "v1")[name]

    def components(self, group_version: tuple[str, str]) -> Components:
        return self._components(group_version)

    def name_of(self, group: str, version: str, kind: str) -> str:
        """Name of the component that describes the kind."""
        wanted = {"group": group, "kind": kind, "version": version}
        for name, raw in self._load(group, version).items():
            if raw.get("x-kubernetes-group-version-kind") == [wanted]:
                return name
        raise KeyError(f"{kind} of {group}/{version} is not in its OpenAPI document")

    def core(self, name: str) -> Raw:
        """A component of core/v1."""
        return self._load("", "v1")[name]


def _core_resources(listed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The resources of an APIResourceList in the shape aggregated discovery has them."""
    out: dict[str, dict[str, Any]] = {}
    for raw in listed["resources"]:
        name, _, subresource = raw["name"].partition("/")
        if subresource:
            out[name]["subresources"].append({"subresource": subresource})
            continue
        out[name] = {
            "resource": name,
            "responseKind": {"kind": raw["kind"]},
            "scope": "Namespaced" if raw["namespaced"] else "Cluster",
            "singularResource": raw["singularName"],
            "verbs": raw["verbs"],
            "shortNames": raw.get("shortNames") or (),
            "categories": raw.get("categories") or (),
            "subresources": [],
        }
    return list(out.values())


def _groups(
    aggregated: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, str], Sequence[Mapping[str, Any]]]]:
    for group in aggregated["items"]:
        for version in group["versions"]:
            yield (group["metadata"]["name"], version["version"]), version["resources"]


@dataclass(frozen=True, slots=True)
class _Place:
    """The group, version and plural of a kind, with the CRD that defines it if one was recorded."""

    group: str
    version: str
    storage_version: str
    definition: Mapping[str, Any] | None

    @property
    def crd_version(self) -> Mapping[str, Any]:
        versions = self.definition["spec"]["versions"] if self.definition else ()
        return next((raw for raw in versions if raw["name"] == self.version), {})


def _kind(place: _Place, resource: Mapping[str, Any], documents: _Documents) -> Kind:
    group, version, kind = place.group, place.version, resource["responseKind"]["kind"]
    subresources = frozenset(raw["subresource"] for raw in resource.get("subresources") or ())
    is_crd = group.endswith(".kruise.io")
    builtin = _BUILTIN_SCALE if "scale" in subresources and not is_crd else None
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=resource["resource"],
        singular=resource.get("singularResource") or kind.lower(),
        list_kind=kind + "List",
        namespaced=resource["scope"] == "Namespaced",
        storage_version=place.storage_version,
        short_names=tuple(resource.get("shortNames") or ()),
        categories=tuple(resource.get("categories") or ()),
        verbs=frozenset(resource["verbs"]),
        subresources=subresources,
        columns=columns_of(place.crd_version),
        scale=scale_of(place.crd_version) or builtin,
        crd=is_crd,
        load_schema=cache(lambda: _served_node(documents, group, version, kind)),
        load_strict=cache(lambda: _strict_node(documents, group, version, kind)),
    )


def _served_node(documents: _Documents, group: str, version: str, kind: str) -> Node:
    name = documents.name_of(group, version, kind)
    return documents.components((group, version)).node(name, {})


def _strict_node(documents: _Documents, group: str, version: str, kind: str) -> Node:
    served = _served_node(documents, group, version, kind)
    typed = typed_templates(group, kind, served.raw, documents.core)
    return served if typed is served.raw else Node(typed, documents.components((group, version)))
