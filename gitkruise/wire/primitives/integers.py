"""Integers in text, as Go reads them: Python's int takes other scripts, underscores and spaces."""

from __future__ import annotations

from typing import Final

_DIGITS_MAX: Final = 20  # of 64 bits, leading zeros aside


def parse_int(text: str, bits: int = 64) -> int:
    """Return a signed decimal number of so many bits.

    Source: Go's strconv.ParseInt in base 10. Raises ValueError on any other text.
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > _DIGITS_MAX:
        raise ValueError(f"{text[:40]!r} is no decimal integer")
    number = int(digits.lstrip("0") or "0") * (-1 if text[0] == "-" else 1)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{text[:40]} does not fit in {bits} bits")
    return number


def int_or_none(text: str | None, bits: int = 64) -> int | None:
    """Return the number, None for a text that is none."""
    try:
        return parse_int(text or "", bits)
    except ValueError:
        return None
