"""Contents of the Authorization header, and their renewal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Final, Protocol

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.private_files import read_regular
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_REREAD_S: Final = 60.0
REISSUE_S: Final = 10.0


class RequestCredentials(Protocol):
    """Headers for each request; `renew` is called once when the server answers 401."""

    renewable: ClassVar[bool]

    async def headers(self) -> dict[str, str]: ...

    async def renew(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Header:
    """A constant Authorization header; "" sends none (client certificates, anonymous requests)."""

    value: str = field(default="", repr=False)
    renewable: ClassVar[bool] = False

    async def headers(self) -> dict[str, str]:
        return {"Authorization": self.value} if self.value else {}

    async def renew(self) -> None:
        """Nothing to renew."""


class KubeconfigHeader:
    """A token or password of a kubeconfig: `read` again after a 401, as a user may replace it."""

    renewable: ClassVar[bool] = True

    def __init__(self, value: str, read: Callable[[], str]) -> None:
        self._value, self._read = value, read

    async def headers(self) -> dict[str, str]:
        return {"Authorization": self._value} if self._value else {}

    async def renew(self) -> None:
        """Raises ClusterFailed GK4103, GK4106 when the kubeconfig has no such context any more."""
        self._value = await asyncio.to_thread(self._read)


class TokenFile:
    """A token in a file that another process rotates: re-read each minute and after a 401.

    While the file has none, the token that was read before is used until the server rejects it.
    """

    renewable: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self._path, self._token, self._read_at = path, "", float("-inf")

    async def headers(self) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        if now - self._read_at > _REREAD_S:
            try:
                await self.renew()
            except ClusterFailed as error:
                if not self._token:
                    raise
                self._read_at = now
                log.warning(log_line("token-not-read", error=error))
        return {"Authorization": f"Bearer {self._token}"}

    async def renew(self) -> None:
        """Raises ClusterFailed GK4104 when the file is missing, unreadable or empty."""
        try:
            token = read_regular(self._path).decode().strip()
        except OSError as error:
            raise _no_token(self._path, error.strerror or str(error)) from error
        except UnicodeDecodeError as error:  # its own text quotes bytes of the token
            raise _no_token(self._path, "it is not UTF-8 text") from error
        if not token:
            raise _no_token(self._path, "it is empty")
        self._token, self._read_at = token, asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedCredentials:
    """Credentials that a plugin issued: a header, a client certificate with its key, or both."""

    header: str = field(default="", repr=False)
    cert_pem: str = ""
    key_pem: str = field(default="", repr=False)
    until: datetime | None = None


class Plugin:
    """Credentials of a kubeconfig's exec or auth-provider entry, issued again when they expire.

    `issue` (blocking) runs the plugin. One run answers all requests that wait for it, and the next
    one follows REISSUE_S later: each may be a login, which an identity provider counts.
    """

    renewable: ClassVar[bool] = True

    def __init__(self, issue: Callable[[], IssuedCredentials], clock: Clock) -> None:
        """Run the plugin. Raises ClusterFailed GK4104."""
        self._issue, self._clock = issue, clock
        self.issued = issue()
        self._running = asyncio.Lock()
        self._failure: ClusterFailed | None = None  # of the last run
        self._rests_until = float("-inf")

    async def headers(self) -> dict[str, str]:
        """Raises ClusterFailed GK4104 when the credentials expired and the plugin fails."""
        until = self.issued.until
        if until is not None and until <= self._clock.now():
            await self.renew()
        return {"Authorization": self.issued.header} if self.issued.header else {}

    async def renew(self) -> None:
        """Raises ClusterFailed GK4104 when the plugin fails, or failed a moment ago."""
        async with self._running:
            if self._clock.monotonic() >= self._rests_until:
                await self._reissue()
            elif self._failure is not None:
                raise self._failure

    async def _reissue(self) -> None:
        try:
            self.issued = await asyncio.to_thread(self._issue)
            self._failure = None
        except ClusterFailed as error:
            self._failure = error
            raise
        finally:
            self._rests_until = self._clock.monotonic() + REISSUE_S


def _no_token(path: Path, why: str) -> ClusterFailed:
    return ClusterFailed(
        Finding(
            code="GK4104",
            message=f"no token in {path}: {why}",
            notes=(
                ("unchanged", "nothing was read or written"),
                ("next", f"write a token to {path}; it is read again by itself"),
            ),
        )
    )
