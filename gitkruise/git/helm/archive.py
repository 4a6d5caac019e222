"""Archives of charts: read within limits, without links or paths that lead elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import posixpath
import tarfile
import zlib
from typing import Final

from gitkruise.errors import Finding, InvalidManifests, SourceFailed
from gitkruise.git.helm.release import FetchedChart
from gitkruise.git.rendering.program import BYTES_MAX, FILES_MAX
from gitkruise.printable import shown

ARCHIVE_MAX: Final = 20 << 20  # bytes, compressed
_PATH_MAX: Final = 1_024
_OVERHEAD: Final = 2  # headers and padding may take as much as the files


class _Bounded(io.RawIOBase):
    """The decompressed bytes of an archive. Raises ValueError beyond the limit, which a small
    archive may exceed a thousandfold."""

    def __init__(self, data: bytes) -> None:
        self._file = gzip.GzipFile(fileobj=io.BytesIO(data))
        self._left = _OVERHEAD * BYTES_MAX

    def read(self, size: int = -1) -> bytes:
        got = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(got)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {BYTES_MAX >> 20} MiB")
        return got


def files_of(chart: FetchedChart, data: bytes) -> dict[str, bytes]:
    """Return the files of an archive by their paths below its one folder.

    Raises SourceFailed GK3416 if the archive is another than the one that was fetched, and
    InvalidManifests GK3415 for one that is not unpacked.
    """
    if hashlib.sha256(data).hexdigest() != chart.digest:
        raise SourceFailed(
            Finding(
                code="GK3416",
                message=f"the cached archive of {chart} is not the one that was fetched",
                notes=(
                    ("unchanged", "what runs stays as it is; it is fetched again"),
                    ("next", "remove the folder charts of the state directory if it persists"),
                ),
            )
        )
    try:
        return _unpacked(data)
    except (ValueError, OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise InvalidManifests(
            Finding(
                code="GK3415",
                message=f"the archive of {chart} is not unpacked: {shown(str(error), 300)}",
                notes=(("next", "name another version, or report it to the chart's author"),),
            )
        ) from error


def _unpacked(data: bytes) -> dict[str, bytes]:
    """Return the files. Raises ValueError and whatever the readers of both formats raise."""
    found: dict[str, bytes] = {}
    size = 0
    with tarfile.open(fileobj=_Bounded(data), mode="r|") as archive:
        for member in archive:
            if member.isdir():
                continue
            path = _path_below(member)
            if path in found:
                raise ValueError(f"it has {shown(path)} twice")
            size += member.size
            if len(found) >= FILES_MAX or size > BYTES_MAX:
                raise ValueError(f"it has more than {FILES_MAX:,} files or {BYTES_MAX >> 20} MiB")
            content = archive.extractfile(member)
            assert content is not None
            found[path] = content.read()
    return found


def _path_below(member: tarfile.TarInfo) -> str:
    """Return the path of a file below the first folder. Raises ValueError for any other member."""
    name = member.name
    if not member.isreg():
        raise ValueError(f"{shown(name)} is a link or a device")
    path = posixpath.normpath(name)
    parts = path.split("/")
    odd = path.startswith("/") or ".." in name.split("/") or "\\" in name or not name.isprintable()
    if odd or len(parts) < 2 or len(name) > _PATH_MAX:
        raise ValueError(f"{shown(name)} is not a path below the chart's folder")
    return "/".join(parts[1:])
