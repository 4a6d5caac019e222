"""The data files that travel with gitkruise: schemas, discovery documents, CRDs, examples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.catalog.recorded import recorded_catalog
from gitkruise.wire.primitives.names import OWN_GROUP

_PACKAGE: Final = Path(__file__).parents[2]
KUBERNETES: Final = ("1", "34")  # whose built-in kinds the schemas describe
KRUISE_GROUPS: Final = frozenset({"apps.kruise.io", "policy.kruise.io"})
# Kinds of OpenKruise that a controller or a node agent of ours acts on.
DRIVEN: Final = frozenset(
    {
        "CloneSet",
        "ContainerRecreateRequest",
        "ImageListPullJob",
        "ImagePullJob",
        "NodeImage",
        "PodUnavailableBudget",
        "SidecarSet",
        "StatefulSet",
        "WorkloadSpread",
    }
)


@cache
def data_dir(name: str) -> Path:
    """Folder `name` (schemas, examples-repo, deploy) of the installed package or the checkout.

    Raises FileNotFoundError when neither is there, which means a broken installation.
    """
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"gitkruise was installed without its data folder {name!r}")


def read_json(*parts: str) -> Any:
    """A JSON file below `schemas/`."""
    return json.loads(data_dir("schemas").joinpath(*parts).read_bytes())


def recorded_crds() -> tuple[dict[str, Any], ...]:
    """The CRDs as recorded (OpenKruise's) and authored (gitkruise.io), in order of file names."""
    return tuple(
        json.loads(path.read_bytes())
        for path in sorted((data_dir("schemas") / "crds").glob("*.json"))
    )


def embedded_crds() -> tuple[dict[str, Any], ...]:
    """The CRDs of an embedded cluster: kinds that something acts on."""
    return tuple(
        crd
        for crd in recorded_crds()
        if crd["spec"]["names"]["kind"] in DRIVEN or crd["spec"]["group"] == OWN_GROUP
    )


def only_storage_version(crd: Mapping[str, Any]) -> dict[str, Any]:
    """A CRD that serves its storage version alone.

    Without a conversion webhook an API server would relabel objects of the other versions and
    prune the fields that moved between them.
    """
    versions = [{**v, "served": v["storage"]} for v in crd["spec"]["versions"]]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


@cache
def load_catalog() -> Catalog:
    """Everything the recorded API server serves with a schema, and gitkruise's own kinds.

    OpenAPI documents are read on the first use of one of their schemas.
    """
    crds = recorded_crds()
    catalog = recorded_catalog(
        read_json("discovery", "api__v1.json"),
        read_json("discovery", "aggregated.json"),
        crds,
        _served(),
        _document,
    )
    for crd in crds:
        if crd["spec"]["group"] == OWN_GROUP:
            catalog = catalog.with_crd(crd, tried=True)
    return catalog


@cache
def embedded_catalog() -> Catalog:
    """The kinds of an embedded cluster: no kind of OpenKruise that nothing acts on.

    Applying the definition of such a kind adds it, as on any cluster.
    """
    catalog = load_catalog()
    for kind in catalog.kinds():
        if kind.group in KRUISE_GROUPS and kind.kind not in DRIVEN:
            catalog = catalog.without_crd(f"{kind.plural}.{kind.group}")
    return catalog


def _served() -> list[tuple[str, str]]:
    """Group versions with an OpenAPI document: `apis__apps__v1.json`, `api__v1.json`."""
    names = [path.stem.split("__") for path in (data_dir("schemas") / "openapi").glob("*.json")]
    return [(parts[1] if len(parts) == 3 else "", parts[-1]) for parts in names]


def _document(group: str, version: str) -> dict[str, Any]:
    name = f"apis__{group}__{version}.json" if group else f"api__{version}.json"
    components: dict[str, Any] = read_json("openapi", name)["schemas"]
    return components
