"""Listing of the refs of an HTTP server without a start of git, by `ls-refs` of git's protocol 2.

A poll by git starts two programs and a TLS session: 66 ms of CPU, twelve times a minute. Here the
connection stays open. Only refs are read; what goes wrong is for git to find out and to say.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from gitkruise.git.plumbing.process import OUTPUT_MAX, GitCredentials
from gitkruise.git.plumbing.refs import Remote

if TYPE_CHECKING:
    from http.client import HTTPConnection

_WITHIN_S: Final = 5.0
_VAIN_MAX: Final = 3
_REQUEST: Final = "application/x-git-upload-pack-request"
_RESULT: Final = "application/x-git-upload-pack-result"
_HEADERS: Final = {
    "Content-Type": _REQUEST, "Accept": _RESULT, "Git-Protocol": "version=2",
    "User-Agent": "git/gitkruise",
}  # fmt: skip
_FLUSH: Final = b"0000"
_DELIMITER: Final = b"0001"
_PEELED: Final = "peeled:"
_TARGET: Final = "symref-target:"


class ListedRef(NamedTuple):
    """A ref as a server lists it: its id, that of the commit under an annotated tag or "", and the
    ref that a symbolic one names or ""."""

    name: str
    id: str
    peeled: str = ""
    target: str = ""


class _Unlisted(Exception):
    """The server did not list refs."""


class RefListing:
    """Listings of one server, one at a time. Close it when it is not needed any more."""

    def __init__(self, remote: Remote, *, within_s: float = _WITHIN_S) -> None:
        self._remote, self._within_s = remote, within_s
        self._credentials = GitCredentials()
        self._connection: HTTPConnection | None = None
        self._vain = 0  # requests in a row that brought nothing

    def ask(
        self, prefixes: Iterable[str], credentials: GitCredentials
    ) -> tuple[ListedRef, ...] | None:
        """Return the refs whose names begin with one of `prefixes`; None where git must ask, and
        for good after three requests in a row that brought nothing.

        As with git, no redirect is followed, and no proxy of the environment is used.
        """
        speaks = self._remote.protocol in {"http", "https"} and not credentials.certificate
        if not speaks or self._vain >= _VAIN_MAX:
            return None
        if credentials != self._credentials:
            self.close()
            self._credentials = credentials
        try:
            listed = tuple(_listed(self._exchange(_asking(prefixes))))
        except (_Unlisted, OSError, ValueError):  # git asks again, and says what fails
            self.close()
            self._vain += 1
            return None
        self._vain = 0
        return listed

    def close(self) -> None:
        """Close the connection; `ask` opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(self, body: bytes) -> bytes:
        """Send a request on the open connection, or on a new one where the server closed it."""
        from http.client import HTTPException  # noqa: PLC0415  slow to import

        try:
            if self._connection is not None:
                with contextlib.suppress(HTTPException, ConnectionError):
                    return self._sent(self._connection, body)
                self.close()
            self._connection = self._opened()
            return self._sent(self._connection, body)
        except HTTPException as error:
            raise _Unlisted from error

    def _sent(self, connection: HTTPConnection, body: bytes) -> bytes:
        """Raises _Unlisted, OSError, HTTPException."""
        path = urlsplit(self._remote.url).path.rstrip("/") + "/git-upload-pack"
        with _limited(connection, self._within_s):
            connection.request("POST", path, body, {**_HEADERS, **self._authorization()})
            response = connection.getresponse()
            if response.status != 200 or response.headers.get_content_type() != _RESULT:
                raise _Unlisted
            answer = response.read(OUTPUT_MAX + 1)
        if len(answer) > OUTPUT_MAX:
            raise _Unlisted
        return answer

    def _authorization(self) -> dict[str, str]:
        """Raises ValueError for values that no header can carry."""
        known = self._credentials
        value = f"Bearer {known.bearer_token}" if known.bearer_token else ""
        if known.password and not value:
            pair = f"{known.username or 'git'}:{known.password}"
            value = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return {"Authorization": value} if value else {}

    def _opened(self) -> HTTPConnection:
        """Raises OSError (also of TLS), ValueError for certificates that are not."""
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415  slow to import

        parts = urlsplit(self._remote.url)
        assert parts.hostname
        if self._remote.protocol == "http":
            return HTTPConnection(parts.hostname, parts.port, timeout=self._within_s)
        import ssl  # noqa: PLC0415  slow to import

        trusted = ssl.create_default_context(cadata=self._credentials.ca or None)
        return HTTPSConnection(parts.hostname, parts.port, timeout=self._within_s, context=trusted)


@contextlib.contextmanager
def _limited(connection: HTTPConnection, within_s: float) -> Iterator[None]:
    """Cut the connection after `within_s`: its own limit counts from one byte to the next."""

    def cut() -> None:
        with contextlib.suppress(OSError):  # closed by now
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)

    limit = threading.Timer(within_s, cut)
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def _asking(prefixes: Iterable[str]) -> bytes:
    words = ("peel", "symrefs", *(f"ref-prefix {prefix}" for prefix in prefixes))
    return _packet("command=ls-refs") + _DELIMITER + b"".join(map(_packet, words)) + _FLUSH


def _packet(line: str) -> bytes:
    content = f"{line}\n".encode()
    return b"%04x" % (len(content) + 4) + content


def _listed(answer: bytes) -> Iterator[ListedRef]:
    """Read the packets up to the flush. Raises _Unlisted for anything else, ValueError."""
    at = 0
    while (head := answer[at : at + 4]) != _FLUSH:
        size = int(head, 16)
        content = answer[at + 4 : at + size].decode("utf-8", "replace")
        if size <= 4 or len(answer) < at + size:
            raise _Unlisted
        yield _ref(content.removesuffix("\n"))
        at += size


def _ref(line: str) -> ListedRef:
    """Raises ValueError for another line, such as an error of the server."""
    id_, name, *rest = line.split(" ")
    if id_ == "ERR":
        raise _Unlisted
    attributes = {
        start: word for word in rest for start in (_PEELED, _TARGET) if word.startswith(start)
    }
    return ListedRef(
        name, id_, *(attributes.get(start, "").removeprefix(start) for start in (_PEELED, _TARGET))
    )
