"""Certificate and key of a server of ours in files that a user named, such as a mounted Secret."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)
RELOAD_S: Final = 60.0  # a renewed certificate is noticed within


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of a PEM certificate, with its chain, and of its key."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return a TLS context (1.2 and up) of the files. Raises UsageProblem GK7055."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            self._load(context)
        except OSError as error:  # of TLS among them
            message = f"cannot serve with {self.certificate} and {self.key}: {_reason(error)}"
            notes = (
                ("unchanged", "nothing was started"),
                ("next", "name a PEM certificate and its key, which has no passphrase"),
            )
            raise UsageProblem(Finding(code="GK7055", message=message, notes=notes)) from error
        return context

    async def follow(self, context: ssl.SSLContext, clock: Clock) -> None:
        """Let new connections see a renewed certificate, until cancelled; open ones go on."""
        known = self._content()
        while True:
            await clock.sleep(RELOAD_S)
            known = self._renewed(context, known)

    def _renewed(self, context: ssl.SSLContext, known: bytes) -> bytes:
        """Take over files that are not the known ones; return the content that is in use."""
        found = self._content()
        if found in {known, b""}:
            return known
        try:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a failure leaves half of it there
            self._load(context)
        except OSError as error:  # half of a renewal: the other half is a change, too
            log.warning(log_line("certificate-not-usable", file=self.certificate, error=error))
            return known
        log.info(log_line("certificate-reloaded", file=self.certificate))
        return found

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self.certificate, self.key, password=lambda: "")

    def _content(self) -> bytes:
        """Both files; b"" while one of them cannot be read."""
        try:
            return self.certificate.read_bytes() + self.key.read_bytes()
        except OSError:
            return b""


def _reason(error: OSError) -> str:
    """Return the error without paths, which the message has."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return error.strerror or type(error).__name__
