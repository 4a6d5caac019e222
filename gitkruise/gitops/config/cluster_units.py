"""Configuration that is objects of a cluster, for commands about one repository."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from gitkruise.errors import Finding, Forbidden, NotFound, UsageProblem
from gitkruise.git.plumbing.refs import hide_password, repository_place
from gitkruise.gitops.config.dependency_checks import missing_for
from gitkruise.gitops.config.loader import check_document, declared
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.config import SPECS, Config, Unit
from gitkruise.model.gitops.document import Document
from gitkruise.printable import listing
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind
from gitkruise.wire.primitives.requests import ApiRequest

_SHOWN: Final = 8


async def cluster_config(
    transport: Transport, catalog: Catalog, addresses: Collection[str], cluster: str
) -> Config | None:
    """The Units of a cluster that follow the repository at one of `addresses`.

    None where the cluster has no Unit. Broken objects are left aside, as the controller does.
    Raises UsageProblem GK7049 when no Unit follows the repository, and ApiError.
    """
    found: dict[str, dict[str, Any]] = {kind: {} for kind in SPECS}
    broken: dict[str, str] = {}
    for kind in SPECS:
        for obj in await _listed(transport, catalog, kind, cluster):
            name = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
            document = Document(obj=obj, file=f"{kind} {name}")
            problem = next(check_document(document), None)
            if problem is None:
                found[kind][name] = declared(document, obj)
            elif kind == "Unit":
                broken[name] = f"broken: {problem.code}"
    config = Config(found["GitSource"], found["Unit"], found["Sink"], found["Receiver"])
    here = {repository_place(address) for address in addresses} - {None}
    mine: dict[str, Unit] = {}
    others: dict[str, str] = {}
    for name, unit in config.units.items():
        missing = next(missing_for(unit, config), None)
        url = "" if missing else config.source_of(unit).spec.url
        if missing is not None:
            broken[name] = f"broken: {missing.code}"
        elif repository_place(url) in here:
            mine[name] = unit
        else:
            others[name] = hide_password(url)
    if not mine and (others or broken):
        raise _elsewhere({**others, **broken}, cluster)
    return Config(config.sources, mine, config.sinks, config.receivers) if mine else None


def units_among(documents: Iterable[Document], addresses: Collection[str]) -> Config | None:
    """The Units among manifests of a repository that follow the repository itself.

    None without one. Broken documents are left aside. Raises UsageProblem GK7049 for a unit that is
    declared more than once, as for several clusters.
    """
    found: dict[str, dict[str, Any]] = {kind: {} for kind in SPECS}
    twice: dict[str, str] = {}
    for document in documents:
        if next(check_document(document), None) is not None:
            continue
        kind, one = document.obj["kind"], declared(document, document.obj)
        name = f"{one.namespace}/{one.name}"
        if name in found[kind]:
            twice[name] = f"{found[kind][name].origin}, {document}" if kind == "Unit" else ""
        found[kind][name] = one
    config = Config(found["GitSource"], found["Unit"], found["Sink"], found["Receiver"])
    here = {repository_place(address) for address in addresses} - {None}
    mine = {
        name: unit
        for name, unit in config.units.items()
        if next(missing_for(unit, config), None) is None
        and repository_place(config.source_of(unit).spec.url) in here
    }
    for name in sorted(mine.keys() & {name for name, places in twice.items() if places}):
        message = f"unit {name} of this repository is declared more than once"
        raise _no_units(message, ("there are", twice[name]))
    return Config(config.sources, mine, config.sinks, config.receivers) if mine else None


async def _listed(
    transport: Transport, catalog: Catalog, kind: str, cluster: str
) -> list[dict[str, Any]]:
    stored = catalog.stored(GroupKind(OWN_GROUP, kind))
    assert stored is not None
    try:
        body = (await transport.send(ApiRequest(verb="list", resource=stored.ref))).body
    except NotFound:
        return []  # the cluster does not serve our kinds
    except Forbidden as error:
        raise _forbidden(kind, cluster, error) from error
    marks = {"apiVersion": stored.api_version, "kind": kind}
    return [{**marks, **thaw(item)} for item in body.get("items") or ()]


def _elsewhere(units: Mapping[str, str], cluster: str) -> UsageProblem:
    rows = [f"{name} ({why})" for name, why in units.items()]
    return _no_units(
        f"no unit of cluster {cluster} follows this repository",
        ("there are", listing(rows, _SHOWN)),
        ("why", "no remote of this repository has the address of a unit's source"),
    )


def _forbidden(kind: str, cluster: str, error: Forbidden) -> UsageProblem:
    message = f"the units of cluster {cluster} are unknown: reading each {kind} is not allowed"
    return _no_units(message, ("why", error.message))


def _no_units(message: str, *notes: tuple[str, str]) -> UsageProblem:
    unchanged = ("unchanged", "nothing was read or written further")
    what = "name a file with its units, --config FILE, or the cluster that has them, --context NAME"
    next_ = ("next", what)
    return UsageProblem(Finding(code="GK7049", message=message, notes=(*notes, unchanged, next_)))
