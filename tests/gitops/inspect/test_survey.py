"""A survey that is followed: what holds it up, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gitkruise.errors import ApiError, Forbidden, NotFound, Unavailable
from gitkruise.gitops.inspect.cluster_view import Survey
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent

ROWS: dict[str, tuple[GroupKind, ApiError, bool]] = {
    "away": (CLONESET, Unavailable("connection refused"), True),
    "forbidden": (CLONESET, Forbidden("not yours"), True),
    "not served": (CLONESET, NotFound("no such resource"), False),
    "a kind that need not be listed": (ADVANCED_STATEFULSET, Forbidden("not yours"), False),
    "that kind, away": (ADVANCED_STATEFULSET, Unavailable("connection refused"), True),
}


class Refusing:
    """A cluster that is empty, and answers requests for one resource with an error."""

    def __init__(self, error: ApiError, resource: str, group: str) -> None:
        self.error, self.refused = error, (group, resource)

    async def send(self, request: ApiRequest) -> ApiReply:
        if (request.resource.group, request.resource.plural) == self.refused:
            raise self.error
        return ApiReply(200, {"metadata": {"resourceVersion": "1"}, "items": []})

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        await asyncio.Event().wait()
        yield WatchEvent(type="BOOKMARK", object={})

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("row", ROWS)
def test_what_holds_up_a_survey(row: str) -> None:
    kind, error, held_up = ROWS[row]

    async def body() -> str:
        catalog = load_catalog()
        stored = catalog.stored(kind)
        assert stored is not None
        transport = Refusing(error, stored.ref.plural, kind.group)
        survey = Survey(transport, catalog, (kind,), marked=True)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(survey.follow(SystemClock()))
            for _ in range(20):
                await asyncio.sleep(0)
            following.cancel()
        return survey.problem

    assert bool(asyncio.run(body())) is held_up
