"""The sandbox's store: one SQLite file that holds every object as of the last commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from gitkruise.kube.codec import decode
from gitkruise.sandbox.state import failed
from gitkruise.wire.names import Obj, ObjectKey

FORMAT: Final = 1  # PRAGMA user_version; a newer file is refused and left as it is
APPLICATION: Final = 0x676B7231  # "gkr1", PRAGMA application_id
RESTART_GAP: Final = 100_000  # versions skipped at a start: none handed out before is used again
DIGEST_BYTES: Final = 16
_CACHE_KIB: Final = 4096
_DAMAGE: Final = (sqlite3.Error, UnicodeDecodeError)  # SQLite quotes names that are none any more
_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")  # how SQLite's rollback journal begins

_SCHEMA: Final = """
BEGIN;
DROP TABLE IF EXISTS objects;
DROP TABLE IF EXISTS state;
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
class Batch:
    """Changes of one group commit: the last bytes of each object, None for a deletion."""

    changes: Mapping[ObjectKey, bytes | None]
    version: int


class StoreFull(Exception):
    """The disk has no room for this batch; the store is as before and may be tried again."""


class StoreFailed(Exception):
    """A commit failed in a way that leaves in doubt what is on disk: nothing may follow it."""


class Store:
    """One SQLite database in WAL mode with `synchronous=FULL`.

    Methods may be called from any thread, one at a time. A commit that returns is on disk;
    after a StoreFailed every later write is refused until the store is opened (recovered) anew.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the store. Raises ClusterFailed when the file cannot be trusted."""
        self.path = path
        self._broken = False
        self._turn = threading.Lock()
        _refuse_foreign(path)
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:
                self._make(path)
        except _DAMAGE as error:
            raise _unusable(path, str(error)) from error

    def _make(self, path: Path) -> None:
        """Tables of an empty file; the format number comes last, when the store is whole."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION:
            raise _unusable(path, "it is the database of another program")
        self._db.execute(f"PRAGMA application_id = {APPLICATION}")
        self._db.executescript(_SCHEMA)
        self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def load(self) -> tuple[list[Obj], int]:
        """Every object and the version to go on from; raises ClusterFailed on a damaged file."""
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

    def _rows(self) -> Iterator[Obj]:
        rows = self._db.execute("SELECT kind, namespace, name, digest, body FROM objects")
        for kind, namespace, name, digest, body in rows:
            if not isinstance(body, bytes) or _digest(body) != digest:
                raise _unusable(self.path, f"{kind} {namespace}/{name} is damaged")
            yield decode(body)

    def write(self, batch: Batch) -> None:
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

    def _commit(self, batch: Batch) -> None:
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


def _refuse_foreign(path: Path) -> None:
    """Look at the file's own header before SQLite may touch anything."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error
    if not head or _is_half_written(path):
        return
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise _unusable(path, "it is not a database")
    version, application = (int.from_bytes(head[at : at + 4], "big") for at in (60, 68))
    if application not in {0, APPLICATION}:
        raise _unusable(path, "it is the database of another program")
    if version > FORMAT:
        raise failed(
            "GK4122",
            f"the sandbox's store {path} has format {version}; this gitkruise knows up to {FORMAT}",
            unchanged="the file was not touched",
            next="use the newer gitkruise, or another state directory (GITKRUISE_STATE)",
        )


def _is_half_written(path: Path) -> bool:
    """Whether a journal beside the file undoes what a crash left of a transaction in it.

    Only while the store is made: later ones go to the write-ahead log.
    """
    try:
        with path.with_name(path.name + "-journal").open("rb") as journal:
            return journal.read(len(_JOURNAL)) == _JOURNAL
    except FileNotFoundError:
        return False


def _unusable(path: Path, reason: str) -> Exception:
    return failed(
        "GK4121",
        f"cannot use the sandbox's store {path}: {reason}",
        unchanged="the file was left as it is",
        next=f"mv {path} {path}.broken and start again with an empty cluster",
    )
