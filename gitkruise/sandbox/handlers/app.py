"""The sandbox's HTTP application: who may ask, which page or object is meant, what went wrong."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from gitkruise.errors import ApiError, InternalError, MethodNotAllowed, TooManyRequests, Unavailable
from gitkruise.kube.client.codec import encode
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.discovery.discovery import Discovery, version
from gitkruise.sandbox.discovery.openapi_v2 import OpenApiV2
from gitkruise.sandbox.discovery.openapi_v3 import OpenApiV3
from gitkruise.sandbox.handlers.resources import Objects
from gitkruise.sandbox.http.authentication import Tokens
from gitkruise.sandbox.http.negotiation import OPENAPI_V2_PROTOBUF, alternatives, form_of
from gitkruise.sandbox.http.request_decoding import authenticate, guard
from gitkruise.sandbox.http.responses import refusal, send, text_reply
from gitkruise.sandbox.http.routing import Resource, ServerPage, not_found, route
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)

REQUESTS_MAX: Final = 2_048  # concurrent, including open watches
IDLE_S: Final = 30.0  # a connection without a whole request header for this long is closed
LINGER_S: Final = 2.0
HEADER_MAX: Final = 16_384
SERVER_ARGS: Final[dict[str, Any]] = {
    "keepalive_timeout": IDLE_S,
    "lingering_time": LINGER_S,
    "max_line_size": HEADER_MAX,
    "max_field_size": HEADER_MAX,
    "auto_decompress": False,
    "access_log": None,
}
PUBLIC: Final = frozenset({"health", "version"})  # as Kubernetes' system:public-info-viewer


@dataclass(slots=True)
class App:
    """Answers every request of one sandbox. `hosts` are the Host headers it answers to."""

    cluster: Cluster
    objects: Objects
    discovery: Discovery
    openapi_v2: OpenApiV2
    openapi_v3: OpenApiV3
    tokens: Tokens
    hosts: frozenset[str] = frozenset()
    ready: bool = False
    open_requests: set[object] = field(default_factory=set)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Any request to any path; failures become a meta/v1 Status."""
        ticket = object()
        self.open_requests.add(ticket)
        try:
            guard(request, self.hosts)
            return await self._answer(request)
        except ApiError as error:
            return refusal(error)
        except (ConnectionError, TimeoutError, web.HTTPException):
            raise
        except Exception:
            log.exception(log_line("request-crashed", method=request.method, path=request.path))
            return refusal(InternalError("an internal error happened; see the sandbox's log"))
        finally:
            self.open_requests.discard(ticket)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if len(self.open_requests) > REQUESTS_MAX:
            raise TooManyRequests("too many requests are open")
        target = route(request.rel_url.raw_path)
        if isinstance(target, Resource):
            user = authenticate(request, self.tokens)
            return await self.objects.answer(request, target, user)
        if target.name not in PUBLIC:
            authenticate(request, self.tokens)
        if request.method != "GET":
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        return self._page(request, target)

    def _page(self, request: web.BaseRequest, page: ServerPage) -> web.Response:
        accept = request.headers.get("Accept", "")
        catalog = self.cluster.world.catalog
        for served in (self.discovery, self.openapi_v3, self.openapi_v2):
            served.use(catalog)
        match page.name, page.rest:
            case "health", rest:
                return self._health(rest)
            case "version", _:
                return send(encode(version()))
            case "openapi_v2", _:
                return self._openapi_v2(accept)
            case "openapi_v3", rest:
                return send(self.openapi_v3.document("/".join(rest)))
            case "api" | "apis", rest:
                form = form_of(accept, "apidiscovery.k8s.io")
                response = send(self.discovery.page(page.name, rest, form), form.encoding)
                if form.shape and not rest:
                    response.headers["Content-Type"] = (
                        f"application/json;g={form.group};v={form.version};as={form.shape}"
                    )
                    response.headers["Vary"] = "Accept"
                return response
            case _:
                raise not_found()

    def _health(self, rest: tuple[str, ...]) -> web.Response:
        if not self.ready:
            raise Unavailable("the sandbox is starting")
        if rest not in {(), ("ping",), ("etcd",)}:
            raise not_found()
        return text_reply("ok")

    def _openapi_v2(self, accept: str) -> web.Response:
        """JSON, or the protobuf form that kubectl asks for."""
        for media in alternatives(accept):
            if media.name == OPENAPI_V2_PROTOBUF:
                response = send(self.openapi_v2.protobuf())
                response.headers["Content-Type"] = "application/octet-stream"
                return response
            if media.name in {"application/json", "*/*", "application/*"}:
                break
        form_of(accept)
        return send(self.openapi_v2.json())
