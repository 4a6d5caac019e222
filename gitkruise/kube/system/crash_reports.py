"""Reports of unexpected exceptions: private files, few and short, one for each place that fails."""

from __future__ import annotations

import hashlib
import os
import platform
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitkruise import __version__
from gitkruise.kube.system.private_files import write_private

FOLDER: Final = "crashes"  # in the state directory
REPORTS_MAX: Final = 32
REPORT_MAX: Final = 64 * 1024  # bytes
_CUT: Final = b"\n[...]\n"
_HOME: Final = Path(__file__).parents[2]
_EDGES: Final = {"containment.py", "root.py"}  # they catch what others raise


@dataclass(frozen=True, slots=True)
class CrashReports:
    """A folder with the newest REPORTS_MAX reports, each of mode 0600.

    The same exception at the same place always has the same report, so that what is tried again
    for weeks fills no disk. The texts of exceptions are left out: they may quote a Secret.
    """

    folder: Path

    def write(self, error: BaseException, subject: str) -> Path:
        """Keep the stack trace of `error`, met while `subject` was handled; the report's path.

        Raises OSError where the folder cannot be written. Blocking.
        """
        path = self.folder / f"crash-{_digest(error, subject)}.txt"
        if path.exists():
            os.utime(path)  # it is as new as one that was written now
        else:
            write_private(path, _text(error, subject))
            self._drop_old()
        return path

    def kept(self, error: BaseException, subject: str) -> str:
        """The path of the report, or the reason why there is none; for messages. Blocking."""
        try:
            return str(self.write(error, subject))
        except OSError as problem:
            return f"not written ({problem.strerror or type(problem).__name__})"

    def _drop_old(self) -> None:
        found = sorted(self.folder.glob("crash-*.txt"), key=_age)
        for path in found[:-REPORTS_MAX]:
            path.unlink(missing_ok=True)


def place(error: BaseException) -> str:
    """` in wire/primitives/names.py:33`: the line of ours that `error` came through last."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if _HOME in file.parents and file.name not in _EDGES:
            found = f" in {file.relative_to(_HOME)}:{line}"
    return found


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process dropped it
        return 0.0


def _digest(error: BaseException, subject: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = [f"{frame.filename}:{frame.lineno}" for frame in frames]
    gist = "\n".join([subject, type(error).__name__, *where])
    return hashlib.blake2b(gist.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _text(error: BaseException, subject: str) -> bytes:
    """The report: its beginning and its end, where it is too long."""
    head = (
        f"gitkruise {__version__}, Python {platform.python_version()}, {platform.system()}\n"
        f"{subject}\n"
        "Texts of exceptions are left out, because they may quote a Secret.\n"
    )
    whole = (head + "".join(stacks(error))).encode("utf-8", "replace")
    if len(whole) <= REPORT_MAX:
        return whole
    half = (REPORT_MAX - len(_CUT)) // 2
    return whole[:half] + _CUT + whole[-half:]


def stacks(error: BaseException) -> Iterator[str]:
    """Yield the stack of `error`, of each in a group, and of the causes, without their texts."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield "\nTraceback (most recent call last):\n"
        yield from traceback.format_tb(one.__traceback__)
        yield f"{type(one).__module__}.{type(one).__qualname__}\n"
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(one.exceptions)
        origin = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if origin is not None:
            waiting.append(origin)
