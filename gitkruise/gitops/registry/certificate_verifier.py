"""Verification of keyless signatures by the package sigstore: the certificate, its log entry, and
the signed content. The package takes seconds to import, so `keyless` imports this when needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import (
    Certificate,
    DNSName,
    DuplicateExtension,
    ExtensionNotFound,
    GeneralName,
    InvalidVersion,
    ObjectIdentifier,
    OtherName,
    RFC822Name,
    SubjectAlternativeName,
    UniformResourceIdentifier,
    UnrecognizedExtension,
    UnsupportedGeneralNameType,
    load_der_x509_certificate,
    load_pem_x509_certificate,
)
from pydantic import ValidationError
from sigstore.errors import Error, VerificationError
from sigstore.hashes import Hashed
from sigstore.models import Bundle, ClientTrustConfig
from sigstore.verify import Verifier
from sigstore_models.common.v1 import HashAlgorithm

from gitkruise.gitops.registry.promised_entries import PromisedEntries
from gitkruise.gitops.registry.signatures import StoredSignature, TaggedSignature
from gitkruise.gitops.registry.signed_content import envelope_in, payload_digest, statement_in
from gitkruise.printable import shown

_PUBLIC: Final = "https://tuf-repo-cdn.sigstore.dev"  # the instance for everybody
_CONFIG: Final = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"
_SIGNING: Final = "application/vnd.dev.sigstore.signingconfig.v0.2+json"
_CERTIFICATE: Final = "dev.sigstore.cosign/certificate"
_ENTRY: Final = "dev.sigstore.cosign/bundle"
_ISSUER: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_V2: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_USER_NAME: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.7")
# Raised for a signature that does not verify, or has a part that cannot be read.
_INVALID: Final = (
    Error, ValueError, msgspec.DecodeError, RecursionError, DuplicateExtension, ExtensionNotFound,
    InvalidVersion, UnsupportedAlgorithm, UnsupportedGeneralNameType,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CertifiedSigner:
    """The identity in a certificate: the provider that knows it, and its names."""

    issuer: str
    subjects: tuple[str, ...]

    def __str__(self) -> str:
        names = " and ".join(map(shown, self.subjects))
        return f"issuer {shown(self.issuer) or 'unknown'}, subject {names or 'unknown'}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A signature that was checked: `why` it does not count, "" for one of a trusted signer.

    `names_artifact` says that the signed content is about the artifact.
    """

    signer: str
    why: str = ""
    names_artifact: bool = False


@dataclass(frozen=True, slots=True)
class _Policy:
    """The check of a certificate that the package leaves to its caller."""

    trusts: Callable[[CertifiedSigner], bool]

    def verify(self, cert: Certificate) -> None:
        if not isinstance(cert.public_key(), ec.EllipticCurvePublicKey):
            raise VerificationError("its key is not ECDSA")
        if not self.trusts(_signer_of(cert)):
            raise VerificationError("not a wanted identity")


class CertificateVerifier:
    """Verifies signatures below a trusted root in JSON, "" for that of the public instance.

    Raises ValueError for a root that is none.
    """

    def __init__(self, root: str) -> None:
        try:
            document = json.loads(root or _public_root())
            self._verifier = _verifier(document)
            self._entries = PromisedEntries(document["tlogs"])
            self._of_promised = _verifier({**document, "tlogs": [self._entries.log]})
        except _INVALID as error:
            raise ValueError(_reason(error)) from error

    def claim_of(
        self, one: StoredSignature, digest: str, trusts: Callable[[CertifiedSigner], bool]
    ) -> Claim | None:
        """Check a signature of the artifact with this SHA-256; None for one that is none."""
        if not isinstance(one, TaggedSignature) and not _signs(one.data):
            return None
        signer = "a signature without a certificate that can be read"
        try:
            certificate = _certificate_of(one)
            if certificate is None:
                return Claim("a signature of a key", "it has no certificate")
            signer = str(_signer_of(certificate))
            if isinstance(one, TaggedSignature):
                named = self._tagged(one, digest, certificate, _Policy(trusts))
            else:
                named = self._bundled(one.data, digest, _Policy(trusts))
        except _INVALID as error:
            return Claim(signer, _reason(error))
        return Claim(signer, names_artifact=named)

    def _tagged(
        self, one: TaggedSignature, digest: str, certificate: Certificate, policy: _Policy
    ) -> bool:
        """Verify a signature; return whether its payload names the artifact."""
        if _ENTRY not in one.annotations:
            raise VerificationError("it has no entry of a transparency log")
        bundle = self._entries.bundle_of(
            one.annotations[_ENTRY], one.signature, certificate.public_bytes(Encoding.DER)
        )
        self._of_promised.verify_artifact(one.payload, Bundle.from_json(bundle), policy)
        return payload_digest(one.payload) == digest

    def _bundled(self, data: bytes, digest: str, policy: _Policy) -> bool:
        """Verify a bundle; return whether its content names the artifact, or is its digest."""
        bundle = Bundle.from_json(data)
        if envelope_in(data) is None:
            signed = Hashed(algorithm=HashAlgorithm.SHA2_256, digest=bytes.fromhex(digest))
            self._verifier.verify_artifact(signed, bundle, policy)
            return True
        statement = statement_in(*self._verifier.verify_dsse(bundle, policy))
        return statement is not None and statement.names(digest)


class _RawCertificate(msgspec.Struct, frozen=True, rename="camel"):
    raw_bytes: bytes


class _CertificateChain(msgspec.Struct, frozen=True):
    certificates: tuple[_RawCertificate, ...]


class _Material(msgspec.Struct, frozen=True, rename="camel"):
    certificate: _RawCertificate | None = None
    chain: _CertificateChain | None = msgspec.field(name="x509CertificateChain", default=None)


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    verification_material: _Material = _Material()
    message_signature: msgspec.Raw = msgspec.Raw(b"")


def _reason(error: Exception) -> str:
    """Return the text of an error; of a document, without its content, which may be a Secret's."""
    found = error if isinstance(error, ValidationError) else error.__context__
    if not isinstance(found, ValidationError):
        return shown(" ".join(str(error).split()))
    first = found.errors(include_url=False, include_context=False, include_input=False)[0]
    return shown(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _signs(data: bytes) -> bool:
    """Return whether a bundle holds a signature, and no attestation."""
    try:
        alone = bool(msgspec.json.decode(data, type=_Content).message_signature)
    except (msgspec.DecodeError, RecursionError):
        return False
    return alone or envelope_in(data) is not None


def _certificate_of(one: StoredSignature) -> Certificate | None:
    """Return the certificate, unverified; None for a signature of a key."""
    if isinstance(one, TaggedSignature):
        pem = one.annotations.get(_CERTIFICATE)
        return load_pem_x509_certificate(pem.encode()) if pem else None
    material = msgspec.json.decode(one.data, type=_Content).verification_material
    first = material.chain.certificates[:1] if material.chain else ()
    for raw in (material.certificate, *first):
        if raw is not None:
            return load_der_x509_certificate(raw.raw_bytes)
    return None


def _signer_of(certificate: Certificate) -> CertifiedSigner:
    found = {one.oid: one.value for one in certificate.extensions}
    names = next((one for one in found.values() if isinstance(one, SubjectAlternativeName)), ())
    return CertifiedSigner(_issuer_in(found), tuple(filter(None, map(_text_of, names))))


def _issuer_in(extensions: Mapping[ObjectIdentifier, Any]) -> str:
    newer, older = extensions.get(_ISSUER_V2), extensions.get(_ISSUER)
    if isinstance(newer, UnrecognizedExtension):
        return asn1.decode_der(str, newer.value)
    return older.value.decode() if isinstance(older, UnrecognizedExtension) else ""


def _text_of(name: GeneralName) -> str:
    match name:
        case UniformResourceIdentifier() | RFC822Name() | DNSName():
            return name.value
        case OtherName() if name.type_id == _USER_NAME:
            return asn1.decode_der(str, name.value)
    return ""


def _verifier(root: Any) -> Verifier:
    """Return the package's verifier. Its configuration needs a part for signing, which is empty."""
    config = {"mediaType": _CONFIG, "trustedRoot": root, "signingConfig": {"mediaType": _SIGNING}}
    return Verifier(trusted_root=ClientTrustConfig.from_json(json.dumps(config)).trusted_root)


def _public_root() -> str:
    """Return the trusted root that the package contains. Its own reader would keep a copy in the
    home directory, and prefer that to newer ones."""
    path = files("sigstore") / "_store" / quote(_PUBLIC, safe="") / "trusted_root.json"
    return path.read_text(encoding="utf-8")
