"""The gate of a dashboard: who comes in, and what of each topic that viewer sees."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final, Protocol

from gitkruise.dashboard.access import BrowserAccess
from gitkruise.dashboard.board import Encoded
from gitkruise.dashboard.source import Topic
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.names import ObjectKey

BY_ADDRESS: Final = "address"  # the address that a command printed opens a session
BY_TOKEN: Final = "token"  # a token of the cluster does  # noqa: S105  the name of a way in
ONCE_S: Final = 60.0  # a browser that is started takes less to open its page


class RightsUnknown(Exception):
    """The cluster does not answer who may see an object: neither the question nor its answer
    failed."""


class Viewer(Protocol):
    """A person with a session. Methods raise ApiError while the cluster does not answer."""

    @property
    def name(self) -> str:
        """The user of the cluster; "" for the user of this machine."""
        ...

    async def valid(self) -> bool:
        """Return whether the session goes on."""
        ...

    async def denied(self, topic: Topic) -> str:
        """Return why nothing of a topic is shown; "" where it is."""
        ...

    async def see(self, topic: Topic, rows: Encoded) -> Encoded:
        """Return the rows that the viewer may see."""
        ...

    async def everything(self) -> bool:
        """Return whether the viewer sees everything. Raises RightsUnknown."""
        ...

    async def shown(self, keys: Set[ObjectKey]) -> frozenset[ObjectKey]:
        """Return the objects that the viewer may see. Raises RightsUnknown."""
        ...


class ViewerGate(Protocol):
    """Decides about requests. `port` is the one that the browser reached."""

    @property
    def sign_in(self) -> str:
        """Return BY_ADDRESS or BY_TOKEN."""
        ...

    def refusal(self, headers: Mapping[str, str], port: int) -> int:
        """Return the HTTP status for a request that is refused, with any session; 0 otherwise."""
        ...

    async def enter(self, token: str, port: int) -> str:
        """Return the Set-Cookie header of a session; "" for a wrong token. Raises ApiError."""
        ...

    async def viewer(self, headers: Mapping[str, str], port: int) -> Viewer | None:
        """Return who makes a request; None without a session. Raises ApiError."""
        ...

    def leave(self, headers: Mapping[str, str]) -> None:
        """End the session of a request."""
        ...


@dataclass(frozen=True, slots=True)
class Machine:
    """The user of this machine, who sees everything."""

    name: str = ""

    async def valid(self) -> bool:
        return True

    async def denied(self, _: Topic) -> str:
        return ""

    async def see(self, _: Topic, rows: Encoded) -> Encoded:
        return rows

    async def everything(self) -> bool:
        return True

    async def shown(self, keys: Set[ObjectKey]) -> frozenset[ObjectKey]:
        return frozenset(keys)


@dataclass(frozen=True, slots=True)
class MachineGate:
    """Lets in browsers of this machine that know the token, or a key that counts once."""

    token: str = field(repr=False)
    clock: Clock
    sign_in: str = BY_ADDRESS
    _keys: dict[str, float] = field(default_factory=dict, repr=False)  # and until when each counts

    def once(self, url: str) -> str:
        """Return an address like `url` that opens one session, within ONCE_S.

        For a browser that a program starts: every user of the machine can read its command line.
        """
        now, key = self.clock.monotonic(), secrets.token_urlsafe(32)
        for old in [k for k, until in self._keys.items() if until <= now]:
            del self._keys[old]
        self._keys[key] = now + ONCE_S
        return f"{url.partition('#')[0]}#token={key}"

    def refusal(self, headers: Mapping[str, str], port: int) -> int:
        return BrowserAccess(self.token, port).refusal(headers)

    async def enter(self, token: str, port: int) -> str:
        access = BrowserAccess(self.token, port)
        opens = access.opens(token) or self._keys.pop(token, 0.0) > self.clock.monotonic()
        return access.set_cookie() if opens else ""

    async def viewer(self, headers: Mapping[str, str], port: int) -> Viewer | None:
        return Machine() if BrowserAccess(self.token, port).known(headers) else None

    def leave(self, headers: Mapping[str, str]) -> None:
        """The session follows from the token, and ends with it."""
