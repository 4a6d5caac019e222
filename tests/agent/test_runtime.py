"""The socket of the runtime: what is there, and one clear error for each thing that is not."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import grpc
import pytest

from gitkruise.agent.cri.calls import RuntimeCallFailed
from gitkruise.agent.cri.runtime import connected_runtime
from gitkruise.errors import ClusterFailed
from gitkruise.model.node.containers import ContainerPhase
from tests.agent.cri_server import MemoryRuntime, cri_server


@asynccontextmanager
async def nothing(place: Path) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def left_over(place: Path) -> AsyncIterator[None]:
    """The socket of a program that has ended."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(place))
    yield


@asynccontextmanager
async def plain_file(place: Path) -> AsyncIterator[None]:
    os.close(os.open(place, os.O_CREAT))
    yield


@asynccontextmanager
async def stranger(place: Path) -> AsyncIterator[None]:
    """A program that speaks something of its own."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        writer.close()

    server = await asyncio.start_unix_server(answer, place)
    async with server:
        yield


@asynccontextmanager
async def old(place: Path) -> AsyncIterator[None]:
    async with cri_server(place, MemoryRuntime(), package="runtime.v1alpha2"):
        yield


@asynccontextmanager
async def other_grpc(place: Path) -> AsyncIterator[None]:
    async with cri_server(place, MemoryRuntime(), package="unrelated"):
        yield


@pytest.mark.parametrize(
    ("there", "code", "text"),
    [
        (nothing, "GK5120", "no container runtime listens: No such file or directory"),
        (left_over, "GK5120", "no container runtime listens: Connection refused"),
        (plain_file, "GK5120", "no container runtime listens: Connection refused"),
        (stranger, "GK5121", "what listens is no container runtime: Version:"),
        (other_grpc, "GK5121", "what listens is no container runtime: Version:"),
        (old, "GK5122", "the container runtime does not speak CRI v1"),
    ],
)
def test_a_socket_that_is_no_use(
    there: Callable[[Path], AbstractAsyncContextManager[None]], code: str, text: str, tmp_path: Path
) -> None:
    place = tmp_path / "cri.sock"

    async def play() -> None:
        async with there(place), connected_runtime(place):
            pytest.fail("connected")

    with pytest.raises(ClusterFailed) as caught:
        asyncio.run(play())
    (finding,) = caught.value.findings
    assert finding.code == code
    assert finding.message.startswith(f"{place}: {text}")
    assert [name for name, _ in finding.notes] == ["unchanged", "next"]


def test_the_newest_container_of_each_name(tmp_path: Path) -> None:
    memory, place = MemoryRuntime(), tmp_path / "cri.sock"
    for pod, name, attempt in (("a", "app", 0), ("a", "log", 0), ("b", "app", 7), ("a", "app", 1)):
        memory.create(pod, name, attempt)

    async def play() -> None:
        async with cri_server(place, memory), connected_runtime(place) as runtime:
            found = await runtime.containers_of("a")
            assert {name: (c.id, c.attempt) for name, c in found.items()} == {
                "app": ("memory://c-3", 1),
                "log": ("memory://c-1", 0),
            }
            assert all(c.phase is ContainerPhase.RUNNING and c.started for c in found.values())
            await runtime.stop("memory://c-3", 4)
            await runtime.stop("memory://c-99", 4)  # gone is stopped
            memory.failing["ListContainers"] = (grpc.StatusCode.UNAVAILABLE, "no")
            with pytest.raises(RuntimeCallFailed, match="ListContainers: no"):
                await runtime.containers_of("a")

    asyncio.run(play())
    assert memory.asked == [("stop", "c-3", 4), ("stop", "c-99", 4)]
