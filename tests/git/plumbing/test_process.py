"""Starting programs with an environment of ours."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.process import Result, collect, git_command, launch, without_env


def ended(command: list[str]) -> Result:
    return collect(launch(command), timeout_s=10, output_max=1_000)


def test_env_is_no_program_of_its_own() -> None:
    words, environment = without_env(git_command(Path("/m"), ["log", "a=b"]))
    assert words[0] == "git"
    assert words[-1] == "a=b"
    assert environment is not None
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    assert without_env(["sh", "-c", "env -i"]) == (["sh", "-c", "env -i"], None)


def test_a_program_has_the_environment_that_env_would_give() -> None:
    command = ["env", "-i", "PATH=/usr/bin:/bin", "A=b=c", "env"]
    assert ended(command).output == b"PATH=/usr/bin:/bin\nA=b=c\n"


def test_a_missing_program_ends_as_env_ends() -> None:
    missing = ended(["env", "-i", "PATH=/usr/bin:/bin", "no-such-program"])
    assert missing.status == 127
    assert "no-such-program" in missing.errors


def test_the_limit_that_ended_a_program_is_named() -> None:
    assert ended(["yes"]).stopped == "output"


def test_no_program_is_waited_for_once_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()
    monkeypatch.setattr(process, "ENDING", ending)
    timer = threading.Timer(0.1, ending.set)
    timer.start()
    assert ended(["sleep", "60"]).stopped == "end"
    timer.join()
