"""Repositories of the configured sources: shared mirrors, credentials, trusted keys."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from gitkruise.errors import ApiError, ClusterFailed, Finding, SourceFailed, UsageProblem
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.mirror import mirrors_read_with
from gitkruise.git.repository.remote import Keyring
from gitkruise.git.repository.repository import Repository
from gitkruise.git.signing.verify import Signers
from gitkruise.gitops.source.verification import (
    FirstSeen,
    Trust,
    Trusted,
    anything,
    seen_file,
)
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import (
    OCI,
    GitSource,
    Reference,
    Verify,
    duration,
    resolve_reference,
)
from gitkruise.planner.node.pull_credentials import login_in
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.wire.values.base64_text import decoded

if TYPE_CHECKING:
    from gitkruise.gitops.registry.cosign import TrustedSigners

log = logging.getLogger(__name__)
_SECRETS: Final = ResourceRef("", "v1", "secrets")
_GIT_KEYS: Final = "username and password, bearerToken, identity and known_hosts, ca.crt, tls.crt"
_SSH_KEY: Final = "b3BlbnNzaC1rZXktdjEAAAAA"  # `openssh-key-v1`, base64; then the cipher's name
_PLAIN_SSH_KEY: Final = f"{_SSH_KEY}BG5vbmU"  # `none`
_DOCKER: Final = ".dockerconfigjson"  # in Secrets of type kubernetes.io/dockerconfigjson
REGISTRY_KEYS: Final = f"username and password, or {_DOCKER}, or bearerToken, and ca.crt"
_Place: TypeAlias = tuple[str, str, GitCredentials]  # URL, Secret, and what it held


class Renewal:
    """Secrets of sources, re-read while they are in use, because they rotate."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._keyrings: dict[str, Keyring] = {}
        self._trusts: dict[str, Trust] = {}

    def hold(self, name: str, held: Keyring | Trust) -> None:
        """Register the credentials or keys of a source for renewal."""
        if isinstance(held, Keyring):
            self._keyrings[name] = held
        else:
            self._trusts[name] = held

    async def credentials(self, name: str, source: GitSource) -> str:
        """Re-read the git Secret; return why it cannot be read, "" when it can. The old one stays
        in use meanwhile."""
        keyring = self._keyrings.get(name)
        if keyring is None or source.spec.secret_ref is None:
            return ""
        try:
            keyring.now = await _credentials(source, self.transport)
        except (ApiError, UsageProblem) as error:
            log.warning(log_line("credentials-not-read", source=name, error=error))
            return f"its Secret {source.spec.secret_ref.name} cannot be read: {error}"
        return ""

    def held(self, name: str) -> GitCredentials:
        """Return the credentials of a source as they were read last."""
        return self._keyrings[name].now

    async def trusted(self, source: GitSource) -> TrustedSigners | None:
        """Read the keys, or the root of the identities, of which one must have signed an artifact;
        None where none must.

        Raises SourceFailed GK3306, or GK3310: without them nothing is accepted.
        """
        rules = source.spec.verify
        if rules is None:
            return None
        try:
            if rules.secret_ref is not None:
                from gitkruise.gitops.registry.keys import TrustedKeys  # noqa: PLC0415  imports aiohttp

                return TrustedKeys.from_secret(*await self._secret(rules.secret_ref, source))
            return await self._identities(rules, source)
        except (ApiError, UsageProblem) as error:
            raise SourceFailed(_nobody(source.name, error)) from error

    async def _identities(self, rules: Verify, source: GitSource) -> TrustedSigners:
        from gitkruise.gitops.registry.keyless import TrustedIdentities  # noqa: PLC0415  imports aiohttp

        ref = rules.trusted_root_secret_ref
        data, where = ({}, "") if ref is None else await self._secret(ref, source)
        trusted = TrustedIdentities.below(rules.identities, data, where)
        await asyncio.to_thread(trusted.check)
        return trusted

    async def _secret(self, ref: Reference, source: GitSource) -> tuple[dict[str, str], str]:
        return await read_secret(ref, source.namespace, self.transport)

    async def live(self, name: str, ask: Callable[[], Awaitable[frozenset[str]]]) -> None:
        """Set the live commits from which signatures of a source are verified; once per start.

        Raises SourceFailed GK3308 while the cluster does not answer: without them nothing is
        accepted.
        """
        trust = self._trusts.get(name)
        if trust is None or not trust.asks_for_live:
            return
        try:
            trust.start(await ask())
        except (ApiError, ClusterFailed) as error:
            raise SourceFailed(unknown_live(name, error)) from error

    async def signers(self, name: str, source: GitSource) -> None:
        """Re-read the trusted keys. While they cannot be read, no commit is trusted.

        Raises SourceFailed GK3306.
        """
        trust, rules = self._trusts.get(name), source.spec.verify
        if trust is None or rules is None or rules.secret_ref is None:
            return
        try:
            data, where = await read_secret(rules.secret_ref, source.namespace, self.transport)
            trust.renew(Signers.from_secret(data, where))
        except (ApiError, UsageProblem) as error:
            raise SourceFailed(_nobody(name, error)) from error


def _nobody(name: str, error: Exception) -> Finding:
    return Finding(
        code="GK3306",
        message=f"the keys that source {name} trusts cannot be read: {error}",
        notes=(
            ("unchanged", "what is live; no new commit is read while no key is trusted"),
            ("next", "correct the Secret that spec.verify names; it is re-read with every poll"),
        ),
    )


async def open_sources(
    sources: Mapping[str, GitSource],
    state_dir: Path,
    transport: Transport,
    stack: AsyncExitStack,
    renewal: Renewal | None = None,
) -> dict[str, Repository]:
    """Open the repository of each source; sources with the same URL and credentials share one.

    `renewal` registers what may be renewed. `stack` closes them. Raises UsageProblem, SourceFailed,
    or ApiError for a missing Secret.
    """
    pool = Pool(state_dir, transport, renewal)
    return {
        name: await pool.open(name, source, patience_of(sources, source.spec.url), stack)
        for name, source in sources.items()
    }


def unknown_live(name: str, error: ApiError | ClusterFailed) -> Finding:
    return Finding(
        code="GK3308",
        message=f"source {name}: new commits are judged by the commit that is live, and the "
        "cluster does not say which it is",
        notes=(
            ("why", str(error)),
            ("unchanged", "what runs stays as it is; it is tried again"),
            ("next", "gitkruise doctor cluster"),
        ),
    )


class Pool:
    """Open repositories: sources with the same URL and Secret share one.

    The Secret counts, not only its former content: its credentials are re-read, and a source that
    copied the old ones elsewhere must not read with the new ones.
    """

    def __init__(
        self, state_dir: Path, transport: Transport, renewal: Renewal | None = None
    ) -> None:
        self._state_dir, self._transport, self._renewal = state_dir, transport, renewal
        self._open: dict[_Place, tuple[Repository, Keyring]] = {}
        self._users: Counter[_Place] = Counter()

    async def open(
        self, name: str, source: GitSource, patience: float, stack: AsyncExitStack
    ) -> Repository:
        """Open the source's repository until `stack` closes; `patience` is in seconds.

        Raises UsageProblem, SourceFailed, or ApiError for a missing Secret.
        """
        credentials = await _credentials(source, self._transport)
        key = (source.spec.url, secret_of(source), credentials)
        if key not in self._open:
            keyring = Keyring(credentials)
            mirrors = mirrors_read_with(secret_of(source), self._state_dir / "mirrors")
            if source.spec.is_artifact:
                make = partial(Repository.imported, source.spec.url, mirrors)
            else:
                make = partial(
                    Repository.open, source.spec.url, mirrors=mirrors, credentials=keyring,
                    timeout_s=patience,
                )  # fmt: skip
            repository = await asyncio.to_thread(make)
            self._open[key] = repository, keyring
        self._users[key] += 1
        stack.callback(self._leave, key)
        repository, keyring = self._open[key]
        if self._renewal is not None:
            self._renewal.hold(name, keyring)
        return repository

    def _leave(self, key: _Place) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            self._open.pop(key)[0].close()


def secret_of(source: GitSource) -> str:
    """Return `namespace/name` of the Secret that a source is read with; "" for none."""
    ref = source.spec.secret_ref
    return resolve_reference(ref, source.namespace) if ref else ""


def patience_of(sources: Mapping[str, GitSource], url: str) -> float:
    """Return the timeout of an operation on the repository in seconds: the longest of its
    sources."""
    mine = [source.spec.timeout for source in sources.values() if source.spec.url == url]
    return max(duration(timeout).total_seconds() for timeout in mine)


async def _credentials(source: GitSource, transport: Transport) -> GitCredentials:
    """Read the Secret that a source names, with Flux's key names."""
    if source.spec.secret_ref is None:
        return GitCredentials()
    data, where = await read_secret(source.spec.secret_ref, source.namespace, transport)
    if not source.spec.is_artifact:
        return git_credentials(data, where)
    host = source.spec.url.removeprefix(OCI).partition("/")[0]
    credentials = GitCredentials.from_secret({**login_of(source.spec.url, data), **data})
    if not any((credentials.password, credentials.bearer_token, credentials.ca)):
        lacks = f"no credentials for the registry {host}"
        raise unfit_secret(data, where, lacks, REGISTRY_KEYS)
    return credentials


def login_of(url: str, data: Mapping[str, str]) -> dict[str, str]:
    """Return username and password for a registry, of the pull secret with this `data`; nothing
    where it has no login for it."""
    if not url.startswith(OCI):
        return {}
    login = login_in(url.removeprefix(OCI), data.get(_DOCKER, "{}"))
    return {"username": login.username, "password": login.password} if login else {}


def git_credentials(data: Mapping[str, str], where: str) -> GitCredentials:
    """Return the credentials in the Secret `where`, with Flux's key names. Raises UsageProblem
    GK7025."""
    credentials = GitCredentials.from_secret(data)
    if bool(credentials.certificate) != bool(credentials.key):
        lacks = "one of tls.crt and tls.key without the other"
        raise unfit_secret(data, where, lacks, _GIT_KEYS)
    if credentials == GitCredentials():
        raise unfit_secret(data, where, "no credentials for git", _GIT_KEYS)
    if _has_passphrase(credentials.identity) and not credentials.password:
        lacks = "an identity with a passphrase, and no password"
        known = "the passphrase as password, or a key without one as identity"
        raise unfit_secret(data, where, lacks, known)
    return credentials


def _has_passphrase(key: str) -> bool:
    """Return whether a private key of ssh, in any of its forms, is encrypted."""
    encoded = "".join(key.split())
    return "ENCRYPTED" in key or (_SSH_KEY in encoded and _PLAIN_SSH_KEY not in encoded)


def unfit_secret(data: Mapping[str, str], where: str, lacks: str, known: str) -> UsageProblem:
    """Return GK7025 for a Secret without the keys that are `known`."""
    message = f"the Secret {where} has {lacks}"
    notes = (
        ("found", ", ".join(sorted(data)) or "no keys"),
        ("unchanged", "what runs stays as it is"),
        ("next", f"give it {known}"),
    )
    return UsageProblem(Finding(code="GK7025", message=message, notes=notes))


async def read_secret(
    ref: Reference, namespace: str, transport: Transport
) -> tuple[dict[str, str], str]:
    """Return the texts of a Secret, and its `namespace/name`. Raises ApiError, UsageProblem
    GK7025."""
    where = resolve_reference(ref, namespace)
    space, _, name = where.partition("/")
    request = ApiRequest(verb="get", resource=_SECRETS, namespace=space, name=name)
    data = (await transport.send(request)).body.get("data") or {}
    try:
        texts = {key: decoded(value).decode() for key, value in data.items()}
    except ValueError as error:
        message = f"the Secret {where} has a key that is not text"
        raise UsageProblem(Finding(code="GK7025", message=message)) from error
    return texts, where


async def trust_sources(
    sources: Mapping[str, GitSource],
    repositories: Mapping[str, Repository],
    state_dir: Path,
    transport: Transport,
    clock: Clock,
    renewal: Renewal | None = None,
) -> dict[str, Trusted]:
    """Return the check of commits for each source, by its `verify`."""
    found: dict[str, Trusted] = {}
    for name, source in sources.items():
        rules = source.spec.verify
        if rules is None or rules.secret_ref is None or source.spec.is_artifact:
            found[name] = anything
            continue
        data, where = await read_secret(rules.secret_ref, source.namespace, transport)
        signers = Signers.from_secret(data, where)
        seen = FirstSeen(seen_file(state_dir / "seen", name), clock.now)
        trust = Trust(repositories[name], rules, signers, seen)
        found[name] = trust.check
        if renewal is not None:
            renewal.hold(name, trust)
    return found
