"""Post-build: decryption of encrypted files and substitution of `${NAME}` (Flux: `postBuild`)."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ClusterFailed, Finding, Forbidden, InvalidManifests
from gitkruise.git.helm.release import ReleaseInputs
from gitkruise.git.manifests.decryption import Opener, check_generated, check_kind, locked
from gitkruise.git.manifests.reader import Manifests
from gitkruise.git.manifests.sops import PrivateKeys, Sops, sealed
from gitkruise.git.manifests.substitute import Value, Values, substitute
from gitkruise.git.parsing.documents import is_encrypted
from gitkruise.git.plumbing import process
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.base_mirrors import BaseMirrors, listed_bases
from gitkruise.gitops.build.release import (
    KnownData,
    gather_release,
    named_values,
    offline_release,
)
from gitkruise.kube.client.discovery import server_version
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.model.gitops.config import Substitute, Unit, ValuesFrom
from gitkruise.model.gitops.document import Document
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ResourceRef

if TYPE_CHECKING:
    from gitkruise.gitops.charts.fetcher import ChartAnswer, Charts

_SALT: Final = secrets.token_bytes(32)  # digests name secrets, and live no longer than we do
_KINDS: Final = {
    "ConfigMap": ResourceRef("", "v1", "configmaps"),
    "Secret": ResourceRef("", "v1", "secrets"),
}
_CREDENTIALS: Final = frozenset({"password", "bearerToken", "ca.crt"})
_OPAQUE: Final = frozenset({"data", "stringData"})  # of what was encrypted: taken as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class PostBuildInputs:
    """Everything outside the repository that decides what a commit asks for.

    `keys` is None where encrypted files stay encrypted (a plan without a cluster). `digest` names
    the content: equal digest, equal result. It is valid in this process only. `stale` says why the
    chart may be older than the newest one.
    """

    values: Values | None = None
    keys: PrivateKeys | None = None
    release: ReleaseInputs | None = None  # of a chart
    digest: str = ""
    stale: Finding | None = None


NOTHING: Final = PostBuildInputs()


def named(tree: str, inputs: PostBuildInputs) -> str:
    """Return a tree id that differs for other inputs."""
    return f"{tree}+{inputs.digest}" if inputs.digest else tree


def wants(unit: Unit) -> bool:
    """Return whether the unit's objects depend on the cluster: on its ConfigMaps and Secrets, or on
    its version (a chart's)."""
    render = unit.spec.render
    if render.kind == "helm":
        return True
    asks = render.substitute is not None and bool(render.substitute.sources)
    return asks or (render.decryption is not None and render.decryption.secret_ref is not None)


def offline(unit: Unit) -> PostBuildInputs:
    """Return the inputs that are known without a cluster: the values written in the unit itself,
    those that `read_ahead` read, and a chart that was fetched. Raises InvalidManifests GK3418 where
    that is missing."""
    substitute = unit.spec.render.substitute
    release = offline_release(unit) if unit.spec.render.kind == "helm" else None
    if substitute is None:
        return PostBuildInputs(release=release) if release else NOTHING
    known: dict[str, Value] = {}
    unread: dict[str, str] = {}
    for kind, name in _named(substitute):
        data, why = KnownData.of(kind, unit.namespace, name)
        known |= _texts(kind, data or {})
        if data is None:
            unread[f"{kind} {unit.namespace}/{name}"] = why
    known |= {name: Value(text=text) for name, text in substitute.vars.items()}
    whys = "; ".join(dict.fromkeys(unread.values()))
    values = Values(
        known=known, strict=substitute.strict, elsewhere=" or ".join(unread), why=whys,
        apart=KnownData.asked() is None,
    )  # fmt: skip
    return PostBuildInputs(values=values, release=release)


def _texts(kind: str, data: Mapping[str, str]) -> dict[str, Value]:
    return {name: Value(text=text, secret=kind == "Secret") for name, text in data.items()}


async def read_ahead(unit: Unit, transport: Transport) -> None:
    """Read the ConfigMaps and Secrets that a unit is rendered with, for plans of this process.
    Raises ApiError."""
    KnownData.shared = KnownData.shared or KnownData()
    await read_known(unit, transport, KnownData.shared)


async def read_known(
    unit: Unit, transport: Transport, known: KnownData, *, secrets: bool = True
) -> None:
    """Read the ConfigMaps that a unit is rendered with, and the Secrets if asked, for `offline`.
    One that is missing, or may not be read, stays unknown. Raises ApiError."""
    if unit.spec.render.kind == "helm":
        known.version = await server_version(transport)
    for kind, name in (*_named(unit.spec.render.substitute), *named_values(unit)):
        place = (kind, unit.namespace, name)
        if kind == "Secret" and not secrets:
            continue
        try:
            known.data[place] = await _data(transport, unit.namespace, kind, name)
        except Forbidden as error:
            known.data[place] = str(error)


async def gather(unit: Unit, transport: Transport, charts: Charts) -> PostBuildInputs:
    """Read the ConfigMaps and Secrets that the unit names, and for a chart the cluster's version
    and the archive. Those of remote bases stay in this process.
    Raises ApiError, ClusterFailed GK4203 when one does not exist, and whatever keeps the chart of a
    repository away (SourceFailed, InvalidManifests)."""
    render = unit.spec.render
    known: dict[str, Value] = {}
    for kind, name in _named(render.substitute):
        found = await _required(kind, unit.namespace, name, transport, "substitute")
        known |= _texts(kind, found)
    values, keys = None, None
    if render.substitute is not None:
        known |= {name: Value(text=text) for name, text in render.substitute.vars.items()}
        values = Values(known=known, strict=render.substitute.strict)
    if render.decryption is not None:
        ref = render.decryption.secret_ref
        secret: Mapping[str, str] = {}
        if ref is not None:
            where = ref.namespace or unit.namespace
            secret = await _required("Secret", where, ref.name, transport, "decryption")
        keys = PrivateKeys.from_secret(secret)
    release, answer = None, None
    if render.kind == "helm":
        read = functools.partial(_data, transport, unit.namespace)
        answer = await chart_of(unit, transport, charts)
        chart = answer.chart if answer is not None else None
        release = await gather_release(unit, transport, read, chart)
    await read_base_secrets(unit, transport)
    digest = _digest(known, keys, release)
    stale = answer.stale if answer is not None else None
    return PostBuildInputs(values=values, keys=keys, release=release, digest=digest, stale=stale)


async def chart_of(unit: Unit, transport: Transport | None, charts: Charts) -> ChartAnswer | None:
    """Return the chart of a repository, read with the Secret that the unit names; None where the
    chart is in git. Raises as `Charts.fetched`, UsageProblem GK7025 and ClusterFailed GK4203.

    `transport` is needed for a unit that names a Secret only.
    """
    helm = unit.spec.render.helm
    if helm is None or not helm.repository:
        return None
    data: Mapping[str, str] = {}
    if helm.secret_ref is not None:
        assert transport is not None, "a Secret is read in a cluster"
        name = helm.secret_ref.name
        data = await _required("Secret", unit.namespace, name, transport, "helm.secretRef")
        from gitkruise.gitops.source.repositories import (  # noqa: PLC0415  seldom needed
            REGISTRY_KEYS,
            login_of,
            unfit_secret,
        )

        data = {**login_of(helm.repository, data), **data}
        if not _CREDENTIALS & data.keys():
            where = f"{unit.namespace}/{name}"
            raise unfit_secret(data, where, "no credentials for charts", REGISTRY_KEYS)
    from gitkruise.gitops.http_get import Access  # noqa: PLC0415  imports aiohttp

    return await charts.fetched(unit, Access(data))


async def read_base_secrets(unit: Unit, transport: Transport) -> None:
    """Read the Secrets of the unit's remote bases, which are fetched with them from now on.

    Raises ApiError, UsageProblem GK7025 and ClusterFailed GK4203.
    """
    from gitkruise.gitops.source.repositories import git_credentials  # noqa: PLC0415  seldom needed

    for listed in listed_bases([unit]):
        name = listed.secret.partition("/")[2]
        if name:
            field = "kustomize.remoteBases"
            data = await _required("Secret", unit.namespace, name, transport, field)
            BaseMirrors.secrets[listed] = git_credentials(data, listed.secret)


def _named(substitute: Substitute | None) -> Iterator[tuple[str, str]]:
    for source in substitute.sources if substitute else ():
        yield _one_of(source)


def _one_of(source: ValuesFrom) -> tuple[str, str]:
    return ("ConfigMap", source.config_map) if source.config_map else ("Secret", source.secret)


def _digest(
    known: Mapping[str, Value], keys: PrivateKeys | None, release: ReleaseInputs | None
) -> str:
    chart = [[one.origin, one.text] for one in release.values] if release else []
    if not known and keys is None and not chart:
        return ""
    substitutes = [[name, value.text, value.secret] for name, value in sorted(known.items())]
    whole = json.dumps([substitutes, [keys.age, keys.openpgp] if keys else [], chart])
    data = whole.encode("utf-8", "surrogatepass")
    return hmac.new(_SALT, data, hashlib.sha256).hexdigest()


async def _required(
    kind: str, namespace: str, name: str, transport: Transport, field: str
) -> dict[str, str]:
    found = await _data(transport, namespace, kind, name)
    if found is None:
        raise ClusterFailed(_missing(kind, namespace, name, field))
    return found


async def _data(
    transport: Transport, namespace: str, kind: str, name: str
) -> dict[str, str] | None:
    """Return the texts of a ConfigMap or Secret; None where it does not exist."""
    found = await find_object(transport, _KINDS[kind], name, namespace)
    if found is None:
        return None
    data: Mapping[str, str] = get(found, "data") or {}
    if kind == "ConfigMap":
        return dict(data)
    return {key: text for key, value in data.items() if (text := _text(value)) is not None}


def _text(value: str) -> str | None:
    """Return an entry of a Secret as text; None if it is not UTF-8."""
    try:
        return base64.b64decode(value).decode()
    except (binascii.Error, ValueError):
        return None


def _missing(kind: str, namespace: str, name: str, field: str) -> Finding:
    return Finding(
        code="GK4203",
        message=f"{kind} {namespace}/{name}, which render.{field} names, does not exist",
        notes=(
            ("unchanged", "what runs stays as it is; the commit is tried again"),
            ("next", f"create it, or take it out of render.{field}"),
        ),
    )


class PostBuild:
    """Decrypts the manifests of a unit, then substitutes variables."""

    def __init__(
        self, repository: Repository, unit: Unit, *, search: str = process.SEARCH_PATH
    ) -> None:
        self._repository, self._unit, self._search = repository, unit, search
        self._opener: tuple[PrivateKeys, Opener] | None = None

    def finish(self, manifests: Manifests, inputs: PostBuildInputs) -> Manifests:
        """Decrypt and substitute; problems of the files become findings. Raises SourceFailed
        GK1502."""
        closed = {id(d) for d in manifests.documents if is_encrypted(d.obj)}
        encrypted_marks = [id(d) in closed for d in manifests.documents]
        if self._unit.spec.render.decryption is None:
            manifests = _with(manifests, tuple(locked(manifests.documents)))
            # What sops adds to an object needs no second finding.
            sound = (sealed(d) if is_encrypted(d.obj) else d for d in manifests.documents)
            manifests = replace(manifests, documents=tuple(sound))
        elif inputs.keys is None:
            manifests, encrypted_marks = _closed(manifests)
        else:
            manifests, encrypted_marks = self._opened(manifests, inputs.keys)
        return _with_values(manifests, inputs.values, encrypted_marks)

    def _opened(self, manifests: Manifests, keys: PrivateKeys) -> tuple[Manifests, list[bool]]:
        if self._opener is None or self._opener[0] != keys:
            self._opener = (keys, Opener(self._repository, Sops(keys, search=self._search)))
        before = {id(d) for d in manifests.documents}
        opened = self._opener[1].opened(manifests)
        return opened, [id(d) not in before for d in opened.documents]


def _closed(manifests: Manifests) -> tuple[Manifests, list[bool]]:
    """Return manifests as they can be judged without the keys, and which of them are encrypted.
    What no key could open is a finding."""
    documents: list[Document] = []
    encrypted_marks: list[bool] = []
    findings = list(manifests.findings)
    for document in manifests.documents:
        encrypted = is_encrypted(document.obj)
        try:
            if encrypted:
                check_kind(document)
            elif manifests.rendered:
                check_generated(document)
        except InvalidManifests as error:
            findings += error.findings
            continue
        documents.append(sealed(document) if encrypted else document)
        encrypted_marks.append(encrypted)
    return replace(manifests, documents=tuple(documents), findings=tuple(findings)), encrypted_marks


def _with(manifests: Manifests, findings: tuple[Finding, ...]) -> Manifests:
    return replace(manifests, findings=(*manifests.findings, *findings)) if findings else manifests


def _with_values(manifests: Manifests, values: Values | None, opened: list[bool]) -> Manifests:
    """Substitute variables in every document; data of an encrypted document stays unchanged."""
    if values is None:
        return manifests
    made, findings = [], []
    for document, was_closed in zip(manifests.documents, opened, strict=True):
        leave = _OPAQUE if was_closed else frozenset[str]()
        one, wrong = substitute(document, values, leave=leave)
        made.append(one)
        findings += wrong
    return _with(replace(manifests, documents=tuple(made)), tuple(findings))
