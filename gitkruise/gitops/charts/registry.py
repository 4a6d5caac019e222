"""Charts of an OCI registry: tags are versions, the archive is a blob of a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from gitkruise.errors import Unavailable
from gitkruise.git.rendering.archive import ARCHIVE_MAX
from gitkruise.gitops.charts.cache import WantedChart
from gitkruise.gitops.charts.versions import ChartVersion, no_chart
from gitkruise.gitops.registry.distribution import RegistryRepository, digest_in
from gitkruise.gitops.registry.requests import ContentHost
from gitkruise.printable import shown

_ARCHIVES: Final = (
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/tar+gzip",
)  # fmt: skip
# The manifest that a tag of a chart had last, and the archive in that, both by SHA-256.
ReadTags: TypeAlias = dict[tuple[str, str], tuple[str, str]]


async def versions_of(host: ContentHost, wanted: WantedChart) -> Sequence[ChartVersion]:
    """Return the versions of a chart. Raises Unavailable, and InvalidManifests GK3414 for a chart
    that is not there."""
    tags = await RegistryRepository(host, wanted.name).tags()
    if tags is None:
        raise no_chart(wanted, ())
    # A tag has no +, which helm writes as _.
    return [ChartVersion(version=tag.replace("_", "+")) for tag in tags]


async def archive_of(host: ContentHost, wanted: WantedChart, version: ChartVersion) -> bytes:
    """Return the archive of a version with its digest, unverified. Raises Unavailable."""
    what = f"the archive of version {shown(version.version)}"
    repository = RegistryRepository(host, wanted.name)
    return await repository.blob(version.digest, what, bytes_max=ARCHIVE_MAX)


async def digest_of(
    host: ContentHost, wanted: WantedChart, version: ChartVersion, known: ReadTags
) -> str:
    """Return the SHA-256 of the archive of a version, whose manifest is read again only if it is
    another: registries count such reads against their limits. Raises Unavailable."""
    what = f"the manifest of version {shown(version.version)}"
    tag = version.version.replace("+", "_")
    repository = RegistryRepository(host, wanted.name)
    before, digest = known.get((wanted.name, tag), ("", ""))
    if before and await repository.digest(tag, what) == before:
        return digest
    manifest = await repository.manifest(tag, what)
    for layer in manifest.layers:
        digest = digest_in(layer.get("digest"))
        if digest and layer.get("mediaType") in _ARCHIVES:
            known[wanted.name, tag] = manifest.digest, digest
            return digest
    raise Unavailable(f"{what}: it has no chart")
