"""Viewers who are users of the cluster: the API server says who they are and what they may list."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final, TypeVar

from gitkruise.dashboard.board import Encoded
from gitkruise.dashboard.gate import BY_TOKEN, RightsUnknown, Viewer
from gitkruise.dashboard.rights import EVERYTHING, Need, Needs, Rules, Sieve, bounded
from gitkruise.dashboard.source import Topic
from gitkruise.errors import ApiError, leaves
from gitkruise.kube.client.reviews import TOKEN_MAX, User, bearer_token, may, user_of_token
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.names import ObjectKey

REVIEW_S: Final = 60.0  # an answer of the API server counts for so long
SESSION_S: Final = 24 * 3600.0
SESSIONS_MAX: Final = 10_000
TOKENS_MAX: Final = 10_000  # with an answer that counts, wrong ones among them
NEEDS_MAX: Final = 20_000  # of one user
AT_ONCE: Final = 8  # reviews under way
COOKIE: Final = "__Host-gitkruise"  # browsers take it over TLS only, from this host only
K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Login:
    """A token, and the user that it was at the last review."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    user: User | None = None
    until: float = 0.0


@dataclass(slots=True)
class _Account:
    """Rights of a user: whether it had each, and until when that counts."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    known: dict[Need, tuple[bool, float]] = field(default_factory=dict)

    def has(self, need: Need) -> bool:
        """Return the last answer."""
        return self.known.get(need, (False, 0.0))[0]


class ViewerReviews:
    """Answers of the API server, which count for REVIEW_S; methods raise ApiError."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport, self._clock = transport, clock
        self._room = asyncio.Semaphore(AT_ONCE)
        self._logins: dict[str, _Login] = {}
        self._accounts: dict[User, _Account] = {}

    async def user(self, token: str) -> User | None:
        """Return the user of a token; None for one that is not valid, or no longer."""
        if not token or len(token) > TOKEN_MAX:
            return None
        login = _entry(self._logins, digest(token), _Login)
        async with login.lock:
            if self._clock.monotonic() >= login.until:
                async with self._room:
                    login.user = await user_of_token(self._transport, token)
                login.until = self._clock.monotonic() + REVIEW_S
        return login.user

    async def granted(self, user: User, needs: Iterable[Need]) -> Needs:
        """Return those of the rights that a user has; EVERYTHING where it may list all."""
        account = _entry(self._accounts, user, _Account)
        async with account.lock:
            if await self._has(account, user, EVERYTHING):
                return frozenset({EVERYTHING})
            wanted = sorted(needs)
            if len(account.known) >= NEEDS_MAX:
                account.known.clear()
            await self._ask(account, user, {need.everywhere for need in wanted})
            part = {need for need in wanted if not account.has(need.everywhere)}
            await self._ask(account, user, part)
            found = [n for n in wanted if account.has(n.everywhere) or account.has(n)]
        return frozenset(found)

    async def _ask(self, account: _Account, user: User, needs: Iterable[Need]) -> None:
        """Know about rights; several reviews are under way together."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for need in needs:
                    tasks.create_task(self._has(account, user, need))
        except ExceptionGroup as group:
            raise next(leaves(group)) from None

    async def _has(self, account: _Account, user: User, need: Need) -> bool:
        answer, until = account.known.get(need, (False, 0.0))
        if self._clock.monotonic() < until:
            return answer
        where = {"group": need.group, "resource": need.resource, "namespace": need.namespace}
        async with self._room:
            for verb in ("list", "watch"):
                asked = {**where, "verb": verb}
                answer = await may(self._transport, user, resourceAttributes=asked)
                if not answer:
                    break
        account.known[need] = (answer, self._clock.monotonic() + REVIEW_S)
        return answer


@dataclass(frozen=True, slots=True)
class ClusterViewer:
    """A user of the cluster with a valid token."""

    gate: ClusterGate
    user: User
    token: str = field(repr=False)
    session: str = ""  # its digest; "" where each request carries the token

    @property
    def name(self) -> str:
        return self.user.name

    async def valid(self) -> bool:
        if self.session and not self.gate.open(self.session):
            return False
        return await self.gate.reviews.user(self.token) == self.user

    async def denied(self, topic: Topic) -> str:
        needs = self.gate.sieve.rules.of_topic(topic)
        granted = await self.gate.reviews.granted(self.user, needs) if needs else needs
        missing = [] if EVERYTHING in granted else sorted(map(str, needs - granted))
        if EVERYTHING in needs and missing:
            return f"{self.name} may not list every resource of the cluster"
        return f"{self.name} may not list {' and '.join(missing)}" if missing else ""

    async def see(self, topic: Topic, rows: Encoded) -> Encoded:
        needs = self.gate.sieve.needs(topic, rows)
        granted = await self.gate.reviews.granted(self.user, needs)
        return self.gate.sieve.pick(topic, rows, granted)

    async def everything(self) -> bool:
        return EVERYTHING in await self._granted(frozenset())

    async def shown(self, keys: Set[ObjectKey]) -> frozenset[ObjectKey]:
        needs = {key: self.gate.sieve.rules.of_object(key) for key in keys}
        granted = await self._granted(frozenset[Need]().union(*needs.values()))
        return frozenset(k for k in keys if EVERYTHING in granted or needs[k] <= granted)

    async def _granted(self, needs: Needs) -> Needs:
        try:
            return await self.gate.reviews.granted(self.user, needs)
        except ApiError as error:
            raise RightsUnknown(str(error)) from error


@dataclass(slots=True)
class _Session:
    token: str = field(repr=False)
    until: float


class ClusterGate:
    """Lets in users of the cluster: by a session that their token opened, or by the token itself.

    Sessions are kept in memory: a server that starts again asks for tokens again.
    """

    sign_in = BY_TOKEN

    def __init__(self, transport: Transport, rules: Rules, clock: Clock) -> None:
        self.reviews, self.sieve = ViewerReviews(transport, clock), Sieve(rules)
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    def refusal(self, headers: Mapping[str, str], port: int) -> int:
        """Return 403 for a request of another site's page.

        The Host is not checked: a page that has its own name lead here gets no connection, because
        the certificate is not for that name. A proxy may change it, so the browser's own word
        about the origin counts, too.
        """
        del port
        site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
        same = origin in {None, f"https://{headers.get('Host', '')}"} or site == "same-origin"
        return 0 if same else 403

    async def enter(self, token: str, port: int) -> str:
        del port
        if await self.reviews.user(token.strip()) is None:
            return ""
        secret = secrets.token_urlsafe(32)
        until = self._clock.monotonic() + SESSION_S
        sessions = bounded(self._sessions, SESSIONS_MAX)
        sessions[digest(secret)] = _Session(token.strip(), until)
        return f"{COOKIE}={secret}; Path=/; Secure; HttpOnly; SameSite=Strict"

    async def viewer(self, headers: Mapping[str, str], port: int) -> Viewer | None:
        del port
        if "Authorization" in headers:  # of a proxy: it says who asks, whatever the cookie says
            token, session = bearer_token(headers), ""
        else:
            session = digest(_cookie(headers))
            token = self._sessions[session].token if self.open(session) else ""
        user = await self.reviews.user(token)
        if user is None:
            self._sessions.pop(session, None)
            return None
        return ClusterViewer(self, user, token, session)

    def open(self, session: str) -> bool:
        """Return whether a session was opened and has not ended."""
        found = self._sessions.get(session)
        if found is not None and self._clock.monotonic() >= found.until:
            del self._sessions[session]
            return False
        return found is not None

    def leave(self, headers: Mapping[str, str]) -> None:
        self._sessions.pop(digest(_cookie(headers)), None)


def digest(secret: str) -> str:
    """Return what a secret is looked up by, so that no comparison takes time by its content."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _entry(kept: dict[K, V], key: K, new: type[V]) -> V:
    """Return the entry of a key; the oldest one makes room where there are too many."""
    if key not in kept:
        bounded(kept, TOKENS_MAX)[key] = new()
    return kept[key]
