"""HTTP responses: JSON, YAML, plain text, and refusals as meta/v1 Status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import yaml
from aiohttp import web

from gitkruise.errors import ApiError, TooManyRequests, Unauthorized
from gitkruise.kube.client.codec import encode, readable, readable_status
from gitkruise.sandbox.http.routing import NoSuchPath

HEADERS: Final = {
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}
RETRY_AFTER_S: Final = 1


def send(
    data: bytes, encoding: str = "json", *, status: int = 200, warnings: Sequence[str] = ()
) -> web.Response:
    """`data` (JSON) as the client wants it, with the server's warnings as RFC 7234 headers."""
    if encoding == "yaml":
        data = yaml.safe_dump(json.loads(data), sort_keys=False).encode()
    response = web.Response(body=data, status=status, headers=HEADERS)
    response.headers["Content-Type"] = f"application/{encoding}"
    for warning in warnings:
        quoted = readable(warning.replace("\n", " ")).replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def text_reply(text: str, *, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, headers=HEADERS)


def refusal(error: ApiError) -> web.Response:
    """The Status of a failed request, with the headers its code asks for; a text for NoSuchPath."""
    if isinstance(error, NoSuchPath):
        return text_reply(error.message + "\n", status=error.status)
    body = encode(readable_status(error.as_status()))
    response = send(body, status=error.status, warnings=error.warnings)
    if isinstance(error, Unauthorized):
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyRequests) or error.details.retry_after_s:
        response.headers["Retry-After"] = str(error.details.retry_after_s or RETRY_AFTER_S)
    return response
