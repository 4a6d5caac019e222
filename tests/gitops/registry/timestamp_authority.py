"""An authority for timestamps (RFC 3161), as cosign 3 asks one for each signature."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.gitops.registry.sigstore_instance import b64, der, new_key, sign

_FROM, _TO = datetime(2024, 1, 1, tzinfo=UTC), datetime(2044, 1, 1, tzinfo=UTC)
_SIGNED_DATA: Final = "1.2.840.113549.1.7.2"
_STAMP: Final = "1.2.840.113549.1.9.16.1.4"


def _oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    encoded = bytes([first * 40 + second])
    for number in rest:
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        encoded += bytes(reversed(digits))
    return der(0x06, encoded)


def _sequence(*parts: bytes) -> bytes:
    return der(0x30, b"".join(parts))


def _integer(number: int) -> bytes:
    return der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


_SHA256: Final = _sequence(_oid("2.16.840.1.101.3.4.2.1"))
_ECDSA: Final = _sequence(_oid("1.2.840.10045.4.3.2"))


def _attribute(name: str, value: bytes) -> bytes:
    return _sequence(_oid(name), der(0x31, value))


@dataclass
class TimestampAuthority:
    """Its root, and the key that signs timestamps."""

    root: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    def __post_init__(self) -> None:
        self.chain = (self._certificate(self.key, "tsa"), self._certificate(self.root, "tsa-root"))

    def _certificate(self, key: ec.EllipticCurvePrivateKey, name: str) -> x509.Certificate:
        ends = key is self.key
        stamping = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
        constraints = x509.BasicConstraints(ca=not ends, path_length=None)
        builder = (
            x509.CertificateBuilder()
            .issuer_name(_name("tsa-root"))
            .subject_name(_name(name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_FROM)
            .not_valid_after(_TO)
            .add_extension(constraints, critical=True)
        )
        if ends:
            builder = builder.add_extension(stamping, critical=True)
        return builder.sign(self.root, SHA256())

    @property
    def trusted(self) -> dict[str, Any]:
        """Its entry of a trusted root."""
        chain = [{"rawBytes": b64(one.public_bytes(Encoding.DER))} for one in self.chain]
        return {
            "subject": {"organization": "shop", "commonName": "tsa"},
            "certChain": {"certificates": chain}, "validFor": {"start": "2024-01-01T00:00:00Z"},
        }  # fmt: skip

    def stamp(self, signature: bytes, at: datetime) -> bytes:
        """A response: a timestamp of a signature."""
        imprint = _sequence(_SHA256, der(0x04, hashlib.sha256(signature).digest()))
        info = _sequence(
            _integer(1), _oid("1.3.6.1.4.1.57264.2"), imprint, _integer(7),
            der(0x18, at.strftime("%Y%m%d%H%M%SZ").encode()),
        )  # fmt: skip
        content = _sequence(_oid(_STAMP), der(0xA0, der(0x04, info)))
        signed = _sequence(
            _integer(3), der(0x31, _SHA256), content, der(0x31, self._signed_info(info))
        )
        return _sequence(_sequence(_integer(0)), _sequence(_oid(_SIGNED_DATA), der(0xA0, signed)))

    def _signed_info(self, info: bytes) -> bytes:
        own = self.chain[0]
        certificate = hashlib.sha256(own.public_bytes(Encoding.DER)).digest()
        attributes = sorted(
            (
                _attribute("1.2.840.113549.1.9.3", _oid(_STAMP)),
                _attribute("1.2.840.113549.1.9.4", der(0x04, hashlib.sha256(info).digest())),
                _attribute("1.2.840.113549.1.9.16.2.47",
                           _sequence(_sequence(_sequence(der(0x04, certificate))))),
            )
        )  # fmt: skip
        listed = b"".join(attributes)
        issuer = _sequence(own.issuer.public_bytes(), _integer(own.serial_number))
        return _sequence(
            _integer(1), issuer, _SHA256, der(0xA0, listed), _ECDSA,
            der(0x04, sign(self.key, der(0x31, listed))),
        )  # fmt: skip


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
