"""OCI images: layers, configuration and manifest, and the layout that runtimes import."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from release.archives import File, compressed, tar_of

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
_BLOBS: Final = "blobs/sha256"


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its gzip, and the digest of the tar inside."""

    data: bytes
    inside: str


@dataclass(frozen=True, slots=True)
class Image:
    """The blobs of one image."""

    config: bytes
    layers: tuple[Layer, ...]
    manifest: bytes

    @property
    def digest(self) -> str:
        return digest(self.manifest)

    @property
    def blobs(self) -> tuple[bytes, ...]:
        return self.config, *(layer.data for layer in self.layers), self.manifest

    def archive(self, reference: str) -> bytes:
        """The OCI layout as a tar, for `ctr images import`, podman and skopeo.

        The annotations name the image: the first for containerd, the second for the others.
        """
        entry = _descriptor(MANIFEST, self.manifest) | {
            "annotations": {
                "io.containerd.image.name": reference,
                "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
            }
        }
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}
        files = {
            "oci-layout": File(b'{"imageLayoutVersion":"1.0.0"}'),
            "index.json": File(_json(index)),
        }
        files |= {f"{_BLOBS}/{digest(blob)[7:]}": File(blob) for blob in self.blobs}
        return tar_of(files, folders=("blobs", _BLOBS))


def layer(tar: bytes, level: int = 6) -> Layer:
    """A layer of a tar."""
    return Layer(compressed(tar, level), digest(tar))


def image(
    layers: Sequence[Layer],
    settings: Mapping[str, Any],
    *,
    epoch: int = 0,
    annotations: Mapping[str, str] | None = None,
) -> Image:
    """An image for linux/amd64; `settings` are those of its containers."""
    config = _json(
        {
            "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "architecture": "amd64",
            "os": "linux",
            "config": {"WorkingDir": "/", **settings},
            "rootfs": {"type": "layers", "diff_ids": [one.inside for one in layers]},
        }
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, config),
        "layers": [_descriptor(LAYER, one.data) for one in layers],
    }
    if annotations:
        manifest["annotations"] = dict(annotations)
    return Image(config, tuple(layers), _json(manifest))


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "size": len(blob), "digest": digest(blob)}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
