"""Signatures as cosign 3 stores them: bundles that refer to the signed manifest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gitkruise.errors import Unavailable
from gitkruise.gitops.http_get import Access
from gitkruise.gitops.registry.cosign import unsigned
from gitkruise.gitops.registry.distribution import RegistryRepository
from gitkruise.gitops.registry.keys import TrustedKeys
from gitkruise.gitops.registry.requests import ContentHost
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import serving
from tests.gitops.registry.artifacts import (
    Shelf,
    artifact,
    bundle,
    bundle_of,
    digest_of,
    signature,
    signature_tag,
    statement,
)

ONE = artifact({"deploy/app.yaml": "kind: ConfigMap\n"}).digest
TWO = digest_of(b"another")
KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
ATTESTS = "https://slsa.dev/provenance/v1"
RECORDED = json.loads((Path(__file__).parent / "cosign3.json").read_text())


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with serving() as host:
        yield Shelf(host)


def public(key: ec.EllipticCurvePrivateKey) -> str:
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def verdict(shelf: Shelf, *keys: str, digest: str = ONE) -> str:
    home = f"http://{shelf.url.removeprefix('oci://').partition('/')[0]}/"
    host = ContentHost(home=home, access=Access(), namespace="a", guarded=False, fetch=fetch_now)
    trusted = TrustedKeys(keys or (public(KEY),), "shop/keys")
    named = digest.removeprefix("sha256:")
    refused = asyncio.run(unsigned(RegistryRepository(host, shelf.name), named, trusted))
    return refused.why if refused else ""


@pytest.mark.parametrize("listed", [True, False], ids=["referrers", "tag"])
def test_a_bundle_of_a_trusted_key_signs_an_artifact(shelf: Shelf, *, listed: bool) -> None:
    assert verdict(shelf) == "has no signature"
    shelf.refer(ONE, bundle(ONE, OTHER, statement(ONE)), listed=listed)
    assert verdict(shelf) == "has no signature of a trusted key"
    made = (bundle(ONE, OTHER, statement(ONE)), bundle(ONE, KEY, statement(ONE)))
    shelf.refer(ONE, *made, listed=listed)
    assert verdict(shelf) == ""
    assert verdict(shelf, public(OTHER)) == ""


def test_a_bundle_that_cosign_made_is_verified(shelf: Shelf) -> None:
    digest = f"sha256:{RECORDED['digest']}"
    shelf.refer(digest, bundle_of(digest, RECORDED["bundle"].encode()), listed=False)
    assert verdict(shelf, RECORDED["public_key"], digest=digest) == ""
    assert verdict(shelf, digest=digest) == "has no signature of a trusted key"


@pytest.mark.parametrize(
    ("curve", "hashed"),
    [
        (ec.SECP384R1(), SHA384()), (ec.SECP384R1(), SHA256()), (ec.SECP521R1(), SHA512()),
        (ec.SECP521R1(), SHA256()),
    ],
)  # fmt: skip
def test_the_digest_of_a_larger_curve_is_read(
    shelf: Shelf, curve: ec.EllipticCurve, hashed: HashAlgorithm
) -> None:
    key = ec.generate_private_key(curve)
    shelf.refer(ONE, bundle(ONE, key, statement(ONE), hashed), listed=True)
    assert verdict(shelf, public(key)) == ""


def test_a_bundle_of_another_artifact_does_not_sign_this_one(shelf: Shelf) -> None:
    shelf.refer(ONE, bundle(ONE, KEY, statement(TWO)), listed=True)
    assert verdict(shelf) == "has a signature that belongs to another artifact"


def test_an_attestation_is_no_signature(shelf: Shelf) -> None:
    shelf.refer(ONE, bundle(ONE, KEY, statement(ONE, ATTESTS)), listed=True)
    assert verdict(shelf) == "has no signature"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b'{"dsseEnvelope": 1}',
        b'{"dsseEnvelope": {"payloadType": "text/plain", "payload": "e30="}}',
        b'{"dsseEnvelope": {"payloadType": "application/vnd.in-toto+json", "payload": "?"}}',
        b'{"dsseEnvelope": {"payloadType": "application/vnd.in-toto+json", "payload": "e30="}}',
        (b'{"dsseEnvelope": {"payloadType": "application/vnd.in-toto+json", "payload": "e30=",'
        b' "signatures": [{"sig": 1}]}}'),
    ],
)  # fmt: skip
def test_an_unreadable_bundle_is_no_signature(shelf: Shelf, data: bytes) -> None:
    shelf.refer(ONE, bundle_of(ONE, data), listed=True)
    assert verdict(shelf) == "has no signature"
    shelf.refer(ONE, bundle_of(ONE, data), bundle(ONE, KEY, statement(ONE)), listed=True)
    assert verdict(shelf) == "", "another bundle counts"


def test_a_changed_statement_is_not_what_was_signed(shelf: Shelf) -> None:
    made = bundle(ONE, KEY, statement(TWO))
    (data,) = (blob for blob in made.blobs.values() if b"dsseEnvelope" in blob)
    taken = json.loads(data)
    other = bundle(ONE, OTHER, statement(ONE))
    (theirs,) = (blob for blob in other.blobs.values() if b"dsseEnvelope" in blob)
    taken["dsseEnvelope"]["payload"] = json.loads(theirs)["dsseEnvelope"]["payload"]
    shelf.refer(ONE, bundle_of(ONE, json.dumps(taken).encode()), listed=True)
    assert verdict(shelf) == "has no signature of a trusted key"


def test_a_signature_under_the_tag_counts_beside_bundles(shelf: Shelf) -> None:
    shelf.push(signature(ONE, KEY), signature_tag(ONE))
    shelf.refer(ONE, bundle(ONE, OTHER, statement(ONE)), listed=True)
    assert verdict(shelf) == ""
    assert not any("referrers" in path for path, _ in shelf.host.requests)


def test_a_registry_that_fails_is_not_a_missing_signature(shelf: Shelf) -> None:
    shelf.host.replies[f"/v2/app/referrers/{ONE}"] = (503, {}, b"")
    with pytest.raises(Unavailable, match="signatures"):
        verdict(shelf)
