"""Values from Prometheus and from HTTP endpoints, as JSON that conditions can judge.

Of Prometheus' API one GET request is used, so there is no client library: those on PyPI are not
asynchronous, follow redirects and do not limit what they read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from gitkruise.errors import BadRequest, Unavailable
from gitkruise.gitops.http_get import Access, Fetch, HttpGet, HttpReply
from gitkruise.model.gitops.analysis import MetricProvider, filled
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.jsonpath import parse_json_path

_QUERY: Final = "/api/v1/query"
_DEPTH_MAX: Final = 64  # of lists and objects in a response


async def value_of(
    provider: MetricProvider,
    variables: Mapping[str, str],
    access: Access,
    fetch: Fetch,
    *,
    guarded: bool,
) -> Any:
    """Return the value of a Prometheus or web provider, as JSON. Raises Unavailable without one."""
    request = _request(provider, variables)
    headers = access.headers()
    reply = await fetch(replace(request, headers=headers, ca=access.ca, guarded=guarded))
    if provider.prometheus is not None:
        return samples(reply)
    assert provider.web is not None, "a Job has no value"
    return selected(provider.web.json_path, reply)


def _request(provider: MetricProvider, variables: Mapping[str, str]) -> HttpGet:
    if provider.prometheus is not None:
        url = provider.prometheus.address.rstrip("/") + _QUERY
        return HttpGet(url=url, params={"query": filled(provider.prometheus.query, variables)})
    return HttpGet(url=filled(provider.address, variables))


def samples(reply: HttpReply) -> list[float]:
    """Return the values of a response to an instant query; a scalar is a list of one.

    Raises Unavailable for an error and for results of other types.
    """
    body = _decoded(reply)
    answer = body if isinstance(body, Mapping) else {}
    if answer.get("status") != "success":
        error = answer.get("error")
        words = f": {error}" if isinstance(error, str) else ""
        raise Unavailable(f"Prometheus rejected the query with status {reply.status}{words}")
    kind, result = get(answer, "data", "resultType"), get(answer, "data", "result")
    try:
        if kind == "vector":
            return [float(series["value"][1]) for series in result]
        if kind == "scalar":
            return [float(result[1])]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Unavailable("the result of the query is not a list of numbers") from error
    raise Unavailable(f"the query gives a {kind}, and not an instant vector or a scalar")


def selected(path: str, reply: HttpReply) -> Any:
    """Return the value that a JSONPath selects, or the list of several. Raises Unavailable for
    another status than 200, for another body than JSON, and where there is no value."""
    if reply.status != 200:
        raise Unavailable(f"the endpoint answered with status {reply.status}")
    body = _decoded(reply)
    if not path:
        return body
    try:
        found = parse_json_path(path).find_all(body)
    except BadRequest as error:
        raise Unavailable(error.message) from error
    if not found:
        raise Unavailable(f"the response has no value at {path}")
    return found[0] if len(found) == 1 else found


def _decoded(reply: HttpReply) -> Any:
    try:
        value = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f"the response with status {reply.status} is not JSON") from error
    level = [value]
    for _ in range(_DEPTH_MAX):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return value
    raise Unavailable(f"the response is nested more than {_DEPTH_MAX} levels deep")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def value_text(value: Any) -> str:
    """Return a value as a record shows it: a list of one number as that number."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
