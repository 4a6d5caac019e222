"""Shortages of the machine: exceptions that no part of the program could have avoided."""

from __future__ import annotations

import errno
import resource
from collections.abc import Mapping
from typing import Final

from gitkruise.errors import SHORT, Finding

_FREE: Final = "free space, or give the state and temporary directories a larger volume"
_MEMORY: Final = "give the process more memory"
# By error number: the problem, and the remedy.
_SHORTAGES: Final[Mapping[int | None, tuple[str, str]]] = {
    errno.EMFILE: (
        "too many open files: the limit of this process is {files}",
        "raise the limit: `ulimit -n`, or LimitNOFILE of the service",
    ),
    errno.ENFILE: ("too many open files on this machine", "raise fs.file-max of the machine"),
    errno.ENOSPC: ("no space left on a device", _FREE),
    errno.EDQUOT: ("the disk quota is exhausted", _FREE),
    errno.ENOMEM: ("out of memory", _MEMORY),
}


def shortage(error: BaseException, subject: str, unchanged: str) -> Finding | None:
    """Return GK9012 for an exception that a shortage caused; None for any other."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError):
        number = errno.ENOMEM
    if number not in _SHORTAGES:
        return None
    problem, remedy = _SHORTAGES[number]
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Finding(
        code=SHORT,
        message=f"{subject}: {problem.format(files=files)}",
        notes=(("unchanged", unchanged), ("next", remedy)),
    )
