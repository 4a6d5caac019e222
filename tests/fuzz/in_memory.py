"""An HTTP connection to a server of ours without a socket: bytes in, bytes out."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from aiohttp import web


class Answered(NamedTuple):
    """A response: its status, its head, its body (a watch's: what came so far)."""

    status: int
    head: bytes
    body: bytes


class _Pipe(asyncio.Transport):
    """The server's end of the connection."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()
        self.more = asyncio.Event()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data
        self.more.set()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return 0  # everything is taken

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True
        self.more.set()

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def ask(server: web.Server, sent: bytes) -> Answered:
    """The answer to a request; that of a watch ends with its first lines."""
    pipe, connection = _Pipe(), server()
    connection.connection_made(pipe)
    connection.data_received(sent)
    try:
        bodiless = sent.startswith(b"HEAD ")
        while not (found := _whole(bytes(pipe.written), bodiless=bodiless)) and not pipe.closed:
            pipe.more.clear()
            await pipe.more.wait()
        return found or _read(bytes(pipe.written))
    finally:
        connection.connection_lost(None)
        await asyncio.sleep(0)


def _read(data: bytes) -> Answered:
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    return Answered(int(words[1]) if len(words) > 1 else 0, head, body)


def _whole(data: bytes, *, bodiless: bool) -> Answered | None:
    """The answer when all of it is here; a chunked one when anything of it is."""
    if b"\r\n\r\n" not in data:
        return None
    answer = _read(data)
    if answer.status == 100:
        return _whole(data.partition(b"\r\n\r\n")[2], bodiless=bodiless)
    for line in () if bodiless else answer.head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return answer if len(answer.body) >= int(value) else None
    return answer
