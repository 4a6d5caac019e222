"""Signatures of an artifact in a registry, unverified: under a tag, as cosign 2 stores them, and in
bundles of Sigstore that refer to the artifact, as cosign 3 does.

Formats: simple signing, Sigstore bundle 0.3, referrers of OCI distribution 1.1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gitkruise.gitops.registry.distribution import RegistryRepository, digest_in, texts_of

_PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_BUNDLE: Final = "application/vnd.dev.sigstore.bundle"  # how its media types begin
_SIZE_MAX: Final = 1 << 20
_SIGNATURES_MAX: Final = 50
_WHAT: Final = "a signature"
_LIST: Final = "the list of signatures"


@dataclass(frozen=True, slots=True)
class TaggedSignature:
    """A signed payload under the tag of signatures, and the annotations that verify it."""

    payload: bytes
    annotations: Mapping[str, str]

    @property
    def signature(self) -> str:
        """Return the signature in base64."""
        return self.annotations[_SIGNATURE]


@dataclass(frozen=True, slots=True)
class StoredBundle:
    """The bytes of a bundle, in JSON."""

    data: bytes


StoredSignature: TypeAlias = TaggedSignature | StoredBundle


async def signatures_of(
    repository: RegistryRepository, digest: str
) -> AsyncGenerator[StoredSignature]:
    """Yield what may sign the manifest with this SHA-256; bundles are asked for last.

    Raises Unavailable and OtherContent.
    """
    async with aclosing(_tagged(repository, digest)) as found:
        async for tagged in found:
            yield tagged
    bundles = filter(_is_bundle, await repository.referrers(digest, _LIST))
    for one in list(bundles)[:_SIGNATURES_MAX]:
        manifest = await repository.manifest(f"sha256:{digest_in(one.get('digest'))}", _LIST)
        for blob in _bundles(manifest.layers):
            yield StoredBundle(await repository.verified_blob(blob, _WHAT, bytes_max=_SIZE_MAX))


async def _tagged(repository: RegistryRepository, digest: str) -> AsyncGenerator[TaggedSignature]:
    """Yield the signatures under the tag `sha256-DIGEST.sig`."""
    named = await repository.digest(f"sha256-{digest}.sig", _LIST)
    if named is None:
        return
    manifest = await repository.manifest(f"sha256:{named}", _LIST)
    for layer in manifest.layers[:_SIGNATURES_MAX]:
        payload, text = digest_in(layer.get("digest")), texts_of(layer.get("annotations"))
        if layer.get("mediaType") == _PAYLOAD and payload and _SIGNATURE in text:
            data = await repository.verified_blob(payload, _WHAT, bytes_max=_SIZE_MAX)
            yield TaggedSignature(data, text)


def _bundles(layers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the SHA-256 of the bundle of a manifest, its first layer."""
    for layer in layers[:1]:
        if str(layer.get("mediaType")).startswith(_BUNDLE) and digest_in(layer.get("digest")):
            yield digest_in(layer.get("digest"))


def _is_bundle(entry: Mapping[str, Any]) -> bool:
    kind = entry.get("artifactType")
    return bool(digest_in(entry.get("digest"))) and (
        not isinstance(kind, str) or kind.startswith(_BUNDLE)
    )
