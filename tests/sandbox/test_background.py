"""A sandbox in the background: started once it answers, found again, stopped without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.sandbox.backend.state_dir import SandboxRecord, StateDir
from gitkruise.sandbox.background import running, start_detached, stop

ROOT = Path(__file__).parents[2]
FOREGROUND = """
import asyncio, signal, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from gitkruise.sandbox.server import SandboxOptions, serve

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with serve(SandboxOptions(state_dir=Path({state!r}), nodes=1, controllers=False)):
        await stop.wait()

asyncio.run(main())
"""


def command(state: Path) -> list[str]:
    program = FOREGROUND.format(root=str(ROOT), state=str(state))
    return [sys.executable, "-c", program]


@pytest.mark.slow
def test_up_status_down(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert running(state) is None
    assert not stop(state)
    record = start_detached(command(state), state, within_s=30)
    try:
        assert record.url.startswith("https://127.0.0.1:")
        assert running(state) == record
        assert (state / "kubeconfig").exists()
        with pytest.raises(ClusterFailed, match="GK4113"):
            start_detached(command(state), state)
    finally:
        assert stop(state, within_s=10)
    assert running(state) is None
    assert not {"kubeconfig", "sandbox.json"} & {p.name for p in state.iterdir()}


@pytest.mark.slow
def test_a_killed_sandbox_is_not_running_and_starts_again(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = start_detached(command(state), state, within_s=30)
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    assert running(state) is None
    again = start_detached(command(state), state, within_s=30)
    assert again.pid != first.pid
    assert again.url == first.url
    assert stop(state, within_s=10)


def test_a_start_that_fails_shows_its_last_words(tmp_path: Path) -> None:
    state = tmp_path / "state"
    words = [sys.executable, "-c", "raise SystemExit('no port was free')"]
    with pytest.raises(ClusterFailed, match="GK4116") as failed:
        start_detached(words, state, within_s=30)
    assert "no port was free" in dict(failed.value.findings[0].notes)["why"]


def test_a_reused_pid_is_never_signalled(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.prepare()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with state.locked(), state.announced("https://127.0.0.1:1"):
            mine = state.read_record()
            assert mine is not None
            stale = SandboxRecord(pid=other.pid, started="1", url=mine.url)
            state.record.write_text(
                f'{{"pid": {stale.pid}, "started": "{stale.started}", "url": "{stale.url}"}}'
            )
            assert running(state.root) is None
            assert not stop(state.root)
        assert other.poll() is None
        other.kill()
