"""Checks of what units and sources have fetched, beyond the schema: charts, remote bases,
artifacts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gitkruise.errors import Finding, SourceFailed, UsageProblem
from gitkruise.git.plumbing.refs import parse_url
from gitkruise.gitops.config.metric_addresses import host_of, is_service, is_this_machine, unusable
from gitkruise.model.gitops.config import OCI
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.images import repository as repository_of

_ARTIFACT: Final = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_FIELDS: Final = ("repository", "chart", "version")
_WHERE: Final = ("spec", "render", "helm")
BASES: Final = ("spec", "render", "kustomize", "remoteBases")
_OF_BASES: Final = frozenset({"https", "file"})
_OF_PRIVATE_BASES: Final = frozenset({"https", "ssh"})  # ssh needs the known_hosts of a Secret


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


def base_findings(document: Document) -> Iterator[Finding]:
    """GK7003 for remote bases that are not fetched as they are written."""
    render = get(document.obj, "spec", "render", default={})
    if "kustomize" in render and render.get("kind", "auto") not in {"auto", "kustomize"}:
        yield Finding(
            code="GK7003",
            message="Unit spec.render.kustomize: only kinds auto and kustomize have bases",
            places=(document.place(("spec", "render", "kustomize"), key=True),),
            notes=(("next", "take render.kustomize out, or write render.kind: kustomize"),),
        )
    for number, base in enumerate(get(document.obj, *BASES, default=())):
        why = _unfetched(base["url"], secret="secretRef" in base)
        if why:
            yield Finding(
                code="GK7003",
                message=f"Unit {'.'.join(BASES)}.{number}.url: {why}",
                places=(document.place((*BASES, number, "url")),),
                notes=(
                    ("next", "write https://HOST/PATH, or ssh://USER@HOST/PATH with a secretRef"),
                ),
            )


def _unfetched(url: str, *, secret: bool) -> str:
    """Return why a repository of bases is not fetched, or ""; `secret` for one with a Secret."""
    try:
        remote = parse_url(url, protocols=_OF_PRIVATE_BASES if secret else _OF_BASES)
    except SourceFailed as error:
        return error.findings[0].message
    relative = remote.path is not None and not remote.path.is_absolute()
    return f"{shown(url)} is relative" if relative else ""


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


# Fields of a GitSource that only one of both has, and the reason.
_OF_GIT: Final = (
    (("ref", "branch"), "a registry has no branches", "write ref.tag, ref.semver or ref.digest"),
    (("ref", "name"), "a registry has no refs", "write ref.tag, ref.semver or ref.digest"),
    (("ref", "commit"), "a registry has no commits", "write ref.digest"),
    (("allowForcePush",), "a tag of a registry is free to move", "take it out"),
)
_OF_REGISTRIES: Final = (
    (("ref", "digest"), "git has no digests", "write ref.commit"),
    (("ref", "semverFilter"), "it is for tags of registries", "write ref.semver alone"),
    (("verify", "provider"), "it is for artifacts of registries", "write verify.mode"),
    (("verify", "matchOIDCIdentity"), "it is for artifacts of registries", "write secretRef"),
    (("layerSelector",), "git has no layers", "take it out"),
)
_VERIFY: Final = ("spec", "verify")
_IDENTITIES: Final = "matchOIDCIdentity"
_SIGNERS: Final = f"verify.{_IDENTITIES}: [{{issuer: PATTERN, subject: PATTERN}}]"


def artifact_findings(document: Document) -> Iterator[Finding]:
    """GK7003 and GK7023 for a source with fields of the other kind: of git, of registries."""
    spec = document.obj["spec"]
    is_artifact = spec["url"].startswith(OCI)
    for path, why, following in _OF_GIT if is_artifact else _OF_REGISTRIES:
        if get(spec, *path, default="") not in ("", False):  # an empty mapping is there, too
            yield _unfit(document, path, why, following)
    if is_artifact:
        yield from _misnamed(document, spec)
        if get(spec, "layerSelector", "operation") == "copy" and spec.get("ignore"):
            why = "layerSelector.operation copy takes every file of the layer"
            yield _unfit(document, ("ignore",), why, "take one of both out")
        yield from _unverifiable(document, spec.get("verify"))


def _misnamed(document: Document, spec: Obj) -> Iterator[Finding]:
    address = address_of(spec["url"])
    host, _, path = spec["url"][len(OCI) :].partition("/")
    why = unusable(address, secret="secretRef" in spec)
    if not why and not _ARTIFACT.fullmatch(path):
        why = f"{shown(path)} is not the name of a repository of {shown(host)}"
    if why:
        following = "write oci://HOST/NAME, and the tag in ref.tag or the digest in ref.digest"
        yield _unfit(document, ("url",), why, following)
    ref = spec.get("ref") or {}
    if not _DIGEST.fullmatch(ref.get("digest") or f"sha256:{'0' * 64}"):
        yield _unfit(document, ("ref", "digest"), "it is no digest", "write sha256:HEX")
    if not _TAG.fullmatch(ref.get("tag") or "latest"):
        yield _unfit(document, ("ref", "tag"), "a registry has no such tag", "correct it")
    if pattern := ref.get("semverFilter"):
        yield from _bad_pattern(document, ("ref", "semverFilter"), pattern)
        if not ref.get("semver"):
            why = "it chooses among the tags for a range, and there is none"
            yield _unfit(document, ("ref", "semverFilter"), why, "write ref.semver")


def _bad_pattern(document: Document, path: FieldPath, pattern: str) -> Iterator[Finding]:
    from gitkruise.wire.schema.patterns import BadPattern, compile_pattern  # noqa: PLC0415  seldom

    try:
        compile_pattern(pattern)
    except BadPattern as error:
        yield _unfit(document, path, f"it is no regular expression: {error}", "correct it")


def _unverifiable(document: Document, verify: Obj | None) -> Iterator[Finding]:
    if verify is None:
        return
    if not verify.get("provider"):
        why = "commits are not signed in a registry, artifacts are"
        keys = "write verify: {provider: cosign, secretRef}"
        yield _unfit(document, ("verify",), why, f"{keys}, or {_IDENTITIES} for keyless signatures")
    elif verify.get("mode", "head") != "head":
        why = "it is for signatures of git"
        yield _unfit(document, ("verify", "mode"), why, "take it out")
    yield from _untrusting(document, verify)
    for number, identity in enumerate(verify.get(_IDENTITIES, ())):
        for field, pattern in identity.items():
            yield from _bad_pattern(document, ("verify", _IDENTITIES, number, field), pattern)


def _untrusting(document: Document, verify: Obj) -> Iterator[Finding]:
    """GK7023 for no signers, or for keys and identities; GK7003 for a root without identities."""
    keys, identities = bool(verify.get("secretRef")), verify.get(_IDENTITIES)
    field = (*_VERIFY, _IDENTITIES)
    if identities is None and not keys:
        following = f"name the Secret with the keys in verify.secretRef, or write {_SIGNERS}"
        message = "verify names no keys and no identities to trust"
        yield _untrusted(document, _VERIFY, message, following)
    elif identities is not None and keys:
        message = "verify names keys and identities, and an artifact is verified by one of both"
        yield _untrusted(document, field, message, f"take out secretRef or {_IDENTITIES}")
    elif identities == []:
        message = f"verify.{_IDENTITIES} is empty, and a certificate is issued to everybody"
        yield _untrusted(document, field, message, f"write {_SIGNERS}")
    if "trustedRootSecretRef" in verify and not identities:
        path = ("verify", "trustedRootSecretRef")
        yield _unfit(document, path, "it is for keyless signatures", f"write {_SIGNERS}")


def _untrusted(document: Document, path: FieldPath, message: str, following: str) -> Finding:
    places = (document.place(path, key=True),)
    return Finding(code="GK7023", message=message, places=places, notes=(("next", following),))


def _unfit(document: Document, path: FieldPath, why: str, following: str) -> Finding:
    return Finding(
        code="GK7003",
        message=f"GitSource spec.{'.'.join(map(str, path))}: {why}",
        places=(document.place(("spec", *path)),),
        notes=(("next", following),),
    )


def _bad(document: Document, field: str, why: str, following: str) -> Finding:
    return Finding(
        code="GK7003",
        message=f"Unit spec.render.helm.{field}: {why}",
        places=(document.place((*_WHERE, field)),),
        notes=(("next", following),),
    )
