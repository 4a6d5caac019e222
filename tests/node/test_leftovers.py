"""What a killed run of the tests leaves is removed when the next one starts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.conftest import need
from tests.node.leftovers import OWNER, PREFIX, claim, sweep
from tests.node.machine import hierarchies, obstacle

pytestmark = [pytest.mark.node, pytest.mark.slow]
SLEEPER = "import signal; signal.pause()"


def run(folder: Path) -> subprocess.Popen[bytes]:
    """A process that belongs to a folder by its command line."""
    return subprocess.Popen([sys.executable, "-c", SLEEPER, f"{folder}/server"])


def test_processes_cgroups_and_files_of_a_dead_run_go_and_others_stay() -> None:
    reason = obstacle()
    need("node", present=not reason, how=reason)
    dead, alive, foreign = (Path(tempfile.mkdtemp(prefix=PREFIX)) for _ in range(3))
    group = hierarchies()[0] / f"gitkruise-{dead.name}"
    running = {folder: run(folder) for folder in (dead, alive, foreign)}
    try:
        for folder in (dead, alive):
            claim(folder)
        owner = json.loads((dead / OWNER).read_text())
        (dead / OWNER).write_text(json.dumps({**owner, "process": "999999999 1"}))
        (dead / "127.0.0.1").mkdir()
        (dead / "127.0.0.1" / "cgroup").write_text(group.name)
        group.mkdir()
        assert dead in sweep()
        assert running[dead].wait(30) == -signal.SIGKILL
        assert not dead.exists()
        assert not group.exists()
        for folder in (alive, foreign):
            assert running[folder].poll() is None
            assert folder.exists()
    finally:
        for process in running.values():
            process.kill()
            process.wait()
        for folder in (alive, foreign):
            (folder / OWNER).unlink(missing_ok=True)
            folder.rmdir()
