"""Signatures as cosign 3 stores them: bundles of Sigstore, which refer to the signed manifest.

Formats: Sigstore bundle 0.3, DSSE envelope, in-toto statement, referrers of OCI distribution 1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from gitkruise.gitops.registry.distribution import RegistryRepository, digest_in

_BUNDLE: Final = "application/vnd.dev.sigstore.bundle"  # how its media types begin
_STATEMENT: Final = "application/vnd.in-toto+json"
# Other predicates are attestations: the signer says something of the artifact, and need not
# approve of it.
_SIGNATURE: Final = "https://sigstore.dev/cosign/sign/v1"
_BUNDLE_MAX: Final = 1 << 20
_REFERRERS_MAX: Final = 50
UNSIGNED: Final = "has no signature"
UNTRUSTED: Final = "has no signature of a trusted key"
OF_ANOTHER: Final = "has a signature that belongs to another artifact"

SignedBy: TypeAlias = Callable[[bytes, bytes], bool]  # of a content and a signature


class _Signature(msgspec.Struct, frozen=True):
    sig: bytes  # base64, as each field of bytes below


class Envelope(msgspec.Struct, frozen=True, rename="camel"):
    """A statement, and signatures of its encoding."""

    payload_type: str
    payload: bytes
    signatures: tuple[_Signature, ...]

    @property
    def signed(self) -> bytes:
        """Return the content that is signed: DSSE's encoding of the type and the statement."""
        kind, payload = self.payload_type.encode(), self.payload
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


class _Bundle(msgspec.Struct, frozen=True, rename="camel"):
    dsse_envelope: Envelope


class _Subject(msgspec.Struct, frozen=True):
    digest: Mapping[str, str]


class _Statement(msgspec.Struct, frozen=True, rename="camel"):
    predicate_type: str
    subject: tuple[_Subject, ...]


async def unsigned_by_bundles(
    repository: RegistryRepository, digest: str, signed_by: SignedBy
) -> str:
    """Return why no bundle signs the manifest with this SHA-256; "" if one does.

    Raises Unavailable and OtherContent.
    """
    what = "the list of signatures"
    bundles = filter(_is_bundle, await repository.referrers(digest, what))
    why = UNSIGNED
    for one in list(bundles)[:_REFERRERS_MAX]:
        manifest = await repository.manifest(f"sha256:{digest_in(one.get('digest'))}", what)
        for blob in _blobs(manifest.layers):
            data = await repository.verified_blob(blob, "a signature", bytes_max=_BUNDLE_MAX)
            found = signature_in(data)
            if found is None:
                continue
            envelope, statement = found
            if not any(signed_by(envelope.signed, one.sig) for one in envelope.signatures):
                why = UNTRUSTED
            elif digest not in (subject.digest.get("sha256") for subject in statement.subject):
                why = OF_ANOTHER
            else:
                return ""
    return why


def signature_in(data: bytes) -> tuple[Envelope, _Statement] | None:
    """Return the signature in a bundle, unverified; None for a bundle that holds another thing."""
    try:
        envelope = msgspec.json.decode(data, type=_Bundle).dsse_envelope
        statement = msgspec.json.decode(envelope.payload, type=_Statement)
    except (msgspec.DecodeError, RecursionError):
        return None
    fits = envelope.payload_type == _STATEMENT and statement.predicate_type == _SIGNATURE
    return (envelope, statement) if fits else None


def _blobs(layers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the SHA-256 of the bundle of a manifest, its first layer."""
    for layer in layers[:1]:
        if str(layer.get("mediaType")).startswith(_BUNDLE) and digest_in(layer.get("digest")):
            yield digest_in(layer.get("digest"))


def _is_bundle(entry: Mapping[str, Any]) -> bool:
    kind = entry.get("artifactType")
    return bool(digest_in(entry.get("digest"))) and (
        not isinstance(kind, str) or kind.startswith(_BUNDLE)
    )
