"""Artifacts as `flux push artifact` and `cosign sign` make them, for a registry or test code."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256, HashAlgorithm

from tests.gitops.charts.hosts import Host

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONTENT: Final = "application/vnd.cncf.flux.content.v1.tar+gzip"
CONFIG: Final = "application/vnd.cncf.flux.config.v1+json"
SIGNING: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
STATEMENT: Final = "application/vnd.in-toto+json"
SIGNS: Final = "https://sigstore.dev/cosign/sign/v1"
CREATED: Final = "2026-11-20T10:00:00Z"
REVISION: Final = "main@sha1:4f2c9e1d3b5a79f0e2c4a6b8d0f1e3c5a7b9d2e4"
SOURCE: Final = "https://git.example/shop/app.git"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def flux_archive(files: Mapping[str, str]) -> bytes:
    """A folder as flux packs it: the folder itself, folders before their files, no times."""
    target = io.BytesIO()
    folders = {path.rpartition("/")[0] for path in files} - {""}
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in (".", *sorted(folders)):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for name, text in files.items():
            data = text.encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(target.getvalue(), mtime=0)


@dataclass(frozen=True)
class Pushed:
    """A manifest and its blobs by digest."""

    manifest: bytes
    blobs: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def artifact(
    files: Mapping[str, str], *, created: str = CREATED, layer: Mapping[str, Any] | None = None,
    data: bytes | None = None, more: Mapping[str, bytes] | None = None,
) -> Pushed:  # fmt: skip
    """What `flux push artifact` writes for a folder; `more` layers by media type follow."""
    config, content = b"{}", flux_archive(files) if data is None else data
    described = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(config), "digest": digest_of(config)},
        "layers": [
            {
                "mediaType": CONTENT, "size": len(content), "digest": digest_of(content),
                **(layer or {}),
            },
            *(
                {"mediaType": kind, "size": len(added), "digest": digest_of(added)}
                for kind, added in (more or {}).items()
            ),
        ],
        "annotations": {
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.revision": REVISION,
            "org.opencontainers.image.source": SOURCE,
        },
    }  # fmt: skip
    blobs = {digest_of(one): one for one in (config, content, *(more or {}).values())}
    return Pushed(json.dumps(described, separators=(",", ":")).encode(), blobs)


def signing_payload(digest: str, kind: str = "cosign container image signature") -> bytes:
    """What cosign 2 signs of the manifest with this digest."""
    return json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": "registry.example/app"},
                "image": {"docker-manifest-digest": digest},
                "type": kind,
            },
            "optional": None,
        },
        separators=(",", ":"),
    ).encode()


def signature(digest: str, key: ec.EllipticCurvePrivateKey, kind: str = "cosign container image "
              "signature") -> Pushed:  # fmt: skip
    """What `cosign sign --key` writes for the manifest with this digest."""
    payload = signing_payload(digest, kind)
    signed = base64.b64encode(key.sign(payload, ec.ECDSA(SHA256()))).decode()
    return signatures((payload, {"dev.cosignproject.cosign/signature": signed}))


def signatures(*layers: tuple[bytes, Mapping[str, str]]) -> Pushed:
    """What is under the tag of signatures: signed payloads, and their annotations."""
    config = b"{}"
    described = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json", "size": len(config),
            "digest": digest_of(config),
        },
        "layers": [
            {
                "mediaType": SIGNING, "size": len(payload), "digest": digest_of(payload),
                "annotations": annotations,
            }
            for payload, annotations in layers
        ],
    }  # fmt: skip
    blobs = {digest_of(one): one for one in (config, *(payload for payload, _ in layers))}
    return Pushed(json.dumps(described, separators=(",", ":")).encode(), blobs)


def statement(digest: str, predicate: str = SIGNS) -> str:
    """What the key of a bundle signs of the manifest with this digest."""
    subject = {"digest": {"sha256": digest.removeprefix("sha256:")}, "annotations": {}}
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1", "subject": [subject],
            "predicateType": predicate, "predicate": {},
        }
    )  # fmt: skip


def bundle(digest: str, key: ec.EllipticCurvePrivateKey, payload: str,
           hashed: HashAlgorithm | None = None) -> Pushed:  # fmt: skip
    """What cosign 3 writes for the manifest with this digest: a manifest that refers to it."""
    signature = key.sign(enveloped(payload), ec.ECDSA(hashed or SHA256()))
    document = {
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": "x"}},
        "dsseEnvelope": envelope(payload, signature),
    }
    return bundle_of(digest, json.dumps(document).encode())


def enveloped(payload: str) -> bytes:
    """What the key of an envelope signs of a statement."""
    return f"DSSEv1 {len(STATEMENT)} {STATEMENT} {len(payload)} {payload}".encode()


def envelope(payload: str, signature: bytes) -> dict[str, Any]:
    """A signed statement."""
    return {
        "payload": base64.b64encode(payload.encode()).decode(), "payloadType": STATEMENT,
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }  # fmt: skip


def bundle_of(digest: str, data: bytes) -> Pushed:
    """A manifest with these bytes as the bundle of a manifest."""
    config = b"{}"
    empty = "application/vnd.oci.empty.v1+json"
    described = {
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
        "config": {"mediaType": empty, "size": len(config), "digest": digest_of(config)},
        "layers": [{"mediaType": BUNDLE, "size": len(data), "digest": digest_of(data)}],
        "subject": {"mediaType": MANIFEST, "size": 1, "digest": digest},
    }  # fmt: skip
    blobs = {digest_of(config): config, digest_of(data): data}
    return Pushed(json.dumps(described, separators=(",", ":")).encode(), blobs)


def signature_tag(digest: str) -> str:
    return f"{digest.replace(':', '-')}.sig"


@dataclass
class Shelf:
    """A repository of a registry that test code plays."""

    host: Host
    name: str = "app"
    tags: dict[str, str] = field(default_factory=dict)  # to digests

    @property
    def url(self) -> str:
        return f"oci://{self.host.url.removeprefix('http://')}/{self.name}"

    def push(self, pushed: Pushed, *tags: str) -> None:
        """Have an artifact under these tags."""
        base = f"/v2/{self.name}"
        for digest, data in pushed.blobs.items():
            self.host.has(f"{base}/blobs/{digest}", data)
        for reference in (pushed.digest, *tags):
            self.host.has(
                f"{base}/manifests/{reference}", pushed.manifest,
                **{"Content-Type": MANIFEST, "Docker-Content-Digest": pushed.digest},
            )  # fmt: skip
        self.tags |= dict.fromkeys(tags, pushed.digest)
        listed = json.dumps({"name": self.name, "tags": sorted(self.tags)}).encode()
        self.host.has(f"{base}/tags/list?n=1000", listed)

    def refer(self, digest: str, *bundles: Pushed, listed: bool) -> None:
        """Have bundles that refer to a manifest, in the registry's list or under its tag."""
        for one in bundles:
            self.push(one)
        entries = [
            {"mediaType": MANIFEST, "digest": one.digest, "size": len(one.manifest),
             "artifactType": BUNDLE}
            for one in bundles
        ]  # fmt: skip
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        data, base = json.dumps(index).encode(), f"/v2/{self.name}"
        if listed:
            self.host.has(f"{base}/referrers/{digest}", data, **{"Content-Type": INDEX})
        else:
            headers = {"Content-Type": INDEX, "Docker-Content-Digest": digest_of(data)}
            for reference in (digest.replace(":", "-"), digest_of(data)):
                self.host.has(f"{base}/manifests/{reference}", data, **headers)


def push_to(registry: str, name: str, pushed: Pushed, *tags: str, authorization: str = "") -> None:
    """Push to a real registry by the distribution API."""
    headers = {"Authorization": authorization} if authorization else {}
    base = f"http://{registry}/v2/{name}"

    def send(method: str, url: str, data: bytes, kind: str) -> str:
        request = urllib.request.Request(
            url, data=data, method=method, headers={**headers, "Content-Type": kind}
        )
        with urllib.request.urlopen(request) as reply:
            return str(reply.headers.get("Location", ""))

    for digest, data in pushed.blobs.items():
        where = urljoin(base, send("POST", f"{base}/blobs/uploads/", b"", ""))
        joint = "&" if "?" in where else "?"
        send("PUT", f"{where}{joint}digest={digest}", data, "application/octet-stream")
    for tag in tags or (pushed.digest,):
        send("PUT", f"{base}/manifests/{tag}", pushed.manifest, MANIFEST)
