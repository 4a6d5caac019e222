"""A lean HTTPS client for benchmarks: many keep-alive connections, one thread, requests ready made.

Nothing of a reply is decoded: it is counted when it is whole.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

JSON: Final = "application/json"
PATIENCE_S: Final = 60.0
_PIECE: Final = 1 << 18
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Address of a server, and the credentials for it."""

    url: str
    token: str
    ca_pem: str

    def request(self, method: str, path: str, body: bytes = b"", *, content: str = JSON) -> bytes:
        """One request as it goes over the wire."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {urlsplit(self.url).netloc}\r\n"
            f"Authorization: Bearer {self.token}\r\nUser-Agent: bench/1\r\nAccept: {JSON}\r\n"
        )
        if body:
            head += f"Content-Type: {content}\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"\r\n" + body


@dataclass(slots=True, eq=False)
class Line:
    """One connection; `asked` is when its last request went out."""

    tls: ssl.SSLSocket
    got: bytearray = field(default_factory=bytearray)
    asked: float = 0.0

    def read(self) -> bytes:
        """Everything that is there now; raises ConnectionError at the end of the stream."""
        pieces: list[bytes] = []
        while True:
            try:
                piece = self.tls.recv(_PIECE)
            except ssl.SSLWantReadError:
                return b"".join(pieces)
            if not piece:
                raise ConnectionError("the server hung up")
            pieces.append(piece)

    def write(self, data: bytes) -> None:
        """Requests are small: a socket that does not take one immediately is a failure."""
        sent = self.tls.send(data)
        assert sent == len(data), "a request did not fit the socket"

    def reply(self) -> bytes | None:
        """The reply, when it is whole."""
        self.got += self.read()
        end = self.got.find(b"\r\n\r\n")
        if end < 0:
            return None
        length = _LENGTH.search(self.got, 0, end + 2)
        whole = (
            len(self.got) >= end + 4 + int(length[1]) if length else self.got.endswith(_LAST_CHUNK)
        )
        if not whole:
            return None
        answer, self.got = bytes(self.got), bytearray()
        return answer


@dataclass(slots=True)
class Load:
    """Cost of a run of requests: seconds of the clock, this program's CPU, each request's."""

    seconds: float
    cpu_s: float
    took_s: list[float]

    @property
    def rate(self) -> float:
        return len(self.took_s) / self.seconds

    def within(self, share: float) -> float:
        """Seconds within which that share of the requests was answered."""
        return sorted(self.took_s)[int(share * (len(self.took_s) - 1))]


class Lines:
    """Open connections to one server and who has news on them."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self._by_number = {line.tls.fileno(): line for line in lines}
        self._poll = select.epoll()
        for number in self._by_number:
            self._poll.register(number, select.EPOLLIN)

    def ready(self, seconds: float) -> list[Line]:
        """Connections that can be read."""
        return [self._by_number[number] for number, _ in self._poll.poll(seconds)]

    def close(self) -> None:
        self._poll.close()
        for line in self.lines:
            line.tls.close()

    def one(self, request: bytes) -> bytes:
        """The reply to a single request on the first connection; it must be a success."""
        answers: list[bytes] = []
        self.run(iter([request]), answers.append)
        return answers[0]

    def run(self, requests: Iterator[bytes], seen: Callable[[bytes], object] = bool) -> Load:
        """Send all requests, one at a time on each connection, and wait for every answer."""
        took: list[float] = []
        start, cpu = time.monotonic(), time.process_time()
        waiting = sum(_send(line, requests) for line in self.lines)
        while waiting:
            found = self.ready(PATIENCE_S)
            assert found, "the server does not answer"
            for line in found:
                answer = line.reply()
                if answer is None:
                    continue
                assert answer.startswith(b"HTTP/1.1 20"), answer[:2000]
                took.append(time.monotonic() - line.asked)
                seen(answer)
                waiting -= not _send(line, requests)
        return Load(time.monotonic() - start, time.process_time() - cpu, took)


def _send(line: Line, requests: Iterator[bytes]) -> bool:
    request = next(requests, None)
    if request is None:
        return False
    line.asked = time.monotonic()
    line.write(request)
    return True


@contextmanager
def lines(door: Door, count: int, first: bytes = b"") -> Iterator[Lines]:
    """`count` connections, closed at the end; each sends `first` as soon as it is open."""
    parts = urlsplit(door.url)
    trust = ssl.create_default_context(cadata=door.ca_pem)
    made: list[Line] = []
    for _ in range(count):
        plain = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = trust.wrap_socket(plain, server_hostname=parts.hostname)
        tls.settimeout(0)
        made.append(Line(tls))
        if first:
            made[-1].write(first)
    found = Lines(made)
    try:
        yield found
    finally:
        found.close()


def body_of(answer: bytes) -> bytes:
    """The body of a whole reply."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" not in head.lower():
        return body
    pieces: list[bytes] = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        count = int(size, 16)
        pieces.append(rest[:count])
        body = rest[count + 2 :]
    return b"".join(pieces)
