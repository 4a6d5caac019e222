"""Parsed files on disk by blob id, so that a restart reads only what is new."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
BYTES_MAX: Final = 256 << 20  # of the file; beyond it all entries are dropped together
_PARSER: Final = (
    "yaml_composer.py", "documents.py", "json_events.py", "yaml_scalars.py", "syntax_errors.py",
)  # fmt: skip
_WAIT_S: Final = 0.2  # for another process; then we do without
_SCHEMA: Final = "CREATE TABLE IF NOT EXISTS parsed (key BLOB PRIMARY KEY, entries BLOB NOT NULL)"


class ParsedEntry(msgspec.Struct, frozen=True, array_like=True):
    """One document: its object, which of the file it is, and its line."""

    obj: Any
    index: int
    line: int


class ParsedStore:
    """A file of parsed documents. It is a cache: whatever goes wrong with it costs time alone.

    Entries are found by blob id, kind of file and the parser's own source: another parser does
    not take over what this one read. Safe to use from several threads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._decode = msgspec.json.Decoder(tuple[ParsedEntry, ...]).decode
        self._parser = _parser_id()
        self._waiting: dict[bytes, bytes] = {}
        self._fetched: dict[bytes, bytes | None] = {}
        self._connection = self._opened()

    def get(self, blob: str, *, json: bool) -> tuple[ParsedEntry, ...] | None:
        """Return the kept result of a blob; None when there is no usable one."""
        key = self._key(blob, json=json)
        with self._lock:
            known = key in self._fetched
            body = self._fetched.pop(key) if known else self._select([key]).get(key)
        try:
            return self._decode(body) if body is not None else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # damaged; the file itself is read instead

    def fetch(self, blobs: Collection[tuple[str, bool]]) -> frozenset[tuple[str, bool]]:
        """Return those of `blobs`, each with whether it is JSON, that are kept.

        They are read in one query for `get`, which is asked for them next.
        """
        keys = {self._key(blob, json=json): (blob, json) for blob, json in blobs}
        with self._lock:
            found = self._select(list(keys))
            self._fetched = {key: found.get(key) for key in keys}
        return frozenset(keys[key] for key in found)

    def _select(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Read the entries of keys; called with the lock held."""
        if self._connection is None:
            return {}
        marks = ",".join("?" * len(keys))
        query = f"SELECT key, entries FROM parsed WHERE key IN ({marks})"  # noqa: S608  marks alone
        try:
            return dict(self._connection.execute(query, keys).fetchall())
        except sqlite3.Error as error:
            self._give_up(error)
            return {}

    def put(self, blob: str, entries: Sequence[ParsedEntry], *, json: bool) -> None:
        """Keep what was parsed, at the next `save`. What JSON cannot hold is not kept."""
        try:
            body = msgspec.json.encode(tuple(entries))
        except (TypeError, ValueError, msgspec.EncodeError):
            return
        with self._lock:
            self._waiting[self._key(blob, json=json)] = body

    def save(self) -> None:
        """Write what waits, in one transaction."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            if self._connection is None or not waiting:
                return
            try:
                with self._connection:
                    query = "INSERT OR REPLACE INTO parsed VALUES (?, ?)"
                    self._connection.executemany(query, waiting.items())
                if self._size() > BYTES_MAX:
                    self._connection.execute("DELETE FROM parsed")
                    self._connection.commit()
                    self._connection.execute("VACUUM")
            except sqlite3.Error as error:
                self._give_up(error)

    def close(self) -> None:
        """Save and let go of the file."""
        self.save()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _key(self, blob: str, *, json: bool) -> bytes:
        return self._parser + bytes.fromhex(blob) + (b"j" if json else b"y")

    def _size(self) -> int:
        assert self._connection is not None
        pages, size = (
            self._connection.execute(f"PRAGMA {word}").fetchone()[0]
            for word in ("page_count", "page_size")
        )
        return int(pages) * int(size)

    def _opened(self) -> sqlite3.Connection | None:
        """Open the database; rebuilt when the file is none, None where that is impossible."""
        for _ in range(2):
            try:
                return _connect(self._path)
            except sqlite3.DatabaseError as error:
                log.warning(log_line("parse-cache-rebuilt", error=error))
                try:
                    self._path.unlink(missing_ok=True)
                except OSError:
                    return None
            except OSError as error:
                log.warning(log_line("parse-cache-off", error=error))
                return None
        return None

    def _give_up(self, error: sqlite3.Error) -> None:
        """Do without from now on; called with the lock held."""
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return
        log.warning(log_line("parse-cache-off", error=error))
        assert self._connection is not None
        self._connection.close()
        self._connection = None


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # SQLite would read a device without end
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    finally:
        os.close(handle)
    connection = sqlite3.connect(path, timeout=_WAIT_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # lost with a crash is read again
        connection.execute(_SCHEMA)
        connection.commit()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _parser_id() -> bytes:
    here = Path(__file__).parent
    sources = b"".join((here / name).read_bytes() for name in _PARSER)
    return hashlib.sha256(sources).digest()[:16]
