"""Charts of an OCI registry: tags are versions, the archive is a blob of a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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


async def digest_of(host: ContentHost, wanted: WantedChart, version: ChartVersion) -> str:
    """Return the SHA-256 of the archive of a version. Raises Unavailable."""
    what = f"the manifest of version {shown(version.version)}"
    tag = version.version.replace("+", "_")
    manifest = await RegistryRepository(host, wanted.name).manifest(tag, what)
    for layer in manifest.layers:
        digest = digest_in(layer.get("digest"))
        if digest and layer.get("mediaType") in _ARCHIVES:
            return digest
    raise Unavailable(f"{what}: it has no chart")
