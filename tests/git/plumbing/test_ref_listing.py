"""A poll of a server that git has met starts no git while nothing is new."""

from __future__ import annotations

import base64
import http.server
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.plumbing.refs import parse_url
from gitkruise.git.repository.ref_listing import ListedRef, RefListing
from gitkruise.git.repository.remote import HEAD, TAGS, Keyring
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Faults, Origin, make_origin, run_git, serve
from tests.git.tls import context, issue

MAIN: Final = "refs/heads/main"
LOOK: Final = ["POST /origin.git/git-upload-pack"]
PASSWORD: Final = GitCredentials(username="dana", password="canary-pass")
BASIC: Final = "Basic " + base64.b64encode(b"dana:canary-pass").decode()
ID: Final = "1" * 40


def met(base: str, folder: Path, keys: GitCredentials | Keyring | None = None) -> Repository:
    """The repository, of which git has brought the main branch here."""
    repository = Repository.open(
        f"{base}/origin.git", mirrors=folder / "mirrors", credentials=keys,
        protocols={"http", "https"}, timeout_s=20,
    )  # fmt: skip
    repository.fetch("main")
    return repository


def commit_of(repository: Repository) -> str:
    found = repository.follow({MAIN})
    assert found is not None
    return found.refs[MAIN].commit


def test_a_poll_is_one_request_while_nothing_is_new(origin: Origin, tmp_path: Path) -> None:
    first = origin.commit({"a": "1"})
    asked: list[str] = []
    with serve(tmp_path, asked=asked) as base, met(base, tmp_path) as remote:
        asked.clear()
        assert [commit_of(remote) for _ in range(3)] == [first] * 3
        assert asked == LOOK * 3
        second = origin.commit({"a": "2"})
        assert commit_of(remote) == second
        assert remote.here(second)
        asked.clear()
        assert remote.tip("main") == second
        assert asked == LOOK


def test_a_branch_that_is_gone_is_left_to_the_listing(origin: Origin, tmp_path: Path) -> None:
    origin.commit({"a": "1"})
    with serve(tmp_path) as base, met(base, tmp_path) as remote:
        run_git(origin.bare, "branch", "--move", "main", "other")
        assert remote.follow({MAIN}) is None
        with pytest.raises(SourceFailed) as caught:
            remote.tip("main")
    assert caught.value.findings[0].code == "GK3201"


@pytest.mark.parametrize(
    "names",
    [[MAIN], [TAGS], [HEAD], [HEAD, TAGS, MAIN], ["refs/tags/v1"], ["refs/tags/none"],
     ["refs/notes/x", "refs/heads/ma"]],
    ids=" ".join,
)  # fmt: skip
def test_the_listing_is_that_of_git(origin: Origin, tmp_path: Path, names: list[str]) -> None:
    origin.commit({"a": "1"})
    run_git(origin.bare, "tag", "light", "main")
    run_git(origin.bare, "tag", "--annotate", "--message=one", "v1", "main")
    run_git(origin.bare, "tag", "--annotate", "--message=two", "v1-of-tag", "v1")
    run_git(origin.bare, "branch", "main-2", "main")
    run_git(origin.bare, "update-ref", "refs/notes/x", "main")
    asked: list[str] = []
    with serve(tmp_path, asked=asked) as base, met(base, tmp_path) as remote:
        asked.clear()
        listed = remote.ls_refs(names)
        assert asked == LOOK
        with Repository.open(
            f"{base}/origin.git", mirrors=tmp_path / "new", protocols={"http"}
        ) as unmet:
            assert unmet.ls_refs(names) == listed


@pytest.mark.parametrize(
    ("keys", "expected"),
    [(PASSWORD, BASIC), (GitCredentials(bearer_token="canary"), "Bearer canary")],
    ids=["password", "token"],
)
def test_credentials_go_along_and_rotate(
    origin: Origin, tmp_path: Path, keys: GitCredentials, expected: str
) -> None:
    first = origin.commit({"a": "1"})
    asked: list[str] = []
    ring = Keyring(keys)
    with serve(tmp_path, expected, asked=asked) as base, met(base, tmp_path, ring) as remote:
        asked.clear()
        assert commit_of(remote) == first
        assert asked == LOOK
        ring.now = GitCredentials(username="dana", password="other")
        with pytest.raises(SourceFailed) as caught:
            remote.tip("main")
        assert caught.value.findings[0].code == "GK3102"
        asked.clear()
        with pytest.raises(SourceFailed):
            remote.tip("main")
        assert LOOK[0] not in asked  # git alone asks while it fails
        ring.now = keys
        assert remote.tip("main") == first


def test_over_tls_only_its_own_authority_counts(origin: Origin, tmp_path: Path) -> None:
    first = origin.commit({"a": "1"})
    ca, strange = issue("authority"), issue("stranger")
    ring = Keyring(GitCredentials(ca=ca.certificate, password="canary"))
    asked: list[str] = []
    tls = context(tmp_path, issue("server", ca))
    with serve(tmp_path, tls=tls, asked=asked) as base, met(base, tmp_path, ring) as remote:
        asked.clear()
        assert commit_of(remote) == first
        assert asked == LOOK
        asked.clear()
        ring.now = GitCredentials(ca=strange.certificate, password="canary")
        with pytest.raises(SourceFailed) as caught:
            remote.tip("main")
        assert caught.value.findings[0].code == "GK3021"
        assert asked == []


def test_a_connection_that_the_server_closed_is_opened_again(
    origin: Origin, tmp_path: Path
) -> None:
    first = origin.commit({"a": "1"})
    asked: list[str] = []
    faults = Faults()
    with serve(tmp_path, asked=asked, faults=faults) as base, met(base, tmp_path) as remote:
        assert commit_of(remote) == first
        faults.hanging_up = True
        asked.clear()
        assert [commit_of(remote) for _ in range(5)] == [first] * 5
        assert asked == LOOK * 5


def test_a_server_without_protocol_2_is_left_to_git(origin: Origin, tmp_path: Path) -> None:
    first = origin.commit({"a": "1"})
    asked: list[str] = []
    faults = Faults(old=True)
    with serve(tmp_path, asked=asked, faults=faults) as base, met(base, tmp_path) as remote:
        for _ in range(4):
            asked.clear()
            assert commit_of(remote) == first
        assert LOOK[0] not in asked  # three times were enough


@pytest.mark.slow
def test_a_repository_of_another_hash_is_left_to_git(tmp_path: Path) -> None:
    origin = make_origin(tmp_path, "--object-format=sha256")
    first = origin.commit({"a": "1"})
    with serve(tmp_path) as base, met(base, tmp_path) as remote:
        assert [commit_of(remote) for _ in range(4)] == [first] * 4


def packets(*lines: str) -> bytes:
    return b"".join(b"%04x%s" % (len(line.encode()) + 4, line.encode()) for line in lines)


Reply = Callable[[http.server.BaseHTTPRequestHandler], None]
RESULT: Final = {"Content-Type": "application/x-git-upload-pack-result"}


def says(body: bytes, status: int = 200, headers: Mapping[str, str] = RESULT) -> Reply:
    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def trickles(handler: http.server.BaseHTTPRequestHandler) -> None:
    """A byte of a header now and then, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    ended = threading.Event()
    while not ended.wait(0.01):
        try:
            handler.wfile.write(b"y")
        except OSError:
            ended.set()


@contextmanager
def listing(reply: Reply, within_s: float = 20.0) -> Iterator[RefListing]:
    class Server(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            reply(self)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{serving.server_address[1]}/o.git/"
        made = RefListing(parse_url(url, protocols={"http"}), within_s=within_s)
        try:
            yield made
        finally:
            made.close()
            serving.shutdown()
            thread.join()


def test_the_packets_of_a_listing_are_read() -> None:
    lines = (f"{ID} HEAD symref-target:{MAIN}\n", f"{ID} refs/tags/v1 peeled:{'2' * 40}\n")
    with listing(says(packets(*lines) + b"0000")) as asked:
        assert asked.ask([HEAD], GitCredentials()) == (
            ListedRef(HEAD, ID, target=MAIN), ListedRef("refs/tags/v1", ID, peeled="2" * 40),
        )  # fmt: skip


@pytest.mark.parametrize(
    "reply",
    [
        says(b"0000", headers={"Content-Type": "text/html"}),
        says(b"0000", status=404),
        says(b"", status=302, headers={**RESULT, "Location": "/other.git/git-upload-pack"}),
        says(packets("ERR access denied\n") + b"0000"),
        says(packets(f"{ID} {MAIN}\n")),
        says(b"0001" + b"0000"),
        says(b"ffff" + b"x" * 10),
        says(b"-001x0000"),
        says(b"<html>sign in</html>"),
        says(packets("oneword\n") + b"0000"),
        trickles,
    ],
    ids=["a page", "gone", "a redirect", "an error", "no end", "a delimiter", "cut", "negative",
         "no packets", "no name", "endless"],
)  # fmt: skip
def test_what_is_no_listing_is_left_to_git(reply: Reply) -> None:
    with listing(reply, within_s=0.5 if reply is trickles else 20.0) as asked:
        assert asked.ask([MAIN], GitCredentials()) is None


@pytest.mark.parametrize(
    "keys",
    [GitCredentials(certificate="x", key="y"), GitCredentials(bearer_token="a\r\nHost: evil")],
    ids=["certificate of the client", "two headers"],
)
def test_credentials_that_no_header_carries_are_left_to_git(keys: GitCredentials) -> None:
    with listing(says(b"0000")) as asked:
        assert asked.ask([MAIN], keys) is None
        assert asked.ask([MAIN], GitCredentials()) == ()
