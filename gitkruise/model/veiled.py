"""What stands in the place of a value that nobody is shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Veiled:
    """Stands for a value that nobody is shown. Equal values have equal fingerprints within one
    process; the key they are made with never leaves it, so nothing can be guessed from them."""

    fingerprint: str

    def __str__(self) -> str:
        return f"•••{self.fingerprint}"

    __repr__ = __str__  # in lists and maps too
