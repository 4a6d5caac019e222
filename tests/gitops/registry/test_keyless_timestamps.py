"""Keyless signatures with a timestamp by an authority, as in the bundles of cosign 3."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gitkruise.gitops.registry.keyless import TrustedIdentities
from gitkruise.gitops.registry.signatures import StoredBundle
from gitkruise.model.gitops.config import OidcIdentity
from tests.gitops.registry.artifacts import digest_of, enveloped
from tests.gitops.registry.keyless_signatures import Bundled
from tests.gitops.registry.sigstore_instance import ISSUER, TIME, Instance, b64
from tests.gitops.registry.timestamp_authority import TimestampAuthority

SIGSTORE, STAMPS, FOREIGN = Instance(), TimestampAuthority(), TimestampAuthority()
ONE = digest_of(b"one")
LATE = TIME + timedelta(minutes=10)


def judged(document: dict[str, Any], *authorities: TimestampAuthority) -> str:
    """Why a bundle does not count; "" if it does."""
    root = json.loads(SIGSTORE.trusted_root())
    root["timestampAuthorities"] = [one.trusted for one in authorities]
    trusted = TrustedIdentities((OidcIdentity(ISSUER, "shop"),), json.dumps(root), "shop/root")
    bundle = StoredBundle(json.dumps(document).encode())
    found = trusted.judge(bundle, ONE.removeprefix("sha256:"))
    assert found is not None
    return found.found or found.why


def stamped(
    made: Bundled, by: TimestampAuthority, at: datetime = TIME, *, promised: bool, of: bytes = b""
) -> dict[str, Any]:
    document = made.document
    material = document["verificationMaterial"]
    stamp = b64(by.stamp(of or made.signature, at))
    material["timestampVerificationData"] = {"rfc3161Timestamps": [{"signedTimestamp": stamp}]}
    if not promised:
        entry = material["tlogEntries"][0]
        del entry["inclusionPromise"], entry["integratedTime"]
    return document


def newer_log(made: Bundled, signature: bytes) -> Bundled:
    """The signature in a log without promises (Rekor 2)."""
    digest = hashlib.sha256(enveloped(made.statement)).digest()
    verifier = {
        "keyDetails": "PKIX_ECDSA_P256_SHA_256",
        "x509Certificate": {"rawBytes": b64(made.signer.der)},
    }
    signed = {"content": b64(signature), "verifier": verifier}
    spec = {"data": {"algorithm": "SHA2_256", "digest": b64(digest)}, "signature": signed}
    body = {"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": {"hashedRekordV002": spec}}
    return replace(made, entry=SIGSTORE.enter(json.dumps(body).encode()))


@pytest.mark.parametrize("promised", [True, False])
def test_a_timestamp_of_a_trusted_authority_counts(*, promised: bool) -> None:
    made = Bundled.made(SIGSTORE, ONE)
    assert judged(stamped(made, STAMPS, promised=promised), STAMPS) == ""


@pytest.mark.parametrize(
    ("by", "at", "of", "words"),
    [
        (FOREIGN, TIME, b"", "not enough sources of verified time"),
        (STAMPS, TIME, b"another signature", "not enough sources of verified time"),
        (STAMPS, LATE, b"", "certificate chain"),
        (STAMPS, TIME - timedelta(minutes=2), b"", "certificate chain"),
    ],
)
def test_a_timestamp_is_verified(
    by: TimestampAuthority, at: datetime, of: bytes, words: str
) -> None:
    made = Bundled.made(SIGSTORE, ONE)
    assert words in judged(stamped(made, by, at, promised=False, of=of), STAMPS)


def test_each_time_must_be_within_the_certificate() -> None:
    assert "certificate chain" in judged(
        stamped(Bundled.made(SIGSTORE, ONE), STAMPS, LATE, promised=True), STAMPS
    )
    assert "certificate chain" in judged(
        stamped(Bundled.made(SIGSTORE, ONE, at=LATE), STAMPS, promised=True), STAMPS
    )


def test_a_root_without_authorities_accepts_no_timestamp() -> None:
    made = Bundled.made(SIGSTORE, ONE)
    assert "no Timestamp Authorities" in judged(stamped(made, STAMPS, promised=True))


def test_an_entry_of_a_newer_log_needs_a_timestamp() -> None:
    made = Bundled.made(SIGSTORE, ONE)
    logged = newer_log(made, made.signature)
    assert judged(stamped(logged, STAMPS, promised=False), STAMPS) == ""
    assert "only supported for" in judged(logged.document, STAMPS), "its log promises no time"
    other = newer_log(made, Bundled.made(SIGSTORE, ONE).signature)
    assert "inconsistent" in judged(stamped(other, STAMPS, promised=False), STAMPS)
