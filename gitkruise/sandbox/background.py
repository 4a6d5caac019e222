"""A sandbox in the background: start, find and stop it. Blocking functions."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from gitkruise.errors import ClusterFailed
from gitkruise.kube.system.private_files import read_state, unusable_state, write_private
from gitkruise.sandbox.backend.state_dir import SandboxRecord, StateDir, failed, process_start

READY_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 20.0
_POLL_S: Final = 0.05
_TAIL_LINES: Final = 20


def start_detached(
    command: Sequence[str], root: Path, *, within_s: float = READY_WITHIN_S
) -> SandboxRecord:
    """Run the foreground command as a process of its own session; its record once it answers.

    Output goes to sandbox.log in the state directory. Raises ClusterFailed GK4116 with the end of
    that log when the process ends or does not answer in time (it is stopped then), and GK4113
    when one runs already.
    """
    state = StateDir(root)
    state.prepare()
    if state.is_locked():
        raise state.taken()
    state.record.unlink(missing_ok=True)  # of one that was killed
    with _new_log(state.log) as output:
        process = subprocess.Popen(  # noqa: S603  our own command line, no shell
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        record = state.read_record()
        if record is not None and _lives(state, record):
            process.returncode = (
                0  # it outlives this process on purpose: without a code, Popen would warn
            )
            return record
        if process.poll() is not None:
            raise _did_not_start(state, f"it ended with exit code {process.returncode}")
        time.sleep(_POLL_S)
    process.terminate()
    process.wait(STOP_WITHIN_S)
    raise _did_not_start(state, f"no answer within {within_s:g} s")


def _new_log(path: Path) -> BinaryIO:
    """An empty private log in the place of the last one, whatever that was."""
    try:
        write_private(path, b"")
        return path.open("ab")
    except OSError as error:
        raise ClusterFailed(unusable_state(path, error)) from error


def running(root: Path) -> SandboxRecord | None:
    """The sandbox that runs on a state directory, None if none does."""
    state = StateDir(root)
    record = state.read_record()
    return record if record is not None and _lives(state, record) else None


def stop(root: Path, *, within_s: float = STOP_WITHIN_S) -> bool:
    """End the sandbox of a state directory; False when none runs. Nothing else is ever signalled.

    SIGTERM first; a process that has not let go of the directory in time is killed (its store
    survives that). Raises ClusterFailed GK4117 when it belongs to another user or does not end.
    """
    state = StateDir(root)
    record = running(root)
    if record is None:
        return False
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(record.pid, how)
        except ProcessLookupError:
            return True
        except PermissionError as error:
            raise failed(
                "GK4117",
                f"process {record.pid}, the sandbox of {root}, belongs to another user",
                next="stop it as that user",
            ) from error
        if _gone(state, record, within_s):
            _tidy(state, record)
            return True
    raise failed("GK4117", f"process {record.pid}, the sandbox of {root}, does not end")


def _lives(state: StateDir, record: SandboxRecord) -> bool:
    """The directory is held, and the pid is still the process that wrote the record."""
    return state.is_locked() and process_start(record.pid) == record.started


def _gone(state: StateDir, record: SandboxRecord, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while _lives(state, record):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


def _tidy(state: StateDir, record: SandboxRecord) -> None:
    """Remove what a killed sandbox could not; a newer one's files are left alone."""
    if state.read_record() == record:
        state.record.unlink(missing_ok=True)
        state.kubeconfig.unlink(missing_ok=True)


def _did_not_start(state: StateDir, why: str) -> Exception:
    lines = (read_state(state.log) or b"").decode(errors="replace").splitlines()[-_TAIL_LINES:]
    return failed(
        "GK4116",
        f"the sandbox did not start: {why}",
        why="\n".join(lines) or "no output",
        next=f"read the output in {state.log}",
    )
