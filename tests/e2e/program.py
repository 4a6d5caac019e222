"""The gitkruise command as a process: its lines as they come, its end, what it leaves."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

ROOT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 90.0  # for anything that must happen at all
_POLL_S: Final = 0.1

Found = TypeVar("Found")


def environment(state: Path, **more: str) -> dict[str, str]:
    """A user's environment with nothing of ours in it but the state directory."""
    kept = {k: v for k, v in os.environ.items() if k in {"PATH", "LANG", "TMPDIR"}}  # noqa: TID251  what a child process gets
    return {
        **kept,
        "LANG": "C.UTF-8",
        "HOME": str(state),
        "GITKRUISE_STATE": str(state),
        "PYTHONPATH": str(ROOT),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Dana",
        "GIT_AUTHOR_EMAIL": "dana@example.com",
        "GIT_COMMITTER_NAME": "Dana",
        "GIT_COMMITTER_EMAIL": "dana@example.com",
        **more,
    }


def gitkruise(*words: str) -> list[str]:
    """The command line, run by this interpreter."""
    return [sys.executable, "-m", "gitkruise", *words]


def output(words: list[str], env: Mapping[str, str], cwd: Path | None = None) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        words, env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"{words} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def eventually(look: Callable[[], Found | None], within_s: float = PATIENCE_S) -> Found:
    """The first answer of `look` that is neither None nor false, asked again and again."""
    end = time.monotonic() + within_s
    pause = threading.Event()
    while not (found := look()):
        assert time.monotonic() < end, f"{look} did not come true in {within_s:g} s"
        pause.wait(_POLL_S)
    return found


class Program:
    """A running command. Both of its streams are read as one."""

    def __init__(self, words: list[str], env: Mapping[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            words,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._arriving: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._arriving.put(line.rstrip("\n"))
        self._arriving.put(None)

    def until(self, pattern: str, within_s: float = PATIENCE_S) -> str:
        """The next line that matches; fails with everything printed when none comes."""
        end = time.monotonic() + within_s
        while True:
            try:
                line = self._arriving.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                line = None
            assert line is not None, f"no line like {pattern!r} in:\n" + "\n".join(self.lines)
            self.lines.append(line)
            if re.search(pattern, line):
                return line

    def ends(self, within_s: float = PATIENCE_S) -> int:
        """Wait for the end of the process and of its output; the exit code."""
        code = self.process.wait(within_s)
        self._reader.join(within_s)
        while (line := self._arriving.get()) is not None:
            self.lines.append(line)
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def interrupt(self) -> None:
        """Send SIGINT to the whole process group, as Ctrl-C in a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def group_is_gone(self) -> bool:
        """Whether no process started by the command is left."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


@contextmanager
def started(words: list[str], env: Mapping[str, str], cwd: Path) -> Iterator[Program]:
    """A program that is killed at the end if it still runs."""
    program = Program(words, env, cwd)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.signal(signal.SIGKILL)
            program.process.wait(PATIENCE_S)
        if program.process.stdout is not None:
            program._reader.join(PATIENCE_S)
            program.process.stdout.close()
