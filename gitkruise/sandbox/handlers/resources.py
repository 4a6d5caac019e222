"""Object endpoints of the sandbox: HTTP in, one request to the Cluster, HTTP out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web
from aiohttp.base_protocol import BaseProtocol

from gitkruise.errors import ApiError, BadRequest, NotFound, NotSupported, TooManyRequests
from gitkruise.kube.serve.connection_limits import unsent
from gitkruise.sandbox.backend.cluster import ADMIN, Cluster
from gitkruise.sandbox.backend.watch_fanout import WAITED_BYTES, EventBatch, joined
from gitkruise.sandbox.handlers.watch import BOOKMARK_EVERY_S, batches
from gitkruise.sandbox.http.authentication import Tokens
from gitkruise.sandbox.http.negotiation import ResponseForm, form_of
from gitkruise.sandbox.http.request_decoding import read_request
from gitkruise.sandbox.http.responses import send, text_reply
from gitkruise.sandbox.http.routing import Resource, no_such_path, not_found
from gitkruise.sandbox.tables.tables import Shaper
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent

WATCHES_MAX: Final = 1_000
PIECE_BYTES: Final = 16 * 1024
WRITE_WITHIN_S: Final = 30.0  # a reader that takes nothing for this long is let go
ROWS_AT_ONCE: Final = 256  # events shaped together

NO_LOGS: Final = (
    "There are no logs: this is the sandbox of gitkruise. Its pods are simulated,"
    " and no container runs in them.\n"
)
NO_CONTAINERS: Final = (
    "pods of the sandbox are simulated: no container runs, so {} cannot work here"
)
_CONTAINER_VERBS: Final[Mapping[str, str]] = {
    "exec": "exec",
    "attach": "attach",
    "portforward": "port-forward",
    "proxy": "proxying",
}


@dataclass(slots=True)
class Objects:
    """The object endpoints over one Cluster; counts its open watches."""

    cluster: Cluster
    shaper: Shaper
    tokens: Tokens
    bookmark_every_s: float = BOOKMARK_EVERY_S
    watches: set[object] = field(default_factory=set)

    async def answer(
        self, http: web.BaseRequest, target: Resource, user: str
    ) -> web.StreamResponse:
        """Carry out one request of `user`; raises ApiError."""
        kind = self.cluster.world.catalog.by_ref(target.ref)
        if kind is None:
            raise self._absent(target)
        request = await read_request(http, target)
        if user != ADMIN and not request.user:
            request = replace(request, user=user)
        if request.subresource:
            special = await self._container(request)
            if special is not None:
                return special
        form = form_of(http.headers.get("Accept", ""))
        if request.verb == "watch":
            return await self._watch(http, request, kind, form)
        reply = await self._reply(request, kind)
        shaped = reply.body
        if form.shape:
            include = http.query.get("includeObject", "Metadata")
            shaped = self.shaper.shape(reply.body, kind, form, include=include)
        data = self.cluster.encoder.body(shaped)
        return send(data, form.encoding, status=reply.status, warnings=reply.warnings)

    def _absent(self, target: Resource) -> NotFound:
        """Return the error of a resource that is not served: built-in groups have handlers."""
        group = target.ref.group
        kinds = self.cluster.world.catalog.kinds()
        known = any(kind.group == group and not kind.crd for kind in kinds)
        return not_found() if known else no_such_path()

    async def _reply(self, request: ApiRequest, kind: Kind) -> ApiReply:
        """Return the reply of the cluster, or of the tokens for TokenRequest and TokenReview."""
        token = request.subresource == "token" and "token" in kind.subresources
        if request.verb == "create" and token and request.namespace:
            return await self.tokens.issue(request)
        if request.verb == "create" and kind.kind == "TokenReview":
            return self.tokens.review(request, kind)
        return await self.cluster.handle(request)

    async def _container(self, request: ApiRequest) -> web.Response | None:
        """Subresources that would need a running container; None for all others."""
        first = request.subresource.partition("/")[0]
        if request.resource.group or first not in {*_CONTAINER_VERBS, "log"}:
            return None
        asked = replace(request, verb="get", subresource="", params={})
        host = get((await self.cluster.handle(asked)).body, "spec", "nodeName")
        if first == "log":
            return text_reply(NO_LOGS) if host else web.Response(status=204)
        if not host:
            raise BadRequest(f"pod {request.name} does not have a host assigned")
        raise NotSupported(NO_CONTAINERS.format(_CONTAINER_VERBS[first]))

    async def _watch(
        self, http: web.BaseRequest, request: ApiRequest, kind: Kind, form: ResponseForm
    ) -> web.StreamResponse:
        if len(self.watches) >= WATCHES_MAX:
            raise TooManyRequests("too many watches are open")
        ticket, owed = object(), self.cluster.fanout.owed
        self.watches.add(ticket)
        include = http.query.get("includeObject", "Metadata")
        reader = _ChunkReader(http.protocol)
        stream = batches(
            self.cluster,
            request,
            reader=None if form.shape else reader,
            bookmark_every_s=self.bookmark_every_s,
        )
        try:
            async with aclosing(stream):
                first = await anext(stream)
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                response.enable_chunked_encoding()
                await response.prepare(http)
                frames = self._frames(first, stream, kind, form, include)
                async with aclosing(frames), asyncio.timeout(None) as patience:
                    async for data in frames:
                        patience.reschedule(asyncio.get_running_loop().time() + WRITE_WITHIN_S)
                        owed.add(reader, len(data))
                        for piece in _pieces(data):
                            await response.write(piece)
                        if reader.keeps_up:
                            owed.paid(reader)
                        patience.reschedule(None)
                await response.write_eof()
        except TimeoutError:
            if http.transport is not None:
                http.transport.abort()
            raise ConnectionResetError("a slow reader of a watch was let go") from None
        finally:
            owed.paid(reader)
            self.watches.discard(ticket)
        return response

    async def _frames(
        self,
        first: EventBatch,
        stream: AsyncIterator[EventBatch],
        kind: Kind,
        form: ResponseForm,
        include: str,
    ) -> AsyncGenerator[bytes]:
        """Chunks of watch lines; a failure after the start is an ERROR event, the last one."""
        encoder = self.cluster.encoder
        sent_columns = False
        batch = first
        del first
        try:
            while True:
                if not form.shape:
                    for chunk in joined(encoder, batch.events, WAITED_BYTES):
                        yield chunk
                for some in _parts(batch.events if form.shape else ()):
                    shaped = self.shaper.events(
                        some, kind, form, include=include, columns=not sent_columns
                    )
                    sent_columns = True
                    for chunk in joined(encoder, shaped, WAITED_BYTES):
                        yield chunk
                del batch
                try:
                    batch = await anext(stream)
                except StopAsyncIteration:
                    return
        except ApiError as error:
            yield encoder.frame(WatchEvent(type="ERROR", object=error.as_status()))


@dataclass(frozen=True, slots=True)
class _ChunkReader:
    """Reader of a watch whose headers are sent, in chunks."""

    protocol: BaseProtocol

    @property
    def keeps_up(self) -> bool:
        transport = self.protocol.transport
        if transport is None or transport.is_closing() or self.protocol.writing_paused:
            return False
        return not unsent(transport)

    def take(self, data: bytes) -> None:
        if self.protocol.transport is not None:
            for piece in _pieces(data):
                self.protocol.transport.write(piece)

    def let_go(self) -> None:
        if self.protocol.transport is not None:
            self.protocol.transport.abort()


def _pieces(data: bytes) -> Iterator[memoryview]:
    """Split writes to TLS, whose buffers keep the size of the largest write for ever."""
    whole = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield whole[start : start + PIECE_BYTES]


def _parts(events: Sequence[WatchEvent]) -> Iterator[Sequence[WatchEvent]]:
    for start in range(0, len(events), ROWS_AT_ONCE):
        yield events[start : start + ROWS_AT_ONCE]
