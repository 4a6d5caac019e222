"""Exclusive use of a state directory by one process, and which process used it last."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.system.private_files import unusable_state

RUN_LOCK: Final = "run.lock"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NOTE_MAX: Final = 4_096
_held: set[int] = set()


def _let_go() -> None:
    """A forked child is another process: only its parent holds what the parent locked."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


class Taken(Exception):
    """Another process holds the lock. `holder` describes it, as far as it is known."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


@contextmanager
def locked(path: Path, identity: str) -> Iterator[str]:
    """Hold the lock file `path` as `identity`; yield the identity of the process that held it last.

    That process has ended: the kernel releases a lock only with its process. The identity is ""
    where this cannot be known: a copied file, or another boot of the machine.
    Raises Taken, OSError.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    _held.add(handle)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "the lock is not a regular file", str(path))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Taken(_described(_note(handle))) from None
        place, before = _place(handle), _note(handle)
        same = all(before.get(key) == value for key, value in place.items())
        _write(handle, {**place, "pid": os.getpid(), "identity": identity})
        yield str(before.get("identity", "")) if same else ""
    finally:
        _held.discard(handle)
        os.close(handle)


@contextmanager
def state_locked(state_dir: Path, identity: str) -> Iterator[str]:
    """`locked` for the state directory of a controller. Raises ClusterFailed GK4118 or GK4111."""
    with ExitStack() as stack:
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            before = stack.enter_context(locked(state_dir / RUN_LOCK, identity))
        except Taken as error:
            raise ClusterFailed(_taken(state_dir, error.holder)) from None
        except OSError as error:
            path = Path(error.filename or state_dir / RUN_LOCK)
            raise ClusterFailed(unusable_state(path, error)) from error
        yield before


def is_taken(state_dir: Path) -> bool:
    """Return whether a controller runs with this state directory now."""
    return is_held(state_dir / RUN_LOCK)


def is_held(lock: Path) -> bool:
    """Return whether a process holds the lock file now."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would block
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _place(handle: int) -> dict[str, Any]:
    """The file itself and the boot of the machine: a lock counts only for these."""
    info = os.fstat(handle)
    boot = _BOOT.read_text("ascii").strip() if _BOOT.exists() else ""
    return {"boot": boot, "device": info.st_dev, "inode": info.st_ino}


def _note(handle: int) -> dict[str, Any]:
    """The words of the last holder; {} where they cannot be read."""
    try:
        found = json.loads(os.pread(handle, _NOTE_MAX, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _write(handle: int, note: dict[str, Any]) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(note).encode(), 0)


def _described(note: dict[str, Any]) -> str:
    pid, identity = note.get("pid"), note.get("identity")
    if not isinstance(pid, int) or not isinstance(identity, str):
        return "another process"
    return f"process {pid} ({identity})" if identity.isprintable() else f"process {pid}"


def _taken(state_dir: Path, holder: str) -> Finding:
    return Finding(
        code="GK4118",
        message=f"{state_dir}: {holder} already runs with this state directory",
        notes=(
            ("unchanged", "nothing was read from git or written"),
            ("next", "stop that process; for other units run with a --lease of its own"),
            ("or", "for another cluster set GITKRUISE_STATE to another directory"),
        ),
    )
