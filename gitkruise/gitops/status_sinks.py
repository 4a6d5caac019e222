"""Status branches of Sinks made ready: whose repository, by which credentials, signed or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.repo import Repository
from gitkruise.git.signing import KEYS, Signer
from gitkruise.git.status_branch import Identity, Notes, StatusBranch
from gitkruise.gitops.sources import open_sources, read_secret
from gitkruise.gitops.writeback import Outbox
from gitkruise.kube.clock import Clock
from gitkruise.kube.transport import Transport
from gitkruise.model.config import Config, GitSink, GitSource, Reference, Signing, Sink, duration
from gitkruise.model.config import resolve_reference as resolve

BOT: Final = Identity(name="gitkruise", email="gitkruise@localhost")


Writer = tuple[Repository, Identity]  # where a Sink writes, and as whom


@dataclass(frozen=True, slots=True)
class StatusSinks:
    """By Sink, for those that have a status branch: also where they write, and as whom."""

    outboxes: Mapping[str, Outbox]
    branches: Mapping[str, StatusBranch]
    writers: Mapping[str, Writer]


async def open_status_sinks(
    config: Config,
    cluster: str,
    repositories: Mapping[str, Repository],
    where: tuple[Path, Transport],
    clock: Clock,
    stack: AsyncExitStack,
) -> StatusSinks:
    """`repositories` are those that are read; a Sink with a Secret of its own writes by another.

    Raises UsageProblem for a Secret without a key that signs or may push, SourceFailed, and
    ApiError for a missing Secret.
    """
    state_dir, transport = where
    sinks = {name: s for name, s in config.sinks.items() if s.spec.git is not None}
    writing = {name: _written(config, s) for name, s in sinks.items() if _git(s).secret_ref}
    writers = await open_sources(writing, state_dir, transport, stack)
    outboxes: dict[str, Outbox] = {}
    branches: dict[str, StatusBranch] = {}
    written: dict[str, Writer] = {}
    for name, sink in sinks.items():
        git, source = _git(sink), _source(config, sink)
        repository = writers.get(name) or repositories[f"{source.namespace}/{source.name}"]
        signer = await _signer(git.signing, sink.namespace, transport)
        identity = replace(BOT, sign=signer.signed) if signer is not None else BOT
        written[name] = (repository, identity)
        branches[name] = StatusBranch(
            repository,
            git.branch.format(cluster=cluster),
            source_branch=source.spec.ref.branch,
            identity=identity,
            sleep=time.sleep,
        )
        ref = git.notes.format(cluster=cluster)
        notes = Notes(repository, ref, identity=identity, sleep=time.sleep)
        coalesce = duration(git.coalesce)
        outboxes[name] = Outbox(branches[name], notes, clock, coalesce=coalesce)
    return StatusSinks(outboxes, branches, written)


def _git(sink: Sink) -> GitSink:
    assert sink.spec.git is not None
    return sink.spec.git


def _source(config: Config, sink: Sink) -> GitSource:
    return config.sources[resolve(_git(sink).source_ref, sink.namespace)]


def _written(config: Config, sink: Sink) -> GitSource:
    """The Sink's source as it is written to: by the Sink's Secret."""
    source, ref = _source(config, sink), _git(sink).secret_ref
    assert ref is not None
    own = Reference(name=ref.name, namespace=ref.namespace or sink.namespace)
    return msgspec.structs.replace(
        source, spec=msgspec.structs.replace(source.spec, secret_ref=own)
    )


async def _signer(signing: Signing | None, namespace: str, transport: Transport) -> Signer | None:
    """The key that signs, tried out once. Raises UsageProblem GK7032."""
    if signing is None:
        return None
    data, where = await read_secret(signing.secret_ref, namespace, transport)
    name = KEYS[signing.format]
    if not data.get(name, "").strip():
        message = f"the Secret {where} has no key to sign with"
        notes = (
            ("found", ", ".join(sorted(data)) or "no keys"),
            ("next", f"give it {name}, a private key"),
        )
        raise UsageProblem(Finding(code="GK7032", message=message, notes=notes))
    signer = Signer(signing.format, data[name], data.get("passphrase", ""))
    await asyncio.to_thread(signer.sign, b"a start")
    return signer
