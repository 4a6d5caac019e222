"""Requests to one server of content: redirects, credentials and tokens by fixed rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec

from gitkruise.errors import StatusDetails, Unavailable
from gitkruise.gitops.config.metric_addresses import host_of, is_this_machine, out_of_reach
from gitkruise.gitops.http_get import Access, Fetch, HttpGet, HttpReply
from gitkruise.printable import shown

WITHIN_S: Final = 60.0
_REDIRECTS_MAX: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PARAMETER: Final = r'([\w-]+)=(?:"([^"]*)"|([^\s",]+))'
_BEARER: Final = re.compile(rf"(?:^|[\s,])bearer\s+((?:{_PARAMETER}[\s,]*)+)", re.IGNORECASE)
_SECONDS: Final = re.compile(r"\d{1,6}")
_PAUSE_MAX_S: Final = 3600  # that a server may ask for


@dataclass(slots=True, kw_only=True)
class ContentHost:
    """The server at the address `home`, for units of one namespace; `guarded` for those that are
    objects of the cluster.

    Credentials are sent to it alone, and to the server of tokens that it names.
    """

    home: str
    access: Access
    namespace: str
    guarded: bool
    fetch: Fetch
    within_s: float = WITHIN_S  # of each request
    answered: bool = field(default=False, init=False)
    _token: str = field(default="", repr=False)

    async def get(
        self, url: str, *, bytes_max: int, headers: Mapping[str, str] | None = None,
        bodiless: bool = False,
    ) -> HttpReply:  # fmt: skip
        """Return the reply with a status that is no redirect, of a HEAD request if `bodiless`.

        Raises Unavailable.
        """
        for _ in range(_REDIRECTS_MAX):
            request = HttpGet(
                url=url, headers=headers or {}, ca=self.access.ca, bytes_max=bytes_max,
                within_s=self.within_s, bodiless=bodiless,
                guarded=self.guarded and not is_this_machine(host_of(self.home)),
            )  # fmt: skip
            reply = await self._authorized(request)
            away = _origin(url) != _origin(self.home)
            reply = replace(reply, anonymous=away or not self.access.headers())
            if reply.status not in _REDIRECTS:
                return reply
            url = self.allowed(urljoin(url, reply.headers.get("Location", "")))
        raise Unavailable(f"it redirects more than {_REDIRECTS_MAX} times")

    def allowed(self, url: str) -> str:
        """Return an address that the server named, if it may be asked. Raises Unavailable."""
        if _origin(url) == _origin(self.home):
            return url
        why = "" if urlsplit(url).scheme == "https" else "only https:// is followed"
        if not why and self.guarded:
            why = out_of_reach(url, self.namespace, cross_namespace=False, local=False)
        if why:
            raise Unavailable(f"it leads to {shown(url.partition('?')[0])}: {why}")
        return url

    async def _authorized(self, request: HttpGet) -> HttpReply:
        """Send a request; once more with a token, if the server asks for one."""
        if _origin(request.url) != _origin(self.home):
            return await self.fetch(request)
        reply = await self._sent(request)
        if reply.status != 401:
            return reply
        challenge = _BEARER.search(reply.headers.get("WWW-Authenticate", ""))
        if challenge is not None:
            found = re.findall(_PARAMETER, challenge[1])
            fields = {name.lower(): quoted or plain for name, quoted, plain in found}
            self._token = await self._fresh_token(fields)
        elif self._token:
            self._token = ""  # it asks for the user by now, and no more for a token
        else:
            return reply
        return await self._sent(request)

    async def _sent(self, request: HttpGet) -> HttpReply:
        headers = {**request.headers, **self._credentials()}
        reply = await self.fetch(replace(request, headers=headers))
        self.answered = True
        return reply

    def _credentials(self) -> Mapping[str, str]:
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        return self.access.headers()

    async def _fresh_token(self, challenge: Mapping[str, str]) -> str:
        """Return a token for what the registry asks for, anonymously or as the user."""
        realm = self.allowed(challenge.get("realm", ""))
        request = HttpGet(
            url=realm, headers=self.access.headers(), ca=self.access.ca, within_s=self.within_s,
            params={name: challenge[name] for name in ("service", "scope") if name in challenge},
            guarded=self.guarded and not is_this_machine(host_of(self.home)),
        )  # fmt: skip
        reply = await self.fetch(request)
        if reply.status != 200:
            reply = replace(reply, anonymous=not self.access.headers())
            raise Unavailable(f"{host_of(realm)} gives no token: {_why(reply)}")
        answer = decoded(reply, "a token")
        token = str(answer.get("token") or answer.get("access_token") or "")
        if not token or not (token.isascii() and token.isprintable()):
            raise Unavailable(f"{host_of(realm)} gives no token (status {reply.status})")
        return token


def body_of(reply: HttpReply, what: str) -> bytes:
    """Return the body of a success. Raises Unavailable for anything else."""
    if reply.status == 200:
        return reply.body
    details = StatusDetails(retry_after_s=min(_pause_s(reply), _PAUSE_MAX_S))
    raise Unavailable(f"{what}: {_why(reply)}", details)


def _why(reply: HttpReply) -> str:
    """Return the meaning of a status that is no success."""
    none_sent = "it requires credentials, and none were sent"
    why = {
        401: none_sent if reply.anonymous else "it rejects the credentials",
        403: "it forbids this",
        404: "there is none",
        429: f"it limits how often it is asked{_pause(reply)}",
    }
    return f"{why.get(reply.status, 'it failed')} (status {reply.status})"


def _pause(reply: HttpReply) -> str:
    seconds = _pause_s(reply)
    return f", and asks for a pause of {seconds} s" if seconds else ""


def _pause_s(reply: HttpReply) -> int:
    seconds = _SECONDS.fullmatch(reply.headers.get("Retry-After", ""))
    return int(seconds[0]) if seconds else 0


def decoded(reply: HttpReply, what: str) -> Mapping[str, object]:
    """Return the object in the body of a success. Raises Unavailable."""
    try:
        value = msgspec.json.decode(body_of(reply, what))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f"{what}: it is not JSON") from error
    if not isinstance(value, dict):
        raise Unavailable(f"{what}: it is not an object")
    return value


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        usual = {"https": 443, "http": 80}.get(parts.scheme)
        return parts.scheme, host_of(url), parts.port or usual
    except ValueError:
        return "", "", None
