"""Tar archives that depend on their content alone."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

EXECUTABLE: Final = 0o755
PLAIN: Final = 0o644


@dataclass(frozen=True, slots=True)
class File:
    """One regular file of an archive."""

    data: bytes
    mode: int = PLAIN


def tar_of(files: Mapping[str, File], *, folders: Iterable[str] = (), epoch: int = 0) -> bytes:
    """A tar of files by path, sorted and owned by root; `folders` come first, as they are given."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in folders:
            info = _entry(name, EXECUTABLE, epoch)
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        for name, file in sorted(files.items()):
            info = _entry(name, file.mode, epoch)
            info.size = len(file.data)
            tar.addfile(info, io.BytesIO(file.data))
    return written.getvalue()


def tar_of_folder(folder: Path, *, epoch: int) -> bytes:
    """A tar of everything in a folder, sorted, owned by root, with the time of the commit."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            info = _entry(name, PLAIN, epoch)
            if path.is_symlink():
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
                tar.addfile(info)
            elif path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, EXECUTABLE
                tar.addfile(info)
            else:
                info.size = path.stat().st_size
                info.mode = EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN
                with path.open("rb") as data:
                    tar.addfile(info, data)
    return written.getvalue()


def compressed(data: bytes, level: int = 9) -> bytes:
    """The data as gzip, without a name and a time."""
    return gzip.compress(data, level, mtime=0)


def _entry(name: str, mode: int, epoch: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = mode, epoch
    info.uname = info.gname = "root"
    return info


def unpack(tar: bytes | Path, into: Path) -> None:
    """Unpack a tar, compressed or not, with the program of that name.

    Filters of members came with Python 3.11.4, and Debian 12 has 3.11.2.
    """
    into.mkdir(parents=True, exist_ok=True)
    data, file = (tar, "-") if isinstance(tar, bytes) else (None, str(tar))
    words = ("tar", "--extract", "--numeric-owner", f"--file={file}", f"--directory={into}")
    subprocess.run(words, input=data, check=True)
