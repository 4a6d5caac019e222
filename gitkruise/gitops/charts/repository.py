"""A chart repository: an index.yaml with the versions of all charts, and their archives."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from gitkruise.errors import Unavailable
from gitkruise.git.rendering.archive import ARCHIVE_MAX
from gitkruise.git.rendering.program import isolated
from gitkruise.gitops.charts.cache import WantedChart
from gitkruise.gitops.charts.versions import ChartVersion, no_chart
from gitkruise.gitops.registry.requests import ContentHost, body_of
from gitkruise.printable import shown

INDEX_MAX: Final = 50 << 20
_PROGRAM: Final = "from gitkruise.git.helm.index import main; main()"
_READ_S: Final = 60.0
_MEMORY_MIB: Final = 512
_ANSWER_MAX: Final = 16 << 20
_SHA256: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(slots=True)
class ChartIndex:
    """The last index of a repository: its ETag, and the charts that were read of it."""

    tag: str = ""
    data: bytes = b""
    read: dict[str, tuple[Sequence[ChartVersion], Sequence[str]]] = field(default_factory=dict)


async def versions_of(
    host: ContentHost, wanted: WantedChart, index: ChartIndex
) -> Sequence[ChartVersion]:
    """Return the versions of a chart; `index` is brought up to date.

    Raises Unavailable, and InvalidManifests GK3414 for a chart that is not there.
    """
    known = {"If-None-Match": index.tag} if index.tag else {}
    url = f"{host.home.rstrip('/')}/index.yaml"
    reply = await host.get(url, bytes_max=INDEX_MAX, headers=known)
    if not (reply.status == 304 and index.tag):
        data = body_of(reply, "index.yaml")
        if data != index.data:
            index.data, index.read = data, {}
        index.tag = reply.headers.get("ETag", "")
    if wanted.name not in index.read:
        index.read[wanted.name] = await asyncio.to_thread(_read, index.data, wanted.name)
    versions, near = index.read[wanted.name]
    if not versions:
        raise no_chart(wanted, near)
    return versions


async def archive_of(host: ContentHost, version: ChartVersion) -> bytes:
    """Return the archive of a version, unverified. Raises Unavailable."""
    if not version.urls:
        raise Unavailable(f"its index has no address for version {shown(version.version)}")
    url = host.allowed(urljoin(f"{host.home.rstrip('/')}/", version.urls[0]))
    reply = await host.get(url, bytes_max=ARCHIVE_MAX)
    return body_of(reply, f"the archive of version {shown(version.version)}")


def _read(data: bytes, chart: str) -> tuple[Sequence[ChartVersion], Sequence[str]]:
    """Read the versions of a chart, and names close to it if there are none, in a program of its
    own: a stranger's YAML can take any time and memory."""
    paths = ":".join(path for path in sys.path if path)
    with tempfile.TemporaryDirectory(prefix="gitkruise-index-") as name:
        home = Path(name)
        (home / "index.yaml").write_bytes(data)
        words = [sys.executable, "-P", "-c", _PROGRAM, str(home / "index.yaml"), chart]
        result = isolated(
            words, home, environment={"PYTHONPATH": paths, "LC_ALL": "C.UTF-8"},
            timeout_s=_READ_S, memory_mib=_MEMORY_MIB, output_max=_ANSWER_MAX,
        )  # fmt: skip
    if result.stopped or result.status < 0:
        raise Unavailable(f"its index is beyond a limit: {result.stopped or 'memory or time'}")
    if result.status != 0:
        last = (result.errors.strip().splitlines() or ["?"])[-1]
        raise Unavailable(f"its index.yaml cannot be read: {shown(last)}")
    entries, near = json.loads(result.output)
    return [*_versions(entries)], near


def _versions(entries: Sequence[Any]) -> Iterator[ChartVersion]:
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("version"), str):
            digest = _SHA256.fullmatch(str(entry.get("digest") or "").lower())
            listed = entry.get("urls")
            urls = tuple(url for url in listed or () if isinstance(url, str) and url)
            yield ChartVersion(
                version=entry["version"], digest=digest[1] if digest else "", urls=urls
            )
