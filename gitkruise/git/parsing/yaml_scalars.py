"""Meaning of unquoted YAML words: kubectl's reading (sigs.k8s.io/yaml, YAML 1.1 as in Go)."""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

from gitkruise.wire.primitives.secret_names import HIDDEN

Scalar: TypeAlias = str | int | float | bool | None

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_TRUE: Final = "y Y yes Yes YES true True TRUE on On ON"
_FALSE: Final = "n N no No NO false False FALSE off Off OFF"
_NULL: Final = "~ null Null NULL"
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(_TRUE.split(), True),
    **dict.fromkeys(_FALSE.split(), False),
    **dict.fromkeys(_NULL.split(), None),
    "": None,
}
# Words that YAML 1.2 and most people read as text.
_SURPRISING: Final = frozenset(
    word for word in f"{_TRUE} {_FALSE}".split() if word.lower() not in {"true", "false"}
)
_NOT_A_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INTEGERS: Final[tuple[tuple[re.Pattern[str], int], ...]] = (
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8),
    (re.compile(r"([-+]?)(0|[1-9][0-9]*)"), 10),
)
_STARTS_A_NUMBER: Final = frozenset("+-.0123456789")
_DIGITS_MAX: Final = 66  # sign and prefix aside, more than int64 has in any base


QUOTE: Final = "{quote}"  # in a sentence: the place of a text that may be a secret
VALUE: Final = "{value}"


class BadScalar(ValueError):
    """A word that has no value in JSON. `code` is GK1006 or GK1007.

    `rule` is the sentence with QUOTE in the place of the word, which may be a secret.
    """

    def __init__(self, code: str, rule: str) -> None:
        super().__init__(rule)
        self.code, self.rule = code, rule


def always_text(text: str) -> bool:
    """Return whether the plain scalar `text` is text by its first character alone."""
    return text not in _WORDS and text[0] not in _STARTS_A_NUMBER


def needs_quotes(text: str) -> bool:
    """Return whether a text is read as another value unless it is quoted."""
    if always_text(text):
        return False
    try:
        return not isinstance(resolve(text), str)
    except BadScalar:
        return True


def resolve(text: str) -> Scalar:
    """The value of the plain scalar `text`.

    Integral floats become integers, as they do on their way through JSON to a cluster.
    Raises BadScalar where JSON has no such number (kubectl fails there, or loses digits).
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS_A_NUMBER:
        return text
    if _NOT_A_NUMBER.fullmatch(text):
        raise BadScalar("GK1006", f"{QUOTE} is not a number JSON can hold")
    digits = text if text[0] == "." else text.replace("_", "")
    if text[0] != ".":
        integer = _integer(digits)
        if integer is not None:
            return integer
    return number(digits) if _FLOAT.fullmatch(digits) else text


def number(text: str) -> int | float:
    """The value of a decimal `text`; integral values within int64 are integers."""
    if text.lstrip("+-").isdigit():
        return _within(text, 10)
    value = float(text)
    if math.isinf(value):
        raise BadScalar("GK1006", f"{QUOTE} is too large for a number")
    return int(value) if value.is_integer() and INT64_MIN <= value <= INT64_MAX else value


def _integer(digits: str) -> int | None:
    if _is_small(digits):
        return int(digits)
    for pattern, base in _INTEGERS:
        found = pattern.fullmatch(digits)
        if found:
            return _within(found[1] + found[2], base)
    return None


def _is_small(text: str) -> bool:
    """Return whether this is a decimal number of few digits, as nearly all are in manifests."""
    return len(text) < 18 and text.isdecimal() and text.isascii() and text[0] != "0"


def _within(digits: str, base: int) -> int:
    if len(digits.lstrip("+-0")) <= _DIGITS_MAX:
        value = int(digits, base)
        if INT64_MIN <= value <= INT64_MAX:
            return value
    raise BadScalar("GK1007", f"{QUOTE} is outside the range of a 64-bit integer")


def shown(text: str) -> str:
    """`text`, cut to a length a message can hold."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def worded(sentence: str, quote: str, *, hidden: bool, value: str = "") -> str:
    """The sentence with `quote` and `value` in their places; *** for what may be a secret."""
    if hidden:
        return sentence.replace(QUOTE, HIDDEN).replace(VALUE, HIDDEN)
    return sentence.replace(VALUE, value).replace(QUOTE, shown(quote))


def ambiguity(text: str) -> str:
    """Explain why people may read the plain `text` otherwise than kubectl; "" when they do not.

    The sentence has QUOTE in the place of the word and VALUE in that of its value.
    """
    if text in _SURPRISING:
        return f"the plain word {QUOTE} is read as {VALUE}"
    if not text or text[0] not in _STARTS_A_NUMBER or _is_small(text):
        return ""
    value = resolve(text)
    if isinstance(value, str):
        return ""
    digits = text.lstrip("+-")
    if "_" in text or (digits[:1] == "0" and digits[:2].isdigit() and digits.strip("01234567")):
        return f"{QUOTE} is read as the number {VALUE}"
    return ""
