"""A program on controller-runtime, written in Go, is at home on the embedded cluster."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import need
from tests.e2e.cluster import sandbox
from tests.kube.real.apiserver import apiserver

PROGRAM: Final = Path(__file__).parent / "operator" / "bin" / "greetings"
SCENES: Final = 16
WITHIN_S: Final = 240.0


def played(folder: Path, kubeconfig: Path, *flags: str, **env: str) -> Mapping[str, int]:
    """What the program counted on the wire, after it found everything as it should be."""
    need("greetings", present=PROGRAM.exists(), how="make client-assets")
    done = subprocess.run(
        [PROGRAM, *flags],
        env={"KUBECONFIG": str(kubeconfig), "HOME": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok: ") == SCENES, "leases, caches, writes, refusals, apply, …"
    found = re.findall(r"^([a-zA-Z ]+): (\d+)$", done.stdout, re.MULTILINE)
    return {name: int(number) for name, number in found}


@pytest.mark.e2e
@pytest.mark.parametrize("streamed", [False, True], ids=["lists", "watch lists"])
def test_embedded(tmp_path: Path, streamed: bool) -> None:
    """Protobuf is read, and JSON answered to whoever takes it too; caches fill either way."""
    with sandbox(tmp_path / "state", "--speed", "20") as cluster:
        env = {"KUBE_FEATURE_WatchListClient": str(streamed).lower()}
        wire = played(tmp_path, cluster.kubeconfig, **env)
    assert wire["protobuf got"] == wire["media types refused"] == 0
    assert wire["protobuf sent"] > 0
    assert wire["json got"] >= wire["protobuf asked"] > 0
    assert wire["watches"] == wire["bookmarks asked"] > 0
    expected = wire["watches"] if streamed else 0
    assert wire["initial events asked"] == wire["initial events ended"] == expected
    assert wire["bookmarks"] >= expected


@pytest.mark.kube
@pytest.mark.slow
def test_real(tmp_path: Path) -> None:
    """The program asks for nothing that Kubernetes would not give."""
    (tmp_path / "server").mkdir()
    with apiserver(tmp_path / "server") as server:
        assert played(tmp_path, server.kubeconfig(), "--bare")["protobuf got"] > 0
