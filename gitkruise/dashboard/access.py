"""Access to the data: a token once, then a session cookie, from pages of this server only."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final

# Pages hold no inline script or style, reach no other server, and are shown in no frame.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class BrowserAccess:
    """Decides about requests to a server of loopback; `token` opens a session.

    The session follows from the token, so that a server that starts again knows its browsers.
    """

    token: str
    port: int

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers send cookies to every port of a host."""
        return f"gitkruise-{self.port}"

    @property
    def session(self) -> str:
        return hmac.new(self.token.encode(), b"dashboard session", hashlib.sha256).hexdigest()

    def set_cookie(self) -> str:
        """Return the header value that gives a browser its session."""
        return f"{self.cookie}={self.session}; Path=/; HttpOnly; SameSite=Strict"

    def opens(self, token: str) -> bool:
        """Return whether a token is the right one."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def refusal(self, headers: Mapping[str, str]) -> int:
        """Return 0, or 421 for a name that is not this machine's, 403 for another page's request.

        A page of another site can make a browser send requests here, and can have its own name
        lead to this machine.
        """
        host = headers.get("Host", "")
        if host not in {f"{name}:{self.port}" for name in _NAMES}:
            return 421
        origin = headers.get("Origin")
        return 0 if origin in {None, f"http://{host}"} else 403

    def known(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request carries the session."""
        try:
            found = SimpleCookie(headers.get("Cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(
            found.value.encode(), self.session.encode()
        )
