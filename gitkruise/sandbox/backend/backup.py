"""Backups of a sandbox's store: a consistent copy, its restoration, and an empty store.

A backup is a tar file of two members: `backup.json` with formats, counts and the digest of the
other one, and `cluster.db`, a store. It holds objects, Secrets included; certificates, keys and the
token belong to the state directory and are not in it, so kubeconfigs stay valid across a
restoration.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

from gitkruise import __version__
from gitkruise.errors import ClusterFailed
from gitkruise.kube.system.private_files import unusable_state, write_private
from gitkruise.sandbox.backend.sqlite import (
    COMPANIONS,
    FORMAT,
    CommitBatch,
    SqliteStore,
    refuse_foreign,
    sync_folder,
)
from gitkruise.sandbox.backend.state_dir import StateDir, failed
from gitkruise.wire.primitives.times import format_time

BACKUP_FORMAT: Final = 1  # of the tar file; a newer one is refused
LOST_GAP: Final = 1_000_000_000  # versions skipped where it is unknown which were handed out
_HEAD, _STORE = "backup.json", "cluster.db"
_HEAD_MAX: Final = 64 * 1024
_CHUNK: Final = 1 << 20
_PARTIAL: Final = ".restored"  # ends the name of a store while it is restored
_DAMAGED: Final = "GK4121"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Head of a backup. `store` is the format of the store in it, `version` the newest
    resourceVersion, `size` and `sha256` are those of the store's file."""

    format: int = BACKUP_FORMAT
    store: int = FORMAT
    gitkruise: str
    created: str
    objects: int
    version: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The store that was, or would be, replaced. `aside` is the folder that a damaged one was moved
    to, `objects` None where they could not be counted."""

    objects: int | None
    aside: Path | None = None


# Backup ------------------------------------------------------------------------------------------


def write_backup(state: StateDir, file: Path, now: datetime) -> Backup:
    """Write a backup of the store, also while a sandbox runs on it, and return its head.

    Everything that was acknowledged before is in it. `file` appears when it is complete. Raises
    ClusterFailed GK4121, GK4122 for the store, GK4124 for the file. Blocking.
    """
    if file.exists() or file.is_symlink():
        raise _not_written(file, "it exists", next="name another file")
    if not _files(state.store):
        raise _not_written(
            file, f"{state.root} has no store", next="gitkruise sandbox up creates one"
        )
    refuse_foreign(state.store)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            copy, whole = Path(folder, _STORE), Path(folder, file.name)
            _copy(state.store, copy)
            objects, version = _checked(state.store, copy)
            head = Backup(
                gitkruise=__version__, created=format_time(now), objects=objects,
                version=version, size=copy.stat().st_size, sha256=_sha256(copy),
            )  # fmt: skip
            _pack(whole, head, copy, now)
            whole.replace(file)
            sync_folder(file.parent)
    except OSError as error:
        why = str(error.strerror or error)
        raise _not_written(file, why, next="name a file in a folder of yours") from error
    return head


def _copy(store: Path, copy: Path) -> None:
    """Write what the store holds now into a file of its own, without the traces of deletions."""
    try:
        with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.isolation_level = None
            database.execute("VACUUM INTO ?", (str(copy),))
    except sqlite3.Error as error:
        if error.sqlite_errorcode in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise _not_copied(store, str(error)) from error


def _checked(store: Path, copy: Path) -> tuple[int, int]:
    try:
        return _measured(copy)
    except ClusterFailed as error:
        raise _not_copied(store, _reason(error)) from error


def _measured(path: Path) -> tuple[int, int]:
    """Return the number of objects of a store and its version. Raises ClusterFailed GK4121."""
    with closing(SqliteStore(path)) as store:
        objects, _ = store.load()
        return len(objects), store.version()


def _pack(file: Path, head: Backup, store: Path, now: datetime) -> None:
    with file.open("xb") as whole:
        file.chmod(0o600)
        with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            data = json.dumps(asdict(head), indent=2).encode() + b"\n"
            _add(tar, _HEAD, len(data), now, io.BytesIO(data))
            with store.open("rb") as content:
                _add(tar, _STORE, head.size, now, content)
        whole.flush()
        os.fsync(whole.fileno())


def _add(tar: tarfile.TarFile, name: str, size: int, now: datetime, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o600, int(now.timestamp())
    tar.addfile(member, content)


# Restoration -------------------------------------------------------------------------------------


def check_backup(state: StateDir, file: Path) -> tuple[Backup, Replaced]:
    """Read a whole backup, and count what a restoration would replace; change nothing.

    Raises ClusterFailed as `restore` does.
    """
    state.prepare()
    with state.locked():
        with _partial(state) as partial:
            head = _unpack(file, partial)
        return head, Replaced(objects=_current(state)[1])


def restore(state: StateDir, file: Path) -> tuple[Backup, Replaced]:
    """Put the store of a backup in the place of the current one; the next start serves it.

    The current store stays until the new one is complete and checked. resourceVersions continue
    after those of both, so that watches of either get 410 and list again. Raises ClusterFailed
    GK4113 while a sandbox runs, GK4122 for newer formats, GK4123 for a damaged backup.
    """
    state.prepare()
    with state.locked(), _partial(state) as partial:
        head = _unpack(file, partial)
        known, replaced = _current(state)
        _continue_at(partial, max(head.version, known) if known else head.version + LOST_GAP)
        return head, Replaced(objects=replaced, aside=_swap(state, partial, replaced))


def reset(state: StateDir) -> Replaced:
    """Put an empty store in the place of the current one, and return what was replaced.

    Raises ClusterFailed GK4113 while a sandbox runs, GK4122 for a newer format.
    """
    state.prepare()
    with state.locked(), _partial(state) as partial:
        known, replaced = _current(state)
        _continue_at(partial, known or LOST_GAP)
        return Replaced(objects=replaced, aside=_swap(state, partial, replaced))


@contextmanager
def _partial(state: StateDir) -> Iterator[Path]:
    """A name for a new store; whatever is there before and after is removed."""
    partial = state.store.with_name(state.store.name + _PARTIAL)
    try:
        _remove(partial)
        try:
            yield partial
        finally:
            _remove(partial)
    except OSError as error:
        raise ClusterFailed(unusable_state(state.store, error)) from error


def _remove(path: Path) -> None:
    for file in _files(path):
        file.unlink()


def _current(state: StateDir) -> tuple[int, int | None]:
    """Return the version that the next start would continue from, 0 if unknown, and the number of
    objects, None if the store is damaged. Its log is folded into it. Raises ClusterFailed GK4122.
    """
    if not _files(state.store):
        return 0, 0
    try:
        with closing(SqliteStore(state.store)) as store:
            objects, version = store.load()
    except ClusterFailed as error:
        _only_damage(error)
        return 0, None
    return version, len(objects)


def _only_damage(error: ClusterFailed) -> None:
    """Raise the error again unless it says that the store is damaged."""
    if {finding.code for finding in error.findings} != {_DAMAGED}:
        raise error


def _continue_at(path: Path, version: int) -> None:
    """Set the version of a store, which is created if there is none; check and sync it."""
    with closing(SqliteStore(path)) as store:
        store.load()
        store.write(CommitBatch({}, version))


def _swap(state: StateDir, partial: Path, replaced: int | None) -> Path | None:
    """Rename the new store into place; return the folder with the files of a damaged one.

    A log that is left next to the current store, as by a backup that reads it now, must go first:
    SQLite would play it into the new store.
    """
    aside = _aside(state) if replaced is None or len(_files(state.store)) > 1 else None
    partial.replace(state.store)
    sync_folder(state.root)
    return aside


def _aside(state: StateDir) -> Path:
    """Move the files of the current store away. Until the new one is there, an empty file takes
    its place, with which no sandbox starts."""
    folder = Path(tempfile.mkdtemp(prefix=f"{state.store.name}.old-", dir=state.root))
    for file in _files(state.store):
        os.link(file, folder / file.name)
    sync_folder(folder)
    write_private(state.store, b"")
    sync_folder(state.root)
    for file in _files(state.store):
        if file != state.store:
            file.unlink()
    sync_folder(state.root)
    return folder


def _files(store: Path) -> list[Path]:
    """Return those of SQLite's files of one store that exist."""
    found = (store.with_name(store.name + ending) for ending in COMPANIONS)
    return [file for file in found if file.exists()]


# Reading a backup --------------------------------------------------------------------------------


def _unpack(file: Path, store: Path) -> Backup:
    """Write the store of a backup to `store`, and check every byte and object of it."""
    try:
        with _opened(file) as whole, tarfile.open(fileobj=whole, mode="r:") as tar:
            head = _head(file, _content(file, tar, _HEAD).read(_HEAD_MAX))
            _extract(file, _content(file, tar, _STORE), head, store)
    except tarfile.TarError as error:
        raise _damaged(file, f"it is not a complete tar file: {error}") from error
    try:
        found = _measured(store)
    except ClusterFailed as error:
        _only_damage(error)
        raise _damaged(file, _reason(error)) from error
    if found != (head.objects, head.version):
        raise _damaged(file, f"{_HEAD} counts other objects or versions than {_STORE} has")
    return head


def _opened(file: Path) -> IO[bytes]:
    try:
        if not file.is_file():  # a pipe would block
            raise FileNotFoundError(errno.ENOENT, "there is no such regular file", str(file))
        return file.open("rb")
    except OSError as error:
        raise _damaged(file, str(error.strerror)) from error


def _content(file: Path, tar: tarfile.TarFile, name: str) -> IO[bytes]:
    member = tar.next()
    content = tar.extractfile(member) if member is not None and member.isreg() else None
    if member is None or member.name != name or content is None:
        raise _damaged(file, f"{name} is missing: it is cut short, or no backup of a sandbox")
    return content


def _head(file: Path, data: bytes) -> Backup:
    try:
        raw: dict[str, Any] = json.loads(data)
        formats = raw["format"], raw["store"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(file, f"{_HEAD} cannot be read") from error
    for found, known, of in zip(
        formats, (BACKUP_FORMAT, FORMAT), ("", " of the store"), strict=True
    ):
        if isinstance(found, int) and found > known:
            raise failed(
                "GK4122",
                f"the backup {file} has format {found}{of}; this gitkruise knows up to {known}",
                unchanged="the backup and the state of the sandbox",
                next="restore it with the newer gitkruise",
            )
    try:
        head = Backup(**raw)
    except TypeError as error:
        raise _damaged(file, f"{_HEAD} has other fields than format {BACKUP_FORMAT}") from error
    kinds = {name: type(value) for name, value in asdict(head).items()}
    texts = {"gitkruise", "created", "sha256"}
    if any(kind is not (str if name in texts else int) for name, kind in kinds.items()):
        raise _damaged(file, f"{_HEAD} has values of other types than format {BACKUP_FORMAT}")
    return head


def _extract(file: Path, content: IO[bytes], head: Backup, store: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with store.open("xb") as target:
        store.chmod(0o600)
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            target.write(chunk)
            size += len(chunk)
        target.flush()
        os.fsync(target.fileno())
    if size != head.size:
        raise _damaged(file, f"{_STORE} ends after {size} of {head.size} bytes")
    if digest.hexdigest() != head.sha256:
        raise _damaged(file, _damaged_part(store))


def _damaged_part(store: Path) -> str:
    """Text about the damage of a store whose digest is another one."""
    try:
        _measured(store)
    except ClusterFailed as error:
        return f"{_STORE}: {_reason(error)}"
    return f"the sha256 of {_STORE} is not that of {_HEAD}"


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _reason(error: ClusterFailed) -> str:
    """Return what is wrong with a store, without its path."""
    return error.findings[0].message.partition(": ")[2]


def _not_copied(store: Path, why: str) -> ClusterFailed:
    return failed(
        _DAMAGED,
        f"cannot use the sandbox's store {store}: {why}",
        unchanged="its files were left as they are, and no backup was written",
        next="gitkruise sandbox restore FILE, with an earlier backup",
    )


def _damaged(file: Path, why: str) -> ClusterFailed:
    return failed(
        "GK4123",
        f"cannot use the backup {file}: {why}",
        unchanged="the backup and the state of the sandbox",
        next="name another backup",
    )


def _not_written(file: Path, why: str, *, next: str) -> ClusterFailed:  # noqa: A002  as a note is named
    return failed("GK4124", f"cannot write the backup {file}: {why}", next=next)
