"""Ctrl-C before a command began, and after it ended."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.cli.calls import environment

# The process interrupts itself when the module is imported that its first word names.
INTERRUPTED = """
import os, signal, sys
from gitkruise import __main__

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

module = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupting())
__main__.main()
"""
AT_EXIT = """
import atexit, os, signal
from gitkruise import __main__

atexit.register(os.kill, os.getpid(), signal.SIGINT)
__main__.main()
"""
IGNORED = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"


def played(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], env=environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("gitkruise.cli.root", -signal.SIGINT),  # 130 in a shell
        ("click", -signal.SIGINT),
        ("gitkruise.cli.commands.inspect.explain", 130),
    ],
)
def test_an_interrupt_during_the_imports_prints_nothing(module: str, code: int) -> None:
    done = played(INTERRUPTED, module, "explain", "GK1203")
    assert done.returncode == code
    assert (done.stdout.strip(), done.stderr.strip()) == ("", "")


def test_an_interrupt_at_the_end_prints_no_traceback() -> None:
    done = played(AT_EXIT, "explain", "GK1203")
    assert done.returncode == -signal.SIGINT
    assert "GK1203" in done.stdout
    assert done.stderr == ""


def test_an_ignored_interrupt_stays_ignored() -> None:
    done = played(IGNORED + INTERRUPTED, "gitkruise.cli.root", "explain", "GK1203")
    assert done.returncode == 0, done.stderr
    assert "GK1203" in done.stdout
