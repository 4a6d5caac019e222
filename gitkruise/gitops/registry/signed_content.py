"""Content that signatures of artifacts sign: simple signing's payloads, and in-toto statements in
DSSE envelopes. Each names the artifact that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gitkruise.gitops.registry.distribution import digest_in

_TYPE: Final = "cosign container image signature"
_STATEMENT: Final = "application/vnd.in-toto+json"
# Other predicates are attestations: the signer says something of the artifact, and need not
# approve of it.
_SIGNATURE: Final = "https://sigstore.dev/cosign/sign/v1"


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


class Statement(msgspec.Struct, frozen=True, rename="camel"):
    """A claim about artifacts."""

    predicate_type: str
    subject: tuple[_Subject, ...]

    def names(self, digest: str) -> bool:
        """Return whether the artifact with this SHA-256 is one of them."""
        return any(subject.digest.get("sha256") == digest for subject in self.subject)


def envelope_in(data: bytes) -> tuple[Envelope, Statement] | None:
    """Return the signature in a bundle, unverified; None for a bundle that holds another thing."""
    try:
        envelope = msgspec.json.decode(data, type=_Bundle).dsse_envelope
    except (msgspec.DecodeError, RecursionError):
        return None
    statement = statement_in(envelope.payload_type, envelope.payload)
    return (envelope, statement) if statement is not None else None


def statement_in(payload_type: str, payload: bytes) -> Statement | None:
    """Return the statement of a signature; None for another content, such as an attestation."""
    try:
        statement = msgspec.json.decode(payload, type=Statement)
    except (msgspec.DecodeError, RecursionError):
        return None
    fits = payload_type == _STATEMENT and statement.predicate_type == _SIGNATURE
    return statement if fits else None


def payload_digest(payload: bytes) -> str:
    """Return the SHA-256 that a payload names; "" for a payload that is no signature of cosign."""
    try:
        critical = msgspec.json.decode(payload, type=dict[str, Any]).get("critical")
    except (msgspec.DecodeError, RecursionError):
        return ""
    if not isinstance(critical, Mapping) or critical.get("type") != _TYPE:
        return ""
    image = critical.get("image")
    return digest_in(image.get("docker-manifest-digest")) if isinstance(image, Mapping) else ""
