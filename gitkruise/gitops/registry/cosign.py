"""Signatures of artifacts by cosign and a key: under a tag of the registry, or as bundles."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.registry.bundles import (
    OF_ANOTHER,
    UNSIGNED,
    UNTRUSTED,
    unsigned_by_bundles,
)
from gitkruise.gitops.registry.distribution import (
    RegistryRepository,
    digest_in,
    texts_of,
)
from gitkruise.printable import shown

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_TYPE: Final = "cosign container image signature"
_PAYLOAD_MAX: Final = 1 << 20
_SIGNATURES_MAX: Final = 50


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


async def unsigned(repository: RegistryRepository, digest: str, keys: TrustedKeys) -> str:
    """Return why no trusted key signed the manifest with this SHA-256; "" if one did.

    Raises Unavailable and OtherContent.
    """
    why = await _unsigned_by_tag(repository, digest, keys)
    if not why:
        return ""
    bundles = await unsigned_by_bundles(repository, digest, partial(_signed_by, keys.pem))
    return why if bundles == UNSIGNED else bundles


async def _unsigned_by_tag(repository: RegistryRepository, digest: str, keys: TrustedKeys) -> str:
    """Return the same of the signatures under the tag `sha256-DIGEST.sig`."""
    tag, what = f"sha256-{digest}.sig", "the list of signatures"
    named = await repository.digest(tag, what)
    if named is None:
        return UNSIGNED
    manifest = await repository.manifest(f"sha256:{named}", what)
    why = UNSIGNED
    for layer in manifest.layers[:_SIGNATURES_MAX]:
        payload, text = digest_in(layer.get("digest")), texts_of(layer.get("annotations"))
        if layer.get("mediaType") != _PAYLOAD or not payload or _SIGNATURE not in text:
            continue
        data = await repository.verified_blob(payload, "a signature", bytes_max=_PAYLOAD_MAX)
        if not _signed_by(keys.pem, data, _decoded(text[_SIGNATURE])):
            why = UNTRUSTED
        elif _signed_digest(data) != digest:
            why = OF_ANOTHER
        else:
            return ""
    return why


def _signed_digest(payload: bytes) -> str:
    """Return the SHA-256 that a payload names; "" for a payload that is no signature of cosign."""
    try:
        critical = msgspec.json.decode(payload, type=dict[str, Any]).get("critical")
    except (msgspec.DecodeError, RecursionError):
        return ""
    if not isinstance(critical, Mapping) or critical.get("type") != _TYPE:
        return ""
    image = critical.get("image")
    return digest_in(image.get("docker-manifest-digest")) if isinstance(image, Mapping) else ""


def _signed_by(keys: Iterable[str], payload: bytes, signature: bytes) -> bool:
    return any(_verifies(_read_key(key), signature, payload) for key in keys)


def _decoded(signature: str) -> bytes:
    """Return the bytes of base64; none for another text, which no key verifies."""
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _verifies(key: PublicKeyTypes, signature: bytes, payload: bytes) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512  # noqa: PLC0415

    match key:
        case ec.EllipticCurvePublicKey():
            # cosign 2 digests with SHA-256 for every curve, cosign 3 by the size of the curve.
            digests = {SHA256, {384: SHA384, 521: SHA512}.get(key.curve.key_size, SHA256)}
            tries = [partial(key.verify, signature, payload, ec.ECDSA(one())) for one in digests]
        case rsa.RSAPublicKey():
            tries = [partial(key.verify, signature, payload, padding.PKCS1v15(), SHA256())]
        case ed25519.Ed25519PublicKey():
            tries = [partial(key.verify, signature, payload)]
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
