"""Runs git: complete argument lists, a cleared environment, limits on time and output."""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

Launch = Callable[[list[str]], "subprocess.Popen[bytes]"]

_FOLDERS: Final = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin")


def search_path(path: Iterable[str]) -> str:
    """Folders of programs: those of PATH, then the usual ones, each once.

    A relative folder, or an empty entry, means the current one, which may be a stranger's checkout.
    """
    return ":".join(dict.fromkeys(f for f in (*path, *_FOLDERS) if f.startswith("/")))


SEARCH_PATH: Final = search_path(os.get_exec_path())
OUTPUT_MAX: Final = 64 << 20  # bytes of standard output
ERRORS_MAX: Final = 64 << 10  # bytes of standard error kept
_GRACE_S: Final = 2.0  # from SIGTERM to SIGKILL
ENDING: Final = threading.Event()  # this process must end now: no program is waited for any longer
_LOOK_S: Final = 0.5  # between two looks whether it does

# Nothing a repository, a server or a user's own configuration says may make git run a program.
_CONFIG: Final = (
    "protocol.allow=never", "protocol.version=2", "transfer.fsckObjects=true",
    "fetch.fsckObjects=true", "transfer.bundleURI=false", "fetch.unpackLimit=1",
    "fetch.recurseSubmodules=false", "submodule.recurse=false", "core.hooksPath=/dev/null",
    "core.fsmonitor=false", "core.symlinks=false", "core.protectNTFS=true",
    "core.protectHFS=true", "core.quotePath=false", "core.alternateRefsCommand=",
    "core.sshCommand=", "credential.helper=", "http.followRedirects=false", "http.sslVerify=true",
    "http.lowSpeedLimit=1000", "http.lowSpeedTime=30", "gc.auto=0", "maintenance.auto=false",
    "push.followTags=false", "push.gpgSign=false", "remote.pushDefault=", "log.showSignature=false",
    "safe.bareRepository=explicit",
)  # fmt: skip
_ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": SEARCH_PATH,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "/bin/false",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
# One fixed text: limits on file size (512-byte blocks) and CPU seconds, then the command itself.
_LIMITED: Final = 'ulimit -f 1048576 && ulimit -t 60 && exec "$@"'
_RENDERING: Final = 'ulimit -d {memory} && ulimit -t {cpu} && ulimit -c 0 && exec "$@"'
_SSH_OPTIONS: Final = (
    "StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null",
    "UpdateHostKeys=no", "VerifyHostKeyDNS=no", "IdentitiesOnly=yes", "IdentityAgent=none",
    "ForwardAgent=no", "PermitLocalCommand=no", "ProxyCommand=none", "ControlMaster=no",
    "PasswordAuthentication=no", "KbdInteractiveAuthentication=no",
    "HostKeyAlgorithms=ssh-ed25519,ecdsa-sha2-nistp256,rsa-sha2-512,rsa-sha2-256",
    "ConnectTimeout=15", "ServerAliveInterval=15",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCredentials:
    """Credentials for a remote, under the names Flux gives the keys of a secret. All optional."""

    username: str = ""
    password: str = field(default="", repr=False)
    bearer_token: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)  # an SSH private key; password is its passphrase
    known_hosts: str = ""
    ca: str = ""  # PEM
    certificate: str = ""  # PEM, of this client
    key: str = field(default="", repr=False)  # PEM

    @classmethod
    def from_secret(cls, data: Mapping[str, str]) -> GitCredentials:
        """From username, password, bearerToken, identity, known_hosts, ca.crt, tls.crt, tls.key."""
        return cls(
            username=data.get("username", ""),
            password=data.get("password", ""),
            bearer_token=data.get("bearerToken", "").strip(),
            identity=data.get("identity", ""),
            known_hosts=data.get("known_hosts", ""),
            ca=data.get("ca.crt", ""),
            certificate=data.get("tls.crt", ""),
            key=data.get("tls.key", ""),
        )


def git_command(
    git_dir: Path | None,
    words: Sequence[str],
    *,
    protocols: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    limited: bool = False,
) -> list[str]:
    """The whole argument list of one git call. `words` start with the subcommand.

    Every word that comes from a user follows `--end-of-options` in `words`.
    """
    env = {
        **_ENVIRONMENT,
        "GIT_ALLOW_PROTOCOL": ":".join(protocols) or "none",
        "HOME": "/nonexistent",
        **(environment or {}),
    }
    allowed = [f"protocol.{name}.allow=always" for name in protocols]
    options = [word for line in (*_CONFIG, *allowed) for word in ("-c", line)]
    where = [f"--git-dir={git_dir}"] if git_dir is not None else []
    limits = ["sh", "-c", _LIMITED, "gitkruise"] if limited else []
    pairs = [f"{name}={value}" for name, value in env.items()]
    return [*limits, "env", "-i", *pairs, "git", *where, *options, *words]


def limited(*, memory_mib: int = 1024, cpu_s: int = 60) -> list[str]:
    """Words to put before a command: bounds on its data, its CPU time, and no core files.

    Go reserves address space without using it, so data is bounded and not the whole space.
    """
    script = _RENDERING.format(memory=memory_mib << 10, cpu=cpu_s)
    return ["/bin/sh", "-c", script, "gitkruise"]


@contextlib.contextmanager
def private_environment(credentials: GitCredentials) -> Iterator[dict[str, str]]:
    """Variables that lead git to `credentials`, in 0600 files that are gone afterwards."""
    import tempfile  # noqa: PLC0415  slow to import, and seldom needed

    with tempfile.TemporaryDirectory(prefix="gitkruise-") as name:
        folder = Path(name)
        env = {"HOME": name}
        if credentials.password:
            _write(folder / "username", credentials.username or "git")
            _write(folder / "password", credentials.password)
            _write(folder / "askpass", _ASKPASS, mode=0o700)
            env["GIT_ASKPASS"] = env["SSH_ASKPASS"] = str(folder / "askpass")
            env["SSH_ASKPASS_REQUIRE"] = "force"  # for the passphrase, the only question of ssh
        if credentials.bearer_token or credentials.ca or credentials.certificate:
            _write(folder / "config", _http_config(credentials, folder))
            env["GIT_CONFIG_GLOBAL"] = str(folder / "config")
        if credentials.known_hosts:
            env["GIT_SSH_COMMAND"] = _ssh_command(credentials, folder)
        yield env


_ASKPASS: Final = """#!/bin/sh
case "$1" in Username*) exec cat "${0%/*}/username" ;; *) exec cat "${0%/*}/password" ;; esac
"""


# A value between quotes in a configuration of git, which could otherwise hold further settings.
_IN_QUOTES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": None, "\0": None})


def _http_config(credentials: GitCredentials, folder: Path) -> str:
    lines = ["[http]"]
    if credentials.bearer_token:
        token = credentials.bearer_token.translate(_IN_QUOTES)
        lines.append(f'\textraHeader = "Authorization: Bearer {token}"')
    if credentials.ca:
        _write(folder / "ca.crt", credentials.ca)
        lines.append(f"\tsslCAInfo = {folder / 'ca.crt'}")
    if credentials.certificate:
        _write(folder / "tls.crt", credentials.certificate)
        _write(folder / "tls.key", credentials.key)
        lines += [f"\tsslCert = {folder / 'tls.crt'}", f"\tsslKey = {folder / 'tls.key'}"]
    return "\n".join(lines) + "\n"


def _ssh_command(credentials: GitCredentials, folder: Path) -> str:
    _write(folder / "known_hosts", credentials.known_hosts.rstrip("\n") + "\n")
    options = [*_SSH_OPTIONS, f"UserKnownHostsFile={folder / 'known_hosts'}"]
    options.append(f"BatchMode={'no' if credentials.password else 'yes'}")  # no answers a prompt
    if credentials.identity:
        _write(folder / "identity", credentials.identity.rstrip("\n") + "\n")
        options.append(f"IdentityFile={folder / 'identity'}")
    words = ["ssh", "-F", "/dev/null", *(w for option in options for w in ("-o", option))]
    return shlex.join(words)


def _write(path: Path, text: str, *, mode: int = 0o600) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  a descriptor, not a path
        file.write(text)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a command. `stopped` names the limit that ended it, if one did: "time", "output",
    or "end" where this process ends."""

    status: int
    output: bytes
    errors: str
    stopped: str = ""


class Tether:
    """Action of a program between fork and exec.

    A worker process sets it so that its children die with it. Elsewhere it is None: programs are
    then started without a fork of our memory.
    """

    hook: ClassVar[Callable[[], None] | None] = None


def launch(command: list[str]) -> subprocess.Popen[bytes]:
    """Start one complete command in its own process group."""
    words, environment = without_env(command)
    try:
        return _started(words, environment)
    except (FileNotFoundError, PermissionError):
        return _started(command, None)  # the program env reports it, and ends with 126 or 127


def _started(words: list[str], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  our own words, no shell
        words, env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, preexec_fn=Tether.hook,  # noqa: PLW1509  set in workers alone
    )  # fmt: skip


def without_env(command: list[str]) -> tuple[list[str], dict[str, str] | None]:
    """Split `env -i NAME=value … PROGRAM …` into the words from PROGRAM on and its environment.

    The program env takes a third of the CPU time of a short git.
    """
    if command[:2] != ["env", "-i"]:
        return command, None
    pairs = list(itertools.takewhile(lambda word: "=" in word, command[2:]))
    environment = dict(pair.split("=", 1) for pair in pairs)
    return command[2 + len(pairs) :], environment


def collect(
    process: subprocess.Popen[bytes], data: bytes = b"", *, timeout_s: float, output_max: int
) -> Result:
    """Feed `data`, read what comes within the limits, and end the whole process group."""
    deadline = time.monotonic() + timeout_s
    stopped = ""
    output, errors = bytearray(), bytearray()
    try:
        stopped = _pump(process, data, output, errors, deadline, output_max)
    finally:
        if stopped or process.poll() is None:
            late = _wait(process, deadline if not stopped else 0.0)
            stopped = stopped or late
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
    return Result(process.returncode, bytes(output), errors.decode("utf-8", "replace"), stopped)


def _pump(
    process: subprocess.Popen[bytes], data: bytes, output: bytearray, errors: bytearray,
    deadline: float, output_max: int,
) -> str:  # fmt: skip
    assert process.stdin
    assert process.stdout
    assert process.stderr
    left = memoryview(data)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        if data:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while len(selector.get_map()) > 0:
            ready = selector.select(min(_LOOK_S, max(0.0, deadline - time.monotonic())))
            if ENDING.is_set():
                return "end"
            if not ready and time.monotonic() >= deadline:
                return "time"
            for key, _ in ready:
                if key.data is None:
                    left = _send(selector, key, left)
                elif not _receive(selector, key):
                    continue
            if len(output) > output_max:
                return "output"
            del errors[ERRORS_MAX:]
    return ""


def _send(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, left: memoryview
) -> memoryview:
    try:
        left = left[os.write(key.fd, left[: 1 << 16]) :]
    except BrokenPipeError:
        left = left[:0]
    if not left:
        selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]  # the pipe registered above
    return left


def _receive(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
    chunk = os.read(key.fd, 1 << 16)
    if not chunk:
        selector.unregister(key.fileobj)
        return False
    key.data.extend(chunk)
    return True


def _wait(process: subprocess.Popen[bytes], deadline: float) -> str:
    """Wait until `deadline`, then end the group; which limit that was."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        end(process)
        return "time"
    return ""


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL, to the process and everything it started."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        return
