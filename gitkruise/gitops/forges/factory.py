"""Forges made ready from configuration: addresses, and Secrets with tokens or an app's key."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.forges.github import DIALECTS, GitHubClient
from gitkruise.gitops.forges.github_app import AppKey, AppToken
from gitkruise.gitops.forges.gitlab import ROOT, GitLab
from gitkruise.gitops.forges.http import Authorize, HttpForgeTransport, JsonClient
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.gitops.source.secret_ref import Rotating
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import ForgeSink

GITHUB: Final = "https://api.github.com"
GITLAB: Final = "https://gitlab.com"
_APP: Final = ("githubAppID", "githubAppInstallationID", "githubAppPrivateKey")


def root_of(spec: ForgeSink) -> str:
    """Return the root URL of a forge's API."""
    if spec.type == "gitlab":
        return (spec.url or GITLAB).rstrip("/") + ROOT
    if not spec.url:
        if spec.type != "github":
            raise ValueError(f"a forge of type {spec.type} needs a url")
        return GITHUB
    return spec.url.rstrip("/") + DIALECTS[spec.type].root


async def open_forge(
    spec: ForgeSink, namespace: str, transport: Transport, clock: Clock, stack: AsyncExitStack
) -> ForgeRepository:
    """The repository a Sink names. Raises UsageProblem GK7028, or ApiError for a missing Secret.

    Nothing is sent yet: a forge that is away does not keep anything from starting.
    """
    carriers = list[HttpForgeTransport]()

    def access(data: Mapping[str, str], where: str) -> _Access:
        if not carriers:
            carriers.append(transport_for(data, where))
        return _access(spec, data, where, carriers[0], clock)

    rotating = Rotating(spec.secret_ref, access, clock, namespace=namespace, transport=transport)
    await rotating.first()
    stack.push_async_callback(carriers[0].close)

    async def authorize() -> Mapping[str, str]:
        return await (await rotating.now()).headers()

    async def app() -> AppToken | None:
        return (await rotating.now()).app

    client = JsonClient(carriers[0], root_of(spec), authorize, clock)
    if spec.type == "gitlab":
        return GitLab(client, spec.repo)
    return GitHubClient(client, spec.repo, DIALECTS[spec.type], app)


@dataclass(frozen=True, slots=True)
class _Access:
    """Credentials of requests; `app` is None for tokens."""

    headers: Authorize
    app: AppToken | None = None


def _access(
    spec: ForgeSink,
    data: Mapping[str, str],
    where: str,
    transport: HttpForgeTransport,
    clock: Clock,
) -> _Access:
    if spec.type == "gitlab":
        return _Access(always("PRIVATE-TOKEN", _token(data, where)))
    if spec.type == "github" and "token" not in data and _APP[0] in data:
        app = AppToken(_app_key(data, where), transport, root_of(spec), clock)
        return _Access(app.headers, app)
    scheme = DIALECTS[spec.type].scheme
    return _Access(always("Authorization", f"{scheme} {_token(data, where)}"))


def transport_for(data: Mapping[str, str], where: str) -> HttpForgeTransport:
    """Trusts the system's authorities, or the one in `ca.crt`. Raises UsageProblem GK7028."""
    if "ca.crt" not in data:
        return HttpForgeTransport()
    try:
        return HttpForgeTransport(ssl.create_default_context(cadata=data["ca.crt"]))
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(where, f"ca.crt is no certificate: {error}", data) from error


def always(header: str, value: str) -> Authorize:
    """The same header for every request."""

    async def authorize() -> Mapping[str, str]:
        return {header: value}

    return authorize


def _token(data: Mapping[str, str], where: str) -> str:
    token = data.get("token", "").strip()
    if not token or not (token.isascii() and token.isprintable()):
        raise _unusable(where, "it has no token", data)
    return token


def _app_key(data: Mapping[str, str], where: str) -> AppKey:
    missing = [name for name in _APP if not data.get(name, "").strip()]
    if missing:
        raise _unusable(where, f"an app needs {', '.join(missing)}, too", data)
    try:
        return AppKey.read(*(data[name].strip() for name in _APP))
    except (ValueError, TypeError) as error:
        raise _unusable(where, f"{_APP[2]} is no RSA key in PEM", data) from error


def _unusable(where: str, why: str, data: Mapping[str, str]) -> UsageProblem:
    notes = (
        ("why", why),
        ("found", ", ".join(sorted(data)) or "no keys"),
        ("next", "give it token, which may write commit statuses and comments"),
    )
    message = f"the Secret {where} cannot be used for a forge"
    return UsageProblem(Finding(code="GK7028", message=message, notes=notes))
