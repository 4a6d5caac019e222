"""A state directory has one process at a time, and the next one knows which it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.kube.cache.leader_election import unique_identity
from gitkruise.kube.system.state_lock import RUN_LOCK, is_taken, state_locked

_HOLDER = """
import sys
from pathlib import Path
from gitkruise.kube.system.state_lock import state_locked
with state_locked(Path(sys.argv[1]), "first"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_process_learns_who_the_first_is(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert is_taken(tmp_path)
        with pytest.raises(ClusterFailed) as caught, state_locked(tmp_path, "second"):
            pass
        (finding,) = caught.value.findings
        assert finding.code == "GK4118"
        assert f"process {process.pid} (first)" in finding.message
        assert caught.value.exit_code == 5
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not is_taken(tmp_path)
    with state_locked(tmp_path, "third") as before:
        assert before == "first"  # it is dead for certain: its lease need not be waited out


def test_a_copied_directory_knows_nothing_of_who_had_the_original(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with state_locked(tmp_path / "one", "first"):
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        with state_locked(tmp_path / "two", "second") as before:
            assert before == ""


def test_a_lock_of_another_boot_proves_nothing(tmp_path: Path) -> None:
    with state_locked(tmp_path, "first"):
        pass
    note = json.loads((tmp_path / RUN_LOCK).read_text())
    (tmp_path / RUN_LOCK).write_text(json.dumps({**note, "boot": "another"}))
    with state_locked(tmp_path, "second") as before:
        assert before == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', "\x00" * 5_000])
def test_a_damaged_lock_file_is_no_obstacle(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN_LOCK).write_text(text)
    with state_locked(tmp_path, "one") as before:
        assert before == ""
        with pytest.raises(ClusterFailed, match="GK4118"), state_locked(tmp_path, "two"):
            pass


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """It would outlive a parent that is killed."""
    ready, done = os.pipe(), os.pipe()
    with state_locked(tmp_path, "parent"):
        child = multiprocessing.get_context("fork").Process(target=_waits, args=(ready, done))
        child.start()
        assert os.read(ready[0], 1) == b"r"
    assert not is_taken(tmp_path)
    os.write(done[1], b"d")
    child.join()
    for handle in (*ready, *done):
        os.close(handle)


def _waits(ready: tuple[int, int], done: tuple[int, int]) -> None:
    os.write(ready[1], b"r")
    os.read(done[0], 1)


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / RUN_LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ClusterFailed, match="GK4111"), state_locked(tmp_path, "one"):
        pass
    assert (tmp_path / "elsewhere").read_text() == "kept"


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(ClusterFailed) as caught, state_locked(tmp_path / "state", "one"):
        pass
    notes = dict(caught.value.findings[0].notes)
    assert notes["unchanged"] == "it was left as it is"
    assert notes["next"].startswith(f"remove {tmp_path}/state, or set GITKRUISE_STATE")


def test_processes_of_one_host_name_have_identities_of_their_own() -> None:
    seeds = iter(range(1, 100))
    found = {unique_identity("box", lambda: next(seeds)) for _ in range(20)}
    assert len(found) == 20
    assert all(one.startswith("box_") and len(one) == len("box_") + 36 for one in found)
