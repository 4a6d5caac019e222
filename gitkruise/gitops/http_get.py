"""GET requests to addresses of units: bounded in time and size, and kept away from the own machine.

Measurements, charts and artifacts are read with them.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import quote

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gitkruise.errors import ApiError, Unavailable
from gitkruise.gitops.config.metric_addresses import host_of, is_service, is_this_machine
from gitkruise.kube.client import responses
from gitkruise.kube.client.connection_errors import why_unreachable
from gitkruise.kube.client.http import CONNECT_S, USER_AGENT
from gitkruise.printable import visible
from gitkruise.redaction import HIDDEN, scrubbed

WITHIN_S: Final = 10.0
ANSWER_MAX: Final = 2**20
_SCANNED_MAX: Final = 20_000  # characters of a text of which the record has the first
TEXT_MAX: Final = 200  # of a value or a message in a record
_PUBLIC: Final = frozenset({"username", "ca.crt"})  # keys of a Secret that are not secret
_HEADERS: Final = {
    "Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGet:
    """A GET request. `guarded`: its address is that of an object of the cluster, which may not lead
    to gitkruise's own machine. `ca` is the certificate of a private authority, or "". The response
    has at most `bytes_max` bytes, and arrives within `within_s` seconds. `bodiless` is a HEAD
    request."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    ca: str = ""
    guarded: bool = False
    bytes_max: int = ANSWER_MAX
    within_s: float = WITHIN_S
    bodiless: bool = False


@dataclass(frozen=True, slots=True)
class HttpReply:
    """Status, body and headers of a response. `anonymous`: no credentials were sent for it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    anonymous: bool = False


Fetch: TypeAlias = Callable[[HttpGet], Awaitable[HttpReply]]


async def fetch(request: HttpGet, names: AbstractResolver | None = None) -> HttpReply:
    """Send a request. Raises Unavailable without a response within its limits.

    `names` resolves hosts, by default as the system does. Redirects are not followed, and proxies
    and cookies of the environment are not used.
    """
    try:
        context = ssl.create_default_context(cadata=request.ca) if request.ca else True
    except (ssl.SSLError, ValueError) as error:
        raise Unavailable("ca.crt of its Secret is not a certificate") from error
    guarded = request.guarded and not is_this_machine(host_of(request.url))
    connector = aiohttp.TCPConnector(
        ssl=context, resolver=GuardedResolver(names) if guarded else names, force_close=True
    )
    try:
        async with (
            asyncio.timeout(request.within_s),
            aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,  # a small body could become a large one
            ) as session,
            session.request(
                "HEAD" if request.bodiless else "GET",
                URL(request.url).update_query(request.params),
                headers={**_HEADERS, **request.headers},
                allow_redirects=False,
            ) as response,
        ):
            body = await responses.whole(response.content, request.bytes_max)
            return HttpReply(response.status, body, _joined(response.headers))
    except TimeoutError as error:
        raise Unavailable(f"no response within {request.within_s:g} s") from error
    except ApiError as error:
        raise Unavailable(error.message) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unavailable(why_unreachable(error)) from error


def _joined(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return headers with the values of one that comes more than once as one list."""
    return CIMultiDict({name: ", ".join(headers.getall(name)) for name in headers})


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
        pair = f"{self.data.get('username', '').strip()}:{self.data['password'].strip()}"
        return base64.b64encode(pair.encode()).decode()


class GuardedResolver(AbstractResolver):
    """Resolver for addresses of objects: names are absolute, and none leads to this machine.

    A name is checked when it is used, because its author may change where it leads to. Only
    Services are searched in the domains of the cluster: otherwise `kubernetes.default` would be a
    host.
    """

    def __init__(self, inner: AbstractResolver | None = None) -> None:
        self._inner = inner or aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises OSError for a forbidden one."""
        name = host.removesuffix(".")
        found = await self._inner.resolve(name if is_service(name) else f"{name}.", port, family)
        if any(is_forbidden(result["host"]) for result in found):
            raise OSError(f"{name} leads to an address that objects may not use")
        return [{**result, "hostname": host} for result in found]

    async def close(self) -> None:
        """Close the resolver below."""
        await self._inner.close()


def is_forbidden(address: str) -> bool:
    """Return whether an IP address is of this machine or link: loopback, metadata services."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast
