"""Values from Prometheus and from HTTP endpoints, as JSON that conditions can judge.

Of Prometheus' API one GET request is used, so there is no client library: those on PyPI are not
asynchronous, follow redirects and do not limit what they read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gitkruise.errors import BadRequest, Unavailable
from gitkruise.gitops.analysis.http import Fetch, MetricReply, MetricRequest
from gitkruise.model.gitops.analysis import MetricProvider, filled
from gitkruise.printable import visible
from gitkruise.redaction import HIDDEN, scrubbed
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.jsonpath import parse_json_path

_QUERY: Final = "/api/v1/query"
_DEPTH_MAX: Final = 64  # of lists and objects in a response
_SCANNED_MAX: Final = 20_000  # characters of a text of which the record has the first
TEXT_MAX: Final = 200  # of a value or a message in a record
_PUBLIC: Final = frozenset({"username", "ca.crt"})  # keys of a Secret that are not secret


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials out of a Secret with the keys of sources: `username` and `password`, or
    `bearerToken`, and `ca.crt`."""

    data: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> Mapping[str, str]:
        """Return the header that authenticates; none without credentials. Raises Unavailable for
        values that no header can carry."""
        value = ""
        if "bearerToken" in self.data:
            value = f"Bearer {self.data['bearerToken'].strip()}"
        elif "password" in self.data:
            value = f"Basic {self._basic()}"
        if value and not (value.isascii() and value.isprintable()):
            raise Unavailable("its Secret has a value that no header can carry")
        return {"Authorization": value} if value else {}

    @property
    def ca(self) -> str:
        """Return the certificate of a private authority, or ""."""
        return self.data.get("ca.crt", "")

    def cover(self, text: str) -> str:
        """Return `text` as records may have it: without values of the Secret, on one line, cut."""
        values = sorted(self._values(), key=len, reverse=True)
        rest, text = len(text) > _SCANNED_MAX, text[:_SCANNED_MAX]
        for value in values:
            text = text.replace(value, HIDDEN)
        if rest and values:  # the end may be a part of a value
            text = text[: -len(values[0])]
        text = visible(scrubbed(" ".join(text.split())))
        return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"

    def _values(self) -> set[str]:
        """Return the secret values, also as a JSON text, a URL or a header would show them."""
        plain = {v.strip() for key, v in self.data.items() if key not in _PUBLIC}
        plain |= {self._basic()} if "password" in self.data else set()
        shown = {form for v in plain for form in (v, json.dumps(v)[1:-1], quote(v, safe=""))}
        return {form for form in shown if form}

    def _basic(self) -> str:
        pair = f"{self.data.get('username', '')}:{self.data['password'].strip()}"
        return base64.b64encode(pair.encode()).decode()


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


def _request(provider: MetricProvider, variables: Mapping[str, str]) -> MetricRequest:
    if provider.prometheus is not None:
        url = provider.prometheus.address.rstrip("/") + _QUERY
        return MetricRequest(
            url=url, params={"query": filled(provider.prometheus.query, variables)}
        )
    return MetricRequest(url=filled(provider.address, variables))


def samples(reply: MetricReply) -> list[float]:
    """Return the values of a response to an instant query; a scalar is a list of one.

    Raises Unavailable for an error and for results of other types.
    """
    body = _decoded(reply)
    told = body if isinstance(body, Mapping) else {}
    if told.get("status") != "success":
        error = told.get("error")
        words = f": {error}" if isinstance(error, str) else ""
        raise Unavailable(f"Prometheus rejected the query with status {reply.status}{words}")
    kind, result = get(told, "data", "resultType"), get(told, "data", "result")
    try:
        if kind == "vector":
            return [float(series["value"][1]) for series in result]
        if kind == "scalar":
            return [float(result[1])]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Unavailable("the result of the query is not a list of numbers") from error
    raise Unavailable(f"the query gives a {kind}, and not an instant vector or a scalar")


def selected(path: str, reply: MetricReply) -> Any:
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


def _decoded(reply: MetricReply) -> Any:
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
