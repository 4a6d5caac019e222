"""Verification of artifacts by what cosign stores: one signature of a trusted signer is enough."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from gitkruise.gitops.registry.distribution import RegistryRepository
from gitkruise.gitops.registry.judgements import UNSIGNED, Judgement
from gitkruise.gitops.registry.signatures import StoredSignature, signatures_of

_FOUND_MAX: Final = 5  # signers that a refusal lists


class TrustedSigners(Protocol):
    """Keys or identities whose signature a source accepts; hashable."""

    def judge(self, one: StoredSignature, digest: str) -> Judgement | None:
        """Judge a signature of the artifact with this SHA-256; None for one that is none."""

    def notes(self, name: str) -> Sequence[tuple[str, str]]:
        """Return notes for the refusal of the artifact with this name."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """The reason why an artifact is refused, as the end of a sentence, and the signers that were
    found instead."""

    why: str
    found: tuple[str, ...] = ()


async def unsigned(
    repository: RegistryRepository, digest: str, trusted: TrustedSigners
) -> Unsigned | None:
    """Return why no trusted signer signed the manifest with this SHA-256; None if one did.

    Raises Unavailable and OtherContent.
    """
    last, found = UNSIGNED, []
    async with aclosing(signatures_of(repository, digest)) as signatures:
        async for one in signatures:
            judgement = await asyncio.to_thread(trusted.judge, one, digest)
            if judgement is None:
                continue
            if not judgement.why:
                return None
            last = judgement
            found += [judgement.found] if judgement.found else []
    more = [f"and {len(found) - _FOUND_MAX} more"] if len(found) > _FOUND_MAX else []
    return Unsigned(last.why, (*found[:_FOUND_MAX], *more))
