"""A disk that fails: nothing follows a failed sync, a full disk passes, what was said stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.sandbox.backend.test_storage import content
from tests.sandbox.disk import ROOT, need_strace

pytestmark = pytest.mark.slow
VERSIONS: Final = 6
WRITER: Final = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from gitkruise.errors import ClusterFailed
from gitkruise.sandbox.backend.sqlite import SqliteStore, StoreFailed, StoreFull
from tests.sandbox.backend.test_storage import batch

def outcome(version):
    try:
        store.write(batch(version, "x" * 3000))
    except StoreFull:
        return "full"
    except StoreFailed:
        return "failed"
    return "kept"

try:
    store = SqliteStore(Path({path!r}))
except ClusterFailed:
    sys.exit("unusable")
for version in range(1, {versions} + 1):
    result = outcome(version)
    if result == "full":
        result = "full, then " + outcome(version)
    print(result)
"""


def watched(path: Path, during: str) -> list[str]:
    """Options of strace for the files written while a store is created, or used."""
    names = {"creation": (".new", ".new-journal"), "use": ("-wal",)}[during]
    return [word for name in names for word in ("-P", f"{path}{name}")]


def outcomes(path: Path, injected: str, during: str = "use") -> list[str]:
    """Outcome of each write while the kernel injects failures."""
    need_strace()
    program = WRITER.format(root=str(ROOT), path=str(path), versions=VERSIONS)
    log = path.with_name("trace")
    words = ["strace", "-f", "-o", str(log), *watched(path, during), "-e", f"inject={injected}"]
    done = subprocess.run(
        [*words, sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 or "unusable" in done.stderr, done.stderr
    assert "INJECTED" in log.read_text(), "nothing failed"
    return done.stdout.split("\n")[:-1]


MAKING: Final = [("fdatasync", 1), ("fdatasync", 3), ("pwrite64", 1), ("pwrite64", 7)]
WRITING: Final = [("fdatasync", n) for n in (3, 5, 7)] + [("pwrite64", n) for n in (14, 20, 30)]


@pytest.mark.parametrize(("call", "at"), MAKING)
def test_a_store_that_cannot_be_made_is_made_later(tmp_path: Path, call: str, at: int) -> None:
    assert outcomes(tmp_path / "db", f"{call}:error=EIO:when={at}", "creation") == []
    assert content(tmp_path / "db") == (set(), 0)


@pytest.mark.parametrize(("call", "at"), WRITING)
def test_nothing_follows_what_failed(tmp_path: Path, call: str, at: int) -> None:  # STORE-12
    lines = outcomes(tmp_path / "db", f"{call}:error=EIO:when={at}")
    kept = lines.index("failed")
    assert lines == ["kept"] * kept + ["failed"] * (VERSIONS - kept)
    version = content(tmp_path / "db")[1]
    assert version in {kept, kept + 1}, "what was acknowledged is there, and nothing later"


@pytest.mark.parametrize("at", [12, 19, 25])
def test_a_full_disk_passes(tmp_path: Path, at: int) -> None:  # STORE-13
    lines = outcomes(tmp_path / "db", f"pwrite64:error=ENOSPC:when={at}")
    assert lines.count("full, then kept") == 1
    assert lines.count("kept") == VERSIONS - 1
    assert content(tmp_path / "db")[1] == VERSIONS
