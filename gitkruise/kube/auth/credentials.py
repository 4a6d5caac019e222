"""Contents of the Authorization header, and their renewal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from gitkruise.errors import ClusterFailed, Finding
from gitkruise.kube.system.private_files import read_regular
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_REREAD_S: Final = 60.0


class RequestCredentials(Protocol):
    """Headers for each request; `renew` is called once when the server answers 401."""

    @property
    def renewable(self) -> bool: ...

    async def headers(self) -> dict[str, str]: ...

    async def renew(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Header:
    """A constant Authorization header; "" sends none (client certificates, anonymous requests)."""

    value: str = field(default="", repr=False)

    @property
    def renewable(self) -> bool:
        return False

    async def headers(self) -> dict[str, str]:
        return {"Authorization": self.value} if self.value else {}

    async def renew(self) -> None:
        """Nothing to renew."""


class KubeconfigHeader:
    """A token or password of a kubeconfig: `read` again after a 401, as a user may replace it."""

    @property
    def renewable(self) -> bool:
        return True

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

    @property
    def renewable(self) -> bool:
        return True

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


class Plugin:
    """Credentials of a kubeconfig's exec or auth-provider entry, run by the official client.

    `load` (blocking) returns the client's Configuration; its own hook renews expired tokens.
    """

    @property
    def renewable(self) -> bool:
        return True

    def __init__(self, load: Any, configuration: Any) -> None:
        self._load, self._configuration = load, configuration

    async def headers(self) -> dict[str, str]:
        settings = await asyncio.to_thread(self._configuration.auth_settings)
        value = settings.get("BearerToken", {}).get("value")
        return {"Authorization": value} if value else {}

    @property
    def pair(self) -> tuple[str, str]:
        """Return the files of the client's certificate and key; "" for none."""
        return self._configuration.cert_file or "", self._configuration.key_file or ""

    async def renew(self) -> None:
        self._configuration = await asyncio.to_thread(self._load)


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
