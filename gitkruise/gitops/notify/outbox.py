"""Durable outbox of messages to forges and chats: a restart or a silent receiver loses none.

Earlier versions called the file `letters.sqlite`, and a table in it `letters`. `open_outbox` takes
both over, with everything that waits in them.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.system.private_files import check_database, unusable_state
from gitkruise.model.gitops.notifications import OutboxItem
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
FILE: Final = "outbox.sqlite"  # in the state directory
ITEMS_MAX: Final = 20_000  # of one channel; beyond it the oldest are given up
KEPT_MAX: Final = 50_000  # notes of one channel
LATEST: Final = timedelta(hours=1)  # longer than any pause of a sender
_WAIT_S: Final = 10.0  # for another process that has the file open
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS items (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
  version INTEGER NOT NULL, tries INTEGER NOT NULL, after REAL NOT NULL, UNIQUE (channel, key));
CREATE TABLE IF NOT EXISTS notes (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
  UNIQUE (channel, key));
"""
FORMAT: Final = 1  # PRAGMA user_version, 0 before it was written; a newer file is refused
_OLD_FILE: Final = "letters.sqlite"  # the name that earlier versions gave the file
_OLD_TABLE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'letters'"
_OLD_SCHEMA: Final = """
BEGIN;
ALTER TABLE letters RENAME TO items;
-- The third kind of notes: the last status of each commit.
UPDATE notes SET key = 'sent' || substr(key, 5)
  WHERE key NOT GLOB 'news/*' AND key NOT GLOB 'pull/*';
COMMIT;
"""
_DRAIN: Final = """
BEGIN;
INSERT OR REPLACE INTO items (channel, key, body, version, tries, after)
  SELECT channel, key, body, version, tries, after FROM old.items ORDER BY id;
INSERT OR REPLACE INTO notes (channel, key, body)
  SELECT channel, key, body FROM old.notes ORDER BY id;
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class QueuedItem:
    """An item of the outbox; `version` counts how often newer text replaced its own."""

    id: int
    version: int
    key: str
    item: OutboxItem
    tries: int


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """An item to add: the newest of a `key` replaces one that was not sent yet."""

    key: str
    item: OutboxItem
    after: datetime  # not to be sent before


class NotificationOutbox:
    """Items and notes by channel, in SQLite with every write synced. Blocking, thread-safe."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_database(path)
        self._lock = threading.Lock()
        self._decode = msgspec.json.Decoder(OutboxItem).decode
        self._connection = _opened(path)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def drain(self, old: Path) -> None:
        """Move the content of another outbox here, and delete it.

        An earlier version wrote it after this one, when a rollback of gitkruise was undone: its
        rows are the newer ones, and replace those with the same key.
        """
        NotificationOutbox(old).close()  # upgrades it; the last connection empties the -wal file
        with self._lock:
            self._connection.execute("ATTACH ? AS old", (str(old),))
            self._connection.executescript(_DRAIN)
            self._connection.execute("DETACH old")
        for suffix in ("-wal", "-shm", ""):
            old.with_name(old.name + suffix).unlink(missing_ok=True)

    def put(
        self,
        channel: str,
        entries: Sequence[OutboxEntry],
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Add items and set notes (None: forget) in one transaction."""
        with self._lock, self._connection as database:
            for entry in entries:
                database.execute(
                    "INSERT INTO items (channel, key, body, version, tries, after)"
                    " VALUES (?, ?, ?, 0, 0, ?) ON CONFLICT (channel, key) DO UPDATE SET"
                    " body = excluded.body, version = version + 1, tries = 0,"
                    " after = excluded.after",
                    (channel, entry.key, msgspec.json.encode(entry.item), entry.after.timestamp()),
                )
            for key, body in (notes or {}).items():
                self._note(channel, key, body)
            lost = self._trim("items", channel, ITEMS_MAX) if entries else 0
            if notes:
                self._trim("notes", channel, KEPT_MAX)
        if lost:
            log.warning(log_line("outbox-full", channel=channel, dropped=lost))

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
        """Delete the oldest rows of a channel beyond `limit`; return their number."""
        if table not in {"items", "notes"}:
            raise ValueError(f"{table!r} is no table")
        query = (
            f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE channel = ?"  # noqa: S608  one of two names of ours
            " ORDER BY id DESC LIMIT -1 OFFSET ?)"
        )
        return self._connection.execute(query, (channel, limit)).rowcount

    def notes(self, channel: str, prefix: str) -> dict[str, bytes]:
        """Return the notes whose keys start with `prefix`, by the rest of the key."""
        query = "SELECT key, body FROM notes WHERE channel = ? AND key GLOB ? ORDER BY id"
        pattern = prefix.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") + "*"
        with self._lock:
            rows = self._connection.execute(query, (channel, pattern)).fetchall()
        return {key.removeprefix(prefix): body for key, body in rows}

    def next(self, channel: str, now: datetime) -> QueuedItem | datetime | None:
        """Return the oldest item that is due, or when the first one will be; None without any.

        One that is later than LATEST is due: an earlier process had a clock that was ahead.
        """
        columns = "SELECT id, version, key, body, tries, after FROM items WHERE channel = ?"
        with self._lock, closing(self._connection.cursor()) as cursor:
            due = cursor.execute(
                columns + " AND (after <= ? OR after > ?) ORDER BY id LIMIT 1",
                (channel, now.timestamp(), (now + LATEST).timestamp()),
            ).fetchone()
            if due is None:
                due = cursor.execute(columns + " ORDER BY after LIMIT 1", (channel,)).fetchone()
                if due is not None:
                    return datetime.fromtimestamp(due[5], UTC)
        if due is None:
            return None
        return QueuedItem(due[0], due[1], due[2], self._decode(due[3]), due[4])

    def done(self, item: QueuedItem) -> None:
        """Delete an item that was sent or given up, unless newer text replaced it."""
        with self._lock, self._connection as database:
            query = "DELETE FROM items WHERE id = ? AND version = ?"
            database.execute(query, (item.id, item.version))

    def postpone(self, item: QueuedItem, after: datetime, *, tries: int) -> None:
        """Postpone an item that was not sent, unless newer text replaced it."""
        with self._lock, self._connection as database:
            query = "UPDATE items SET after = ?, tries = ? WHERE id = ? AND version = ?"
            database.execute(query, (after.timestamp(), tries, item.id, item.version))

    def hasten(self, channel: str, by: timedelta) -> None:
        """Send what waits for its time earlier: the clock was set back by so much."""
        with self._lock, self._connection as database:
            query = "UPDATE items SET after = after - ? WHERE channel = ?"
            database.execute(query, (by.total_seconds(), channel))

    def waiting(self, channel: str) -> list[str]:
        """Return the keys of all items of a channel, oldest first."""
        query = "SELECT key FROM items WHERE channel = ? ORDER BY id"
        with self._lock:
            return [row[0] for row in self._connection.execute(query, (channel,))]


def open_outbox(state_dir: Path) -> NotificationOutbox:
    """Open the outbox of a state directory. Raises ClusterFailed GK4111 and GK4122."""
    path, old = state_dir / FILE, state_dir / _OLD_FILE
    check_database(path)
    check_database(old)
    if old.exists() and not path.exists():
        # The main file last: when this is interrupted, the next start continues.
        for suffix in ("-wal", "-shm", ""):
            part = state_dir / (_OLD_FILE + suffix)
            if part.exists():
                part.rename(state_dir / (FILE + suffix))
    with _readable(path):
        outbox = NotificationOutbox(path)
    with ExitStack() as failed:
        failed.callback(outbox.close)
        if old.exists():
            with _readable(old):
                outbox.drain(old)
        failed.pop_all()
    return outbox


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file that SQLite cannot use. Raises ClusterFailed GK4111."""
    try:
        yield
    except sqlite3.Error as error:
        raise ClusterFailed(unusable_state(path, error)) from error


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file of an outbox, in the newest format. Raises sqlite3.Error, ClusterFailed
    GK4122."""
    database = sqlite3.connect(path, timeout=_WAIT_S, check_same_thread=False)
    with ExitStack() as failed:
        failed.callback(database.close)
        _refuse_newer(path, database)
        path.chmod(0o600)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        _upgrade(database)
        database.executescript(_SCHEMA)
        database.execute(f"PRAGMA user_version = {FORMAT}")
        failed.pop_all()
    return database


def _refuse_newer(path: Path, database: sqlite3.Connection) -> None:
    """Raise ClusterFailed GK4122 for a file of a newer gitkruise, whose messages we might lose."""
    (found,) = database.execute("PRAGMA user_version").fetchone()
    if found <= FORMAT:
        return
    message = f"the outbox {path} has format {found}; this gitkruise knows up to {FORMAT}"
    notes = (
        ("unchanged", "the file: its messages wait in it"),
        ("next", "use the newer gitkruise, or another state directory (GITKRUISE_STATE)"),
    )
    raise ClusterFailed(Finding(code="GK4122", message=message, notes=notes))


def _upgrade(database: sqlite3.Connection) -> None:
    """Rename the table and the keys that earlier versions wrote."""
    if database.execute(_OLD_TABLE).fetchone():
        database.executescript(_OLD_SCHEMA)
