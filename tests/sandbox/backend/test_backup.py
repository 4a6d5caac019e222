"""Backups of the store: complete, checked, and put in place as a whole or not at all."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import sqlite3
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gitkruise.errors import ClusterFailed, WatchExpired
from gitkruise.sandbox.backend import backup
from gitkruise.sandbox.backend.backup import (
    BACKUP_FORMAT,
    LOST_GAP,
    check_backup,
    reset,
    restore,
    write_backup,
)
from gitkruise.sandbox.backend.sqlite import FORMAT, RESTART_GAP, SqliteStore
from gitkruise.sandbox.backend.state_dir import StateDir
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.server import SandboxOptions, serve
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.sandbox.backend.test_storage import batch, content, names, whole

NOW = datetime(2026, 11, 26, tzinfo=UTC)
MAPS = ResourceRef("", "v1", "configmaps")
WRITING = {"restore", "_partial", "_continue_at", "_swap", "_aside"}  # functions that change files


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    """A store at version 3, with a backup of version 2 next to the state directory."""
    state = StateDir(tmp_path / "state")
    state.prepare()
    with closing(SqliteStore(state.store)) as store:
        store.write(batch(1))
        store.write(batch(2))
        write_backup(state, tmp_path / "two.tar", NOW)
        store.write(batch(3, "x" * 5000))
    return state


def two(state: StateDir) -> Path:
    return state.root.parent / "two.tar"


def repacked(file: Path, **changes: Any) -> Path:
    """A copy of a backup with other fields in its head."""
    with tarfile.open(file) as tar:
        head, store = (tar.extractfile(name).read() for name in tar.getnames())  # type: ignore[union-attr]
    changed = file.with_name("changed.tar")
    head = json.dumps(json.loads(head) | changes).encode()
    with tarfile.open(changed, "w") as tar:
        for name, data in (("backup.json", head), ("cluster.db", store)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return changed


def refused(code: str, act: Callable[[], object]) -> str:
    with pytest.raises(ClusterFailed) as failed:
        act()
    (finding,) = failed.value.findings
    assert finding.code == code, finding
    return finding.message


def test_a_backup_is_taken_while_the_store_is_written(state: StateDir) -> None:
    """The store of the fixture was open, with a log that was not folded yet."""
    before = whole(state.store)
    head, replaced = check_backup(state, two(state))
    assert (head.format, head.store, head.version, head.objects) == (BACKUP_FORMAT, FORMAT, 2, 3)
    assert head.created == "2026-11-26T00:00:00Z"
    assert replaced.objects == len(before[0])
    assert whole(state.store) == before, "a check replaces nothing"
    assert two(state).stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in state.root.parent.iterdir()) == ["state", "two.tar"]


def test_a_backup_of_a_killed_sandbox_has_what_is_in_its_log(state: StateDir) -> None:
    killed = StateDir(state.root.parent / "killed")
    killed.prepare()
    with closing(SqliteStore(state.store)) as store:
        store.write(batch(4))
        for ending in ("", "-wal"):
            shutil.copyfile(f"{state.store}{ending}", f"{killed.store}{ending}")
    head = write_backup(killed, state.root.parent / "four.tar", NOW)
    assert head.version == 4


def test_a_restoration_brings_the_objects_back_and_no_version_twice(state: StateDir) -> None:
    head, replaced = restore(state, two(state))
    assert (head.version, replaced.objects, replaced.aside) == (2, 3, None)
    assert content(state.store) == (names(2), 2)
    assert whole(state.store)[1] == 3 + 2 * RESTART_GAP
    restore(state, two(state))
    assert whole(state.store)[1] == 3 + 3 * RESTART_GAP, "a second one continues after the first"
    assert not [p for p in state.root.iterdir() if p.name not in {"cluster.db", "sandbox.lock"}]


def test_versions_are_skipped_where_the_last_ones_are_unknown(state: StateDir) -> None:
    elsewhere = StateDir(state.root.parent / "elsewhere")
    restore(elsewhere, two(state))
    assert whole(elsewhere.store)[1] == 2 + LOST_GAP + RESTART_GAP


def test_a_reset_leaves_an_empty_store_whose_versions_go_on(state: StateDir) -> None:
    (state.root / "token").write_text("kept")
    assert reset(state).objects == 3
    assert whole(state.store) == ([], 3 + 2 * RESTART_GAP)
    assert (state.root / "token").read_text() == "kept"


def test_a_running_sandbox_is_not_touched(state: StateDir) -> None:
    before = state.store.read_bytes()
    with state.locked():
        refused("GK4113", lambda: restore(state, two(state)))
        refused("GK4113", lambda: check_backup(state, two(state)))
        refused("GK4113", lambda: reset(state))
    assert state.store.read_bytes() == before


def test_files_that_are_there_and_stores_that_are_not(state: StateDir) -> None:
    before = two(state).read_bytes()
    assert "it exists" in refused("GK4124", lambda: write_backup(state, two(state), NOW))
    assert two(state).read_bytes() == before
    empty = StateDir(state.root.parent / "empty")
    file = state.root.parent / "none.tar"
    assert "has no store" in refused("GK4124", lambda: write_backup(empty, file, NOW))
    missing = state.root / "no" / "such" / "folder.tar"
    refused("GK4124", lambda: write_backup(state, missing, NOW))
    refused("GK4123", lambda: restore(state, file))
    refused("GK4123", lambda: restore(state, state.root))


@pytest.mark.parametrize("changes", [{"format": BACKUP_FORMAT + 1}, {"store": FORMAT + 1}])
def test_a_newer_backup_is_refused(state: StateDir, changes: dict[str, int]) -> None:
    newer = repacked(two(state), **changes, more="fields")
    before = whole(state.store)
    assert "this gitkruise knows up to 1" in refused("GK4122", lambda: restore(state, newer))
    assert whole(state.store) == before


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"objects": 4}, "counts other objects"),
        ({"version": 1}, "counts other objects"),
        ({"size": 7}, "bytes"),
        ({"sha256": "0"}, "the sha256 of cluster.db"),
        ({"sha256": 0}, "values of other types"),
        ({"version": True}, "values of other types"),
        ({"more": 1}, "other fields"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(
    state: StateDir, changes: dict[str, Any], why: str
) -> None:
    wrong = repacked(two(state), **changes)
    assert why in refused("GK4123", lambda: restore(state, wrong))


def test_members_that_are_no_files_are_refused(state: StateDir) -> None:
    wrong = two(state).with_name("linked.tar")
    for name, kind in (("backup.json", tarfile.SYMTYPE), ("../backup.json", tarfile.REGTYPE)):
        with tarfile.open(wrong, "w") as tar:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
        assert "backup.json is missing" in refused("GK4123", lambda: restore(state, wrong))


def test_a_damaged_object_is_named(state: StateDir) -> None:
    data = two(state).read_bytes()
    at = data.index(b'"name":"n1"')
    two(state).write_bytes(data[:at] + b'"name":"n7"' + data[at + 11 :])
    message = refused("GK4123", lambda: restore(state, two(state)))
    assert message.endswith("cluster.db: ConfigMap shop/n1 is damaged")


@pytest.mark.slow
def test_no_damage_goes_unseen(state: StateDir) -> None:
    """Cut at every 512th byte, or with a bit flipped: refused, or read as it was."""
    data = two(state).read_bytes()
    before, sound = whole(state.store), check_backup(state, two(state))[0]
    wrong = two(state).with_name("wrong.tar")
    cut = [data[:at] for at in range(0, len(data) - 10_240, 512)]
    flips = [(at, 1 << at % 8) for at in range(0, len(data), 61)]
    flipped = [data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :] for at, bit in flips]
    refusals = unseen = 0
    for image in (*cut, *flipped):
        wrong.write_bytes(image)
        try:
            found = check_backup(state, wrong)[0]
        except ClusterFailed as error:
            (finding,) = error.findings
            refusals += finding.code in {"GK4122", "GK4123"} and str(wrong) in finding.message
        else:  # padding of the archive, or a time or version of gitkruise in its head
            unseen += (found.sha256, found.size) == (sound.sha256, sound.size)
    assert refusals + unseen == len(cut) + len(flipped)
    assert refusals > len(cut) + len(flipped) // 2
    assert whole(state.store) == before


def test_a_damaged_store_is_kept_aside(state: StateDir) -> None:
    state.store.write_bytes(b"no database")
    file = state.root.parent / "new.tar"
    assert str(state.store) in refused("GK4121", lambda: write_backup(state, file, NOW))
    _, replaced = restore(state, two(state))
    assert replaced.objects is None
    assert replaced.aside is not None
    assert (replaced.aside / "cluster.db").read_bytes() == b"no database"
    assert content(state.store) == (names(2), 2)


def test_a_damaged_object_stops_a_backup(state: StateDir) -> None:
    with closing(sqlite3.connect(state.store)) as database, database:
        database.execute("UPDATE objects SET body = '{}' WHERE name = 'n2'")
    file = state.root.parent / "new.tar"
    message = refused("GK4121", lambda: write_backup(state, file, NOW))
    assert message == f"cannot use the sandbox's store {state.store}: ConfigMap shop/n2 is damaged"
    assert not file.exists()


def test_a_newer_store_is_not_replaced(state: StateDir) -> None:
    with closing(sqlite3.connect(state.store)) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
        database.execute("PRAGMA journal_mode = DELETE")
    before = state.store.read_bytes()
    refused("GK4122", lambda: restore(state, two(state)))
    refused("GK4122", lambda: reset(state))
    refused("GK4122", lambda: write_backup(state, state.root.parent / "new.tar", NOW))
    assert state.store.read_bytes() == before


def test_the_log_of_the_replaced_store_is_not_played_into_the_new_one(state: StateDir) -> None:
    """A reader, as a backup that runs now, keeps SQLite from folding the log."""
    with closing(sqlite3.connect(state.store)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM objects").fetchone()
        with closing(SqliteStore(state.store)) as store:
            store.write(batch(4))
        _, replaced = restore(state, two(state))
        assert replaced.aside is not None
        assert {p.name for p in replaced.aside.iterdir()} >= {"cluster.db", "cluster.db-wal"}
        assert not state.store.with_name("cluster.db-wal").exists()
    assert content(state.store) == (names(2), 2)


def crashing(at: int, act: Callable[[], object]) -> bool:
    """Carry out `act` in a child that ends at the given line; return whether it got that far."""
    child = os.fork()
    if not child:
        left = at

        def count(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if frame.f_code.co_filename != backup.__file__ or frame.f_code.co_name not in WRITING:
                return None
            left -= event == "line"
            if not left:
                os._exit(9)
            return count

        try:
            sys.settrace(count)
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["", "damaged"])
def test_a_crash_at_any_step_leaves_the_old_state_or_the_new_one(
    state: StateDir, damage: str
) -> None:
    if damage:
        with closing(sqlite3.connect(state.store)) as database, database:
            database.execute("UPDATE objects SET body = '{}' WHERE name = 'n2'")
    sound = state.root.with_name("sound")
    shutil.copytree(state.root, sound)
    seen: set[str] = set()
    at = 0
    while True:
        at += 1
        shutil.rmtree(state.root)
        shutil.copytree(sound, state.root)
        reached = crashing(at, lambda: restore(state, two(state)))
        try:
            found = content(state.store)
        except ClusterFailed:
            seen.add("damaged")
        else:
            assert found in ((names(2), 2), (names(3), 3)), f"line {at}"
            seen.add(f"version {found[1]}")
        restore(state, two(state))
        assert content(state.store) == (names(2), 2), f"line {at}: a second one succeeds"
        if not reached:
            break
    assert seen == {damage or "version 3", "version 2"}


def test_watches_of_the_time_before_are_asked_to_list_again(tmp_path: Path) -> None:
    root, file = tmp_path / "state", tmp_path / "backup.tar"
    options = SandboxOptions(state_dir=root, kubelet=False, controllers=False)

    def create(name: str) -> ApiRequest:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        return ApiRequest(verb="create", resource=MAPS, namespace="default", body=body)

    async def play() -> None:
        async with serve(options) as server:
            transport = WorldTransport(server.cluster)
            await transport.send(create("kept"))
            await asyncio.to_thread(write_backup, StateDir(root), file, NOW)
            lost = (await transport.send(create("lost"))).body["metadata"]
        restore(StateDir(root), file)
        async with serve(options) as server:
            assert server.token, "the same identity"
            transport = WorldTransport(server.cluster)
            found = (await transport.send(ApiRequest(verb="list", resource=MAPS))).body
            assert [o["metadata"]["name"] for o in found["items"]] == ["kept"]
            assert int(found["metadata"]["resourceVersion"]) > int(lost["resourceVersion"])
            watch = ApiRequest(
                verb="watch", resource=MAPS, params={"resourceVersion": lost["resourceVersion"]}
            )
            with pytest.raises(WatchExpired):
                await anext(transport.watch(watch))
            again = (await transport.send(create("lost"))).body["metadata"]
            assert again["uid"] != lost["uid"], "another object of that name"

    asyncio.run(play())
