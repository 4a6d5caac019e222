"""Next steps for files of the state directory that cannot be used."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gitkruise.kube.system.private_files import unusable_state

DENIED = OSError(errno.EACCES, "Permission denied")
FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_exists_may_be_removed(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    notes = dict(unusable_state(tmp_path / "x", DENIED).notes)
    assert notes["next"].startswith(f"remove {tmp_path}/x, or")
    assert notes["unchanged"] == "it was left as it is"


@pytest.mark.parametrize("error", [DENIED, ValueError("unable to open database file")])
def test_a_file_that_does_not_exist_is_not_to_be_removed(tmp_path: Path, error: Exception) -> None:
    notes = dict(unusable_state(tmp_path / "x", error).notes)
    assert notes["next"].startswith(f"check that you may write to {tmp_path}, or")
    assert notes["unchanged"] == "it does not exist, and was not created"


@pytest.mark.parametrize(("pragma", "first"), [
    ("max_page_count = 1", "free space there"),
    ("query_only = 1", "check that you may write there"),
    ("locking_mode = NORMAL", "stop the other process that uses it"),
])  # fmt: skip
def test_what_is_kept_in_a_database_is_not_to_be_removed(
    tmp_path: Path, pragma: str, first: str
) -> None:
    path = tmp_path / "x"
    with (
        closing(sqlite3.connect(path, timeout=0)) as database,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        database.execute(f"PRAGMA {pragma}")
        if "locking" in pragma:
            other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            database.execute("CREATE TABLE a (b)")
    notes = dict(unusable_state(path, caught.value).notes)
    assert notes["next"].startswith(f"{first}, or")


def test_a_full_disk_does_not_advise_to_remove_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    notes = dict(unusable_state(tmp_path / "x", FULL).notes)
    assert notes["next"].startswith("free space there, or")
