"""Notes the requests of the controller while tests run: `make requests`.

pytest -p tests.kube.rights.notes writes them to GITKRUISE_REQUESTS, a folder, one file a process.
Requests of a test itself, of units that act with an account of their own, and of controllers that
only the embedded cluster has, are not noted.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import pytest

import gitkruise.app as app_module
from gitkruise.app import RunningController
from gitkruise.controller.controllers import Controllers
from gitkruise.kube.client.http import HttpTransport
from gitkruise.planner.workloads import BUILTIN
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    ApiReply,
    ApiRequest,
    WatchEvent,
)

_OURS: Final = ContextVar("_OURS", default=False)
_CREATED: Final = 201
SEEN: Final[set[str]] = set()
Send = Callable[[Any, ApiRequest], Any]


def words_of(request: ApiRequest, verb: str = "") -> str:
    """Return `verb group/resource[/subresource]`, with the names of Leases, which rules name."""
    ref = request.resource
    path = "/".join(filter(None, (ref.plural, request.subresource)))
    selected = request.params.get("fieldSelector", "").partition("metadata.name=")[2]
    named = request.name or selected if ref.plural == "leases" else ""
    name = f" {named}" if named and request.verb != "create" else ""
    return f"{verb or request.verb} {f'{ref.group}/' if ref.group else ''}{path}{name}"


def _note(transport: object, request: ApiRequest, reply: ApiReply | None = None) -> None:
    if request.user or not (_OURS.get() or type(transport).__name__ == "Wire"):
        return
    SEEN.add(words_of(request))
    applied = request.verb == "patch" and request.content_type == APPLY_PATCH
    if applied and reply is not None and reply.status == _CREATED:
        SEEN.add(words_of(request, "create"))


def _noting(transport: type[Any]) -> None:
    send, watch = transport.send, transport.watch

    async def noted(self: Any, request: ApiRequest) -> ApiReply:
        _note(self, request)
        reply: ApiReply = await send(self, request)
        _note(self, request, reply)
        return reply

    def watched(self: Any, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        _note(self, request)
        events: AsyncGenerator[WatchEvent] = watch(self, request)
        return events

    transport.send, transport.watch = noted, watched


def pytest_configure() -> None:
    """Have the tasks of controllers, and what these start, noted."""
    _noting(WorldTransport)
    _noting(HttpTransport)
    run, controller = Controllers.run, app_module.controller

    async def ours(self: Controllers) -> None:
        _OURS.set(all(runner.workload not in BUILTIN for runner in self.runners))
        await run(self)

    @asynccontextmanager
    async def running(*words: Any) -> AsyncIterator[RunningController]:
        async with AsyncExitStack() as stack:
            token = _OURS.set(True)  # tasks keep what holds where they are made
            found = await stack.enter_async_context(controller(*words))
            _OURS.reset(token)
            yield found

    Controllers.run = ours  # type: ignore[method-assign]
    app_module.controller = running  # type: ignore[assignment]


def pytest_sessionfinish(session: pytest.Session) -> None:
    del session
    folder = Path(os.environ["GITKRUISE_REQUESTS"])  # noqa: TID251  the test run's own switch
    folder.mkdir(exist_ok=True)
    (folder / f"{os.getpid()}.txt").write_text("".join(f"{line}\n" for line in sorted(SEEN)))
