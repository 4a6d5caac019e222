"""Judgements on signatures of artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Judgement:
    """The reason why a signature does not count, as the end of a sentence about the artifact; ""
    for one that does. `found` is its signer, for the user."""

    why: str
    found: str = ""


SIGNED: Final = Judgement("")
UNSIGNED: Final = Judgement("has no signature")
OF_ANOTHER: Final = Judgement("has a signature that belongs to another artifact")
