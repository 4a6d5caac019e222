"""GET requests for measurements: bounded in time and size, and kept away from the own machine."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gitkruise.errors import ApiError, Unavailable
from gitkruise.gitops.config.metric_addresses import host_of, is_service, is_this_machine
from gitkruise.kube.client import responses
from gitkruise.kube.client.connection_errors import why_unreachable
from gitkruise.kube.client.http import CONNECT_S, USER_AGENT

WITHIN_S: Final = 10.0
ANSWER_MAX: Final = 2**20
_HEADERS: Final = {
    "Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRequest:
    """A GET request. `guarded`: its address is that of an object of the cluster, which may not lead
    to gitkruise's own machine. `ca` is the certificate of a private authority, or ""."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    ca: str = ""
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class MetricReply:
    """Status and body of a response."""

    status: int
    body: bytes


Fetch: TypeAlias = Callable[[MetricRequest], Awaitable[MetricReply]]


async def fetch(request: MetricRequest, names: AbstractResolver | None = None) -> MetricReply:
    """Send a request. Raises Unavailable without a response of at most ANSWER_MAX bytes within
    WITHIN_S seconds.

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
            asyncio.timeout(WITHIN_S),
            aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,  # a small body could become a large one
            ) as session,
            session.get(
                URL(request.url).update_query(request.params),
                headers={**_HEADERS, **request.headers},
                allow_redirects=False,
            ) as response,
        ):
            return MetricReply(response.status, await responses.whole(response.content, ANSWER_MAX))
    except TimeoutError as error:
        raise Unavailable(f"no response within {WITHIN_S:g} s") from error
    except ApiError as error:
        raise Unavailable(error.message) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unavailable(why_unreachable(error)) from error


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
