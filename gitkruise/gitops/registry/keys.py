"""Public keys: those that a source trusts, and signatures of artifacts by them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.registry.judgements import OF_ANOTHER, SIGNED, Judgement
from gitkruise.gitops.registry.signatures import StoredSignature, TaggedSignature
from gitkruise.gitops.registry.signed_content import envelope_in, payload_digest
from gitkruise.printable import shown

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_UNTRUSTED: Final = Judgement("has no signature of a trusted key")


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """Public keys in PEM, from the Secret `where` (`namespace/name`)."""

    pem: tuple[str, ...]
    where: str

    @classmethod
    def from_secret(cls, data: Mapping[str, str], where: str) -> TrustedKeys:
        """Return the keys of a Secret: its entries `*.pub`. Raises UsageProblem GK7025."""
        found = {name: text for name, text in sorted(data.items()) if name.endswith(".pub")}
        if not found:
            raise _no_key(where, "has no key of cosign: no name in it ends in .pub")
        for name, text in found.items():
            try:
                _read_key(text)
            except ValueError as error:
                raise _no_key(where, f"has no public key in {name}: {shown(str(error))}") from error
        return cls(tuple(found.values()), where)

    def notes(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return notes for a refusal of the artifact with this name: what to do about it."""
        return (
            ("trusted keys", f"from Secret {self.where}"),
            ("next", f"sign it: cosign sign --key cosign.key {name}"),
        )

    def judge(self, one: StoredSignature, digest: str) -> Judgement | None:
        """Judge a signature of the artifact with this SHA-256; None for one that is none."""
        if isinstance(one, TaggedSignature):
            signed = self._signed(one.payload, _decoded(one.signature))
            of_this = payload_digest(one.payload) == digest
        elif (found := envelope_in(one.data)) is not None:
            envelope, statement = found
            signed = any(self._signed(envelope.signed, one.sig) for one in envelope.signatures)
            of_this = statement.names(digest)
        else:
            return None
        if not signed:
            return _UNTRUSTED
        return SIGNED if of_this else OF_ANOTHER

    def _signed(self, content: bytes, signature: bytes) -> bool:
        return any(verifies(_read_key(key), signature, content) for key in self.pem)


def _decoded(signature: str) -> bytes:
    """Return the bytes of base64; none for another text, which no key verifies."""
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return b""


def verifies(key: PublicKeyTypes, signature: bytes, content: bytes) -> bool:
    """Return whether a signature of this content is one of the key."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512  # noqa: PLC0415

    match key:
        case ec.EllipticCurvePublicKey():
            # cosign 2 digests with SHA-256 for every curve, cosign 3 by the size of the curve.
            digests = {SHA256, {384: SHA384, 521: SHA512}.get(key.curve.key_size, SHA256)}
            tries = [partial(key.verify, signature, content, ec.ECDSA(one())) for one in digests]
        case rsa.RSAPublicKey():
            tries = [partial(key.verify, signature, content, padding.PKCS1v15(), SHA256())]
        case ed25519.Ed25519PublicKey():
            tries = [partial(key.verify, signature, content)]
        case _:
            return False
    return any(map(_passes, tries))


def _passes(verify: Callable[[], None]) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  slow to import

    try:
        verify()
    except InvalidSignature:
        return False
    return True


def _read_key(pem: str) -> Any:
    """Return a public key. Raises ValueError for what is none, and for a kind that cosign lacks."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  slow to import
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("it is not in PEM") from error
    known = (ec.EllipticCurvePublicKey, rsa.RSAPublicKey, ed25519.Ed25519PublicKey)
    if isinstance(key, known):
        return key
    raise ValueError("it is not ECDSA, RSA or Ed25519")


def _no_key(where: str, why: str) -> UsageProblem:
    notes = (("next", "put the text of cosign.pub into the key cosign.pub of this Secret"),)
    return UsageProblem(Finding(code="GK7025", message=f"the Secret {where} {why}", notes=notes))
