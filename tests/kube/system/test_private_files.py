"""Next steps for files of the state directory that cannot be used."""

from __future__ import annotations

import errno
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


def test_a_full_disk_does_not_advise_to_remove_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    notes = dict(unusable_state(tmp_path / "x", FULL).notes)
    assert notes["next"].startswith("free space there, or")
