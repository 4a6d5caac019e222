"""The sandbox's store: one SQLite file that holds every object as of the last commit."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from gitkruise.kube.client.codec import decode
from gitkruise.sandbox.backend.state_dir import failed
from gitkruise.wire.primitives.names import Obj, ObjectKey

FORMAT: Final = 1  # PRAGMA user_version; a newer file is refused and left as it is
APPLICATION: Final = 0x676B7231  # "gkr1", PRAGMA application_id
RESTART_GAP: Final = 100_000  # versions skipped at a start: none handed out before is used again
DIGEST_BYTES: Final = 16
_CACHE_KIB: Final = 4096
_DAMAGE: Final = (sqlite3.Error, UnicodeDecodeError)  # SQLite quotes damaged names
_PARTIAL: Final = ".new"  # ends the name of a store while it is created
COMPANIONS: Final = ("", "-journal", "-wal", "-shm")  # endings of SQLite's files of one store

_SCHEMA: Final = """
BEGIN;
CREATE TABLE objects (
  api_group TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  digest BLOB NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (api_group, kind, namespace, name)
) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO state VALUES ('version', 0);
COMMIT;
"""
_PUT: Final = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_DROP: Final = "DELETE FROM objects WHERE api_group = ? AND kind = ? AND namespace = ? AND name = ?"


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """Changes of one group commit: the last bytes of each object, None for a deletion."""

    changes: Mapping[ObjectKey, bytes | None]
    version: int


class StoreFull(Exception):
    """The disk has no room for this batch; the store is as before and may be tried again."""


class StoreFailed(Exception):
    """A commit failed and the content of the disk is unknown: no further write is allowed."""


class SqliteStore:
    """One SQLite database in WAL mode with `synchronous=FULL`.

    Methods may be called from any thread, one at a time. A commit that returns is on disk;
    after a StoreFailed every later write is refused until the store is opened (recovered) again.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the store. Raises ClusterFailed when the file cannot be trusted."""
        self.path = path
        self._broken = False
        self._turn = threading.Lock()
        refuse_foreign(path)
        try:
            if not path.exists():
                _create(path)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        except _DAMAGE as error:
            raise _unusable(path, str(error)) from error

    def load(self) -> tuple[list[Obj], int]:
        """Return every object and the version to continue from. Raises ClusterFailed if damaged."""
        try:
            (found,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
            objects = list(self._rows())
            row = self._db.execute("SELECT value FROM state WHERE key = 'version'").fetchone()
        except _DAMAGE as error:
            raise _unusable(self.path, str(error)) from error
        if found != "ok":
            raise _unusable(self.path, found)
        version = row[0] if row else -1
        newest = max((int(obj["metadata"]["resourceVersion"]) for obj in objects), default=0)
        if not isinstance(version, int) or version < newest:
            raise _unusable(self.path, "its version is damaged")
        return objects, version + RESTART_GAP if version else 0

    def version(self) -> int:
        """Return the version of the last commit; 0 for a new store."""
        (found,) = self._db.execute("SELECT value FROM state WHERE key = 'version'").fetchone()
        return int(found)

    def _rows(self) -> Iterator[Obj]:
        rows = self._db.execute("SELECT kind, namespace, name, digest, body FROM objects")
        for kind, namespace, name, digest, body in rows:
            if not isinstance(body, bytes) or _digest(body) != digest:
                raise _unusable(self.path, f"{kind} {namespace}/{name} is damaged")
            yield decode(body)

    def write(self, batch: CommitBatch) -> None:
        """Commit one batch. Raises StoreFull (nothing happened) or StoreFailed (for good)."""
        with self._turn:
            if self._broken:
                raise StoreFailed("an earlier commit failed")
            try:
                self._commit(batch)
            except sqlite3.Error as error:
                full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
                if full and self._rolled_back():
                    raise StoreFull(str(error)) from error
                self._broken = True
                raise StoreFailed(f"{error} ({error.sqlite_errorname})") from error

    def _commit(self, batch: CommitBatch) -> None:
        gone = [key for key, body in batch.changes.items() if body is None]
        kept = [
            (*key, _digest(body), body) for key, body in batch.changes.items() if body is not None
        ]
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_DROP, gone)
        self._db.executemany(_PUT, kept)
        self._db.execute("UPDATE state SET value = ? WHERE key = 'version'", (batch.version,))
        self._db.execute("COMMIT")

    def _rolled_back(self) -> bool:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            return False
        return not self._db.in_transaction

    def close(self) -> None:
        """Fold the WAL into the file and close it; what was committed stays either way."""
        with self._turn:
            self._db.close()


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=DIGEST_BYTES).digest()


def _create(path: Path) -> None:
    """Put a whole store at `path`, where no file is: it gets its name when it is complete.

    So an empty or incomplete file of that name is damage, never a creation that was cut off.
    """
    partial = path.with_name(path.name + _PARTIAL)
    for ending in COMPANIONS:
        partial.with_name(partial.name + ending).unlink(missing_ok=True)
    with closing(sqlite3.connect(partial, isolation_level=None)) as db:
        partial.chmod(0o600)
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("PRAGMA journal_mode = WAL")  # last: closing it has nothing left to write
    partial.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power loss."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_foreign(path: Path) -> None:
    """Check the header of the file before SQLite may touch anything."""
    if path.exists() and not path.is_file():
        raise _unusable(path, "it is not a regular file")
    try:
        with path.open("rb") as file:
            head = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        _refuse_orphan(path)
        return
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error
    if not head:
        raise _unusable(path, "it is empty")
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise _unusable(path, "it is not a database")
    version, application = (int.from_bytes(head[at : at + 4], "big") for at in (60, 68))
    if application != APPLICATION:
        raise _unusable(path, "it is the database of another program")
    if not version:
        raise _unusable(path, "it is not complete")
    if not _log_size(path) and size < _size_in(head):
        raise _unusable(path, "it is cut short")
    if version > FORMAT:
        raise failed(
            "GK4122",
            f"the sandbox's store {path} has format {version}; this gitkruise knows up to {FORMAT}",
            unchanged="the file was not touched",
            next="use the newer gitkruise, or another state directory (GITKRUISE_STATE)",
        )


def _refuse_orphan(path: Path) -> None:
    """Refuse a log without its store: a new store would drop the acknowledged writes in it."""
    if _log_size(path):
        raise _unusable(path, "the file is missing, and its log (-wal) is not empty")


def _log_size(path: Path) -> int:
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


def _size_in(head: bytes) -> int:
    """Return the size of a checkpointed database according to its header."""
    page, pages = (int.from_bytes(head[at : at + n], "big") for at, n in ((16, 2), (28, 4)))
    return (65_536 if page == 1 else page) * pages


def _unusable(path: Path, reason: str) -> Exception:
    return failed(
        "GK4121",
        f"cannot use the sandbox's store {path}: {reason}",
        unchanged="its files were left as they are",
        next=f"gitkruise sandbox restore FILE, or start with an empty cluster: "
        f"mkdir {path}.broken && mv {path} {path}-* {path}.broken",
    )
