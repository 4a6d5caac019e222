"""A way to a server that can be cut and mended: a TCP tunnel on loopback, which reads nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_HOST: Final = "127.0.0.1"
_CHUNK: Final = 65_536


class Line:
    """Listens at `port`, which stays the same, and hands bytes on to the port `to`.

    The client asks for it by CONNECT (`proxy-url` of a kubeconfig), so that it speaks to the server
    under the server's own name.
    """

    def __init__(self, to: int) -> None:
        self._to, self.port = to, 0
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()

    def mend(self) -> None:
        """Let connections through from now on."""
        listener = socket.create_server((_HOST, self.port))
        self.port = listener.getsockname()[1]
        with self._lock:
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """Break every connection, and refuse new ones."""
        with self._lock:
            listener, self._listener = self._listener, None
            broken, self._open = self._open, set()
        for one in [*broken, *([listener] if listener is not None else [])]:
            _end(one)
        if listener is not None:
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return  # the line was cut
            try:
                far = self._connected(near)
            except OSError:
                near.close()
                continue
            self._join(listener, near, far)

    def _connected(self, near: socket.socket) -> socket.socket:
        """The other end, once the client has asked for it."""
        asked = b""
        while not asked.endswith(b"\r\n\r\n"):
            part = near.recv(1)  # not a byte of what follows
            if not part:
                raise ConnectionResetError
            asked += part
        far = socket.create_connection((_HOST, self._to))
        near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        return far

    def _join(self, listener: socket.socket, near: socket.socket, far: socket.socket) -> None:
        with self._lock:
            if self._listener is not listener:  # cut meanwhile
                near.close()
                far.close()
                return
            self._open |= {near, far}
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):  # either end may go at any time
            while data := one.recv(_CHUNK):
                other.sendall(data)
        for each in (one, other):
            _end(each)
        with self._lock:
            self._open -= {one}
        one.close()


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def line(to: int) -> Iterator[Line]:
    """A line that works, until the body ends."""
    found = Line(to)
    found.mend()
    try:
        yield found
    finally:
        found.cut()
