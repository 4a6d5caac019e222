"""Certificates made for a test, and a server's side of TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: str
    key: str
    name: x509.Name
    signer: ec.EllipticCurvePrivateKey


def issue(common: str, by: Pair | None = None, address: str = "127.0.0.1") -> Pair:
    """A certificate for `address`, of an authority or of its own."""
    signer = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by.name if by else name)
        .public_key(signer.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False
        )
    )
    made = builder.sign(by.signer if by else signer, hashes.SHA256())
    key = signer.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Pair(made.public_bytes(serialization.Encoding.PEM).decode(), key.decode(), name, signer)


def context(folder: Path, pair: Pair, clients: str = "") -> ssl.SSLContext:
    """A server's side; with `clients` it takes only those this authority signed."""
    (folder / "server.pem").write_text(pair.certificate + pair.key)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "server.pem")
    if clients:
        made.load_verify_locations(cadata=clients)
        made.verify_mode = ssl.CERT_REQUIRED
    return made
