"""Keyless signatures of artifacts by an instance of Sigstore, as cosign 2 and 3 store them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.gitops.registry.artifacts import (
    BUNDLE,
    Pushed,
    Shelf,
    bundle_of,
    envelope,
    enveloped,
    signature_tag,
    signatures,
    signing_payload,
    statement,
)
from tests.gitops.registry.sigstore_instance import (
    TIME,
    Entry,
    Instance,
    Request,
    Signer,
    b64,
    dsse,
    hashedrekord,
    sign,
)


@dataclass(frozen=True)
class Tagged:
    """A signature as cosign 2 stores it: under a tag, with the promise of the log."""

    digest: str
    payload: bytes
    signature: bytes
    signer: Signer
    entry: Entry

    @classmethod
    def made(
        cls, instance: Instance, digest: str, request: Request | None = None, *,
        at: datetime = TIME, payload: bytes = b"",
    ) -> Tagged:  # fmt: skip
        signer = instance.issue(request)
        payload = payload or signing_payload(digest)
        signature = sign(signer.key, payload)
        entry = instance.enter(hashedrekord(payload, signature, signer.pem), at)
        return cls(digest, payload, signature, signer, entry)

    @property
    def annotations(self) -> dict[str, str]:
        return {
            "dev.cosignproject.cosign/signature": b64(self.signature),
            "dev.sigstore.cosign/certificate": self.signer.pem,
            "dev.sigstore.cosign/bundle": self.entry.in_tag,
        }

    @property
    def layer(self) -> tuple[bytes, Mapping[str, str]]:
        return self.payload, self.annotations

    def push(self, shelf: Shelf) -> None:
        shelf.push(signatures(self.layer), signature_tag(self.digest))


@dataclass(frozen=True)
class Bundled:
    """A signature as cosign 3 stores it: a bundle that refers to the artifact."""

    digest: str
    statement: str
    signature: bytes
    signer: Signer
    entry: Entry

    @classmethod
    def made(
        cls, instance: Instance, digest: str, request: Request | None = None, *,
        at: datetime = TIME, claim: str = "",
    ) -> Bundled:  # fmt: skip
        signer = instance.issue(request)
        claim = claim or statement(digest)
        signature = sign(signer.key, enveloped(claim))
        entry = instance.enter(dsse(claim.encode(), signature, signer.pem), at)
        return cls(digest, claim, signature, signer, entry)

    @property
    def document(self) -> dict[str, Any]:
        content = {"dsseEnvelope": envelope(self.statement, self.signature)}
        return bundle_document(self.signer, self.entry, content)

    def push(self, shelf: Shelf, *more: Pushed) -> None:
        shelf.refer(self.digest, bundle_with(self.digest, self.document), *more, listed=True)


def bundle_document(signer: Signer, entry: Entry, content: Mapping[str, Any]) -> dict[str, Any]:
    raw = b64(signer.der)
    material = {"certificate": {"rawBytes": raw}, "tlogEntries": [entry.in_bundle]}
    return {"mediaType": BUNDLE, "verificationMaterial": material, **content}


def bundle_with(digest: str, document: Mapping[str, Any]) -> Pushed:
    return bundle_of(digest, json.dumps(document).encode())


def message_bundle(instance: Instance, digest: str, content: bytes) -> Pushed:
    """A bundle whose key signed bytes instead of a statement."""
    signer = instance.issue()
    signature = sign(signer.key, content)
    entry = instance.enter(hashedrekord(content, signature, signer.pem))
    return bundle_with(
        digest, bundle_document(signer, entry, {"messageSignature": {"signature": b64(signature)}})
    )
