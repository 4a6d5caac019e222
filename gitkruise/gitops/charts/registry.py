"""Charts of an OCI registry: tags are versions, the archive is a blob of a manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

from gitkruise.errors import Unavailable
from gitkruise.git.helm.archive import ARCHIVE_MAX
from gitkruise.gitops.charts.cache import WantedChart
from gitkruise.gitops.charts.requests import ChartHost, body_of, decoded
from gitkruise.gitops.charts.versions import ChartVersion, no_chart
from gitkruise.printable import shown

_PAGES_MAX: Final = 50
_TAGS_MAX: Final = 100_000
_ANSWER_MAX: Final = 4 << 20
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_ARCHIVES: Final = (
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/tar+gzip",
)  # fmt: skip
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_NEXT: Final = re.compile(r'<([^>]+)>;\s*rel="?next"?')


async def versions_of(host: ChartHost, wanted: WantedChart) -> Sequence[ChartVersion]:
    """Return the versions of a chart. Raises Unavailable, and InvalidManifests GK3414 for a chart
    that is not there."""
    tags = await tags_of(host, _path(host, wanted))
    if tags is None:
        raise no_chart(wanted, ())
    # A tag has no +, which helm writes as _.
    return [ChartVersion(version=tag.replace("_", "+")) for tag in tags]


async def tags_of(host: ChartHost, path: str) -> list[str] | None:
    """Return the tags of a repository of a registry; None where it is not there. Raises
    Unavailable."""
    found: list[str] = []
    url = f"{_root(host, path)}/tags/list?n=1000"
    for _ in range(_PAGES_MAX):
        reply = await host.get(url, bytes_max=_ANSWER_MAX)
        if reply.status == 404:
            return None
        tags = decoded(reply, "the list of tags").get("tags")
        found += (tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, str))
        if len(found) > _TAGS_MAX:
            raise Unavailable(f"it lists more than {_TAGS_MAX} tags")
        more = _NEXT.search(reply.headers.get("Link", ""))
        if more is None:
            return found
        url = host.allowed(urljoin(url, more[1]))
    raise Unavailable(f"it lists more than {_PAGES_MAX} pages of tags")


async def archive_of(host: ChartHost, wanted: WantedChart, version: ChartVersion) -> bytes:
    """Return the archive of a version with its digest, unverified. Raises Unavailable."""
    url = f"{_root(host, _path(host, wanted))}/blobs/sha256:{version.digest}"
    reply = await host.get(url, bytes_max=ARCHIVE_MAX)
    return body_of(reply, f"the archive of version {shown(version.version)}")


async def digest_of(host: ChartHost, wanted: WantedChart, version: ChartVersion) -> str:
    """Return the SHA-256 of the archive of a version. Raises Unavailable."""
    tag = quote(version.version.replace("+", "_"), safe="")
    what = f"the manifest of version {shown(version.version)}"
    reply = await host.get(
        f"{_root(host, _path(host, wanted))}/manifests/{tag}",
        bytes_max=_ANSWER_MAX,
        headers={"Accept": _MANIFEST},
    )
    layers = decoded(reply, what).get("layers")
    for layer in layers if isinstance(layers, list) else ():
        digest = _archive_in(layer)
        if digest:
            return digest
    raise Unavailable(f"{what}: it has no chart")


def _archive_in(layer: Any) -> str:
    if not isinstance(layer, Mapping) or layer.get("mediaType") not in _ARCHIVES:
        return ""
    digest = _DIGEST.fullmatch(str(layer.get("digest")))
    return digest[1] if digest else ""


def _path(host: ChartHost, wanted: WantedChart) -> str:
    return f"{urlsplit(host.home).path.strip('/')}/{wanted.name}".strip("/")


def _root(host: ChartHost, path: str) -> str:
    parts = urlsplit(host.home)
    return f"{parts.scheme}://{parts.netloc}/v2/{quote(path)}"
