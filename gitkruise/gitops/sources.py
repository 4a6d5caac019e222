"""Sources made ready from configuration: repositories that are shared, secrets, trusted keys."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from gitkruise.errors import ApiError, Finding, SourceFailed, UsageProblem
from gitkruise.git.process import Credentials
from gitkruise.git.remote import Keyring
from gitkruise.git.repo import Repository
from gitkruise.git.signatures import Signers
from gitkruise.gitops.trust import FirstSeen, Trust, Trusted, anything
from gitkruise.kube.clock import Clock
from gitkruise.kube.transport import Transport
from gitkruise.model.config import GitSource, Reference, duration, resolve_reference
from gitkruise.wire.request import ApiRequest, ResourceRef

log = logging.getLogger(__name__)
_SECRETS: Final = ResourceRef("", "v1", "secrets")


class Renewal:
    """Secrets of sources that are read again while they are in use, for they rotate."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._keyrings: dict[str, Keyring] = {}
        self._trusts: dict[str, Trust] = {}

    def hold(self, name: str, held: Keyring | Trust) -> None:
        """What a source uses from its Secrets."""
        if isinstance(held, Keyring):
            self._keyrings[name] = held
        else:
            self._trusts[name] = held

    async def credentials(self, name: str, source: GitSource) -> None:
        """Read the Secret for git again; while it cannot be read the old one is used on."""
        keyring = self._keyrings.get(name)
        if keyring is None or source.spec.secret_ref is None:
            return
        try:
            keyring.now = await _credentials(source, self._transport)
        except (ApiError, UsageProblem) as error:
            log.warning("the credentials of source %s are not read again: %s", name, error)

    async def signers(self, name: str, source: GitSource) -> None:
        """Read the keys to trust again. While they cannot be read nobody is trusted.

        Raises SourceFailed GK3306.
        """
        trust, rules = self._trusts.get(name), source.spec.verify
        if trust is None or rules is None or rules.secret_ref is None:
            return
        try:
            data, where = await read_secret(rules.secret_ref, source.namespace, self._transport)
            trust.renew(Signers.from_secret(data, where))
        except (ApiError, UsageProblem) as error:
            raise SourceFailed(_nobody(name, error)) from error


def _nobody(name: str, error: Exception) -> Finding:
    return Finding(
        code="GK3306",
        message=f"the keys that source {name} trusts cannot be read: {error}",
        notes=(
            ("unchanged", "what is live; no new commit is read while nobody is trusted"),
            ("next", "mend the Secret that spec.verify names; it is read again with every look"),
        ),
    )


async def open_sources(
    sources: Mapping[str, GitSource],
    state_dir: Path,
    transport: Transport,
    stack: AsyncExitStack,
    renewal: Renewal | None = None,
) -> dict[str, Repository]:
    """The repository of each source; those with the same URL and credentials are one.

    `renewal` holds what may be renewed. `stack` closes them. Raises UsageProblem, SourceFailed, or
    ApiError for a missing Secret.
    """
    pool = Pool(state_dir, transport, renewal)
    return {
        name: await pool.open(name, source, patience_of(sources, source.spec.url), stack)
        for name, source in sources.items()
    }


class Pool:
    """Open repositories: sources with the same URL and credentials have one together."""

    def __init__(
        self, state_dir: Path, transport: Transport, renewal: Renewal | None = None
    ) -> None:
        self._state_dir, self._transport, self._renewal = state_dir, transport, renewal
        self._open: dict[tuple[str, Credentials], tuple[Repository, Keyring]] = {}
        self._users: Counter[tuple[str, Credentials]] = Counter()

    async def open(
        self, name: str, source: GitSource, patience: float, stack: AsyncExitStack
    ) -> Repository:
        """The source's repository until `stack` closes; `patience` is in seconds.

        Raises UsageProblem, SourceFailed, or ApiError for a missing Secret.
        """
        credentials = await _credentials(source, self._transport)
        key = (source.spec.url, credentials)
        if key not in self._open:
            keyring = Keyring(credentials)
            repository = await asyncio.to_thread(
                Repository.open,
                source.spec.url,
                mirrors=_mirrors(self._state_dir, source),
                credentials=keyring,
                timeout_s=patience,
            )
            self._open[key] = repository, keyring
        self._users[key] += 1
        stack.callback(self._leave, key)
        repository, keyring = self._open[key]
        if self._renewal is not None:
            self._renewal.hold(name, keyring)
        return repository

    def _leave(self, key: tuple[str, Credentials]) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            self._open.pop(key)[0].close()


def _mirrors(state_dir: Path, source: GitSource) -> Path:
    """What one Secret lets us read is not shown to those who have another."""
    ref = source.spec.secret_ref
    if ref is None:
        return state_dir / "mirrors"
    name = hashlib.sha256(resolve_reference(ref, source.namespace).encode()).hexdigest()[:12]
    return state_dir / "mirrors" / name


def patience_of(sources: Mapping[str, GitSource], url: str) -> float:
    """How long an operation on the repository may take, in seconds: as the most patient says."""
    mine = [source.spec.timeout for source in sources.values() if source.spec.url == url]
    return max(duration(timeout).total_seconds() for timeout in mine)


async def _credentials(source: GitSource, transport: Transport) -> Credentials:
    """The Secret a source names, with Flux's key names."""
    if source.spec.secret_ref is None:
        return Credentials()
    data, where = await read_secret(source.spec.secret_ref, source.namespace, transport)
    credentials = Credentials.from_secret(data)
    half = bool(credentials.certificate) != bool(credentials.key)
    if half or credentials == Credentials():
        lacks = "one of tls.crt and tls.key without the other" if half else "no credentials for git"
        message = f"the Secret {where} has {lacks}"
        known = "username and password, bearerToken, identity and known_hosts, ca.crt, tls.crt"
        notes = (("found", ", ".join(sorted(data)) or "no keys"), ("next", f"give it {known}"))
        raise UsageProblem(Finding(code="GK7025", message=message, notes=notes))
    return credentials


async def read_secret(
    ref: Reference, namespace: str, transport: Transport
) -> tuple[dict[str, str], str]:
    """The texts of a Secret, and its `namespace/name`. Raises ApiError, UsageProblem GK7025."""
    where = resolve_reference(ref, namespace)
    space, _, name = where.partition("/")
    request = ApiRequest(verb="get", resource=_SECRETS, namespace=space, name=name)
    data = (await transport.send(request)).body.get("data") or {}
    try:
        texts = {
            key: base64.b64decode(value, validate=True).decode() for key, value in data.items()
        }
    except (binascii.Error, UnicodeDecodeError) as error:
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
    """What each source says of a commit and the ref that leads to it, by its `verify`."""
    found: dict[str, Trusted] = {}
    for name, source in sources.items():
        rules = source.spec.verify
        if rules is None or rules.secret_ref is None:
            found[name] = anything
            continue
        data, where = await read_secret(rules.secret_ref, source.namespace, transport)
        signers = Signers.from_secret(data, where)
        seen = FirstSeen(state_dir / "seen" / name.replace("/", "."), clock.now)
        trust = Trust(repositories[name], rules, signers, seen)
        found[name] = trust.check
        if renewal is not None:
            renewal.hold(name, trust)
    return found
