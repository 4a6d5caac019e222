"""OpenAPI v3 of the sandbox: recorded schemas, plus those of CustomResourceDefinitions applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from gitkruise import __version__
from gitkruise.kube.client.codec import encode
from gitkruise.kube.system.package_data import data_dir, read_json
from gitkruise.sandbox.discovery.descriptions import described
from gitkruise.sandbox.http.routing import not_found
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.names import GroupKind, Obj

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
REF: Final = "#/components/schemas/"
CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
GVK: Final = "x-kubernetes-group-version-kind"
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_WRITE_PARAMS: Final = ("dryRun", "fieldManager", "fieldValidation")

Schemas = Mapping[str, Mapping[str, Any]]


class OpenApiV3:
    """Documents by group version (`api/v1`, `apis/apps/v1`), made when asked for.

    `crds` gives the CustomResourceDefinitions as they are now.
    """

    def __init__(self, catalog: Catalog, crds: Callable[[], Sequence[Obj]]) -> None:
        self._catalog = catalog
        self._crds = crds
        self._documents: dict[str, bytes] = {}

    def use(self, catalog: Catalog) -> None:
        """Serve another catalog from now on (a CRD came or went)."""
        if catalog is not self._catalog:
            self._catalog = catalog
            self._documents.clear()

    def document(self, path: str) -> bytes:
        """The index (path "") or the document of one group version; raises NotFound."""
        known = self._documents.get(path)
        if known is None:
            made = self._index() if not path else self._document(path)
            known = self._documents[path] = encode(made)
        return known

    def group_versions(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((k.group, k.version) for k in self._catalog.kinds()))

    def schemas(self, group: str, version: str) -> Schemas:
        """Every schema of a group version by its component name."""
        out: dict[str, Mapping[str, Any]] = dict(_recorded(group, version))
        described = {
            (entry["group"], entry["version"], entry["kind"])
            for schema in out.values()
            for entry in schema.get(GVK) or ()
        }
        for kind, crd in self._applied(group, version):
            if (group, version, kind.kind) not in described:
                out |= _of_crd(kind, crd)
        return out

    def kinds(self, group: str, version: str) -> list[Kind]:
        return [k for k in self._catalog.kinds() if (k.group, k.version) == (group, version)]

    def _applied(self, group: str, version: str) -> Iterator[tuple[Kind, Obj]]:
        crds = {crd["metadata"]["name"]: crd for crd in self._crds()}
        for kind in self.kinds(group, version):
            crd = crds.get(f"{kind.plural}.{kind.group}")
            if crd is not None:
                yield kind, crd

    def _index(self) -> dict[str, Any]:
        paths = {}
        for group, version in self.group_versions():
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            tag = sha256(self.document(path)).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={tag}"}
        return {"paths": paths}

    def _document(self, path: str) -> dict[str, Any]:
        match path.split("/"):
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                raise not_found()
        kinds = self.kinds(group, version)
        if not kinds:
            raise not_found()
        return {
            "openapi": "3.0.0",
            "info": {"title": "gitkruise sandbox", "version": f"v{__version__}"},
            "paths": {url: item for kind in kinds for url, item in paths_of(kind)},
            "components": {"schemas": described(self.schemas(group, version))},
        }


@lru_cache(maxsize=64)
def _recorded(group: str, version: str) -> Schemas:
    name = f"apis__{group}__{version}.json" if group else f"api__{version}.json"
    if not (data_dir("schemas") / "openapi" / name).is_file():
        return {}
    schemas: Schemas = read_json("openapi", name)["schemas"]
    return schemas


def _of_crd(kind: Kind, crd: Obj) -> dict[str, Mapping[str, Any]]:
    """A CRD's schema as a component, with the metadata schemas it refers to."""
    version = next(v for v in crd["spec"]["versions"] if v["name"] == kind.version)
    raw = version["schema"]["openAPIV3Schema"]
    name = ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
    properties = {
        **(raw.get("properties") or {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": REF + META + "ObjectMeta"}], "default": {}},
    }
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    meta = {key: schema for key, schema in _recorded("", "v1").items() if key.startswith(META)}
    return {**meta, name: {**raw, "properties": properties, GVK: [gvk]}}


def paths_of(kind: Kind) -> Iterator[tuple[str, dict[str, Any]]]:
    """The paths of a kind with what kubectl reads in them: kinds, verbs, query parameters."""
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    space = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{kind.ref.root}{space}/{kind.plural}"
    ok = {"responses": {"200": {"description": "OK"}}, GVK: gvk}
    body = {"type": "object"}
    write = {
        **ok,
        "parameters": [_query(name) for name in _WRITE_PARAMS],
        "requestBody": {"content": {"application/json": {"schema": body}}},
    }
    patch = {
        **ok,
        "parameters": [_query(name) for name in (*_WRITE_PARAMS, "force")],
        "requestBody": {"content": {name: {"schema": body} for name in patch_types(kind)}},
    }
    read = {**ok, "parameters": []}
    remove = {**ok, "parameters": [_query("dryRun")]}
    yield (
        collection,
        {
            "get": {**read, "x-kubernetes-action": "list"},
            "post": {**write, "x-kubernetes-action": "post"},
        },
    )
    yield (
        collection + "/{name}",
        {
            "get": {**read, "x-kubernetes-action": "get"},
            "put": {**write, "x-kubernetes-action": "put"},
            "patch": {**patch, "x-kubernetes-action": "patch"},
            "delete": {**remove, "x-kubernetes-action": "delete"},
        },
    )


def patch_types(kind: Kind) -> tuple[str, ...]:
    """Strategic merge patches exist for built-in kinds only; kubectl chooses by this list."""
    return tuple(name for name in _PATCH_TYPES if not (kind.crd and "strategic" in name))


def _query(name: str) -> dict[str, Any]:
    kind = "boolean" if name == "force" else "string"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
