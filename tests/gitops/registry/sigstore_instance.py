"""An instance of Sigstore: an authority (Fulcio), a log of its certificates and a log of entries
(Rekor), and signatures with certificates of it as cosign stores them.

`Instance` signs as the real services do. A row of a test replaces one part of a signature, so that
exactly one check can fail.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

TIME: Final = datetime(2024, 5, 1, 10, 0, tzinfo=UTC)  # of signatures
STARTS: Final = TIME - timedelta(minutes=1)  # of certificates
ISSUER: Final = "https://token.actions.githubusercontent.com"
SUBJECT: Final = "https://github.com/shop/app/.github/workflows/release.yaml@refs/tags/v1.4.2"
WORKFLOW: Final = x509.UniformResourceIdentifier(SUBJECT)
_ISSUER: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_V2: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_TIMESTAMPS: Final = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_AUTHORITY_FROM, _AUTHORITY_TO = datetime(2024, 1, 1, tzinfo=UTC), datetime(2044, 1, 1, tzinfo=UTC)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(SHA256()))


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(spki(key)).digest()


def der(tag: int, content: bytes) -> bytes:
    """A value of ASN.1."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a certificate is issued for; a part is replaced to make it unacceptable."""

    issuer: str = ISSUER
    issuer_in: Sequence[ObjectIdentifier] = (_ISSUER, _ISSUER_V2)
    subject: x509.GeneralName = WORKFLOW
    starts: datetime = STARTS
    usage: ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING
    signs: bool = True
    timestamped: bool = True
    timestamp_of: bytes = b""  # of another certificate than the issued one
    key: rsa.RSAPublicKey | None = None  # instead of a new one


OLD_ISSUER: Final = Request(issuer_in=(_ISSUER,))  # as before 2023
NO_ISSUER: Final = Request(issuer_in=())


@dataclass(frozen=True)
class Signer:
    """A short-lived key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()


@dataclass(frozen=True)
class Entry:
    """An entry of the log, with the log's promise and proof."""

    log_id: bytes
    body: bytes
    time: int
    index: int
    promise: bytes
    proof: dict[str, Any]

    @property
    def canonical(self) -> bytes:
        """What the promise signs."""
        return json.dumps(self.payload, separators=(",", ":"), sort_keys=True).encode()

    @property
    def payload(self) -> dict[str, Any]:
        return {
            "body": b64(self.body), "integratedTime": self.time, "logIndex": self.index,
            "logID": self.log_id.hex(),
        }  # fmt: skip

    @property
    def in_tag(self) -> str:
        """As cosign 2 writes it into the annotation of a signature."""
        return json.dumps({"SignedEntryTimestamp": b64(self.promise), "Payload": self.payload})

    @property
    def in_bundle(self) -> dict[str, Any]:
        document = json.loads(self.body)
        return {
            "logIndex": str(self.index), "logId": {"keyId": b64(self.log_id)},
            "kindVersion": {"kind": document["kind"], "version": document["apiVersion"]},
            "integratedTime": str(self.time),
            "inclusionPromise": {"signedEntryTimestamp": b64(self.promise)},
            "inclusionProof": self.proof, "canonicalizedBody": b64(self.body),
        }  # fmt: skip


def leaf(body: bytes) -> bytes:
    return hashlib.sha256(b"\0" + body).digest()


def checkpoint(key: ec.EllipticCurvePrivateKey, root: bytes, size: int) -> str:
    """A signed note on the state of a log."""
    note = f"rekor.example - 1\n{size}\n{b64(root)}\n"
    signature = key_id(key)[:4] + sign(key, note.encode())
    return f"{note}\n— rekor.example {b64(signature)}\n"


@dataclass
class Instance:
    """The keys of the services."""

    root: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    authority: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    certificates: ec.EllipticCurvePrivateKey = field(default_factory=new_key)  # their log
    log: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    def __post_init__(self) -> None:
        top, below = (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            for name in ("sigstore", "sigstore-intermediate")
        )
        self.chain = (
            _authority(below, self.authority, top, self.root),
            _authority(top, self.root, top, self.root),
        )

    def with_keys_of(self, other: Instance, *services: str) -> Instance:
        """This instance, but with services of another one."""
        return replace(self, **{name: getattr(other, name) for name in services})

    def trusted_root(self) -> str:
        """The `trusted_root.json` of this instance."""
        started = {"start": "2024-01-01T00:00:00Z"}

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            return {
                "baseUrl": "https://log.example", "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": b64(spki(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": started,
                },
                "logId": {"keyId": b64(key_id(key))},
            }  # fmt: skip

        chain = [{"rawBytes": b64(one.public_bytes(Encoding.DER))} for one in self.chain]
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self.log)],
                "certificateAuthorities": [
                    {
                        "subject": {"organization": "shop", "commonName": "sigstore"},
                        "uri": "https://fulcio.example", "certChain": {"certificates": chain},
                        "validFor": started,
                    }
                ],
                "ctlogs": [log(self.certificates)],
                "timestampAuthorities": [],
            }
        )  # fmt: skip

    def issue(self, request: Request | None = None) -> Signer:
        """A key with a certificate that is valid for ten minutes."""
        key, request = new_key(), request or Request()
        builder = _leaf(self.chain[0], key, request)
        bare = builder.sign(self.authority, SHA256())
        if not request.timestamped:
            return Signer(key, bare)
        stamped = self._timestamp(request.timestamp_of or bare.tbs_certificate_bytes)
        extension = x509.UnrecognizedExtension(_TIMESTAMPS, stamped)
        final = builder.add_extension(extension, critical=False).sign(self.authority, SHA256())
        return Signer(key, final)

    def _timestamp(self, tbs: bytes) -> bytes:
        """The extension with a timestamp by the log of certificates (RFC 6962)."""
        at = int(TIME.timestamp() * 1000)
        issuer, length = key_id(self.authority), struct.pack("!I", len(tbs))[1:]
        signed = struct.pack("!BBQH", 0, 0, at, 1) + issuer + length + tbs + struct.pack("!H", 0)
        signature = sign(self.certificates, signed)
        one = struct.pack("!B32sQH", 0, key_id(self.certificates), at, 0)
        one += struct.pack("!BBH", 4, 3, len(signature)) + signature
        listed = struct.pack("!H", len(one)) + one
        return der(0x04, struct.pack("!H", len(listed)) + listed)

    def enter(self, body: bytes, at: datetime = TIME) -> Entry:
        """Log an entry, after one other."""
        before = leaf(b"before")
        root = hashlib.sha256(b"\x01" + before + leaf(body)).digest()
        proof = {
            "logIndex": "1", "treeSize": "2", "rootHash": b64(root), "hashes": [b64(before)],
            "checkpoint": {"envelope": checkpoint(self.log, root, 2)},
        }  # fmt: skip
        entry = Entry(key_id(self.log), body, int(at.timestamp()), 1, b"", proof)
        return replace(entry, promise=sign(self.log, entry.canonical))


def _authority(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, issuer: x509.Name,
    by: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:  # fmt: skip
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key())
    return (
        x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(_AUTHORITY_FROM)
        .not_valid_after(_AUTHORITY_TO)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(own, critical=False)
        .add_extension(above, critical=False)
        .sign(by, SHA256())
    )


def _leaf(
    authority: x509.Certificate, key: ec.EllipticCurvePrivateKey, request: Request
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=request.signs, content_commitment=False, key_encipherment=True,
        data_encipherment=False, key_agreement=False, key_cert_sign=False, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    above = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    number, public = x509.random_serial_number(), request.key or key.public_key()
    builder = (
        x509.CertificateBuilder(authority.subject, x509.Name([]), public, number)
        .not_valid_before(request.starts)
        .not_valid_after(request.starts + timedelta(minutes=10))
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([request.usage]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(above), critical=False
        )
        .add_extension(x509.SubjectAlternativeName([request.subject]), critical=True)
    )
    text = request.issuer.encode()
    encoded = {_ISSUER: text, _ISSUER_V2: der(0x0C, text)}
    for oid in request.issuer_in:
        extension = x509.UnrecognizedExtension(oid, encoded[oid])
        builder = builder.add_extension(extension, critical=False)
    return builder


def hashedrekord(content: bytes, signature: bytes, pem: str) -> bytes:
    """The entry of a signature of bytes."""
    return json.dumps(
        {
            "apiVersion": "0.0.1", "kind": "hashedrekord",
            "spec": {
                "data": {
                    "hash": {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}
                },
                "signature": {
                    "content": b64(signature), "publicKey": {"content": b64(pem.encode())},
                },
            },
        }
    ).encode()  # fmt: skip


def dsse(payload: bytes, signature: bytes, pem: str) -> bytes:
    """The entry of a signature in an envelope."""
    return json.dumps(
        {
            "apiVersion": "0.0.1", "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": "0" * 64},
                "payloadHash": {
                    "algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest(),
                },
                "signatures": [{"signature": b64(signature), "verifier": b64(pem.encode())}],
            },
        }
    ).encode()  # fmt: skip
