"""Checks of a chart that a unit takes from a repository of charts, beyond the schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.config.metric_addresses import host_of, is_service, is_this_machine, unusable
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.images import repository as repository_of

OCI: Final = "oci://"
_FIELDS: Final = ("repository", "chart", "version")
_WHERE: Final = ("spec", "render", "helm")


def address_of(repository: str) -> str:
    """Return the http address of a repository of charts. A registry is asked by https, except on
    the own machine."""
    if not repository.lower().startswith(OCI):
        return repository
    rest = repository[len(OCI) :]
    return f"{'http' if is_this_machine(host_of(f'https://{rest}')) else 'https'}://{rest}"


def registry_address(repository: str) -> str:
    """Return the http address of an image: its registry, and the path there."""
    host, _, path = repository_of(repository).partition("/")
    return address_of(f"{OCI}{'registry-1.docker.io' if host == 'docker.io' else host}/{path}")


def address_problem(address: str, *, secret: bool) -> str:
    """Return why an address may not be one of a registry or of a repository of charts, or "";
    `secret` for one that gets credentials."""
    why = unusable(address, secret=secret)
    host = host_of(address)
    plain = address.lower().startswith("http:")
    if not why and plain and not (is_this_machine(host) or is_service(host)):
        why = "what runs is not read by http, except from this machine or from a Service"
    return why or ("it has a query" if "?" in address else "")


def chart_findings(document: Document) -> Iterator[Finding]:
    """GK7003 and GK7022 for a chart that cannot be fetched as it is written."""
    helm = get(document.obj, *_WHERE, default={})
    missing = [name for name in _FIELDS if name not in helm]
    if len(missing) == len(_FIELDS):
        if "secretRef" in helm:
            yield _bad(document, "secretRef", "there is no repository", "write repository")
        return
    if missing:
        found = next(name for name in _FIELDS if name in helm)
        yield _bad(document, found, f"{missing[0]} is missing", f"write {' and '.join(missing)}")
        return
    yield from _addressed(document, helm)
    if get(document.obj, "spec", "path", default=".") != ".":
        yield Finding(
            code="GK7003",
            message="Unit spec.path: the chart of a repository has no path",
            places=(document.place(("spec", "path")),),
            notes=(("next", "take path out, or render.helm.repository"),),
        )
    yield from range_findings(document, helm["version"], (*_WHERE, "version"))


def _addressed(document: Document, helm: Obj) -> Iterator[Finding]:
    why = address_problem(address_of(helm["repository"]), secret="secretRef" in helm)
    if why:
        following = "write https://HOST/PATH or oci://HOST/PATH"
        yield _bad(document, "repository", why, following)


def range_findings(document: Document, text: str, path: FieldPath) -> Iterator[Finding]:
    """GK7022 for a text that is no range of versions."""
    from gitkruise.wire.values.semver_range import Range  # noqa: PLC0415  seldom needed

    try:
        Range(text)
    except UsageProblem as error:
        yield replace(error.findings[0], places=(document.place(path),))


def _bad(document: Document, field: str, why: str, following: str) -> Finding:
    return Finding(
        code="GK7003",
        message=f"Unit spec.render.helm.{field}: {why}",
        places=(document.place((*_WHERE, field)),),
        notes=(("next", following),),
    )
