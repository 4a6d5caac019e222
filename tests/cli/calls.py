"""Run the command line: in this process with its streams captured, or on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitkruise.cli.root import run

ROOT = Path(__file__).parents[2]
_UNSET = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "KUBECONFIG", "CI", "LC_ALL")


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and output of a command line."""

    code: int
    out: str
    err: str

    @property
    def obj(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Caller:
    """Runs command lines in a folder with an environment of their own."""

    monkeypatch: pytest.MonkeyPatch
    capfd: pytest.CaptureFixture[str]
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, cwd: Path | str | None = None, **env: str) -> Ended:
        with self.monkeypatch.context() as patch:
            patch.chdir(cwd or self.folder)
            for name in _UNSET:
                patch.delenv(name, raising=False)
            for name, value in {"LANG": "C.UTF-8", **self.env, **env}.items():
                patch.setenv(name, value)
            self.capfd.readouterr()
            code = run(words)
        out, err = self.capfd.readouterr()
        return Ended(code, out, err)


def environment(**more: str) -> dict[str, str]:
    """A plain user's environment for a process of its own."""
    return {
        "PATH": os.defpath + ":/usr/local/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONPATH": str(ROOT),
        **more,
    }


def python(code: str, **more: str) -> str:
    """Output of `code` in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code], env=environment(**more), capture_output=True, text=True,
        check=True, cwd=ROOT,
    ).stdout  # fmt: skip


class Terminal:
    """A program on a pseudo-terminal of a given size; `screen` is what a person would see."""

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], *, rows: int = 24, columns: int = 80
    ) -> None:
        self.rows, self.columns = rows, columns
        self.raw = ""
        self._master, slave = pty.openpty()
        self._size(rows, columns)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gitkruise", *words], env=dict(env), stdin=slave, stdout=slave,
            stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _size(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows: int, columns: int) -> None:
        """As a person drags the window's corner."""
        self._size(rows, columns)
        self._process.send_signal(28)  # SIGWINCH: the program has no controlling terminal here

    def read_until(self, pattern: str, timeout_s: float = 120.0) -> str:
        """Take in output until the newest of it matches; what was said since the call."""
        start = len(self.raw)
        while not re.search(pattern, self.raw[start:]):
            assert self._take(timeout_s), f"no {pattern!r} in {self.raw[start:]!r}"
        return self.raw[start:]

    def end(self, timeout_s: float = 120.0) -> int:
        """Read to the end; the exit code."""
        while self._take(timeout_s):
            pass
        return self._process.wait(timeout_s)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def await_stop(self) -> None:
        """Wait until the program is stopped, as by Ctrl-Z."""
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def type(self, keys: str) -> None:
        """As a person at the keyboard."""
        os.write(self._master, keys.encode())

    @property
    def settings(self) -> list[object]:
        """Settings of the terminal for typed keys."""
        return termios.tcgetattr(self._master)

    def _take(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], timeout_s)
        chunk = b""
        if ready:
            with contextlib.suppress(OSError):  # the other end is closed
                chunk = os.read(self._master, 1 << 16)
        self.raw += chunk.decode("utf-8", "replace")
        return bool(chunk)

    def frames(self) -> list[list[str]]:
        """Every whole picture drawn in place, line by line, without colours."""
        drawn = self.raw.split("\x1b[H")[1:]
        return [
            [
                re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)
                for line in text.replace("\r", "").split("\n")
            ]
            for text in (frame.partition("\x1b[J")[0] for frame in drawn if "\x1b[J" in frame)
        ]
