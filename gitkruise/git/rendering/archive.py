"""Archives: read within limits, without links or paths that lead elsewhere."""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from typing import Final

from gitkruise.git.rendering.program import BYTES_MAX, FILES_MAX
from gitkruise.printable import shown

ARCHIVE_MAX: Final = 20 << 20  # bytes, compressed
# Everything that the readers of both formats raise.
UNREADABLE: Final = (ValueError, OSError, EOFError, zlib.error, tarfile.TarError)
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


def unpacked(data: bytes, *, inside: str = "") -> dict[str, bytes]:
    """Return the files of a .tar.gz by their paths.

    `inside` names the one folder that holds them all, which is no part of their paths; "" for an
    archive without such a folder. Raises UNREADABLE.
    """
    found: dict[str, bytes] = {}
    size = 0
    with tarfile.open(fileobj=_Bounded(data), mode="r|") as archive:
        for member in archive:
            if member.isdir():
                continue
            path = _path_of(member, inside)
            if path in found:
                raise ValueError(f"it has {shown(path)} twice")
            size += member.size
            if len(found) >= FILES_MAX or size > BYTES_MAX:
                raise ValueError(f"it has more than {FILES_MAX:,} files or {BYTES_MAX >> 20} MiB")
            content = archive.extractfile(member)
            assert content is not None
            found[path] = content.read()
    folders = {folder for path in found for folder in _folders_of(path)}
    if both := sorted(folders & found.keys()):
        raise ValueError(f"{shown(both[0])} is a file and a folder")
    return found


def _folders_of(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _path_of(member: tarfile.TarInfo, inside: str) -> str:
    """Return the path of a file. Raises ValueError for any other member."""
    name = member.name
    if not member.isreg():
        raise ValueError(f"{shown(name)} is a link or a device")
    path = posixpath.normpath(name)
    parts = path.split("/")
    odd = path.startswith("/") or ".." in name.split("/") or "\\" in name or not name.isprintable()
    if odd or (inside and len(parts) < 2) or len(name) > _PATH_MAX:
        raise ValueError(f"{shown(name)} is not a path below {inside or 'the root'}")
    return "/".join(parts[1:]) if inside else path
