"""Acknowledged writes survive any crash; the store refuses files that it cannot trust."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.kube.client.codec import encode
from gitkruise.sandbox.backend.sqlite import (
    FORMAT,
    RESTART_GAP,
    CommitBatch,
    SqliteStore,
    StoreFailed,
    StoreFull,
)
from gitkruise.wire.primitives.names import Obj, ObjectKey

ROOT = Path(__file__).parents[3]


def key(name: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "shop", name)


def body(name: str, version: int, filler: str = "") -> bytes:
    meta = {"name": name, "namespace": "shop", "resourceVersion": str(version)}
    return encode(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"f": filler}}
    )


def batch(version: int, filler: str = "") -> CommitBatch:
    """Object `n` at `version`, and the object of two versions earlier gone."""
    changes: dict[ObjectKey, bytes | None] = {key(f"n{version}"): body(f"n{version}", version)}
    changes[key("shared")] = body("shared", version, filler)
    if version > 2:
        changes[key(f"n{version - 2}")] = None
    return CommitBatch(changes, version)


def names(version: int) -> set[str]:
    """Names in the store after `batch(1)` to `batch(version)`."""
    return {f"n{v}" for v in (version - 1, version) if v > 0} | ({"shared"} if version else set())


def content(path: Path) -> tuple[set[str], int]:
    """(names, version of the object `shared`) in a store."""
    store = SqliteStore(path)
    objects, _ = store.load()
    store.close()
    shared = [o["metadata"] for o in objects if o["metadata"]["name"] == "shared"]
    version = int(shared[0]["resourceVersion"]) if shared else 0
    return {o["metadata"]["name"] for o in objects}, version


def test_a_new_store_is_empty(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "db")
    assert store.load() == ([], 0)
    assert (tmp_path / "db").stat().st_mode & 0o777 == 0o600
    store.close()


def test_versions_go_on_after_a_restart_and_none_returns(tmp_path: Path) -> None:  # STORE-1
    store = SqliteStore(tmp_path / "db")
    for version in (1, 2, 3):
        store.write(batch(version))
    store.close()
    again = SqliteStore(tmp_path / "db")
    assert again.load()[1] == 3 + RESTART_GAP
    again.close()
    assert content(tmp_path / "db") == (names(3), 3)


WRITER = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from gitkruise.sandbox.backend.sqlite import SqliteStore
from tests.sandbox.backend.test_storage import batch
store = SqliteStore(Path({path!r}))
for version in range(1, 1_000_000):
    store.write(batch(version, "x" * 2000))
    print(version, flush=True)
"""


def test_acknowledged_writes_survive_sigkill(tmp_path: Path) -> None:  # STORE-4, STORE-6
    path = tmp_path / "db"
    program = WRITER.format(root=str(ROOT), path=str(path))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        acked = 0
        for line in writer.stdout:
            acked = int(line)
            if acked >= 40:
                break
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split(b"\n")
    acked = max([acked, *(int(n) for n in rest if n.strip())])
    found, version = content(path)
    assert version in {acked, acked + 1}
    assert found == names(version)


@pytest.mark.parametrize("share", [0.0, 0.13, 0.37, 0.61, 0.83, 0.99])
def test_a_torn_log_gives_the_state_after_some_commit(
    tmp_path: Path, share: float
) -> None:  # STORE-5
    store = SqliteStore(tmp_path / "db")
    for version in range(1, 9):
        store.write(batch(version, "y" * 3000))
    image = tmp_path / "image"
    shutil.copyfile(tmp_path / "db", image)
    log = (tmp_path / "db-wal").read_bytes()
    (tmp_path / "image-wal").write_bytes(log[: int(len(log) * share)])
    store.close()
    found, version = content(image)
    assert found == names(version)


def test_a_full_disk_changes_nothing_and_passes(tmp_path: Path) -> None:  # STORE-13
    store = SqliteStore(tmp_path / "db")
    store.write(batch(1))
    store._db.execute("PRAGMA max_page_count = 8")
    with pytest.raises(StoreFull):
        store.write(batch(2, "z" * 100_000))
    assert {o["metadata"]["name"] for o in store.load()[0]} == names(1)
    store._db.execute("PRAGMA max_page_count = 100000")
    store.write(batch(2, "z" * 100_000))
    store.close()
    assert content(tmp_path / "db") == (names(2), 2)


def test_nothing_follows_a_failed_commit(tmp_path: Path) -> None:  # STORE-12
    store = SqliteStore(tmp_path / "db")
    store.write(batch(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        with pytest.raises(StoreFailed):
            store.write(batch(2, "z" * 300_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(StoreFailed):
        store.write(batch(3))
    store.close()
    assert content(tmp_path / "db") == (names(1), 1)


def test_a_newer_format_is_refused_untouched(tmp_path: Path) -> None:  # STORE-16
    path = tmp_path / "db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
        db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    before = path.read_bytes()
    with pytest.raises(ClusterFailed, match="GK4122"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["db"]


@pytest.mark.parametrize("data", [b"", b"not a database at all", b"x" * 5000, b"SQLite format 3\0"])
def test_a_file_that_is_no_store_is_refused_untouched(tmp_path: Path, data: bytes) -> None:  # B-A32
    path = tmp_path / "db"
    path.write_bytes(data)
    with pytest.raises(ClusterFailed, match="GK4121"):
        SqliteStore(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("kept", [0, 1, 99, 100, 511, 512, 4095, 4096, 4097, 8192, -4096, -1])
def test_a_store_cut_short_is_refused_untouched(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "db"
    store = SqliteStore(path)
    for version in range(1, 9):
        store.write(batch(version, "y" * 3000))
    store.close()
    cut = path.read_bytes()[:kept]
    path.write_bytes(cut)
    with pytest.raises(ClusterFailed, match="GK4121"):
        whole(path)
    assert path.read_bytes() == cut


def test_a_log_without_its_store_is_refused_untouched(tmp_path: Path) -> None:
    """Acknowledged writes may be in the log alone: no empty cluster starts next to it."""
    path, log = tmp_path / "db", tmp_path / "db-wal"
    store = SqliteStore(path)
    store.write(batch(1))
    kept = log.read_bytes()
    store.close()
    path.unlink()
    log.write_bytes(kept)
    with pytest.raises(ClusterFailed, match="the file is missing, and its log"):
        SqliteStore(path)
    assert log.read_bytes() == kept
    assert not path.exists()


def test_a_creation_that_was_cut_off_starts_over(tmp_path: Path) -> None:
    """Under its name a store is complete; what was left under the name before it goes."""
    path = tmp_path / "db"
    for ending in (".new", ".new-journal", ".new-wal", ".new-shm"):
        (tmp_path / f"db{ending}").write_bytes(b"half of it")
    assert content(path) == (set(), 0)
    assert [p.name for p in tmp_path.iterdir()] == ["db"]


def test_a_store_without_a_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 0")
    db.close()
    with pytest.raises(ClusterFailed, match="it is not complete"):
        SqliteStore(path)


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE objects (mine TEXT)")
    db.close()
    with pytest.raises(ClusterFailed, match="another program"):
        SqliteStore(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM objects").fetchone() == (0,)
    db.close()


def test_a_damaged_object_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "db"
    store = SqliteStore(path)
    store.write(batch(1))
    store._db.execute("UPDATE objects SET body = '{}' WHERE name = 'n1'")
    with pytest.raises(ClusterFailed, match="ConfigMap shop/n1 is damaged"):
        store.load()
    store.close()


@pytest.mark.slow
def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    """Of a file that was closed: objects are as they were, or the file is refused by name."""
    path, image = tmp_path / "db", tmp_path / "image"
    store = SqliteStore(path)
    for version in range(1, 25):
        names_ = {f"v{version}-{n}": body(f"v{version}-{n}", version) for n in range(4)}
        store.write(CommitBatch({key(name): data for name, data in names_.items()}, version))
    store.close()
    sound, wrong = whole(path), bytearray(path.read_bytes())
    refused = 0
    for at in range(0, len(wrong), 23):
        wrong[at] ^= 1 << at % 8
        image.write_bytes(wrong)
        wrong[at] ^= 1 << at % 8
        try:
            assert whole(image) == sound, f"byte {at}"
        except ClusterFailed as error:
            (finding,) = error.findings
            refused += finding.code == "GK4121" and str(image) in finding.message
    assert refused > len(wrong) // 23 // 2


def whole(path: Path) -> tuple[list[Obj], int]:
    """Everything in a store."""
    store = SqliteStore(path)
    try:
        return store.load()
    finally:
        store.close()


def test_a_version_older_than_its_objects_is_refused(tmp_path: Path) -> None:  # STORE-1
    store = SqliteStore(tmp_path / "db")
    store.write(batch(7))
    store._db.execute("UPDATE state SET value = 6")
    with pytest.raises(ClusterFailed, match="its version is damaged"):
        store.load()
    store._db.execute("DELETE FROM state")
    with pytest.raises(ClusterFailed, match="its version is damaged"):
        store.load()
    store.close()
