"""The demo tells its eight chapters to the end and leaves nothing behind, also when interrupted."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.e2e.program import environment, gitkruise, started

pytestmark = pytest.mark.e2e

CHAPTERS = (
    (r"commit 1 .*first release", "Done"),
    (r"commit 2 .*partition 60%", "Held"),
    (r"commit 3 .*partition 0", "Done"),
    (r"commit 4 .*cart v9", "Stuck"),
    (r"commit 5 .*roll back", "Done"),
    (r"commit 6 .*join the mesh", "Done"),
    (r"commit 7 .*metrics v4", "Held"),
    (r"commit 8 .*proxy v1.32", "Done"),
)


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_whole_demo(tmp_path: Path) -> None:
    state, scratch = tmp_path / "state", tmp_path / "tmp"
    scratch.mkdir()
    env = environment(state, TMPDIR=str(scratch), CI="true")
    with started(gitkruise("demo", "--exit", "--speed", "20"), env, tmp_path) as demo:
        port = int(demo.until(r"https://127\.0\.0\.1:\d+").rpartition("127.0.0.1:")[2].split()[0])
        for title, ends in CHAPTERS:
            demo.until(title)
            demo.until(rf" {ends}\b.* in [0-9.]+ s$")
        assert demo.ends() == 0
        assert demo.group_is_gone()
    assert not any("\x1b" in line for line in demo.lines)
    pair = [
        line.split("  ")[-1] for line in demo.lines if re.search(r"^ {9}search-\w+  proxy-1", line)
    ]
    assert pair[0] == "proxy-1 v1.31 serves · proxy-2 waits"
    assert pair[-1] == "proxy-1 waits · proxy-2 v1.32 serves", "they have changed places"
    assert port_is_free(port)
    assert list(scratch.iterdir()) == []
    assert not state.exists()


@pytest.mark.parametrize(
    "moment", ["commit 1 ", "checkout .*Rolling", "Done .* in [0-9.]+ s$", "commit 2 "]
)
def test_interrupted_in_the_middle(tmp_path: Path, moment: str) -> None:
    state, scratch = tmp_path / "state", tmp_path / "tmp"
    scratch.mkdir()
    env = environment(state, TMPDIR=str(scratch), CI="true")
    with started(gitkruise("demo"), env, tmp_path) as demo:
        url = re.search(r":(\d+)", demo.until(r"https://127\.0\.0\.1:\d+").partition("//")[2])
        assert url
        demo.until(moment)
        demo.interrupt()
        assert demo.ends() == 0
        assert demo.group_is_gone()
    assert not re.search(r"Traceback|ERROR|error|Unclosed", "\n".join(demo.lines)), demo.lines
    assert port_is_free(int(url.group(1)))
    assert list(scratch.iterdir()) == []


def test_keep_leaves_a_repository_to_read(tmp_path: Path) -> None:
    kept = tmp_path / "shop"
    env = environment(tmp_path / "state", CI="true")
    words = gitkruise("demo", "--exit", "--speed", "50", "--keep", str(kept))
    with started(words, env, tmp_path) as demo:
        assert demo.ends() == 0
    assert (kept / "shop-deploy.git" / "HEAD").exists()
    with started(
        gitkruise("history", "--repo", str(kept / "shop-deploy.git")), env, kept
    ) as program:
        assert program.ends() == 0
    assert sum("shop/checkout" in line for line in program.lines) == 3
