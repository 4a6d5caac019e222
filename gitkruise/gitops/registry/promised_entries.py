"""Entries of a transparency log that have the log's promise alone, as cosign 2 stores them.

The package sigstore requires a proof of inclusion, too, which cosign 2 does not store. So the
promise is verified here, by the key of the log. The entry is then written to a log of its own, by a
key that only this process has. A verifier that trusts this log, and no other, verifies the rest:
certificate, time, signature, and that the entry belongs to them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from gitkruise.gitops.registry.keys import verifies

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_NAME: Final = "gitkruise"  # of the own log


class _Payload(msgspec.Struct, frozen=True):
    body: bytes  # base64
    integrated_time: int = msgspec.field(name="integratedTime")
    log_index: int = msgspec.field(name="logIndex")
    log_id: str = msgspec.field(name="logID")

    @property
    def canonical(self) -> bytes:
        """Return what a promise signs (RFC 8785)."""
        return json.dumps(
            {
                "body": _base64(self.body),
                "integratedTime": self.integrated_time,
                "logID": self.log_id,
                "logIndex": self.log_index,
            },
            separators=(",", ":"),
        ).encode()


class _PromisedEntry(msgspec.Struct, frozen=True):
    promise: bytes = msgspec.field(name="SignedEntryTimestamp")
    payload: _Payload = msgspec.field(name="Payload")


class _Validity(msgspec.Struct, frozen=True):
    start: datetime
    end: datetime | None = None

    def has(self, time: datetime) -> bool:
        return self.start <= time and (self.end is None or time <= self.end)


class _PublicKey(msgspec.Struct, frozen=True, rename="camel"):
    raw_bytes: bytes
    valid_for: _Validity


class _Log(msgspec.Struct, frozen=True, rename="camel"):
    public_key: _PublicKey


@dataclass(frozen=True, slots=True)
class _TrustedLog:
    key: PublicKeyTypes
    validity: _Validity


class PromisedEntries:
    """Verifies the promises of `logs`, those of a trusted root.

    Raises ValueError for a key that is none.
    """

    def __init__(self, logs: Iterable[Mapping[str, Any]]) -> None:
        found = [log.public_key for log in msgspec.convert(logs, tuple[_Log, ...])]
        self._logs = {
            hashlib.sha256(one.raw_bytes).hexdigest(): _TrustedLog(
                load_der_public_key(one.raw_bytes), one.valid_for
            )
            for one in found
        }
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key()
        self._public = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self._id = hashlib.sha256(self._public).digest()

    @property
    def log(self) -> Mapping[str, Any]:
        """Return the own log as an entry of a trusted root."""
        return {
            "baseUrl": f"https://{_NAME}.invalid",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": _base64(self._public),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": "1970-01-01T00:00:00Z"},
            },
            "logId": {"keyId": _base64(self._id)},
        }

    def bundle_of(self, entry: str, signature: str, certificate: bytes) -> str:
        """Return the bundle of a signature in base64, by the key of a certificate in DER, whose
        entry has a promise. Raises ValueError for a promise of no trusted log."""
        try:
            promised = msgspec.json.decode(entry, type=_PromisedEntry)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"its log entry cannot be read: {error}") from error
        self._check(promised)
        return json.dumps(
            {
                "mediaType": _BUNDLE,
                "verificationMaterial": {
                    "certificate": {"rawBytes": _base64(certificate)},
                    "tlogEntries": [self._logged(promised.payload)],
                },
                "messageSignature": {"signature": signature},
            }
        )

    def _check(self, entry: _PromisedEntry) -> None:
        log = self._logs.get(entry.payload.log_id)
        if log is None:
            raise ValueError("invalid log entry: its log is not in the trusted root")
        if not verifies(log.key, entry.promise, entry.payload.canonical):
            raise ValueError("invalid log entry: its log did not sign the promise")
        try:
            time = datetime.fromtimestamp(entry.payload.integrated_time, UTC)
        except (OverflowError, OSError) as error:
            raise ValueError("invalid log entry: it has no time") from error
        if not log.validity.has(time):
            raise ValueError("invalid log entry: the key of its log was not valid then")

    def _logged(self, payload: _Payload) -> Mapping[str, Any]:
        """Return the entry, and it alone, in the own log."""
        root = hashlib.sha256(b"\0" + payload.body).digest()
        own = msgspec.structs.replace(payload, log_id=self._id.hex(), log_index=0)
        note = f"{_NAME}\n1\n{_base64(root)}\n"
        signed = _base64(self._id[:4] + self._sign(note.encode()))
        return {
            "logIndex": "0",
            "logId": {"keyId": _base64(self._id)},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.1"},
            "integratedTime": str(payload.integrated_time),
            "inclusionPromise": {"signedEntryTimestamp": _base64(self._sign(own.canonical))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _base64(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\N{EM DASH} {_NAME} {signed}\n"},
            },
            "canonicalizedBody": _base64(payload.body),
        }

    def _sign(self, data: bytes) -> bytes:
        return self._key.sign(data, ec.ECDSA(SHA256()))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
