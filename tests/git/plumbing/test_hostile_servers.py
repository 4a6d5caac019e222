"""A server that redirects, never ends, asks for ever or shouts gets its own error, once."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.repository import Repository

pytestmark = pytest.mark.slow

SHOUT: Final = "\x1b[31mevil\x07 \u202ereversed ::error::x " + "y" * 5_000
ID: Final = "1" * 40
Answer = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every request the same way and counts them."""

    answer: Answer
    asked: list[str]

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self.asked.append(self.path)
        type(self).answer(self)

    do_POST = do_GET

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """(base URL, the paths that were asked for) of a server that answers so."""
    asked: list[str] = []
    handler = type("Hostile", (Handler,), {"answer": staticmethod(answer), "asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        serving.daemon_threads = True
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{serving.server_address[1]}", asked
        finally:
            serving.shutdown()
            thread.join()


def refusal(base: str, folder: Path, timeout_s: float = 20) -> Finding:
    secret = GitCredentials(username="dana", password="canary-pass")
    with (
        Repository.open(
            f"{base}/origin.git", mirrors=folder / "mirrors", credentials=secret,
            protocols={"http"}, timeout_s=timeout_s,
        ) as remote,
        pytest.raises(SourceFailed) as caught,
    ):  # fmt: skip
        remote.tip("main")
    (finding,) = caught.value.findings
    shown = repr(finding)
    assert "canary-pass" not in shown
    assert all(text.isprintable() for _, text in finding.notes)
    return finding


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_redirect_elsewhere_is_not_followed(tmp_path: Path, scheme: str) -> None:
    """B-G04"""
    with server(lambda handler: handler.say(200)) as (other, asked_there):
        place = f"{other}/x.git/info/refs" if scheme == "http" else "file:///etc/x.git/info/refs"
        with server(lambda handler: handler.say(302, Location=place)) as (base, asked):
            finding = refusal(base, tmp_path)
    assert finding.code == "GK3004"
    assert f"curl -sI '{base}/origin.git/info/refs" in dict(finding.notes)["next"]
    assert len(asked) == 1
    assert asked_there == []


@pytest.mark.parametrize(
    "body", [b"<html><title>Sign in</title></html>", b"", b"<html>\n</html>\n"]
)
def test_a_page_is_no_empty_repository(tmp_path: Path, body: bytes) -> None:
    with server(lambda handler: handler.say(200, body, Content_Type="text/html")) as (base, _):
        finding = refusal(base, tmp_path)
    assert finding.code == "GK3103"


def test_a_chain_of_redirects_ends_at_its_first(tmp_path: Path) -> None:
    """B-G04"""

    def answer(handler: Handler) -> None:
        handler.say(302, Location=f"/{len(handler.asked)}/info/refs?service=git-upload-pack")

    with server(answer) as (base, asked):
        assert refusal(base, tmp_path).code == "GK3004"
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("scheme", "most"), [('Basic realm="git"', 3), ("Negotiate", 3), ("NTLM", 30)]
)
def test_a_server_that_asks_for_ever_is_answered_once(
    tmp_path: Path, scheme: str, most: int
) -> None:
    """B-G21: no prompt, and one error about credentials."""
    with server(lambda handler: handler.say(401, WWW_Authenticate=scheme)) as (base, asked):
        assert refusal(base, tmp_path).code == "GK3102"
    assert len(asked) <= most


@pytest.mark.parametrize("status", [403, 404, 500])
def test_what_a_server_shouts_is_escaped_and_cut(tmp_path: Path, status: int) -> None:
    """B-G20"""
    body = SHOUT.encode()
    with server(lambda h: h.say(status, body, Content_Type="text/plain")) as (base, _):
        finding = refusal(base, tmp_path)
    assert finding.code in {"GK3101", "GK3102", "GK3103"}
    assert len(repr(finding)) < 2_000


def test_a_server_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    """B-G20: at a limit of time; what it sent is not kept."""
    stop = threading.Event()

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        handler.end_headers()
        line = b"# service=git-upload-pack\n"
        try:
            handler.wfile.write(b"%04x%b0000" % (len(line) + 4, line))
            while not stop.wait(0.01):
                handler.wfile.write(b"%04x\x02" % 65_000 + b"." * 64_995)
        except OSError:
            return

    with server(answer) as (base, _):
        try:
            finding = refusal(base, tmp_path, timeout_s=1)
        finally:
            stop.set()
    assert finding.code in {"GK3101", "GK3105"}


def test_very_many_refs_are_no_problem(tmp_path: Path) -> None:
    """B-G19: a ref of 60,000 characters is refused, not stored."""

    def answer(handler: Handler) -> None:
        names = [f"refs/heads/b{n}" for n in range(20_000)] + ["refs/heads/" + "x" * 60_000]
        lines = [f"{ID} {names[0]}\0 agent=x\n", *(f"{ID} {name}\n" for name in names[1:])]
        service = "# service=git-upload-pack\n"
        body = f"{len(service) + 4:04x}{service}0000"
        body += "".join(f"{len(line) + 4:04x}{line}" for line in lines) + "0000"
        kind = "application/x-git-upload-pack-advertisement"
        handler.say(200, body.encode(), Content_Type=kind)

    with server(answer) as (base, _):
        finding = refusal(base, tmp_path)
    assert finding.code == "GK3201"
    assert len(repr(finding)) < 2_000
