"""`gitkruise version`: the program and the cluster that it speaks to."""

from __future__ import annotations

from pathlib import Path

from gitkruise import __version__
from tests.cli.calls import Caller

SERVER = f"v1.34.0+gitkruise-{__version__}"


def test_the_program_and_its_cluster(gk: Caller, cluster: Path) -> None:
    ended = gk("version", KUBECONFIG=str(cluster), GITKRUISE_COMMIT="4f2c9e1d08b7a6c5")
    program, server = ended.out.splitlines()
    assert program.startswith(f"gitkruise {__version__} (commit 4f2c9e1d08b7, Python 3.")
    assert (server, ended.code) == (f"Kubernetes {SERVER}", 0)


def test_client_asks_no_cluster(gk: Caller) -> None:
    ended = gk("version", "--client", "-o", "json", GITKRUISE_COMMIT="4f2c9e1")
    assert (ended.code, ended.obj["gitkruise"], ended.obj["commit"]) == (0, __version__, "4f2c9e1")
    assert "kubernetes" not in ended.obj


def test_the_program_is_named_when_the_cluster_does_not_answer(gk: Caller, tmp_path: Path) -> None:
    ended = gk("version", KUBECONFIG=str(tmp_path / "none"))
    assert ended.out.startswith(f"gitkruise {__version__} ")
    assert (ended.code, "GK4106" in ended.err) == (5, True)


def test_json_is_one_document_then(gk: Caller, tmp_path: Path) -> None:
    ended = gk("version", "-o", "json", KUBECONFIG=str(tmp_path / "none"))
    assert (ended.code, ended.obj["gitkruise"], "GK4106" in ended.err) == (5, __version__, True)


def test_json_names_the_server(gk: Caller, cluster: Path) -> None:
    assert gk("version", "-o", "json", KUBECONFIG=str(cluster)).obj["kubernetes"] == SERVER
