"""Transports over another one: requests that impersonate, are counted, or wait for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from gitkruise.errors import ApiError, ClusterFailed, Finding, Forbidden
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef, WatchEvent

_WHO: Final = ResourceRef("authentication.k8s.io", "v1", "selfsubjectreviews")
Answered = Callable[[ApiRequest, int], None]


class QueuedTransport:
    """Implements kube.transport.Transport over another: at most `at_once` sends are handed on.

    The others wait here, in order. A thousand units that all have something to send would fill
    the queue of the transport itself, and a lease that is to be renewed would wait behind them.
    """

    def __init__(self, inner: Transport, *, at_once: int) -> None:
        self._inner = inner
        self._turns = asyncio.Semaphore(at_once)

    async def send(self, request: ApiRequest) -> ApiReply:
        async with self._turns:
            return await self._inner.send(request)

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        return self._inner.watch(request)

    async def close(self) -> None:
        await self._inner.close()


class Counted:
    """Implements kube.transport.Transport over another: `answered` gets each request's HTTP status.

    Of watches it gets only those that failed: a watch that goes on has no end to report.
    """

    def __init__(self, inner: Transport, answered: Answered) -> None:
        self._inner, self._answered = inner, answered

    async def send(self, request: ApiRequest) -> ApiReply:
        try:
            reply = await self._inner.send(request)
        except ApiError as error:
            self._answered(request, error.status)
            raise
        self._answered(request, reply.status)
        return reply

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        try:
            async with aclosing(self._inner.watch(request)) as events:
                async for event in events:
                    yield event
        except ApiError as error:
            self._answered(request, error.status)
            raise

    async def close(self) -> None:
        await self._inner.close()


class ActingFor:
    """Implements kube.transport.Transport over another: every request is made for `user`.

    An empty user would be the caller itself, who may do more: there is none.
    """

    def __init__(self, inner: Transport, user: str) -> None:
        if not user.strip():
            raise ValueError("a request for no user would count as our own")
        self._inner, self.user = inner, user
        self._believed = False

    async def send(self, request: ApiRequest) -> ApiReply:
        await self.prove()
        return await self._inner.send(replace(request, user=self.user))

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        return self._inner.watch(replace(request, user=self.user))

    async def close(self) -> None:
        """Nothing to close: the other transport belongs to its creator."""

    async def prove(self) -> None:
        """Check once: a proxy that drops the header lets requests pass with the caller's rights.

        Raises ClusterFailed GK4302 when the server takes us for another user, or ApiError.
        """
        if self._believed:
            return
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        request = ApiRequest(verb="create", resource=_WHO, body=body, user=self.user)
        try:
            review = (await self._inner.send(request)).body
        except Forbidden as error:
            raise ClusterFailed(_may_not(self.user, error)) from error
        taken_for = get(review, "status", "userInfo", "username", default="")
        if taken_for != self.user:
            raise ClusterFailed(_another(self.user, str(taken_for)))
        self._believed = True


def _may_not(user: str, error: Forbidden) -> Finding:
    *_, namespace, name = user.split(":")
    return Finding(
        code="GK4302",
        message=f"gitkruise cannot act as service account {namespace}/{name}: {error.message}",
        notes=(
            ("unchanged", "everything live; nothing is done with other rights instead"),
            ("next", f"allow it: verb impersonate, resource serviceaccounts, name {name}"),
        ),
    )


def _another(user: str, taken_for: str) -> Finding:
    return Finding(
        code="GK4302",
        message=f"the API server takes requests for {user} as those of {taken_for or 'no user'}",
        notes=(
            ("why", "something on the way drops the header Impersonate-User"),
            ("unchanged", "everything live; nothing is done with other rights instead"),
        ),
    )
