"""Resource quantities: the value, and the text apimachinery would print for it.

The text is not a function of the value: some inputs are remembered and printed verbatim
("010", "1.500"), others are rewritten ("1024Ki" to "1Mi"). Revision hashes contain the text, so
every rule of resource.ParseQuantity and CanonicalizeBytes is followed, its odd corners included.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from gitkruise.wire.primitives.gojson import number_text

GRAMMAR: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"  # as Kubernetes quotes it
_SPELLING: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,18})"
)
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}
_NANO, _MILLI = -9, -3
_FAST_DIGITS: Final = 18  # decimal digits that always fit an int64
_INT64_MAX: Final = 2**63 - 1
_EXPONENT_LIMIT: Final = 60  # beyond it a value is a typing error, and its digits would cost memory

SI, BINARY, EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """`value` is exact; `text` is what Go prints; `cached` says the text is the input's own.

    `scale` is the decimal exponent Go holds the number with, or None when it fell back to
    big decimals (then rounding forgets the text even where nothing changes).
    """

    value: Fraction
    text: str
    style: str
    scale: int | None


ZERO: Final = Quantity(Fraction(0), "0", SI, 0)


@lru_cache(maxsize=4096, typed=True)  # the same few amounts stand in every pod
def parse_quantity(text: str | float) -> Quantity:
    """The quantity of a JSON string or number. Raises ValueError on anything else."""
    if isinstance(text, bool):
        raise _malformed(text)
    source = (text if isinstance(text, str) else number_text(text)).strip(" \t\r\n\v\f")
    spelling = _SPELLING.fullmatch(source)
    if not spelling or not (spelling[2] or spelling[3] is not None):
        raise _malformed(text)
    if source == "0":
        return ZERO
    sign, digits, decimals, suffix = spelling.groups()
    parts = _Parts(sign == "-", digits.lstrip("0") or "0", decimals or "", suffix)
    return parts.fast(source) or parts.exact()


def canonical(text: str | float) -> str:
    """The text after one decode and encode by Kubernetes. Raises ValueError."""
    return parse_quantity(text).text


def round_up_milli(text: str | float) -> str:
    """The text after defaulting rounded it up to 1/1000 (v1.SetDefaults_ResourceList).

    A text survives if the number is held with at most three decimals; otherwise it is printed
    again. Rounds away from zero. Raises ValueError.
    """
    parsed = parse_quantity(text)
    if parsed.scale is not None and parsed.scale >= _MILLI:
        return parsed.text
    return _print(_away_from_zero(parsed.value, _MILLI), parsed.style)


def written(value: Fraction, style: str) -> str:
    """The text of an amount that was computed, in a style (SI, BINARY or EXPONENT)."""
    return _print(value, style)


@dataclass(frozen=True, slots=True)
class _Parts:
    negative: bool
    digits: str  # before the point, without leading zeros, never empty
    decimals: str  # behind the point, as written
    suffix: str

    @property
    def style(self) -> str:
        if self.suffix in _BINARY:
            return BINARY
        return SI if self.suffix in _DECIMAL else EXPONENT

    @property
    def exponent(self) -> int:
        """Of 2 for BinarySI, of 10 otherwise."""
        if self.suffix in _BINARY:
            return _BINARY[self.suffix]
        found = _DECIMAL.get(self.suffix)
        exponent = int(self.suffix[1:]) if found is None else found
        if abs(exponent) > _EXPONENT_LIMIT:
            raise ValueError(f"the exponent {exponent} is beyond ±{_EXPONENT_LIMIT}")
        return exponent

    def fast(self, source: str) -> Quantity | None:
        """The int64 path, the only one that may remember `source`; None when it does not apply."""
        if self.style == BINARY:
            return self._fast_binary(source)
        scale = self.exponent - len(self.decimals)
        digits = self.digits + self.decimals
        if len(digits) > _FAST_DIGITS or scale < _NANO:
            return None
        value = self._signed(Fraction(int(digits)) * Fraction(10) ** scale)
        keep = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Quantity(value, source if keep else _print(value, self.style), self.style, scale)

    def _fast_binary(self, source: str) -> Quantity | None:
        spare = 15 - len(self.digits) - self.exponent * 3 // 10 - 1
        number = int(self.digits) if spare >= 0 and not self.decimals else None
        if number is None or number << self.exponent > _INT64_MAX:
            return None
        value = self._signed(Fraction(number << self.exponent))
        text = source if number & 7 else _print(value, BINARY)
        return Quantity(value, text, BINARY, 0)

    def exact(self) -> Quantity:
        """The big-decimal path: at least a nano, BinarySI capped at an int64; never remembered."""
        base = 2 if self.style == BINARY else 10
        number = Fraction(int(self.digits + self.decimals), 10 ** len(self.decimals))
        value = _away_from_zero(number * Fraction(base) ** self.exponent, _NANO)
        style = self.style
        if style == BINARY:
            value = min(value, Fraction(_INT64_MAX))
            style = SI if 0 < value < 1 else BINARY
        value = self._signed(value)
        return Quantity(value, _print(value, style), style, None)

    def _signed(self, value: Fraction) -> Fraction:
        return -value if self.negative else value


def _away_from_zero(value: Fraction, exponent: int) -> Fraction:
    """`value` with no digits below 10**exponent, rounded away from zero."""
    unit = Fraction(10) ** exponent
    steps = math.ceil(abs(value) / unit) * unit
    return -steps if value < 0 else steps


def _print(value: Fraction, style: str) -> str:
    if value == 0:
        return "0"
    if style == BINARY and (abs(value) < 1024 or value.denominator != 1):
        style = SI
    if style == BINARY:
        number, exponent = int(value), 0
        while number % 1024 == 0:
            number, exponent = number // 1024, exponent + 10
        return f"{number}{_BINARY_SUFFIX.get(exponent, '')}"
    number, exponent = _by_thousands(value)
    if style == EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX.get(exponent, '')}"  # above E Go prints no suffix at all


def _by_thousands(value: Fraction) -> tuple[int, int]:
    """`value` as an integer times 10**exponent, the largest such multiple of 3."""
    number, exponent = int(value * 10**-_NANO), _NANO
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    surplus = exponent % 3
    return number * 10**surplus, exponent - surplus


def _malformed(text: object) -> ValueError:
    return ValueError(f"{text!r}: quantities must match the regular expression '{GRAMMAR}'")
