"""Letters that wait to be sent, kept in a file: a restart or a silent receiver loses none."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from gitkruise.model.telling import Letter

log = logging.getLogger(__name__)
LETTERS_MAX: Final = 20_000  # of one channel; beyond it the oldest are given up
KEPT_MAX: Final = 50_000  # notes of one channel, likewise
_WAIT_S: Final = 10.0  # for another process that has the file open
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS letters (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
  version INTEGER NOT NULL, tries INTEGER NOT NULL, after REAL NOT NULL, UNIQUE (channel, key));
CREATE TABLE IF NOT EXISTS notes (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
  UNIQUE (channel, key));
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A letter in the box; `version` counts how often its text was replaced by a newer one."""

    id: int
    version: int
    key: str
    letter: Letter
    tries: int


@dataclass(frozen=True, slots=True)
class Post:
    """A letter to put in: the newest of a `key` replaces one that has not been sent yet."""

    key: str
    letter: Letter
    after: datetime  # not to be sent before


class LetterBox:
    """Letters and notes by channel, in SQLite with every write synced. Blocking, thread-safe."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._decode = msgspec.json.Decoder(Letter).decode
        self._connection = sqlite3.connect(path, timeout=_WAIT_S, check_same_thread=False)
        path.chmod(0o600)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def put(
        self, channel: str, posts: Sequence[Post], notes: Mapping[str, bytes | None] | None = None
    ) -> None:
        """Add letters and set notes (None: forget) in one transaction."""
        with self._lock, self._connection as database:
            for post in posts:
                database.execute(
                    "INSERT INTO letters (channel, key, body, version, tries, after)"
                    " VALUES (?, ?, ?, 0, 0, ?) ON CONFLICT (channel, key) DO UPDATE SET"
                    " body = excluded.body, version = version + 1, tries = 0,"
                    " after = excluded.after",
                    (channel, post.key, msgspec.json.encode(post.letter), post.after.timestamp()),
                )
            for key, body in (notes or {}).items():
                self._note(channel, key, body)
            lost = self._trim("letters", channel, LETTERS_MAX) if posts else 0
            if notes:
                self._trim("notes", channel, KEPT_MAX)
        if lost:
            log.warning("%s: %d letters were never sent and are given up", channel, lost)

    def _note(self, channel: str, key: str, body: bytes | None) -> None:
        if body is None:
            self._connection.execute(
                "DELETE FROM notes WHERE channel = ? AND key = ?", (channel, key)
            )
            return
        self._connection.execute(
            "INSERT OR REPLACE INTO notes (channel, key, body) VALUES (?, ?, ?)",
            (channel, key, body),
        )

    def _trim(self, table: str, channel: str, limit: int) -> int:
        """Take out the oldest of a channel beyond `limit`; how many."""
        assert table in {"letters", "notes"}
        query = (
            f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE channel = ?"  # noqa: S608  one of two names of ours
            " ORDER BY id DESC LIMIT -1 OFFSET ?)"
        )
        return self._connection.execute(query, (channel, limit)).rowcount

    def notes(self, channel: str, prefix: str) -> dict[str, bytes]:
        """What was kept under keys that start with `prefix`, without it."""
        query = "SELECT key, body FROM notes WHERE channel = ? AND key GLOB ? ORDER BY id"
        pattern = prefix.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") + "*"
        with self._lock:
            rows = self._connection.execute(query, (channel, pattern)).fetchall()
        return {key.removeprefix(prefix): body for key, body in rows}

    def next(self, channel: str, now: datetime) -> Waiting | datetime | None:
        """The oldest letter that is due, or when the first one will be; None without any."""
        columns = "SELECT id, version, key, body, tries, after FROM letters WHERE channel = ?"
        with self._lock, closing(self._connection.cursor()) as cursor:
            due = cursor.execute(
                columns + " AND after <= ? ORDER BY id LIMIT 1", (channel, now.timestamp())
            ).fetchone()
            if due is None:
                due = cursor.execute(columns + " ORDER BY after LIMIT 1", (channel,)).fetchone()
                if due is not None:
                    return datetime.fromtimestamp(due[5], UTC)
        if due is None:
            return None
        return Waiting(due[0], due[1], due[2], self._decode(due[3]), due[4])

    def done(self, waiting: Waiting) -> None:
        """It arrived (or is given up); what replaced it meanwhile stays."""
        with self._lock, self._connection as database:
            query = "DELETE FROM letters WHERE id = ? AND version = ?"
            database.execute(query, (waiting.id, waiting.version))

    def later(self, waiting: Waiting, after: datetime, *, tries: int) -> None:
        """It did not arrive; what replaced it meanwhile is due at its own time."""
        with self._lock, self._connection as database:
            query = "UPDATE letters SET after = ?, tries = ? WHERE id = ? AND version = ?"
            database.execute(query, (after.timestamp(), tries, waiting.id, waiting.version))

    def waiting(self, channel: str) -> list[str]:
        """Keys of all letters of a channel, oldest first."""
        query = "SELECT key FROM letters WHERE channel = ? ORDER BY id"
        with self._lock:
            return [row[0] for row in self._connection.execute(query, (channel,))]

    def empty(self, channels: Iterable[str]) -> bool:
        """Whether nothing waits in any of `channels`."""
        return not any(self.waiting(channel) for channel in channels)
