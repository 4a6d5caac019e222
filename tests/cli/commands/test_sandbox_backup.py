"""gitkruise sandbox backup, restore and reset: what they ask, print and refuse."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from gitkruise.sandbox.backend.sqlite import SqliteStore
from gitkruise.sandbox.backend.state_dir import StateDir
from tests.cli.calls import Caller
from tests.sandbox.backend.test_storage import batch, content, names


@pytest.fixture
def state(gk: Caller, tmp_path: Path) -> StateDir:
    """A stopped sandbox with three objects."""
    gk.env["GITKRUISE_STATE"] = str(tmp_path / "state")
    state = StateDir(tmp_path / "state" / "sandbox")
    state.prepare()
    with closing(SqliteStore(state.store)) as store:
        store.write(batch(1))
        store.write(batch(2))
    return state


def test_a_backup_is_taken_checked_and_restored(gk: Caller, state: StateDir) -> None:
    taken = gk("sandbox", "backup", "my backup.tar")
    assert taken.code == 0, taken.err
    assert "my backup.tar: 3 objects, " in taken.err
    assert "gitkruise sandbox restore 'my backup.tar'" in taken.err
    with closing(SqliteStore(state.store)) as store:
        store.write(batch(3))

    dry = gk("sandbox", "restore", "my backup.tar", "--dry-run", "-o", "json")
    assert dry.code == 0, dry.err
    assert "dry run, nothing was replaced: 3 objects of my backup.tar" in dry.err
    assert dry.obj["kind"] == "SandboxRestore"
    assert (dry.obj["dryRun"], dry.obj["replaced"]) == (True, {"objects": 3})
    assert (dry.obj["backup"]["version"], dry.obj["backup"]["format"]) == (2, 1)
    unasked = gk("sandbox", "restore", "my backup.tar")
    assert (unasked.code, "GK7071" in unasked.err) == (2, True)
    assert content(state.store) == (names(3), 3)

    done = gk("sandbox", "restore", "my backup.tar", "--yes")
    assert (done.code, done.out) == (0, "")
    assert "restored  3 objects of my backup.tar, written 20" in done.err
    assert "replaced 3 objects" in done.err
    assert content(state.store) == (names(2), 2)
    again = gk("sandbox", "backup", "my backup.tar")
    assert (again.code, "GK4124" in again.err) == (5, True)


def test_a_damaged_store_is_named_and_kept(gk: Caller, state: StateDir) -> None:
    assert gk("sandbox", "backup", "b.tar", "-o", "json").obj["backup"]["objects"] == 3
    state.store.write_bytes(b"")
    done = gk("sandbox", "restore", "b.tar", "-y")
    assert done.code == 0, done.err
    assert "replaced a damaged store" in done.err
    assert "kept      the replaced files in " in done.err


def test_a_reset_asks_and_empties(gk: Caller, state: StateDir) -> None:
    unasked = gk("sandbox", "reset")
    assert (unasked.code, "GK7071" in unasked.err) == (2, True)
    with state.locked():
        running = gk("sandbox", "reset", "--yes")
    assert (running.code, "GK4113" in running.err) == (5, True)
    assert content(state.store)[0] == names(2)
    done = gk("sandbox", "reset", "--yes", "-o", "json")
    assert done.obj["replaced"] == {"objects": 3}
    assert "removed 3 objects" in done.err
    assert content(state.store) == (set(), 0)


def test_what_cannot_be_backed_up_or_restored(gk: Caller, tmp_path: Path) -> None:
    gk.env["GITKRUISE_STATE"] = str(tmp_path / "none")
    taken = gk("sandbox", "backup", "b.tar")
    assert (taken.code, "GK4124" in taken.err, "has no store" in taken.err) == (5, True, True)
    done = gk("sandbox", "restore", "b.tar", "--yes")
    assert (done.code, "GK4123" in done.err) == (5, True)
