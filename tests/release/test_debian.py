"""The Debian package: what it holds and needs, and the same bytes each time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from release.debian import build_package
from release.source import ROOT, Source
from tests.conftest import need

pytestmark = pytest.mark.slow
SOURCE: Final = Source(root=ROOT, version="1.2.3", commit="4f2c9e1d" * 5, epoch=1_700_000_000)
SHARED: Final = {
    "man/man1/gitkruise.1": ".TH X\n",
    "bash-completion/completions/gitkruise": "complete\n",
    "zsh/site-functions/_gitkruise": "#compdef gitkruise\n",
}


def package(folder: Path) -> Path:
    need("dpkg-deb", present=bool(shutil.which("dpkg-deb")), how="apt-get install dpkg")
    root = folder / "root"
    program = root / "opt" / "gitkruise" / "bin" / "gitkruise"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "gitkruise").symlink_to("/opt/gitkruise/bin/gitkruise")
    out = folder / "gitkruise.deb"
    build_package(SOURCE, root, SHARED, out)
    return out


def deb(*words: str | Path) -> str:
    done = subprocess.run(("dpkg-deb", *words), check=True, capture_output=True, text=True)
    return done.stdout


def test_a_package_has_program_pages_and_completions(tmp_path: Path) -> None:
    listed = deb("--contents", package(tmp_path)).splitlines()
    paths = {line.split(None, 5)[5]: (line.split()[0], line.split()[1]) for line in listed}
    files = {path: mode for path, (mode, _) in paths.items() if not path.endswith("/")}
    assert files == {
        "./opt/gitkruise/bin/gitkruise": "-rwxr-xr-x",
        "./usr/bin/gitkruise -> /opt/gitkruise/bin/gitkruise": "lrwxrwxrwx",
        "./usr/share/bash-completion/completions/gitkruise": "-rw-r--r--",
        "./usr/share/doc/gitkruise/copyright": "-rw-r--r--",
        "./usr/share/man/man1/gitkruise.1.gz": "-rw-r--r--",
        "./usr/share/zsh/vendor-completions/_gitkruise": "-rw-r--r--",
    }
    assert {owner for _, owner in paths.values()} == {"root/root"}
    assert {mode for path, (mode, _) in paths.items() if path.endswith("/")} == {"drwxr-xr-x"}


def test_a_package_needs_the_python_that_it_is_compiled_for(tmp_path: Path) -> None:
    made = package(tmp_path)
    assert deb("--field", made, "Version").strip() == "1.2.3"
    needs = deb("--field", made, "Depends")
    assert {"python3 (>= 3.13)", "python3 (<< 3.14)", "git"} <= set(needs.strip().split(", "))


def test_a_package_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    one, two = package(tmp_path / "one"), package(tmp_path / "two")
    assert one.read_bytes() == two.read_bytes()
