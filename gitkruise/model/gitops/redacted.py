"""Placeholder of a redacted value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Redacted:
    """A redacted value. Equal values have equal fingerprints within one process; the key never
    leaves the process, so nothing can be guessed from them."""

    fingerprint: str

    def __str__(self) -> str:
        return f"•••{self.fingerprint}"

    __repr__ = __str__  # in lists and maps too
