"""Watches over HTTP: split events, cuts, expiry, and servers that never answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from gitkruise.errors import ApiError, Forbidden, InternalError, Unavailable, WatchExpired
from gitkruise.kube.client.codec import encode
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.rawobject import RawObject
from gitkruise.wire.primitives.requests import OPENED, ApiRequest, WatchEvent
from tests.kube.server import Answer, raw, reply, run, serving, silence
from tests.kube.toy import CONFIG_MAPS, PODS

WATCH = ApiRequest(verb="watch", resource=CONFIG_MAPS, params={"resourceVersion": "7"})
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def line(type_: str, **obj: Any) -> bytes:
    return encode({"type": type_, "object": obj}) + b"\n"


def chunks(*parts: bytes, end: bool = True) -> bytes:
    body = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
    return HEAD + body + (b"0\r\n\r\n" if end else b"")


async def read(transport: HttpTransport, request: ApiRequest = WATCH) -> list[WatchEvent]:
    stream: Any = transport.watch(request)
    async with aclosing(stream):
        opened, *events = [event async for event in stream]
        assert opened.type == OPENED
        return events


A, B = line("ADDED", n=1), line("MODIFIED", n=2)

ROWS: list[tuple[str, Answer, list[int], type[ApiError] | None]] = [
    ("whole lines", chunks(A, B), [1, 2], None),
    ("two in one chunk", chunks(A + B), [1, 2], None),
    ("one in three chunks", chunks(A[:5], A[5:9], A[9:] + B), [1, 2], None),
    ("blank lines", chunks(A + b"\n\n" + B), [1, 2], None),
    ("cut in the middle of an event, cleanly", chunks(A, B[:7]), [1], None),
    ("cut in the middle of an event", raw(chunks(A, B[:7], end=False)), [1], Unavailable),
    ("garbage", chunks(A, b"<html>\n"), [1], InternalError),
    ("expired", reply(410, encode(WatchExpired("too old").as_status())), [], WatchExpired),
    ("forbidden", reply(403, encode(Forbidden("no").as_status())), [], Forbidden),
]


@pytest.mark.parametrize(
    ("answer", "numbers", "error"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_events(answer: Answer, numbers: list[int], error: type[ApiError] | None) -> None:
    got: list[int] = []

    async def follow(transport: HttpTransport) -> None:
        stream: Any = transport.watch(WATCH)
        async with aclosing(stream):
            async for event in stream:
                if event.type != OPENED:
                    got.append(event.object["n"])  # noqa: PERF401  what came before an error counts

    async def main() -> None:
        async with serving(answer) as (transport, scripted):
            if error is None:
                await follow(transport)
            else:
                with pytest.raises(error):
                    await follow(transport)
        assert got == numbers
        assert scripted.asked[0].line == (
            "GET /api/v1/configmaps?resourceVersion=7&watch=true HTTP/1.1"
        )

    run(main())


def test_an_expiry_inside_the_stream_is_an_event() -> None:
    async def main() -> None:
        status = WatchExpired("too old").as_status()
        async with serving(chunks(line("ERROR", **status))) as (transport, _):
            events = await read(transport)
        assert [e.type for e in events] == ["ERROR"]
        assert events[0].object["code"] == 410

    run(main())


def test_pods_in_events_stay_bytes_and_bookmarks_do_not() -> None:
    pod = b'{"metadata":{"name":"a"}}'
    events = b'{"type":"ADDED","object":' + pod + b"}\n" + line("BOOKMARK", kind="Pod")

    async def main() -> None:
        async with serving(chunks(events)) as (transport, _):
            added, bookmark = await read(transport, ApiRequest(verb="watch", resource=PODS))
        assert isinstance(added.object, RawObject)
        assert added.object.raw == pod
        assert bookmark.object == {"kind": "Pod"}

    run(main())


def test_a_watch_that_is_never_opened_costs_the_deadline() -> None:
    async def main() -> None:
        async with serving(silence, deadline_s=0.05) as (transport, _):
            with pytest.raises(Unavailable, match="no answer"):
                await read(transport)

    run(main())


def test_an_open_watch_outlives_the_deadline_and_takes_no_slot() -> None:
    async def slowly(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        await asyncio.sleep(0.1)
        writer.write(chunks(A).removeprefix(HEAD))
        await writer.drain()

    async def main() -> None:
        async with serving(slowly, deadline_s=0.05) as (transport, _):
            assert len(await read(transport)) == 1
            assert transport.limit.running == 0

    run(main())
