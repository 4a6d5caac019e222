"""Planted lies: each one-line defect under lies/ is caught by a law of the observer.

A patch opens with the lie in a sentence and the history that catches it; `make observer` plays
the same histories without a patch, and finds nothing in them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.observer.play import CAUGHT

ROOT: Final = Path(__file__).parents[2]
LIES: Final = sorted((Path(__file__).parent / "lies").glob("*.patch"))
AROUND: Final = ("tests", "schemas", "deploy", "examples-repo", "docs", "pyproject.toml")
STEPS: Final = 3  # as make observer plays them
HISTORIES: Final = 500
TIME_S: Final = 300


def test_there_are_enough_lies() -> None:
    assert len(LIES) >= 25


@pytest.mark.parametrize("patch", LIES, ids=lambda patch: patch.stem)
def test_a_lie_is_caught(patch: Path, tmp_path: Path) -> None:
    sentence, history, *diff = patch.read_text().splitlines()
    assert sentence.endswith(".")
    changed = [line for line in diff if line.startswith(("+", "-"))][2:]
    assert [line[0] for line in changed] == ["-", "+"], "a lie is one line"
    seed = int(history.removeprefix("history: "))
    assert 0 <= seed < HISTORIES
    copy, folder = tmp_path / "copy", tmp_path / "history"
    shutil.copytree(ROOT / "gitkruise", copy / "gitkruise")
    for name in AROUND:
        (copy / name).symlink_to(ROOT / name)
    applied = _run(copy, "git", "apply", str(patch))
    assert applied.returncode == 0, f"{patch.name} is to be written anew: {applied.stderr}"
    folder.mkdir()
    words = ("-m", "tests.observer.play", str(folder), str(seed), str(STEPS))
    played = _run(copy, sys.executable, *words)
    assert played.returncode == CAUGHT, f"history {seed} shows no lie: {played}"
    assert played.stdout


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=TIME_S
    )
