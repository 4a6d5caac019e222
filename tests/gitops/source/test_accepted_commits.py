"""The live commits of a source outlast the process, also after a disk that was full."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.gitops.source.accepted_commits import Memory
from gitkruise.model.gitops.config import GitSource, GitSourceSpec

SOURCE = GitSource("shop", "src", GitSourceSpec(url="https://git.example/x"))
COMMIT = "1" * 40


def test_what_could_not_be_written_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory, folder = Memory(tmp_path, SOURCE, "test"), tmp_path / "stood-on"
    folder.write_text("in the way")
    for _ in range(3):
        memory.keep([COMMIT])
    assert [r.getMessage().split()[0] for r in caplog.records] == ["event=live-commits-not-stored"]
    folder.unlink()
    memory.keep([COMMIT])
    assert Memory(tmp_path, SOURCE, "test").recall() == {COMMIT}
