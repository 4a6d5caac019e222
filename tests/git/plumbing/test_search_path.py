"""Folders in which programs are looked for: those of the caller, and never the current one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gitkruise.git.plumbing.process import search_path

USUAL = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"


@pytest.mark.parametrize(
    ("path", "searched"),
    [
        ("", USUAL),
        ("/usr/bin:/bin", "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin"),
        (
            "/home/dana/bin:/usr/bin",
            "/home/dana/bin:/usr/bin:/usr/local/bin:/bin:/opt/homebrew/bin",
        ),
        (".:/opt/tools::bin:~/bin", f"/opt/tools:{USUAL}"),
    ],
)
def test_the_folders(path: str, searched: str) -> None:
    assert search_path(os.get_exec_path({"PATH": path})) == searched


def test_a_program_of_the_callers_path_is_found(tmp_path: Path) -> None:
    """As the user's shell finds it; a program in the current folder is not."""
    tools, here = tmp_path / "tools", tmp_path / "checkout"
    for folder in (tools, here):
        folder.mkdir()
        shutil.copy("/bin/true", folder / f"tool-of-{folder.name}")
    asked = (
        "import shutil; from gitkruise.git.plumbing.process import SEARCH_PATH as p;"
        "print([shutil.which(n, path=p) for n in ('tool-of-tools', 'tool-of-checkout')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=here, capture_output=True, text=True, check=True,
        env={"PATH": f":.:{tools}", "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert done.stdout.strip() == str([str(tools / "tool-of-tools"), None])
