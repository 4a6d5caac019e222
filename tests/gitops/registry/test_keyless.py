"""Keyless signatures: each piece of evidence is required, and verified."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import OtherName, RFC822Name
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from gitkruise.errors import UsageProblem
from gitkruise.gitops.http_get import Access
from gitkruise.gitops.registry.cosign import Unsigned, unsigned
from gitkruise.gitops.registry.distribution import RegistryRepository
from gitkruise.gitops.registry.keyless import TrustedIdentities
from gitkruise.gitops.registry.requests import ContentHost
from gitkruise.model.gitops.config import OidcIdentity
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import serving
from tests.gitops.registry.artifacts import (
    Shelf,
    artifact,
    bundle,
    digest_of,
    signature,
    signature_tag,
    signatures,
    signing_payload,
    statement,
)
from tests.gitops.registry.keyless_signatures import (
    Bundled,
    Tagged,
    bundle_with,
    message_bundle,
)
from tests.gitops.registry.sigstore_instance import (
    ISSUER,
    NO_ISSUER,
    OLD_ISSUER,
    SUBJECT,
    TIME,
    Instance,
    Request,
    checkpoint,
    der,
    new_key,
    sign,
)

OURS, FOREIGN = Instance(), Instance()
ARTIFACT = artifact({"deploy/app.yaml": "kind: ConfigMap\n"})
ONE, TWO = ARTIFACT.digest, digest_of(b"another")
WANTED = OidcIdentity(f"^{ISSUER}$", "^https://github.com/shop/app/")
NAMED = f"issuer {ISSUER}, subject {SUBJECT}"


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with serving() as host:
        yield Shelf(host)


def refused(shelf: Shelf, *wanted: OidcIdentity, by: Instance = OURS) -> Unsigned | None:
    home = f"http://{shelf.url.removeprefix('oci://').partition('/')[0]}/"
    host = ContentHost(home=home, access=Access(), namespace="a", guarded=False, fetch=fetch_now)
    trusted = TrustedIdentities(wanted or (WANTED,), by.trusted_root(), "shop/root")
    trusted.check()
    named = ONE.removeprefix("sha256:")
    return asyncio.run(unsigned(RegistryRepository(host, shelf.name), named, trusted))


def why(shelf: Shelf, *wanted: OidcIdentity) -> str:
    found = refused(shelf, *wanted)
    assert found is not None
    return "\n".join((found.why, *found.found))


@pytest.mark.parametrize("layout", [Tagged, Bundled])
def test_a_signature_of_a_wanted_identity_counts(
    shelf: Shelf, layout: type[Tagged | Bundled]
) -> None:
    none = refused(shelf)
    assert none is not None
    assert none == Unsigned("has no signature")
    layout.made(OURS, ONE).push(shelf)
    assert refused(shelf) is None


# What both layouts have ---------------------------------------------------------------------------

_LATE = TIME + timedelta(minutes=9, seconds=1)
_EARLY = TIME - timedelta(minutes=1, seconds=1)
_OTHER_TIMESTAMP = Request(timestamp_of=b"another certificate")

COMMON: list[tuple[str, Instance, dict[str, Any], str]] = [
    ("authority", OURS.with_keys_of(FOREIGN, "root", "authority"), {}, "certificate chain"),
    ("intermediate", OURS.with_keys_of(FOREIGN, "authority"), {}, "certificate chain"),
    ("expired", OURS, {"at": _LATE}, "certificate chain"),
    ("not valid yet", OURS, {"at": _EARLY}, "certificate chain"),
    ("log of certificates", OURS.with_keys_of(FOREIGN, "certificates"), {}, "SCT"),
    ("no SCT", OURS, {"request": Request(timestamped=False)}, "SCT"),
    ("SCT of another", OURS, {"request": _OTHER_TIMESTAMP}, "SCT"),
    ("usage", OURS, {"request": Request(usage=ExtendedKeyUsageOID.CLIENT_AUTH)}, "code signing"),
    ("no signing", OURS, {"request": Request(signs=False)}, "digital signature"),
    ("key", OURS, {"request": Request(key=rsa.generate_private_key(65537, 2048).public_key())},
     "its key is not ECDSA"),
    ("log", OURS.with_keys_of(FOREIGN, "log"), {}, "log entry"),
    ("issuer", OURS, {"request": Request(issuer="https://other.example")}, "not a wanted"),
    ("no issuer", OURS, {"request": NO_ISSUER}, "issuer unknown"),
    ("subject", OURS, {"request": Request(subject=RFC822Name("eve@example.org"))},
     "subject eve@example.org: not a wanted"),
]  # fmt: skip


@pytest.mark.parametrize("layout", [Tagged, Bundled])
@pytest.mark.parametrize(
    ("by", "changed", "words"), [row[1:] for row in COMMON], ids=[row[0] for row in COMMON]
)
def test_each_piece_of_evidence_is_verified(
    shelf: Shelf, layout: type[Tagged | Bundled], by: Instance, changed: dict[str, Any], words: str
) -> None:
    layout.made(by, ONE, **changed).push(shelf)
    error = why(shelf)
    assert "has no signature of a trusted identity" in error
    assert words in error
    assert refused(shelf, OidcIdentity(".", "."), OidcIdentity("^$", ".")) is None or (
        "wanted" not in words and "unknown" not in words
    ), "only the identity is wrong"


@pytest.mark.parametrize("layout", [Tagged, Bundled])
def test_a_wanted_name_in_a_certificate_of_another_root_does_not_count(
    shelf: Shelf, layout: type[Tagged | Bundled]
) -> None:
    layout.made(FOREIGN, ONE).push(shelf)
    assert f"{NAMED}: " in why(shelf)
    assert refused(shelf, by=FOREIGN) is None


@pytest.mark.parametrize(
    ("request_", "wanted", "accepted"),
    [
        (Request(), OidcIdentity("actions", "shop/app"), True),  # found anywhere in the text
        (Request(), OidcIdentity("^actions", "shop/app"), False),
        (Request(), OidcIdentity(ISSUER, "^shop/app"), False),
        (Request(), OidcIdentity(ISSUER, "v1[.]4[.]2$"), True),
        (OLD_ISSUER, WANTED, True),
        (Request(subject=RFC822Name("ann@example.org")), OidcIdentity("", "^ann@"), True),
        (Request(subject=OtherName(ObjectIdentifier("1.3.6.1.4.1.57264.1.7"), der(12, b"ann"))),
         OidcIdentity(ISSUER, "^ann$"), True),
    ],
)  # fmt: skip
def test_identities_match_as_in_cosign(
    shelf: Shelf, request_: Request, wanted: OidcIdentity, *, accepted: bool
) -> None:
    Tagged.made(OURS, ONE, request_).push(shelf)
    assert (refused(shelf, wanted) is None) is accepted


def test_issuer_and_subject_of_one_identity_must_match(shelf: Shelf) -> None:
    Bundled.made(OURS, ONE).push(shelf)
    apart = (OidcIdentity(ISSUER, "^other$"), OidcIdentity("^other$", SUBJECT))
    assert "not a wanted identity" in why(shelf, *apart)
    assert refused(shelf, *apart, WANTED) is None, "any one may match"


# Under the tag ------------------------------------------------------------------------------------


def _without(name: str) -> Callable[[Tagged], dict[str, str]]:
    def annotations(one: Tagged) -> dict[str, str]:
        return {key: text for key, text in one.annotations.items() if not key.endswith(name)}

    return annotations


def _entry(change: Callable[[Tagged], Any]) -> Callable[[Tagged], dict[str, str]]:
    def annotations(one: Tagged) -> dict[str, str]:
        return replace(one, entry=change(one)).annotations

    return annotations


def _later(one: Tagged) -> Any:
    return replace(one.entry, time=one.entry.time + 1)


def _promised_by_another(one: Tagged) -> Any:
    return replace(one.entry, promise=sign(FOREIGN.log, one.entry.canonical))


def _of_unknown_log(one: Tagged) -> Any:
    return FOREIGN.enter(one.entry.body)


def _of_another_signature(_: Tagged) -> Any:
    return Tagged.made(OURS, ONE).entry


def _signed_by_another(one: Tagged) -> dict[str, str]:
    return replace(one, signature=sign(new_key(), one.payload)).annotations


def _of_another_certificate(one: Tagged) -> dict[str, str]:
    return replace(one, signer=OURS.issue()).annotations


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        (_without("/certificate"), "a signature of a key: it has no certificate"),
        (_without("/bundle"), "no entry of a transparency log"),
        (_entry(_later), "did not sign the promise"),
        (_entry(_promised_by_another), "did not sign the promise"),
        (_entry(_of_unknown_log), "not in the trusted root"),
        (_entry(_of_another_signature), "inconsistent with other materials"),
        (_signed_by_another, "Signature is invalid"),
        (_of_another_certificate, "Signature is invalid"),
        (lambda one: {**one.annotations, "dev.sigstore.cosign/bundle": "{}"}, "cannot be read"),
        (lambda one: {**one.annotations, "dev.sigstore.cosign/certificate": "x"}, "can be read"),
    ],
)
def test_a_piece_under_the_tag_is_wrong(
    shelf: Shelf, annotations: Callable[[Tagged], dict[str, str]], words: str
) -> None:
    made = Tagged.made(OURS, ONE)
    shelf.push(signatures((made.payload, annotations(made))), signature_tag(ONE))
    assert words in why(shelf)
    shelf.push(signatures((made.payload, annotations(made)), made.layer), signature_tag(ONE))
    assert refused(shelf) is None, "another signature counts"


@pytest.mark.parametrize("payload", [signing_payload(TWO), signing_payload(ONE, "other"), b"{}"])
def test_a_payload_of_another_artifact_does_not_sign_this_one(shelf: Shelf, payload: bytes) -> None:
    Tagged.made(OURS, ONE, payload=payload).push(shelf)
    assert why(shelf) == "has a signature that belongs to another artifact"


def test_a_log_vouches_only_while_its_key_is_valid(shelf: Shelf) -> None:
    Tagged.made(OURS, ONE).push(shelf)
    root = json.loads(OURS.trusted_root())
    root["tlogs"][0]["publicKey"]["validFor"]["end"] = "2024-05-01T09:59:59Z"

    class Ended(Instance):
        def trusted_root(self) -> str:
            return json.dumps(root)

    found = refused(shelf, by=Ended())
    assert found is not None
    assert "was not valid then" in found.found[0]


# As bundles ---------------------------------------------------------------------------------------


def _material(document: dict[str, Any]) -> Any:
    return document["verificationMaterial"]


def _logged(document: dict[str, Any]) -> Any:
    return _material(document)["tlogEntries"][0]


def _no_entry(document: dict[str, Any]) -> None:
    _material(document)["tlogEntries"] = []


def _no_proof(document: dict[str, Any]) -> None:
    del _logged(document)["inclusionProof"]


def _no_time(document: dict[str, Any]) -> None:
    del _logged(document)["inclusionPromise"]


def _other_promise(document: dict[str, Any]) -> None:
    _logged(document)["inclusionPromise"] = Bundled.made(OURS, ONE).entry.in_bundle[
        "inclusionPromise"
    ]


def _other_time(document: dict[str, Any]) -> None:
    _logged(document)["integratedTime"] = str(int(TIME.timestamp()) + 1)


def _other_place(document: dict[str, Any]) -> None:
    _logged(document)["inclusionProof"]["hashes"] = ["A" * 43 + "="]


def _other_checkpoint(document: dict[str, Any]) -> None:
    other = checkpoint(OURS.log, b"0" * 32, 2)
    _logged(document)["inclusionProof"]["checkpoint"]["envelope"] = other


def _forged_checkpoint(document: dict[str, Any]) -> None:
    proof = _logged(document)["inclusionProof"]
    noted, _, signed = proof["checkpoint"]["envelope"].rpartition(" ")
    other = Bundled.made(OURS, ONE).entry.proof["checkpoint"]["envelope"].rpartition(" ")[2]
    assert signed != other
    proof["checkpoint"]["envelope"] = f"{noted} {other}"


def _other_statement(document: dict[str, Any]) -> None:
    document["dsseEnvelope"]["payload"] = Bundled.made(OURS, ONE, claim=statement(TWO)).document[
        "dsseEnvelope"
    ]["payload"]


def _other_entry(document: dict[str, Any]) -> None:
    _material(document)["tlogEntries"] = [Bundled.made(OURS, ONE).entry.in_bundle]


def _other_certificate(document: dict[str, Any]) -> None:
    _material(document)["certificate"] = _material(Bundled.made(OURS, ONE).document)["certificate"]


def _unreadable_certificate(document: dict[str, Any]) -> None:
    _material(document)["certificate"] = {"rawBytes": "AAAA"}


def _of_a_key(document: dict[str, Any]) -> None:
    _material(document)["publicKey"] = {"hint": "x"}
    del _material(document)["certificate"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_no_entry, "exactly one log entry"),
        (_no_proof, "inclusionProof"),
        (_no_time, "inclusion promise or signed timestamp"),
        (_other_promise, "invalid log entry"),
        (_other_time, "invalid log entry"),
        (_other_place, "invalid log entry"),
        (_other_checkpoint, "invalid log entry"),
        (_forged_checkpoint, "invalid log entry"),
        (_other_statement, "invalid signature"),
        (_other_entry, "do not match bundle"),
        (_other_certificate, "invalid signature"),
        (_unreadable_certificate, "can be read"),
        (_of_a_key, "a signature of a key: it has no certificate"),
    ],
)
def test_a_piece_of_a_bundle_is_wrong(
    shelf: Shelf, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    right = Bundled.made(OURS, ONE)
    wrong = json.loads(json.dumps(right.document))
    change(wrong)
    shelf.refer(ONE, bundle_with(ONE, wrong), listed=True)
    assert words in why(shelf)
    right.push(shelf, bundle_with(ONE, wrong))
    assert refused(shelf) is None, "another signature counts"


def test_a_statement_of_another_artifact_does_not_sign_this_one(shelf: Shelf) -> None:
    Bundled.made(OURS, ONE, claim=statement(TWO)).push(shelf)
    assert why(shelf) == "has a signature that belongs to another artifact"


def test_an_attestation_is_no_keyless_signature(shelf: Shelf) -> None:
    claim = statement(ONE, "https://slsa.dev/provenance/v1")
    Bundled.made(OURS, ONE, claim=claim).push(shelf)
    assert why(shelf) == "has no signature"


def test_a_signature_of_the_manifest_itself_counts(shelf: Shelf) -> None:
    shelf.refer(ONE, message_bundle(OURS, ONE, b"another"), listed=True)
    assert "Signature is invalid" in why(shelf)
    shelf.refer(ONE, message_bundle(OURS, ONE, ARTIFACT.manifest), listed=True)
    assert refused(shelf) is None


def test_signatures_of_keys_are_named(shelf: Shelf) -> None:
    key = new_key()
    shelf.push(signature(ONE, key), signature_tag(ONE))
    shelf.refer(ONE, bundle(ONE, key, statement(ONE)), listed=True)
    found = refused(shelf)
    assert found is not None
    assert found.found == ("a signature of a key: it has no certificate",) * 2


def test_a_refusal_lists_few_signers(shelf: Shelf) -> None:
    layers = [Tagged.made(OURS, ONE, Request(issuer=f"https://{n}.example")) for n in range(7)]
    shelf.push(signatures(*(one.layer for one in layers)), signature_tag(ONE))
    found = refused(shelf)
    assert found is not None
    assert found.found[0] == f"issuer https://0.example, subject {SUBJECT}: not a wanted identity"
    assert found.found[5:] == ("and 2 more",)


# The trusted root ---------------------------------------------------------------------------------


def test_the_public_instance_is_the_default() -> None:
    TrustedIdentities((WANTED,)).check()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "no trusted_root.json"),
        ({"trusted_root.json": ""}, "no trusted_root.json"),
        ({"trusted_root.json": "x"}, "no trusted root of Sigstore"),
        ({"trusted_root.json": "{}"}, "trustedRoot.mediaType: Field required"),
    ],
)
def test_a_secret_without_a_trusted_root_is_refused(data: dict[str, str], words: str) -> None:
    with pytest.raises(UsageProblem, match=words) as caught:
        TrustedIdentities.below((WANTED,), data, "shop/root").check()
    assert caught.value.findings[0].code == "GK7025"
