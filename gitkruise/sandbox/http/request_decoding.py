"""From an HTTP request to an ApiRequest: guards, limits, bodies in the forms Kubernetes takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from aiohttp import web

from gitkruise.errors import ApiError, BadRequest, Forbidden, Unauthorized, UnsupportedMediaType
from gitkruise.git.parsing.documents import parse_file
from gitkruise.kube.client.codec import decode
from gitkruise.kube.serve.request_body import read_body
from gitkruise.sandbox.http import protobuf_decoder
from gitkruise.sandbox.http.authentication import Tokens
from gitkruise.sandbox.http.negotiation import PROTOBUF, YAML
from gitkruise.sandbox.http.routing import Resource, verb_of
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiRequest,
)

BODY_MAX: Final = 3 * 1024 * 1024
BODY_WITHIN_S: Final = 30.0
MANAGER_MAX: Final = 128  # bytes
_PATCHES: Final = frozenset({JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH})
_OBJECTS: Final = frozenset({JSON, YAML, PROTOBUF, ""})
_BODIED: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_NAMED_MANAGER: Final = frozenset({"create", "update", "patch"})
_STRICT: Final = frozenset({"Strict", "Warn"})
_USER, _GROUP = "impersonate-user", "impersonate-group"
_DUPLICATES_MAX: Final = 100
_CHARSETS: Final = frozenset({"", "utf-8", "utf8"})


class MisdirectedRequest(ApiError):
    """A Host this server does not answer for: a browser after DNS rebinding."""

    reason, status = "MisdirectedRequest", 421


def guard(request: web.BaseRequest, hosts: frozenset[str]) -> None:
    """Refuse what no Kubernetes client sends: foreign Host, any Origin, a compressed body."""
    headers = request.headers
    found = headers.getall("Host", [])
    if len(found) != 1:
        raise BadRequest("exactly one Host header is required")
    if found[0].lower() not in hosts:
        raise MisdirectedRequest("this server does not answer for that host")
    if "Origin" in headers:
        raise Forbidden("requests from web pages are not allowed")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("compressed request bodies are not accepted")


def authenticate(request: web.BaseRequest, tokens: Tokens) -> str:
    """The user whose bearer token came along. Raises Unauthorized."""
    found = request.headers.getall("Authorization", [])
    scheme, _, given = (found[0] if len(found) == 1 else "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("Unauthorized")
    return tokens.user(given.strip())


def acting_for(request: web.BaseRequest) -> tuple[str, tuple[str, ...]]:
    """(user, groups) that the caller impersonates; ("", ()) for itself.

    Everybody may impersonate anybody, as everybody may do everything here. Raises BadRequest for
    what is empty, for an empty name must never mean the caller, and Forbidden for what cannot be
    honoured.
    """
    asked = {n.lower() for n in request.headers if n.lower().startswith("impersonate-")}
    for name in asked:
        if not all(value.strip() for value in request.headers.getall(name)):
            raise BadRequest(f"{name} must not be empty")
    if asked - {_USER, _GROUP}:
        raise Forbidden(f"{min(asked - {_USER, _GROUP})} is not available here")
    users, groups = (request.headers.getall(name, []) for name in (_USER, _GROUP))
    if len(users) > 1:
        raise BadRequest("Impersonate-User was given twice")
    if groups and not users:
        raise Forbidden("groups cannot be impersonated without a user")
    return (users[0] if users else "", tuple(groups))


async def read_request(request: web.BaseRequest, target: Resource) -> ApiRequest:
    """Decode an HTTP request as an ApiRequest; raises ApiError (400, 405, 413, 415)."""
    params = _params(request)
    watch = params.get("watch", "") in {"true", "1"}
    verb = verb_of(request.method, target, watch=watch)
    params.pop("watch", None)
    data = await read_body(request, limit=BODY_MAX, within_s=BODY_WITHIN_S)
    content_type = media_type(request) if data else ""
    body = None
    if data and verb in _BODIED:
        check_media_type(verb, content_type)
        strict = verb in {"create", "update"} and params.get("fieldValidation", "") in _STRICT
        body = read_object(data, content_type, strict=strict)
    if verb in _NAMED_MANAGER and content_type != APPLY_PATCH:
        params.setdefault("fieldManager", manager_of(request.headers.get("User-Agent", "")))
    user, groups = acting_for(request)
    return ApiRequest(
        verb=verb,
        resource=target.ref,
        namespace=target.namespace,
        name=target.name,
        subresource=target.subresource,
        body=body,
        content_type=content_type or JSON,
        params=params,
        user=user,
        groups=groups,
    )


def manager_of(agent: str) -> str:
    """The name a User-Agent gives its writes. Source: prefixFromUserAgent of kube-apiserver."""
    name = "".join(c for c in agent.partition("/")[0] if c.isprintable())
    return name.encode()[:MANAGER_MAX].decode(errors="ignore") or "unknown"


def _params(request: web.BaseRequest) -> dict[str, str]:
    params: dict[str, str] = {}
    for key, value in request.query.items():
        if key == "command":  # an argument of exec: one parameter each
            params[key] = value
        elif params.setdefault(key, value) != value:
            raise BadRequest(f"query parameter {key} was given twice with different values")
    return params


def media_type(request: web.BaseRequest) -> str:
    """The Content-Type without parameters, lower-case; raises UnsupportedMediaType on charsets."""
    name, *rest = request.headers.get("Content-Type", "").split(";")
    for part in rest:
        key, _, value = part.strip().partition("=")
        if key.lower() == "charset" and value.strip('"').lower() not in _CHARSETS:
            raise UnsupportedMediaType(f"the body must be UTF-8, not {value}")
    return name.strip().lower()


def check_media_type(verb: str, content_type: str) -> None:
    """Raises UnsupportedMediaType where Kubernetes takes another one."""
    allowed = _PATCHES if verb == "patch" else _OBJECTS
    if content_type not in allowed:
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(sorted(filter(None, allowed)))
        )


def read_object(data: bytes, content_type: str, *, strict: bool = False) -> Any:
    """A decoded body: JSON, or YAML where the media type allows it. Raises BadRequest.

    `strict` also refuses a key given twice, as kube-apiserver does under fieldValidation=Strict.
    """
    if content_type == PROTOBUF:
        try:
            return protobuf_decoder.read(data)
        except ValueError as error:
            raise BadRequest(f"the object provided is unrecognized: {error}") from None
    yaml = content_type in {YAML, APPLY_PATCH}
    if yaml and not data.lstrip().startswith(b"{"):
        return _from_yaml(data)
    try:
        body = decode(data)
    except ValueError as error:
        raise BadRequest(f"the object provided is unrecognized: {error}") from None
    if not isinstance(body, dict | list):
        raise BadRequest("the object provided is unrecognized: it is not an object")
    if strict:
        _refuse_duplicates(data)
    return body


def _from_yaml(data: bytes) -> Any:
    parsed = parse_file(data, "request")
    if not parsed.ok:
        raise BadRequest("error decoding YAML: " + "; ".join(str(f) for f in parsed.findings))
    if len(parsed.documents) != 1:
        raise BadRequest("error decoding YAML: exactly one document is expected")
    return parsed.documents[0].obj


def _refuse_duplicates(data: bytes) -> None:
    """Refuse keys given twice; a hundred are named, as by kube-apiserver."""
    twice: dict[str, None] = {}

    def collect(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs) and len(twice) < _DUPLICATES_MAX:
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    twice[name] = None
                seen.add(name)
        return found

    json.loads(data, object_pairs_hook=collect)
    if twice:
        named = ", ".join(f'duplicate field "{name}"' for name in islice(twice, _DUPLICATES_MAX))
        raise BadRequest(f"strict decoding error: {named}")
