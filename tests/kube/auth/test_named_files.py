"""Files that a user or a kubeconfig names: pipes, devices and endless ones are refused unread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitkruise.cli.git_hook import send
from gitkruise.errors import ClusterFailed, UsageProblem
from gitkruise.git.parsing.parse_cache_db import ParsedStore
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.notify.outbox import NotificationOutbox
from gitkruise.gitops.source.accepted_commits import Memory
from gitkruise.gitops.source.verification import FirstSeen
from gitkruise.kube.auth.connection import in_cluster
from gitkruise.kube.auth.credentials import TokenFile
from gitkruise.kube.auth.kubeconfig import merged
from gitkruise.kube.system.private_files import READ_MAX, read_regular
from gitkruise.kube.system.state_lock import RUN_LOCK, is_taken, state_locked
from gitkruise.model.gitops.config import GitSource, GitSourceSpec
from gitkruise.sandbox.backend.state_dir import StateDir, stored_identity
from gitkruise.sandbox.background import start_detached
from gitkruise.sandbox.kubeconfig import MARK, written
from gitkruise.webhook.certificates import FILES, FolderVault

AT = datetime(2026, 11, 21, tzinfo=UTC)
INSIDE = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def token(path: Path) -> None:
    asyncio.run(TokenFile(path).renew())


def authority(path: Path) -> None:
    root = path.parent / "account"
    root.mkdir()
    (root / "token").write_text("t")
    (root / "ca.crt").symlink_to(path)
    in_cluster(INSIDE, root)


def hook(path: Path) -> None:
    send("http://127.0.0.1:1/hook", path, "shop", [])


def place(path: Path, kind: str) -> None:
    """Put something at `path` that is no small regular file."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(READ_MAX + 1)


READERS: list[tuple[Callable[[Path], object], type[Exception]]] = [
    (read_regular, OSError),
    (load_config, UsageProblem),
    (token, ClusterFailed),
    (authority, ClusterFailed),
    (lambda path: merged([path]), ClusterFailed),
    (hook, OSError),
]


@pytest.mark.parametrize(("read", "refusal"), READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "large"])
def test_what_is_not_a_small_regular_file_is_refused(
    tmp_path: Path, read: Callable[[Path], object], refusal: type[Exception], kind: str
) -> None:
    path = tmp_path / "named"
    if kind == "directory" and read is load_config:
        return  # a configuration may be a directory
    place(path, kind)
    with pytest.raises(refusal) as caught:
        read(path)
    text = f"{caught.value} {getattr(caught.value, 'findings', '')}"
    assert "not a regular file" in text or "larger than" in text


def test_bytes_of_a_token_that_is_no_text_are_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"canary\xff")
    with pytest.raises(ClusterFailed) as caught:
        token(path)
    assert "0xff" not in f"{caught.value} {caught.value.findings}"


def identity(name: str) -> Callable[[Path], None]:
    """Read the keys and the token of a sandbox, with `name` in their place."""

    def read(path: Path) -> None:
        state = StateDir(path.parent / "sandbox")
        state.prepare()
        stored_identity(state, AT)
        (state.root / name).unlink(missing_ok=True)
        path.rename(state.root / name)
        stored_identity(state, AT)

    return read


def state(use: Callable[[StateDir], object], name: str) -> Callable[[Path], None]:
    """Use a sandbox's state directory, with `name` in its place."""

    def read(path: Path) -> None:
        found = StateDir(path.parent / "sandbox")
        found.prepare()
        path.rename(found.root / name)
        use(found)

    return read


def vault(path: Path) -> None:
    path.rename(path.with_name(FILES[0]))
    asyncio.run(FolderVault(path.parent).read())


def run_lock(path: Path) -> None:
    path.rename(path.with_name(RUN_LOCK))
    assert not is_taken(path.parent)
    with state_locked(path.parent, "one"):
        pass


def sandbox_lock(found: StateDir) -> None:
    with found.locked():
        pass


def sandbox_log(found: StateDir) -> None:
    start_detached(["false"], found.root)


STATES: dict[str, tuple[Callable[[Path], object], str]] = {
    "port": (state(StateDir.last_port, "port"), "large"),
    "record": (state(StateDir.read_record, "sandbox.json"), "large"),
    "token": (identity("token"), "large"),
    "authority": (identity("ca.crt"), "large"),
    "key": (identity("server.key"), "large"),
    "webhook": (vault, "large"),
    "first seen": (lambda path: FirstSeen(path, lambda: AT), "large"),
    "outbox": (NotificationOutbox, ""),
    "run.lock": (run_lock, ""),
    "sandbox.lock": (state(sandbox_lock, "sandbox.lock"), ""),
}


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "large"])
def test_a_file_of_the_state_directory_is_refused_unread(
    tmp_path: Path, name: str, kind: str
) -> None:
    read, also = STATES[name]
    if kind == "large" and not also:
        return  # they may be large, or are not read
    place(tmp_path / "x", kind)
    with pytest.raises(ClusterFailed, match="GK4111"):
        read(tmp_path / "x")


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "large"])
def test_caches_of_the_state_directory_are_done_without(tmp_path: Path, kind: str) -> None:
    place(tmp_path / "x", kind)
    ParsedStore(tmp_path / "x").close()
    memory = Memory(tmp_path, GitSource("shop", "src", GitSourceSpec(url="https://x")), "test")
    kept = memory._file
    kept.parent.mkdir()
    place(kept, kind)
    assert memory.recall() == frozenset()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_log_in_the_place_of_a_pipe_is_a_file(tmp_path: Path, kind: str) -> None:
    place(tmp_path / "x", kind)
    with pytest.raises(ClusterFailed, match="GK4116"):
        state(sandbox_log, "sandbox.log")(tmp_path / "x")


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "large"])
def test_a_kubeconfig_is_written_over_no_other_thing(tmp_path: Path, kind: str) -> None:
    place(tmp_path / "x", kind)
    with pytest.raises(UsageProblem, match="GK7018"), written(tmp_path / "x", MARK):
        pass
