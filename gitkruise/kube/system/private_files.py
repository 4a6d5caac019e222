"""Files of the user: private ones written whole, named ones read within limits."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from gitkruise.errors import ClusterFailed, Finding

READ_MAX: Final = 4 * 2**20  # bytes of a configuration, a key, a token, a certificate
_NOT_CREATED: Final = "it does not exist, and was not created"
# First steps that keep a file which is not to blame.
_KEEPING: Final = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there",
    errno.EIO: "check the disk",
    errno.EBUSY: "stop the other process that uses it",
    errno.EROFS: "check that you may write there",
}
# The same problems as SQLite numbers them: BUSY, READONLY, IOERR, FULL.
_OF_SQLITE: Final = {5: errno.EBUSY, 8: errno.EROFS, 10: errno.EIO, 13: errno.ENOSPC}


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 so that a reader sees the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp: 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def read_regular(path: Path, size_max: int = READ_MAX) -> bytes:
    """The content of a regular file; a pipe or a device is never waited for.

    Raises OSError, also for what is no regular file or larger than `size_max`. Blocking.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with os.fdopen(handle, "rb") as file:
        data = file.read(size_max + 1)
    if len(data) > size_max:
        raise OSError(errno.EFBIG, f"it is larger than {size_max} bytes", str(path))
    return data


def read_state(path: Path) -> bytes | None:
    """The content of a file of the state directory, None where there is none.

    Raises ClusterFailed GK4111. Blocking.
    """
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClusterFailed(unusable_state(path, error)) from error


def check_database(path: Path) -> None:
    """Refuse what SQLite would read without end. Raises ClusterFailed GK4111."""
    if path.exists() and not path.is_file():
        error = OSError(errno.EINVAL, "it is not a regular file", str(path))
        raise ClusterFailed(unusable_state(path, error))


def unusable_state(path: Path, error: Exception) -> Finding:
    """A state directory or a file in it that cannot be used."""
    why = error.strerror if isinstance(error, OSError) else None
    there = os.path.lexists(path)
    other = f"remove {path}" if there else f"check that you may write to {path.parent}"
    first = _KEEPING.get(_number(error), other)
    return Finding(
        code="GK4111",
        message=f"cannot use {path} of the state directory: {why or error}",
        notes=(
            ("unchanged", "it was left as it is" if there else _NOT_CREATED),
            ("next", f"{first}, or set GITKRUISE_STATE to another directory"),
        ),
    )


def _number(error: Exception) -> int:
    """Return the error number of the system; 0 for none."""
    if isinstance(error, OSError):
        return error.errno or 0
    return _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, 0)
