"""Throw-away certificates for loopback."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

START = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Pair:
    cert_pem: str
    key_pem: str

    def server_context(self, folder: Path, *, client_ca: str = "") -> ssl.SSLContext:
        """A server that shows this certificate, and asks for clients of `client_ca`."""
        (folder / "cert").write_text(self.cert_pem)
        (folder / "key").write_text(self.key_pem)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "cert", folder / "key")
        if client_ca:
            context.load_verify_locations(cadata=client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def self_signed(address: str = "127.0.0.1", *, days: int = 36500) -> Pair:
    """A certificate for `address` that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(START)
        .not_valid_after(START + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return Pair(
        cert.public_bytes(encoding).decode(),
        key.private_bytes(
            encoding,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )
