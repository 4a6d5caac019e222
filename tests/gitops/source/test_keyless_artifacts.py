"""Artifacts with keyless signatures, from the registry to the commit: followed, and refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gitops.registry.artifacts import Shelf
from tests.gitops.registry.keyless_signatures import Bundled, Tagged
from tests.gitops.registry.sigstore_instance import ISSUER, SUBJECT, Instance, Request
from tests.gitops.source.test_artifacts import ONE, TWO, Factory, Secrets, bench, secrets, shelf

__all__ = ["bench", "secrets", "shelf"]  # fixtures
SIGSTORE = Instance()
KEYLESS: dict[str, Any] = {
    "verify": {
        "provider": "cosign", "trustedRootSecretRef": {"name": "root"},
        "matchOIDCIdentity": [{"issuer": f"^{ISSUER}$", "subject": "shop/app/"}],
    }
}  # fmt: skip


@pytest.mark.parametrize("layout", [Tagged, Bundled])
def test_an_artifact_that_a_wanted_identity_signed_is_followed(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path, layout: type[Tagged | Bundled]
) -> None:
    secrets.data["root"] = {"trusted_root.json": SIGSTORE.trusted_root()}
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf, secrets, **KEYLESS)
    assert "GK3309" in source.refusal()
    layout.made(SIGSTORE, ONE.digest).push(shelf)
    assert source.resolve().revision == f"latest@{ONE.digest}"
    shelf.push(TWO, "latest")
    layout.made(SIGSTORE, TWO.digest, Request(issuer="https://other.example")).push(shelf)
    name = f"{shelf.url[6:]}@{TWO.digest}"
    lacks = "has no signature of a trusted identity"
    following = f"sign it as a wanted identity: cosign sign {name}"
    assert source.refusal().splitlines() == [
        f"GK3309: the artifact latest@{TWO.digest} of {shelf.url} {lacks}",
        f"('found', 'issuer https://other.example, subject {SUBJECT}: not a wanted identity')",
        f"('wanted', 'issuer ~ ^{ISSUER}$, subject ~ shop/app/')",
        "('trusted root', 'from Secret shop/root')",
        "('unchanged', 'what runs stays as it is; nothing of the artifact was read')",
        f"('next', '{following}; or correct verify.matchOIDCIdentity')",
    ]
    layout.made(SIGSTORE, TWO.digest).push(shelf)
    assert source.resolve().revision == f"latest@{TWO.digest}"
    secrets.data["root"] = {"trusted_root.json": Instance().trusted_root()}
    assert "GK3309" in source.refusal(), "the root is read with every poll"


def test_an_artifact_of_a_stranger_is_refused_below_the_public_root(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "latest")
    Bundled.made(SIGSTORE, ONE.digest).push(shelf)
    verify = {**KEYLESS["verify"], "trustedRootSecretRef": None}
    error = bench(tmp_path, shelf, verify=verify).refusal()
    assert "GK3309" in error
    assert "the public instance of Sigstore" in error
    assert "certificate chain" in error


def test_without_a_trusted_root_nothing_is_trusted(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path
) -> None:
    secrets.data["root"] = {"root.json": "{}"}
    shelf.push(ONE, "latest")
    error = bench(tmp_path, shelf, secrets, **KEYLESS).refusal()
    assert "GK3306" in error
    assert "the Secret shop/root has no trusted_root.json" in error


def test_verify_without_a_signer_trusts_nobody(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    """The configuration refuses it; if it got here, it would not be an artifact without verify."""
    shelf.push(ONE, "latest")
    Bundled.made(SIGSTORE, ONE.digest).push(shelf)
    assert "GK3309" in bench(tmp_path, shelf, verify={"provider": "cosign"}).refusal()


def test_the_extra_for_keyless_signatures_may_be_missing(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    secrets.data["root"] = {"trusted_root.json": Instance().trusted_root()}
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf, secrets, **KEYLESS)
    module = "gitkruise.gitops.registry.certificate_verifier"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "sigstore.verify", None)  # as if it were not installed
    error = source.refusal()
    assert "GK3310" in error
    assert "pip install 'gitkruise[keyless]'" in error
    monkeypatch.undo()
    assert "GK3309" in source.refusal()
