"""A repository behind sshd: a known host, our key, and nothing else will do."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.repository import Repository
from tests.conftest import need
from tests.git.keys import ssh_key
from tests.git.repos import Origin
from tests.kube.real.apiserver import free_port

pytestmark = pytest.mark.slow

CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*
"""


@dataclass(frozen=True)
class Host:
    """An sshd on loopback and the keys around it."""

    url: str
    port: int
    folder: Path
    host_key: str
    identity: str

    def known(self, key: str = "") -> str:
        kind, blob = (key or self.host_key).split()[:2]
        return f"[127.0.0.1]:{self.port} {kind} {blob}\n"


@contextmanager
def sshd(folder: Path, origin: Origin) -> Iterator[Host]:
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")  # noqa: TID251  where tests find programs
    need("sshd", present=bool(program), how="apt-get install openssh-server")
    assert program
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd gives its rights away
    folder.mkdir()
    host = ssh_key(folder, "host")
    (folder / "authorized_keys").write_text(ssh_key(folder, "identity") + "\n")
    port = free_port()
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
    words = [program, "-D", "-e", "-f", str(folder / "config")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr
            lines = []
            for line in server.stderr:
                lines.append(line)
                if "Server listening" in line:
                    break
            assert server.poll() is None, "".join(lines)
            url = f"ssh://{getpass.getuser()}@127.0.0.1:{port}{origin.bare}"
            yield Host(url, port, folder, host, (folder / "identity").read_text())
        finally:
            server.terminate()


@pytest.fixture
def host(tmp_path: Path, origin: Origin) -> Iterator[Host]:
    with sshd(tmp_path / "sshd", origin) as running:
        yield running


def opened(
    host: Host, folder: Path, known: str, identity: str = "", password: str = ""
) -> Repository:
    secret = {"known_hosts": known, "identity": identity or host.identity, "password": password}
    return Repository.open(
        host.url, mirrors=folder / "mirrors", credentials=GitCredentials.from_secret(secret),
        timeout_s=20,
    )  # fmt: skip


def test_a_known_host_takes_our_key(host: Host, origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a": "1"})
    with opened(host, tmp_path, host.known()) as repository:
        assert repository.fetch("main") == commit
        assert repository.read_blob(repository.tree_id(commit, "a")) == b"1"
        repository.push_ref("refs/heads/status", commit, old=None)
    assert not list(tmp_path.glob("mirrors/**/identity"))


def test_a_hashed_entry_is_an_entry(host: Host, origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a": "1"})
    file = tmp_path / "hashed"
    file.write_text(host.known())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "127.0.0.1" not in file.read_text()
    with opened(host, tmp_path, file.read_text()) as repository:
        assert repository.tip("main") == commit


@pytest.mark.parametrize("which", ["unknown", "changed", "revoked"])
def test_a_host_that_is_not_known_is_not_spoken_to(
    host: Host, origin: Origin, tmp_path: Path, which: str
) -> None:
    origin.commit({"a": "1"})
    known = {
        "unknown": "example.com " + host.host_key,
        "changed": host.known(ssh_key(tmp_path, "another")),
        "revoked": "@revoked " + host.known(),
    }
    with opened(host, tmp_path, known[which]) as repository, pytest.raises(SourceFailed) as caught:
        repository.tip("main")
    (finding,) = caught.value.findings
    assert finding.code == "GK3020"
    notes = dict(finding.notes)
    assert notes["git said"] == "Host key verification failed."
    assert notes["next"].startswith(f"ssh-keyscan -p {host.port} 127.0.0.1 prints ")
    command = notes["next"].partition(" prints ")[0].split()
    assert (
        host.known() in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )


def test_a_strange_key_is_refused(host: Host, origin: Origin, tmp_path: Path) -> None:
    origin.commit({"a": "1"})
    ssh_key(tmp_path, "strange")
    strange = (tmp_path / "strange").read_text()
    with (
        opened(host, tmp_path, host.known(), strange) as repository,
        pytest.raises(SourceFailed) as caught,
    ):
        repository.tip("main")
    assert caught.value.findings[0].code == "GK3102"
    assert "PRIVATE KEY" not in str(caught.value)


@pytest.mark.parametrize("form", [("-t", "ed25519"), ("-t", "rsa", "-m", "PEM")])
def test_the_password_of_a_secret_opens_a_key_with_a_passphrase(
    host: Host, origin: Origin, tmp_path: Path, form: tuple[str, ...]
) -> None:
    commit = origin.commit({"a": "1"})
    line = ssh_key(tmp_path, "locked", "open sesame", *form)
    (host.folder / "authorized_keys").write_text(line + "\n")
    key = (tmp_path / "locked").read_text()
    with opened(host, tmp_path, host.known(), key, "open sesame") as repository:
        assert repository.tip("main") == commit
    with (
        opened(host, tmp_path, host.known(), key, "close sesame") as repository,
        pytest.raises(SourceFailed) as caught,
    ):
        repository.tip("main")
    (finding,) = caught.value.findings
    assert finding.code == "GK3102"
    assert dict(finding.notes)["next"].endswith("identity with its passphrase as password")


def test_a_key_that_ssh_cannot_read_is_named_as_the_cause(
    host: Host, origin: Origin, tmp_path: Path
) -> None:
    origin.commit({"a": "1"})
    crlf = host.identity.replace("\n", "\r\n")
    with (
        opened(host, tmp_path, host.known(), crlf) as repository,
        pytest.raises(SourceFailed) as caught,
    ):
        repository.tip("main")
    (finding,) = caught.value.findings
    assert finding.code == "GK3102"
    assert dict(finding.notes)["git said"].startswith('Load key "identity": ')


def test_the_output_of_ssh_is_quoted_and_not_that_git_read_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            with suppress(OSError):
                listening.accept()[0].close()

        answering = threading.Thread(target=hang_up)
        answering.start()
        credentials = GitCredentials(known_hosts="127.0.0.1 x")
        url = f"ssh://git@127.0.0.1:{listening.getsockname()[1]}/x.git"
        with (
            Repository.open(url, mirrors=tmp_path, credentials=credentials, timeout_s=20) as closed,
            pytest.raises(SourceFailed) as caught,
        ):
            closed.tip("main")
        answering.join()
    (finding,) = caught.value.findings
    assert finding.code == "GK3101"
    assert dict(finding.notes)["git said"].startswith("kex_exchange_identification: ")


def test_the_users_own_keys_and_hosts_do_not_count(
    host: Host, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.commit({"a": "1"})
    home = tmp_path / "home" / ".ssh"
    home.mkdir(parents=True)
    (home / "known_hosts").write_text(host.known())
    (home / "config").write_text("Host *\n  StrictHostKeyChecking no\n")
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -o StrictHostKeyChecking=no")
    with (
        opened(host, tmp_path, "example.com " + host.host_key) as repository,
        pytest.raises(SourceFailed) as caught,
    ):
        repository.tip("main")
    assert caught.value.findings[0].code == "GK3020"


def test_a_key_that_may_only_read_is_a_refused_push(
    host: Host, origin: Origin, tmp_path: Path
) -> None:
    """Forges say so in a line of their own, before git hears of any ref."""
    commit = origin.commit({"a": "1"})
    script = tmp_path / "read-only"
    script.write_text(
        '#!/bin/sh\ncase "$SSH_ORIGINAL_COMMAND" in git-upload-pack*)'
        ' eval "exec $SSH_ORIGINAL_COMMAND" ;; esac\n'
        "echo 'ERROR: The key you are authenticating with has been marked as read only.' >&2\n"
        "exit 1\n"
    )
    script.chmod(0o755)
    allowed = host.folder / "authorized_keys"
    allowed.write_text(f'command="{script}" {allowed.read_text()}')
    with opened(host, tmp_path, host.known()) as repository:
        assert repository.fetch("main") == commit
        with pytest.raises(SourceFailed) as caught:
            repository.push_ref("refs/heads/status", commit, old=None)
    (finding,) = caught.value.findings
    assert (finding.code, dict(finding.notes)["unchanged"]) == ("GK3106", "the repository there")
    assert "marked as read only" in dict(finding.notes)["git said"]
