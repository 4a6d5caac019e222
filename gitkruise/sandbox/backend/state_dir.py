"""The state directory of a sandbox: owner, lock, running process, keys and token."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.serve.certificates import KeyPair, is_due, new_authority, new_server
from gitkruise.kube.system.private_files import read_state, unusable_state, write_private
from gitkruise.kube.system.state_lock import Taken, is_held, locked

TOKEN_BYTES: Final = 32


def failed(code: str, message: str, **notes: str) -> ClusterFailed:
    """Return a ClusterFailed with one finding; notes are why=, unchanged=, next=."""
    return ClusterFailed(Finding(code=code, message=message, notes=tuple(notes.items())))


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """A running sandbox as other processes see it. `started` identifies a reused pid."""

    pid: int
    started: str
    url: str
    dashboard: str = ""  # its address with the token; the record is for its owner alone


def process_start(pid: int) -> str:
    """Return the start of a process in kernel ticks; "" if the kernel does not report it."""
    try:
        stat_line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat_line.rpartition(")")[2].split()[19]


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths inside `root`, which belongs to one user (mode 0700) and one running sandbox."""

    root: Path

    @property
    def store(self) -> Path:
        return self.root / "cluster.db"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def lock(self) -> Path:
        return self.root / "sandbox.lock"

    @property
    def record(self) -> Path:
        """The record of the running sandbox (pid, url), for `status` and `down`."""
        return self.root / "sandbox.json"

    @property
    def port(self) -> Path:
        """The port of the last run, reused so that kubeconfigs stay valid."""
        return self.root / "port"

    @property
    def log(self) -> Path:
        """Output of a detached sandbox."""
        return self.root / "sandbox.log"

    def prepare(self) -> None:
        """Create the directory, or check that only its owner can write. Raises ClusterFailed."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            info = self.root.stat()
        except OSError as error:
            raise failed(
                "GK4111",
                f"cannot use the state directory {self.root}: {error.strerror}",
                next="sandbox up --ephemeral, or set GITKRUISE_STATE to a directory of yours",
            ) from error
        if info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise failed(
                "GK4112",
                f"the state directory {self.root} can be written by others",
                why="it holds the token and the keys of the sandbox",
                unchanged="nothing in it was read or written",
                next=f"chmod 0700 {self.root}",
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory for one sandbox; the kernel unlocks it when the process ends."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.lock, "sandbox"))
            except Taken as error:
                raise self.taken(error.holder) from None
            except OSError as error:
                raise ClusterFailed(unusable_state(self.lock, error)) from error
            yield

    def taken(self, holder: str = "") -> ClusterFailed:
        return failed(
            "GK4113",
            f"a sandbox already runs with the state in {self.root}"
            + (f": {holder}" if holder else ""),
            next="gitkruise sandbox status, or gitkruise sandbox down",
        )

    def last_port(self) -> int:
        """Return the port of the last run, 0 if none can be read."""
        text = (read_state(self.port) or b"").decode("ascii", "replace").strip()
        return int(text) if text.isdigit() and 0 < int(text) < 65_536 else 0

    def remember_port(self, port: int) -> None:
        write_private(self.port, str(port).encode())

    @contextmanager
    def announced(self, url: str, dashboard: str = "") -> Iterator[None]:
        """Write the record of this process for other processes while the block lasts."""
        pid = os.getpid()
        record = SandboxRecord(pid=pid, started=process_start(pid), url=url, dashboard=dashboard)
        write_private(self.record, json.dumps(asdict(record)).encode())
        try:
            yield
        finally:
            self.record.unlink(missing_ok=True)

    def read_record(self) -> SandboxRecord | None:
        """Return the record of the sandbox; None if there is no valid one."""
        try:
            raw = json.loads(read_state(self.record) or b"")
            return SandboxRecord(
                pid=int(raw["pid"]),
                started=str(raw["started"]),
                url=str(raw["url"]),
                dashboard=str(raw.get("dashboard", "")),
            )
        except (ValueError, KeyError, TypeError):
            return None

    def is_locked(self) -> bool:
        """Return whether a process runs a sandbox on this directory."""
        return is_held(self.lock)


@dataclass(frozen=True, slots=True)
class SandboxIdentity:
    """Certificates and token by which clients recognise a sandbox."""

    authority: KeyPair
    server: KeyPair
    token: str


def new_identity(now: datetime) -> SandboxIdentity:
    """Create keys and a token that are not stored."""
    authority = new_authority(now)
    return SandboxIdentity(
        authority, new_server(authority, now), secrets.token_urlsafe(TOKEN_BYTES)
    )


def stored_identity(state: StateDir, now: datetime) -> SandboxIdentity:
    """Load the keys and token, or create them; certificates that expire soon are renewed.

    The token and the authority stay, so existing kubeconfigs remain valid.
    """
    authority = _load(state.root / "ca.crt", state.root / "ca.key")
    if authority is None or is_due(authority, now):
        authority = _keep(state, "ca", new_authority(now))
        server = None
    else:
        server = _load(state.root / "server.crt", state.root / "server.key")
    if server is None or is_due(server, now):
        server = _keep(state, "server", new_server(authority, now))
    path = state.root / "token"
    data = read_state(path)
    if data is None:
        data = secrets.token_urlsafe(TOKEN_BYTES).encode()
        write_private(path, data)
    token = data.decode("ascii", "replace").strip()
    if len(token) < TOKEN_BYTES:
        raise failed(
            "GK4114",
            f"the token in {path} is too short to be safe",
            next=f"rm {path} and start again",
        )
    return SandboxIdentity(authority, server, token)


def renewed(state: StateDir | None, identity: SandboxIdentity, now: datetime) -> SandboxIdentity:
    """Return `identity`, with a new server certificate if the old one expires soon."""
    if not is_due(identity.server, now):
        return identity
    server = new_server(identity.authority, now)
    if state is not None:
        _keep(state, "server", server)
    return SandboxIdentity(identity.authority, server, identity.token)


def _load(certificate: Path, key: Path) -> KeyPair | None:
    shown, kept = read_state(certificate), read_state(key)
    if shown is None or kept is None:
        return None
    pair = KeyPair(shown, kept)
    try:
        pair.check()
    except ValueError as error:
        raise failed(
            "GK4115",
            f"{certificate} and {key} are not a certificate and its key: {error}",
            unchanged="the files",
            next=f"rm {certificate} {key}, start again, and fetch new kubeconfigs",
        ) from None
    return pair


def _keep(state: StateDir, name: str, pair: KeyPair) -> KeyPair:
    write_private(state.root / f"{name}.key", pair.key)
    write_private(state.root / f"{name}.crt", pair.certificate)
    return pair
