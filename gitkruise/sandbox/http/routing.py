"""From a URL path to what it names: an object, a collection, or one of the server's own pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

from gitkruise.errors import BadRequest, NotFound
from gitkruise.wire.primitives.requests import ResourceRef
from gitkruise.world.store.api_errors import no_such_method, no_such_resource

_OF_NAMESPACE: Final = frozenset({"status", "finalize"})
_PATH_MAX: Final = 2048


@dataclass(frozen=True, slots=True)
class ServerPage:
    """A page of the server: `name` is version, health, api, apis, openapi_v2 or openapi_v3."""

    name: str
    rest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection, an object or a subresource of one; the core group is ""."""

    ref: ResourceRef
    namespace: str = ""
    name: str = ""
    subresource: str = ""


Route: TypeAlias = ServerPage | Resource


@lru_cache(maxsize=4096)
def route(raw_path: str) -> Route:
    """The meaning of a path as it came in (percent-encoded, without the query).

    Raises BadRequest for a path no client writes (dots, empty segments, encoded slashes, NUL)
    and NotFound for one this server does not have.
    """
    parts = _segments(raw_path)
    match parts:
        case ["api", version, _, *_]:
            return _resource("", version, parts[2:])
        case ["apis", group, version, _, *_]:
            return _resource(group, version, parts[3:])
        case ["api", *rest] | ["apis", *rest]:
            return ServerPage(parts[0], tuple(rest))
        case ["openapi", "v2" | "v3" as version, *rest]:
            return ServerPage(f"openapi_{version}", tuple(rest))
        case ["livez" | "readyz" | "healthz", *rest]:
            return ServerPage("health", tuple(rest))
        case ["version"]:
            return ServerPage("version")
        case ["version", *_]:
            raise not_found()
        case _:
            raise no_such_path()


class NoSuchPath(NotFound):
    """A path below which nothing is served: answered with a text, as by Go's own server."""


def no_such_path() -> NoSuchPath:
    """Return the error of kube-apiserver for a path without a handler."""
    return NoSuchPath("404 page not found")


def not_found() -> NotFound:
    """Return the error of kube-apiserver for a path it does not serve."""
    return no_such_resource()


def verb_of(method: str, target: Resource, *, watch: bool) -> str:
    """The API verb of an HTTP method on `target`; raises MethodNotAllowed.

    A create names no object unless it goes to a subresource (binding, eviction).
    """
    named = bool(target.name)
    table = {
        ("GET", True): "get",
        ("GET", False): "watch" if watch else "list",
        ("POST", False): "create",
        ("PUT", True): "update",
        ("PATCH", True): "patch",
        ("DELETE", True): "delete",
        ("DELETE", False): "deletecollection",
    }
    if target.subresource:
        table["POST", True] = "create"
    verb = table.get((method, named))
    if verb is None:
        raise no_such_method()
    return verb


def _segments(raw_path: str) -> list[str]:
    if len(raw_path) > _PATH_MAX or not raw_path.startswith("/"):
        raise BadRequest("the path is too long or not absolute")
    raw = raw_path[1:].split("/")
    if raw[-1] == "" and len(raw) > 1:
        raw.pop()  # the Python client asks for /apis/apps/v1/, proxies for services/x/proxy/
    return [_segment(part) for part in raw]


def _segment(raw: str) -> str:
    try:
        text = unquote_to_bytes(raw).decode("utf-8") if "%" in raw else raw
    except UnicodeDecodeError:
        raise BadRequest("the path is not UTF-8") from None
    if text in {"", ".", ".."} or any(c in "/%;\\?#" or not c.isprintable() for c in text):
        raise BadRequest(f"the path has a segment no name can be: {text!r}")
    return text


def _resource(group: str, version: str, rest: list[str]) -> Resource:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in _OF_NAMESPACE:
        namespace, rest = rest[1], rest[2:]
    plural, *more = rest
    name = more[0] if more else ""
    return Resource(ResourceRef(group, version, plural), namespace, name, "/".join(more[1:]))
