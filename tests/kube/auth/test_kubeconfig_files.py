"""Files that are no kubeconfig are refused: pipes, devices, endless and deeply nested ones."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.kube.auth.kubeconfig import merged
from gitkruise.sandbox.backend.sqlite import SqliteStore


def test_a_pipe_and_a_device_are_refused_unread(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(ClusterFailed, match="GK4106"):
            merged([path])


def test_a_store_that_is_a_pipe_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cluster.db")
    with pytest.raises(ClusterFailed, match="not a regular file"):
        SqliteStore(tmp_path / "cluster.db")


@pytest.mark.parametrize("text", ["[" * 60_000, "{a: " * 60_000, "- " * 60_000])
def test_nesting_without_end_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(ClusterFailed, match="GK4106"):
        merged([file])


def test_others_who_may_read_it_draw_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config"
    file.write_text("kind: Config\n")
    file.chmod(0o600)
    caplog.set_level(logging.WARNING)
    merged([file])
    assert caplog.text == ""
    file.chmod(0o644)
    merged([file])
    assert "event=kubeconfig-readable-by-others" in caplog.text
