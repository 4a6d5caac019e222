"""Certificates of the servers we run: an authority of their own, and what it signs for them."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE: Final = timedelta(days=3650)
SERVER_LIFE: Final = timedelta(days=90)
RENEW_BEFORE: Final = timedelta(days=30)
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_COMMON_NAME_MAX: Final = 64
_SKEW: Final = timedelta(minutes=5)  # a client whose clock is a little behind still believes it


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    def check(self) -> None:
        """Raise ValueError unless both can be read and the key is that of the certificate."""
        try:
            key = serialization.load_pem_private_key(self.key, password=None)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError(str(error)) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not one of an elliptic curve")  # noqa: TRY004  as of any bad PEM
        if x509.load_pem_x509_certificate(self.certificate).public_key() != key.public_key():
            raise ValueError("the key is not that of the certificate")


def new_authority(now: datetime, name: str = "gitkruise sandbox authority") -> KeyPair:
    """A self-signed authority called `name`; clients that trust it carry its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(subject, subject, key.public_key(), now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_server(authority: KeyPair, now: datetime, hosts: Sequence[str] = LOOPBACK) -> KeyPair:
    """A certificate for `hosts` (names and addresses), signed by `authority`, good for 90 days."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the authority is not one of an elliptic curve")  # noqa: TRY004  as of any bad PEM
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:_COMMON_NAME_MAX])])
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    certificate = (
        _builder(name, issuer.subject, key.public_key(), now, SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _pair(certificate, key)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def hosts_of(pair: KeyPair) -> frozenset[str]:
    """The names and addresses a certificate is for."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset((*names.get_values_for_type(x509.DNSName), *addresses))


def signed_by(pair: KeyPair, authority: KeyPair) -> bool:
    """Return whether `authority` signed the certificate."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_due(pair: KeyPair, now: datetime) -> bool:
    """Return whether a certificate should be renewed: a third of its life is left."""
    return pair.expires() - now < RENEW_BEFORE


def server_context(pair: KeyPair) -> ssl.SSLContext:
    """A TLS context (1.2 and up) that shows `pair`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    show(context, pair)
    return context


def show(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Let new connections of `context` see `pair`; open ones go on."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-tls-") as folder:  # 0700; ssl reads files
        path = Path(folder) / "server.pem"
        path.touch(mode=0o600)
        path.write_bytes(pair.key + pair.certificate)
        context.load_cert_chain(path)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
