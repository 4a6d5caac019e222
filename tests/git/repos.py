"""Real repositories made with the git command, for tests."""

from __future__ import annotations

import atexit
import functools
import http.server
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TEMPLATE_DIR": "",  # its dozen of sample hooks would be copied each time
    "GIT_AUTHOR_NAME": "Dana K",
    "GIT_AUTHOR_EMAIL": "dana@example.com",
    "GIT_COMMITTER_NAME": "Dana K",
    "GIT_COMMITTER_EMAIL": "dana@example.com",
    "GIT_AUTHOR_DATE": "1790000000 +0000",
    "GIT_COMMITTER_DATE": "1790000000 +0000",
}


# As `git remote add` writes it.
_ORIGIN = """\
[remote "origin"]
\turl = {bare}
\tfetch = +refs/heads/*:refs/remotes/origin/*
"""


def run_git(where: Path, *words: str, data: bytes = b"") -> str:
    """One git command; its output."""
    done = subprocess.run(
        ["git", *words], cwd=where, env=ENV, input=data, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").strip()


@dataclass(frozen=True)
class Origin:
    """A bare repository and a checkout that pushes to it."""

    bare: Path
    work: Path

    def commit(
        self, files: Mapping[str, str | bytes | None], message: str = "change", branch: str = "main"
    ) -> str:
        """Write (None: remove) files, commit and push; the commit's id."""
        for name, content in files.items():
            path = self.work / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        run_git(self.work, "add", "--all", "--force")
        run_git(self.work, "commit", "--quiet", "--allow-empty", "-m", message)
        run_git(self.work, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return run_git(self.work, "rev-parse", "HEAD")

    def plant(self, entries: str, ref: str = "refs/heads/main") -> str:
        """Commit a tree given as `git mktree` lines, whatever they hold; the commit's id."""
        tree = run_git(self.bare, "mktree", "--missing", data=entries.encode())
        commit = run_git(self.bare, "commit-tree", tree, "-m", "planted")
        run_git(self.bare, "update-ref", ref, commit)
        return commit

    def blob(self, content: bytes) -> str:
        return run_git(self.bare, "hash-object", "-w", "--stdin", data=content)


def make_origin(folder: Path, *options: str) -> Origin:
    bare, work = folder / "origin.git", folder / "work"
    empty = _empty(*options)
    shutil.copytree(empty / bare.name, bare)
    shutil.copytree(empty / work.name, work)
    config = work / ".git" / "config"
    config.write_text(config.read_text() + _ORIGIN.format(bare=bare))
    return Origin(bare, work)


@functools.cache
def _empty(*options: str) -> Path:
    """A folder with both repositories, to copy: git takes 13 ms of CPU time to make them."""
    folder = Path(tempfile.mkdtemp(prefix="empty-"))
    atexit.register(shutil.rmtree, folder)
    words = ("init", "--quiet", "--initial-branch=main", *options)
    run_git(folder, *words, "--bare", "origin.git")
    run_git(folder, *words, "work")
    return folder


@dataclass
class Faults:
    """Faults of a server at the moment."""

    silent: bool = False  # it takes requests and says nothing
    cutting: bool = False  # packs break off in the middle
    old: bool = False  # it knows no protocol 2
    hanging_up: bool = False  # it closes connections after an answer, without a word of it


class _Handler(http.server.BaseHTTPRequestHandler):
    """git http-backend as CGI, with one user."""

    protocol_version = "HTTP/1.1"  # connections last, as those of real servers do
    disable_nagle_algorithm = True

    root = ""
    token = ""
    asked: list[str]
    faults = Faults()

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _serve(self, body: bytes) -> None:
        self.asked.append(f"{self.command} {self.path}")
        if self.faults.silent:
            self.close_connection = True
            return
        if self.token and self.headers.get("Authorization") != self.token:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        cgi = {
            **ENV,
            "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "dana",
            "REMOTE_ADDR": "127.0.0.1", "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_GIT_PROTOCOL": "" if self.faults.old else self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        done = subprocess.run(
            ["git", "-c", "http.receivepack=true", "http-backend"],
            env=cgi, input=body, capture_output=True, check=False,
        )  # fmt: skip
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.faults.cutting and b"PACK" in content:
            content, self.close_connection = content[: len(content) // 2], True
        self.close_connection |= self.faults.hanging_up
        self.wfile.write(content)


@contextmanager
def serve(
    root: Path, authorization: str = "", *, tls: ssl.SSLContext | None = None,
    asked: list[str] | None = None, faults: Faults | None = None,
) -> Iterator[str]:  # fmt: skip
    """Serve the repositories below `root` on loopback; the base URL. `asked` gets the requests."""
    options: dict[str, object] = {
        "root": str(root),
        "token": authorization,
        "asked": [] if asked is None else asked,
    }
    options |= {"faults": faults or Faults()}
    handler = type("Handler", (_Handler,), options)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            protocol = "http" if tls is None else "https"
            yield f"{protocol}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def processes_of(word: str) -> list[str]:
    """Command lines of this process's children that contain `word`."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in children]
    return [line for line in lines if word in line]
