"""Pre-stop hooks: a command in the container, an HTTP request, or a connection to a port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp

from gitkruise.agent.cri.calls import RuntimeCallFailed
from gitkruise.agent.cri.runtime import Runtime
from gitkruise.wire.primitives.names import Obj


class HookFailed(Exception):
    """A hook that did not succeed; its text goes into an event of the pod."""


async def run_hook(
    runtime: Runtime, container_id: str, hook: Obj, ports: Sequence[Obj], pod_ip: str, grace_s: int
) -> None:
    """Run `hook` (raw `lifecycle.preStop`) for at most `grace_s` seconds. Raises HookFailed.

    Requests without a host go to `pod_ip`. As with kubelet, any HTTP response is a success.
    """
    try:
        async with asyncio.timeout(grace_s):
            if command := hook.get("exec"):
                await _execute(runtime, container_id, command, grace_s)
            elif request := hook.get("httpGet"):
                await _request(request, ports, pod_ip)
            elif place := hook.get("tcpSocket"):
                await _connect(place, ports, pod_ip)
            else:
                raise HookFailed(f"invalid handler: {', '.join(sorted(hook)) or 'empty'}")
    except TimeoutError:
        raise HookFailed(f"preStop hook did not end within {grace_s} s") from None


async def _execute(runtime: Runtime, container_id: str, hook: Obj, grace_s: int) -> None:
    try:
        result = await runtime.execute(container_id, hook.get("command") or (), grace_s)
    except RuntimeCallFailed as failed:
        raise HookFailed(str(failed)) from None
    if result.exit_code != 0:
        raise HookFailed(f"command exited with {result.exit_code}: {result.output}")


async def _request(hook: Obj, ports: Sequence[Obj], pod_ip: str) -> None:
    host, port = _host(hook, pod_ip), _port(hook.get("port"), ports)
    scheme = str(hook.get("scheme") or "HTTP").lower()
    path = str(hook.get("path") or "/")
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{path.removeprefix('/')}"
    headers = {h["name"]: h.get("value", "") for h in hook.get("httpHeaders") or ()}
    # The container's certificate is its own: kubelet does not verify it, either.
    connector = aiohttp.TCPConnector(ssl=False)
    try:
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url, headers=headers, allow_redirects=False),
        ):
            return
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise HookFailed(f"GET {url}: {error}") from None


async def _connect(hook: Obj, ports: Sequence[Obj], pod_ip: str) -> None:
    host, port = _host(hook, pod_ip), _port(hook.get("port"), ports)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        raise HookFailed(f"connect to {host}:{port}: {error}") from None
    writer.close()


def _host(hook: Obj, pod_ip: str) -> str:
    host = str(hook.get("host") or pod_ip)
    if not host:
        raise HookFailed("the hook names no host, and the pod has no IP address")
    return host


def _port(port: Any, ports: Sequence[Obj]) -> int:
    """The number of a port that may be named."""
    if isinstance(port, int):
        return port
    if str(port).isdecimal():
        return int(port)
    for entry in ports:
        if entry.get("name") == port:
            return int(entry["containerPort"])
    raise HookFailed(f"the container has no port named {port!r}")
