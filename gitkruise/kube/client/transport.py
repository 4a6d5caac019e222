"""The one seam between gitkruise and an API server: what any carrier of requests must offer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from typing import Final, Protocol

from gitkruise.errors import NotFound
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef, WatchEvent


def _no_lease() -> None:
    """Let every request go out."""


# What a carrier calls as the last thing before a request leaves the process. It raises NotLeading
# under a lease that has ended meanwhile: a process that is stopped goes on where it was.
SEND_CHECK: Final[ContextVar[Callable[[], None]]] = ContextVar("send_check", default=_no_lease)


class Transport(Protocol):
    """Carries requests to one cluster: over HTTP (kube.http) or to a World in the same process.

    Failures are the ApiError family. Unavailable: the request was not carried out.
    GatewayTimeout: it is unknown whether it was; read before trying again.
    """

    async def send(self, request: ApiRequest) -> ApiReply:
        """One request of any verb but watch."""
        ...

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        """Events after `params["resourceVersion"]`, until the server or the caller ends it.

        A transport that may lose its connection begins with an event OPENED. After that one,
        Unavailable means that the connection was lost.

        An async generator: close it (contextlib.aclosing). Raises as `send` does, WatchExpired
        when the version is too old; the server may say the same by an ERROR event instead.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; running requests fail."""
        ...


async def find_object(
    transport: Transport, resource: ResourceRef, name: str, namespace: str = ""
) -> Obj | None:
    """The object as it is now, None where there is none. Raises ApiError."""
    request = ApiRequest(verb="get", resource=resource, namespace=namespace, name=name)
    try:
        return (await transport.send(request)).body
    except NotFound:
        return None
