"""Pre-stop hooks over the network: hosts, ports by name, and what counts as a failure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gitkruise.agent.cri.runtime import connected_runtime
from gitkruise.agent.hooks import HookFailed, run_hook
from tests.agent.cri_server import MemoryRuntime, cri_server


async def run(hook: dict[str, Any], folder: Path, *, port: int = 0, grace_s: int = 5) -> None:
    """Run a hook of a pod at 127.0.0.1 whose container calls `port` web."""
    place = folder / "cri.sock"
    ports = [{"name": "web", "containerPort": port}]
    async with cri_server(place, MemoryRuntime()), connected_runtime(place) as runtime:
        await run_hook(runtime, "memory://c-0", hook, ports, "127.0.0.1", grace_s)


async def bytes_sent(hook: dict[str, Any], folder: Path, reply: bytes) -> bytes:
    """The first bytes that the hook sent to a server on loopback, port `web`."""
    got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reply:
            got.set_result(await reader.readuntil(b"\r\n\r\n"))
            writer.write(reply)
        else:
            got.set_result(await reader.read(1))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        await run(hook, folder, port=server.sockets[0].getsockname()[1])
        return await got


@pytest.mark.parametrize("status", ["200 OK", "500 Internal Server Error"])
def test_a_request_goes_to_the_pod_and_any_response_will_do(status: str, tmp_path: Path) -> None:
    headers = [{"name": "X-Drain", "value": "yes"}]
    hook = {"httpGet": {"port": "web", "path": "/drain?now=1", "httpHeaders": headers}}
    reply = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
    sent = asyncio.run(bytes_sent(hook, tmp_path, reply))
    assert sent.startswith(b"GET /drain?now=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"X-Drain: yes\r\n" in sent


def test_a_connection_is_opened_and_closed(tmp_path: Path) -> None:
    assert asyncio.run(bytes_sent({"tcpSocket": {"port": "web"}}, tmp_path, b"")) == b""


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        ({"httpGet": {"port": "admin"}}, "the container has no port named 'admin'"),
        ({"httpGet": {"port": 1}}, "GET http://127.0.0.1:1/: "),
        ({"tcpSocket": {"port": 1}}, "connect to 127.0.0.1:1: "),
        ({"sleep": {"seconds": 3}}, "invalid handler: sleep"),
        ({}, "invalid handler: empty"),
    ],
)
def test_a_hook_that_fails_says_why(hook: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(HookFailed) as caught:
        asyncio.run(run(hook, tmp_path))
    assert str(caught.value).startswith(text)


@pytest.mark.slow
def test_a_hook_ends_with_the_grace(tmp_path: Path) -> None:
    async def body() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await run({"httpGet": {"port": port}}, tmp_path, grace_s=1)

    with pytest.raises(HookFailed, match="preStop hook did not end within 1 s"):
        asyncio.run(body())
