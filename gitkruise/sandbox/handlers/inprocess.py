"""Transport of in-process callers: the World of this process instead of a socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from gitkruise.kube.client.discovery import VERSION
from gitkruise.sandbox.backend.cluster import ADMIN, Cluster
from gitkruise.sandbox.discovery.discovery import version
from gitkruise.sandbox.handlers.watch import follow
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent


class WorldTransport:
    """Implements kube.transport.Transport over a Cluster; `user` is who the requests come from.

    Objects in replies are the World's own (shared, immutable by convention): nothing is copied.
    """

    def __init__(self, cluster: Cluster, *, user: str = ADMIN) -> None:
        self.cluster = cluster
        self.user = user

    async def send(self, request: ApiRequest) -> ApiReply:
        """The reply to one request; raises ApiError as a server's answer would."""
        if request.resource == VERSION:
            return ApiReply(200, version())
        return await self.cluster.handle(request, user=self.user)

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        """Events from `resourceVersion` on, until `timeoutSeconds`; raises WatchExpired.

        There is no buffer of its own: a reader that falls out of the World's log gets 410.
        """
        return follow(self.cluster, request)

    async def close(self) -> None:
        """Nothing to close: the Cluster belongs to its creator."""
