"""Opening of the status branches of Sinks: repository, credentials, signing key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.plumbing.process import ENDING
from gitkruise.git.push.status_branch import CommitAuthor, Notes, StatusBranch
from gitkruise.git.repository.repository import Repository
from gitkruise.git.signing.sign import KEYS, Signer
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.source.repositories import Renewal, open_sources
from gitkruise.gitops.source.secret_ref import Rotating
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import (
    Config,
    GitSink,
    GitSource,
    Reference,
    Signing,
    Sink,
    duration,
)
from gitkruise.model.gitops.config import resolve_reference as resolve

BOT: Final = CommitAuthor(name="gitkruise", email="gitkruise@localhost")


class Writer(NamedTuple):
    """Repository and author of a Sink's commits. `renew` re-reads credentials and signing key."""

    repository: Repository
    identity: CommitAuthor
    renew: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StatusSinks:
    """Outboxes, branches and writers by Sink, for those that have a status branch."""

    outboxes: Mapping[str, Outbox]
    branches: Mapping[str, StatusBranch]
    writers: Mapping[str, Writer]


async def open_status_sinks(
    config: Config,
    cluster: str,
    repositories: Mapping[str, Repository],
    clock: Clock,
    stack: AsyncExitStack,
    *,
    state_dir: Path,
    sources: Renewal,
    containment: Containment = UNREPORTED,
) -> StatusSinks:
    """Open the status branches of all Sinks.

    `repositories` are those of the sources, whose Secrets `sources` re-reads; a Sink with its own
    Secret writes through another one. Raises UsageProblem for a Secret without a key that signs or
    may push, SourceFailed, and ApiError for a missing Secret.
    """
    sinks = {name: s for name, s in config.sinks.items() if s.spec.git is not None}
    writing = {name: _written(config, s) for name, s in sinks.items() if _git(s).secret_ref}
    transport = sources.transport
    renewal = Renewal(transport)
    writers = await open_sources(writing, state_dir, transport, stack, renewal)
    outboxes: dict[str, Outbox] = {}
    branches: dict[str, StatusBranch] = {}
    written: dict[str, Writer] = {}
    for name, sink in sinks.items():
        git, source = _git(sink), _source(config, sink)
        repository = writers.get(name) or repositories[f"{source.namespace}/{source.name}"]
        signing = await _signing(git.signing, sink.namespace, transport, clock)
        identity = replace(BOT, sign=signing.signed) if signing is not None else BOT
        branches[name] = StatusBranch(
            repository,
            git.branch.format(cluster=cluster),
            source_branch=source.spec.ref.branch,
            identity=identity,
            sleep=ENDING.wait,
        )
        ref = git.notes.format(cluster=cluster)
        notes = Notes(repository, ref, identity=identity, sleep=ENDING.wait)
        coalesce = duration(git.coalesce)
        if name in writing:
            keys = _Keys(name, writing[name], renewal, signing)
        else:
            keys = _Keys(f"{source.namespace}/{source.name}", source, sources, signing)
        written[name] = Writer(repository, identity, keys.renew)
        outboxes[name] = Outbox(
            branches[name], notes, clock, coalesce=coalesce, renew=keys.renew, detail=git.detail,
            containment=containment,
        )  # fmt: skip
    return StatusSinks(outboxes, branches, written)


def _git(sink: Sink) -> GitSink:
    assert sink.spec.git is not None
    return sink.spec.git


def _source(config: Config, sink: Sink) -> GitSource:
    return config.sources[resolve(_git(sink).source_ref, sink.namespace)]


def _written(config: Config, sink: Sink) -> GitSource:
    """Return the Sink's source with the Sink's own Secret."""
    source, ref = _source(config, sink), _git(sink).secret_ref
    assert ref is not None
    own = Reference(name=ref.name, namespace=ref.namespace or sink.namespace)
    return msgspec.structs.replace(
        source, spec=msgspec.structs.replace(source.spec, secret_ref=own)
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """The Secrets of a Sink, re-read before each write: where everyone may read the repository,
    reading never shows that its credentials are outdated."""

    name: str
    source: GitSource  # as it is written to
    renewal: Renewal
    signing: _Signing | None

    async def renew(self) -> None:
        await self.renewal.credentials(self.name, self.source)
        if self.signing is not None:
            await self.signing.renew()


class _Signing:
    """The current signing key."""

    def __init__(self, rotating: Rotating[Signer], signer: Signer) -> None:
        self._rotating, self._signer = rotating, signer

    async def renew(self) -> None:
        self._signer = await self._rotating.now()

    def signed(self, commit: bytes) -> bytes:
        return self._signer.signed(commit)


async def _signing(
    signing: Signing | None, namespace: str, transport: Transport, clock: Clock
) -> _Signing | None:
    """Read the signing key and try it once. Raises UsageProblem GK7032."""
    if signing is None:
        return None

    def made(data: Mapping[str, str], where: str) -> Signer:
        name = KEYS[signing.format]
        if data.get(name, "").strip():
            return Signer(signing.format, data[name], data.get("passphrase", ""))
        message = f"the Secret {where} has no key to sign with"
        notes = (
            ("found", ", ".join(sorted(data)) or "no keys"),
            ("next", f"give it {name}, a private key"),
        )
        raise UsageProblem(Finding(code="GK7032", message=message, notes=notes))

    rotating = Rotating(signing.secret_ref, made, clock, namespace=namespace, transport=transport)
    signer = await rotating.first()
    await asyncio.to_thread(signer.sign, b"a start")
    return _Signing(rotating, signer)
