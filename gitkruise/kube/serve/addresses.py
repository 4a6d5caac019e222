"""Addresses that our servers listen at, as users write them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from gitkruise.errors import Finding, UsageProblem


@dataclass(frozen=True, slots=True)
class Listen:
    """Host and port; port 0 is any free one. `option` is the one that they are given with."""

    host: str = "127.0.0.1"
    port: int = 9292
    option: str = field(default="--hooks HOST:PORT", compare=False)

    def url(self, scheme: str, port: int) -> str:
        """The address of a server there that got `port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}"

    @property
    def loopback(self) -> bool:
        """Return whether only this machine's users reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_listen(text: str, *, flag: str = "--hooks") -> Listen:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT` (every address), given with `flag`.

    Raises UsageProblem GK7027.
    """
    option = f"{flag} HOST:PORT"
    host, colon, port = text.rpartition(":")
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    digits = port.isascii() and port.isdigit() and len(port) < 6
    if not (colon and digits and int(port) < 65_536) or (":" in inner and inner == host):
        notes = (("next", f"write {option}, such as 127.0.0.1:9292"),)
        raise UsageProblem(Finding(code="GK7027", message=f"{text!r} is no address", notes=notes))
    return Listen(inner or "0.0.0.0", int(port), option)  # noqa: S104  asked for with an empty host
