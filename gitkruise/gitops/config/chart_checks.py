"""Checks of a chart that a unit takes from a repository of charts, beyond the schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.config.metric_addresses import host_of, is_service, is_this_machine, unusable
from gitkruise.model.gitops.document import Document
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

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
    yield from _versioned(document, helm["version"])


def _addressed(document: Document, helm: Obj) -> Iterator[Finding]:
    address = address_of(helm["repository"])
    why = unusable(address, secret="secretRef" in helm)
    plain = address.lower().startswith("http:")
    if (
        not why
        and plain
        and not (is_this_machine(host_of(address)) or is_service(host_of(address)))
    ):
        why = "what runs is not read by http, except from this machine or from a Service"
    if not why and "?" in address:
        why = "it has a query"
    if why:
        following = "write https://HOST/PATH or oci://HOST/PATH"
        yield _bad(document, "repository", why, following)


def _versioned(document: Document, text: str) -> Iterator[Finding]:
    from gitkruise.wire.values.semver_range import Range  # noqa: PLC0415  seldom needed

    try:
        Range(text)
    except UsageProblem as error:
        yield replace(error.findings[0], places=(document.place((*_WHERE, "version")),))


def _bad(document: Document, field: str, why: str, following: str) -> Finding:
    return Finding(
        code="GK7003",
        message=f"Unit spec.render.helm.{field}: {why}",
        places=(document.place((*_WHERE, field)),),
        notes=(("next", following),),
    )
