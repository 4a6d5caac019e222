"""The state directory of a sandbox: who owns it, who runs in it, its keys and its token."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.certificates import KeyPair, is_due, new_authority, new_server
from gitkruise.kube.private import write_private

TOKEN_BYTES: Final = 32


def failed(code: str, message: str, **notes: str) -> ClusterFailed:
    """A ClusterFailed with one finding; notes are why=, unchanged=, next=."""
    return ClusterFailed(Finding(code=code, message=message, notes=tuple(notes.items())))


@dataclass(frozen=True, slots=True)
class Record:
    """A running sandbox as other processes see it. `started` tells a reused pid apart."""

    pid: int
    started: str
    url: str


def process_start(pid: int) -> str:
    """When a process started, in the kernel's ticks; "" where the kernel does not say."""
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
        """What the running sandbox says about itself (pid, url), for `status` and `down`."""
        return self.root / "sandbox.json"

    @property
    def port(self) -> Path:
        """The port of the last run, taken again so that kubeconfigs stay good."""
        return self.root / "port"

    @property
    def log(self) -> Path:
        """Output of a detached sandbox."""
        return self.root / "sandbox.log"

    def prepare(self) -> None:
        """Make the directory, or check that nobody else can write in it. Raises ClusterFailed."""
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
        """Hold the directory for one sandbox; the kernel lets go when the process ends."""
        handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self.taken() from None
            yield
        finally:
            os.close(handle)

    def taken(self) -> ClusterFailed:
        return failed(
            "GK4113",
            f"a sandbox already runs with the state in {self.root}",
            next="gitkruise sandbox status, or gitkruise sandbox down",
        )

    def last_port(self) -> int:
        """The port of the last run, 0 if there is none to be read."""
        try:
            text = self.port.read_text().strip()
        except FileNotFoundError:
            return 0
        return int(text) if text.isdigit() and 0 < int(text) < 65_536 else 0

    def remember_port(self, port: int) -> None:
        write_private(self.port, str(port).encode())

    @contextmanager
    def announced(self, url: str) -> Iterator[None]:
        """Tell other processes who runs here, for as long as the block lasts."""
        record = Record(pid=os.getpid(), started=process_start(os.getpid()), url=url)
        write_private(self.record, json.dumps(asdict(record)).encode())
        try:
            yield
        finally:
            self.record.unlink(missing_ok=True)

    def read_record(self) -> Record | None:
        """Who said to run here, None if nobody did (or what it wrote is not a record)."""
        try:
            raw = json.loads(self.record.read_bytes())
            return Record(pid=int(raw["pid"]), started=str(raw["started"]), url=str(raw["url"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def is_locked(self) -> bool:
        """True while some process runs a sandbox on this directory."""
        try:
            handle = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False


@dataclass(frozen=True, slots=True)
class Identity:
    """What clients know a sandbox by."""

    authority: KeyPair
    server: KeyPair
    token: str


def new_identity(now: datetime) -> Identity:
    """Fresh keys and a fresh token, kept nowhere."""
    authority = new_authority(now)
    return Identity(authority, new_server(authority, now), secrets.token_urlsafe(TOKEN_BYTES))


def stored_identity(state: StateDir, now: datetime) -> Identity:
    """The directory's keys and token, made on first use; certificates near their end are renewed.

    The token and the authority stay, so kubeconfigs handed out earlier go on working.
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
    if not path.exists():
        write_private(path, secrets.token_urlsafe(TOKEN_BYTES).encode())
    token = path.read_text().strip()
    if len(token) < TOKEN_BYTES:
        raise failed(
            "GK4114",
            f"the token in {path} is too short to be safe",
            next=f"rm {path} and start again",
        )
    return Identity(authority, server, token)


def renewed(state: StateDir | None, identity: Identity, now: datetime) -> Identity:
    """`identity` with a new server certificate when the old one is near its end."""
    if not is_due(identity.server, now):
        return identity
    server = new_server(identity.authority, now)
    if state is not None:
        _keep(state, "server", server)
    return Identity(identity.authority, server, identity.token)


def _load(certificate: Path, key: Path) -> KeyPair | None:
    if not (certificate.exists() and key.exists()):
        return None
    pair = KeyPair(certificate.read_bytes(), key.read_bytes())
    try:
        pair.expires()
    except ValueError:
        raise failed(
            "GK4115",
            f"{certificate} is not a certificate",
            unchanged="the file was left as it is",
            next=f"rm {certificate} {key}, start again, and fetch kubeconfigs anew",
        ) from None
    return pair


def _keep(state: StateDir, name: str, pair: KeyPair) -> KeyPair:
    write_private(state.root / f"{name}.key", pair.key)
    write_private(state.root / f"{name}.crt", pair.certificate)
    return pair
