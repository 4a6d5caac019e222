"""A real Gitea on loopback, behind TLS: found, started, talked to, killed and started again."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.conftest import need
from tests.git.repos import ENV
from tests.git.tls import issue
from tests.kube.real.apiserver import free_port

OWNER: Final = "dana"
STARTS_WITHIN: Final = 600  # looks at the port, a tenth of a second apart
_SETTINGS: Final = """\
RUN_MODE = prod
RUN_USER = {user}
WORK_PATH = {folder}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = https
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = {url}/
LOCAL_ROOT_URL = {url}/
CERT_FILE = {folder}/tls.crt
KEY_FILE = {folder}/tls.key
STATIC_ROOT_PATH = {static}
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
SQLITE_JOURNAL_MODE = WAL
[security]
INSTALL_LOCK = true
SECRET_KEY = only-of-a-test
PASSWORD_HASH_ALGO = pbkdf2$1000$50
[webhook]
ALLOWED_HOST_LIST = loopback
SKIP_TLS_VERIFY = true
[repository]
DEFAULT_BRANCH = main
[service]
DISABLE_REGISTRATION = true
[session]
PROVIDER = memory
[queue]
TYPE = channel
[indexer]
ISSUE_INDEXER_TYPE = db
[actions]
ENABLED = false
[packages]
ENABLED = false
[log]
MODE = console
LEVEL = Warn
"""


def find() -> tuple[str, str]:
    """(the program, its folder of templates), from GITEA_ASSETS; skips when they are not there."""
    assets = Path(os.environ.get("GITEA_ASSETS", "") or "/nonexistent")  # noqa: TID251  the test run's own switch
    program, static = assets / "gitea", assets / "static"
    how = "make forge-assets, then GITEA_ASSETS=$PWD/tests/forge/bin"
    need("forge", present=program.exists() and (static / "templates").exists(), how=how)
    return str(program), str(static)


class Refused(Exception):
    """Gitea answered something else than success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


@dataclass
class Gitea:
    """One Gitea with one user, all state below `folder`."""

    folder: Path
    program: str
    static: str
    port: int = field(default_factory=free_port)
    token: str = ""
    ca_pem: str = ""
    _running: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Certificates, settings, database, and a user with a token for everything."""
        authority = issue("authority")
        pair = issue("server", authority)
        self.ca_pem = authority.certificate
        (self.folder / "tls.crt").write_text(pair.certificate)
        (self.folder / "tls.key").write_text(pair.key)
        (self.folder / "home").mkdir()
        settings = _SETTINGS.format(
            user=getpass.getuser(), folder=self.folder, port=self.port, url=self.url,
            static=self.static,
        )  # fmt: skip
        (self.folder / "app.ini").write_text(settings)
        self._run("migrate")
        self._run(
            "admin", "user", "create", "--username", OWNER, "--password", "of-a-test-1",
            "--email", "dana@example.com", "--admin", "--must-change-password=false",
        )  # fmt: skip
        self.token = self._run(
            "admin", "user", "generate-access-token", "--username", OWNER, "--scopes", "all",
            "--token-name", "tests", "--raw",
        ).split()[-1]  # fmt: skip

    def start(self) -> None:
        """Comes back when it answers."""
        with (self.folder / "gitea.log").open("ab") as log:
            self._running = subprocess.Popen(
                self._command("web"), stdout=log, stderr=log, env=self._environment()
            )
        for _ in range(STARTS_WITHIN):
            assert self._running.poll() is None, self.log()
            try:
                self.api("GET", "/version")
            except (OSError, Refused):
                time.sleep(0.1)
                continue
            return
        raise AssertionError(f"Gitea does not answer: {self.log()}")

    def kill(self) -> None:
        """As a crash or a lost machine does it: no farewell."""
        if self._running is not None:
            self._running.send_signal(signal.SIGKILL)
            self._running.wait()
            self._running = None

    def log(self) -> str:
        return (self.folder / "gitea.log").read_text()[-3000:]

    # Talking --------------------------------------------------------------------------------

    def api(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One call of the API as the user. Raises Refused."""
        context = ssl.create_default_context(cadata=self.ca_pem)
        talk = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"token {self.token}"
        try:
            data = json.dumps(body).encode() if body is not None else None
            talk.request(method, f"/api/v1{path}", body=data, headers=headers)
            answer = talk.getresponse()
            text = answer.read().decode()
        finally:
            talk.close()
        if answer.status >= 300:
            raise Refused(answer.status, text)
        return json.loads(text) if text else None

    def make_repository(self, name: str) -> str:
        """An empty repository; its clone URL."""
        made = self.api("POST", "/user/repos", {"name": name, "private": True})
        return str(made["clone_url"])

    # Running --------------------------------------------------------------------------------

    def _command(self, *words: str) -> list[str]:
        return [self.program, "--config", str(self.folder / "app.ini"), *words]

    def _environment(self) -> dict[str, str]:
        git = Path(shutil.which("git") or "/usr/bin/git").parent
        return {**ENV, "PATH": f"{git}:{ENV['PATH']}", "HOME": str(self.folder / "home")}

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            self._command(*words), env=self._environment(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
        return done.stdout.decode()


@contextmanager
def gitea(folder: Path) -> Iterator[Gitea]:
    """A fresh forge. Skips the test when the program is missing."""
    forge = Gitea(folder, *find())
    try:
        forge.prepare()
        forge.start()
        yield forge
    finally:
        forge.kill()
