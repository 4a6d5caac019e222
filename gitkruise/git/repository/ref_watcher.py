"""Watch of the refs of a local repository; changes are reported within milliseconds."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from gitkruise.git.repository.repository import Repository
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)

_NAMES: Final = frozenset({"HEAD", "packed-refs"})
_READING: Final = frozenset({"opened", "closed_no_write"})
_FILES_MAX: Final = 100_000
_STOP_S: Final = 5.0

# A folder made while it is being walked is met twice; watchdog says so and goes on rightly.
warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning, r"watchdog\.")
# An event that arrives while a watch is stopped is an error to watchdog. It is the usual end here.
logging.getLogger("watchdog.observers.inotify").addFilter(
    lambda record: "the thread is inactive" not in record.getMessage()
)


async def ref_changes(repository: Repository, *, poll_s: float = 1.0) -> AsyncGenerator[None, None]:
    """One item as soon as watching has begun, then one per burst of changes of refs.

    Where the system cannot watch, refs are compared every `poll_s` seconds, and a line says so.
    """
    moved = asyncio.Event()
    loop = asyncio.get_running_loop()

    def notify() -> None:
        with suppress(RuntimeError):  # the loop is closed: no task waits any more
            loop.call_soon_threadsafe(moved.set)

    observer = await asyncio.to_thread(_start, repository.git_dir, notify)
    try:
        before = _fingerprint(repository.git_dir) if observer is None else ()
        yield None
        while True:
            if observer is not None:
                await moved.wait()
                moved.clear()
                yield None
                continue
            await asyncio.sleep(poll_s)
            now = await asyncio.to_thread(_fingerprint, repository.git_dir)
            if now != before:
                before = now
                yield None
    finally:
        if observer is not None:
            observer.stop()
            await asyncio.to_thread(observer.join, _STOP_S)


def _start(git_dir: Path, notify: Callable[[], None]) -> BaseObserver | None:
    """A running observer of HEAD, packed-refs, refs/ and reftable/, or None where none can be."""
    observer = Observer()
    handler = _Handler(git_dir, notify)
    try:
        observer.schedule(handler, str(git_dir), recursive=False)
        for name in ("refs", "reftable"):
            if (git_dir / name).is_dir():
                observer.schedule(handler, str(git_dir / name), recursive=True)
        observer.start()
    except OSError as error:
        log.warning(
            log_line("refs-not-watched", effect="refs are polled", repository=git_dir, error=error)
        )
        return None
    return observer


class _Handler(FileSystemEventHandler):
    def __init__(self, git_dir: Path, notify: Callable[[], None]) -> None:
        self._git_dir, self._notify = git_dir, notify

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in _READING:
            return
        paths = [str(event.src_path), str(event.dest_path or "")]
        if any(_is_ref(self._git_dir, path) for path in paths if path):
            self._notify()


def _is_ref(git_dir: Path, path: str) -> bool:
    if path.endswith(".lock"):
        return False
    parts = Path(path).relative_to(git_dir).parts if Path(path).is_relative_to(git_dir) else ()
    return len(parts) > 1 or (len(parts) == 1 and parts[0] in _NAMES)


def _fingerprint(git_dir: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of everything that holds refs."""
    found: list[tuple[str, int, int]] = []
    candidates = [git_dir / name for name in sorted(_NAMES)]
    candidates += sorted((git_dir / "refs").rglob("*"))[:_FILES_MAX]
    for path in candidates:
        try:
            about = path.stat()
        except FileNotFoundError:
            continue  # gone since it was listed; the next look sees that
        found.append((str(path), about.st_size, about.st_mtime_ns))
    return tuple(found)
