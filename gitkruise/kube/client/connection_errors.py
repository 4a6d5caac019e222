"""Reasons why a cluster cannot be used, as a sentence and as a finding."""

from __future__ import annotations

import socket
import ssl
from typing import Final

import aiohttp

from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Finding,
    Forbidden,
    GatewayTimeout,
    Unauthorized,
    Unavailable,
)
from gitkruise.kube.auth.connection import Connection

NOTHING_TOUCHED: Final = "nothing was read or written"


def why_unreachable(error: BaseException) -> str:
    """The cause behind a carrier's exception: refused, TLS, DNS, timeout, cut."""
    for type_, sentence in _SENTENCES:
        if isinstance(error, type_):
            return sentence.format(_words(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return why_unreachable(error.os_error)
    return _words(error)


def cluster_failed(
    connection: Connection, error: ApiError, if_forbidden: str = "", *, flags: str = ""
) -> ClusterFailed:
    """The finding for a request that failed because of the cluster as a whole.

    `if_forbidden` is what the user may do without the missing right, `flags` choose the cluster in
    another command. GK4101 unreachable, GK4104 credentials refused, GK4301 not allowed, GK4199
    anything else.
    """
    where = f'of context "{connection.context}" ' if connection.context else ""
    place = f"the cluster {where}at {connection.server}"
    notes = [("", error.message), ("unchanged", NOTHING_TOUCHED)]
    if connection.other_contexts:
        notes.append(("other contexts", ", ".join(connection.other_contexts)))
    match error:
        case Unavailable() | GatewayTimeout():
            code, message = "GK4101", f"cannot reach {place}"
        case Unauthorized():
            code, message = "GK4104", f"{place} does not accept these credentials"
        case Forbidden():
            code, message = "GK4301", f"not allowed on {place}"
        case _:
            code, message = "GK4199", f"{place} failed to answer"
    if isinstance(error, Forbidden):
        notes.append(("next", "give this account the right that is named above"))
        notes += [("or", if_forbidden)] if if_forbidden else []
    else:
        doctor = f"gitkruise doctor cluster {flags}".rstrip()
        look = f"{doctor}   looks at address, kinds and controller"
        notes.append(("next", look))
    return ClusterFailed(Finding(code=code, message=message, notes=tuple(notes)))


_SENTENCES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (aiohttp.ClientConnectorCertificateError, "TLS handshake failed: {}"),
    (aiohttp.ClientConnectorSSLError, "TLS handshake failed: {}"),
    (ssl.SSLError, "TLS handshake failed: {}"),
    (aiohttp.ClientConnectorDNSError, "its name does not resolve: {}"),
    (socket.gaierror, "its name does not resolve: {}"),
    (TimeoutError, "no connection in time: no answer, or a firewall drops packets"),
    (ConnectionRefusedError, "connection refused: nothing listens there"),
    (aiohttp.ServerDisconnectedError, "the server closed the connection before it answered"),
)


def _words(error: BaseException) -> str:
    """The plainest text there is in an exception or in the one it wraps."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _words(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _words(error.os_error)
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        return error.verify_message
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
