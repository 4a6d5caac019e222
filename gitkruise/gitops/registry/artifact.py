"""An artifact of a registry: its manifest, and the files of its one layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.git.rendering.archive import ARCHIVE_MAX, UNREADABLE, unpacked
from gitkruise.gitops.registry.distribution import Manifest, RegistryRepository, digest_in
from gitkruise.printable import shown

FLUX_CONTENT: Final = "application/vnd.cncf.flux.content.v1.tar+gzip"
_ARCHIVES: Final = ("tar+gzip", "tar.gzip")  # how the media types of archives end


_PUSH: Final = "push a folder with flux push artifact or oras, which make one archive"


class UnusableArtifact(Exception):
    """An artifact without files that can be read; the text says why."""

    def __init__(self, why: str, following: str = _PUSH) -> None:
        super().__init__(why)
        self.following = following


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Content of a manifest: its SHA-256 in hex, its annotations and the files by path."""

    digest: str
    annotations: Mapping[str, str]
    files: Mapping[str, bytes]


async def artifact_of(
    repository: RegistryRepository, digest: str, media_type: str = ""
) -> Artifact:
    """Return the artifact whose manifest has this SHA-256, with the files of its first layer of a
    media type.

    Raises Unavailable, OtherContent and UnusableArtifact.
    """
    manifest = await repository.manifest(f"sha256:{digest}", "its manifest")
    layer = digest_in(_layer(manifest, media_type).get("digest"))
    if not layer:
        raise UnusableArtifact("its layer has no SHA-256")
    data = await repository.verified_blob(layer, "its layer", bytes_max=ARCHIVE_MAX)
    try:
        files = unpacked(data)
    except UNREADABLE as error:
        raise UnusableArtifact(f"its layer is not unpacked: {shown(str(error), 300)}") from error
    return Artifact(digest=digest, annotations=manifest.annotations, files=files)


def _layer(manifest: Manifest, media_type: str) -> Mapping[str, Any]:
    """Return the layer with the files: the first of a media type; without one that of Flux, or the
    only archive."""
    if manifest.is_index:
        raise UnusableArtifact("it is an index of several manifests, as an image for platforms is")
    kinds = [str(layer.get("mediaType")) for layer in manifest.layers]
    found = [kind == (media_type or FLUX_CONTENT) for kind in kinds]
    named = ", ".join(shown(kind, 80) for kind in kinds[:5]) or "no layer"
    if media_type and not any(found):
        raise UnusableArtifact(
            f"no layer has the media type {shown(media_type)} of layerSelector, and it has {named}",
            "write the media type of a layer that it has in layerSelector.mediaType",
        )
    if not any(found):
        found = [kind.endswith(_ARCHIVES) for kind in kinds]
    if not media_type and sum(found) != 1:
        raise UnusableArtifact(
            f"one layer must be an archive (tar+gzip), and it has {named}",
            f"{_PUSH}, or name one layer of several in layerSelector.mediaType",
        )
    return manifest.layers[found.index(True)]
