"""JSON as Go's encoding/json writes it, byte for byte."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

_ESCAPED: Final = re.compile("[<>&\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PLAIN_BELOW, _PLAIN_FROM = 1e21, 1e-6  # outside this range Go writes an exponent


class RawJSON(bytes):
    """JSON text kept exactly as it came, in place of a decoded value (a ControllerRevision's data).

    An opaque leaf: patches replace it whole, codecs write it verbatim.
    """


def compact(value: Any) -> bytes:
    """`value` as json.Marshal writes a generic map: no spaces, keys in byte order, HTML escaped.

    Integers are written exactly, floats in Go's shortest form, RawJSON verbatim. Raises TypeError
    on what is no JSON value and ValueError on NaN and infinities.
    """
    return _text(value, in_order=False).encode()


def ordered(value: Any) -> bytes:
    """`value` as json.Marshal writes a struct: like `compact`, keys in the order they stand in."""
    return _text(value, in_order=True).encode()


def through_doubles(value: Any) -> Any:
    """`value` as it looks after json.Unmarshal into `interface{}`: each integer a float64.

    Integers above 2**53 lose digits; they come back as the integers Go would print.
    """
    if isinstance(value, Mapping):
        return {key: through_doubles(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [through_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return float(value)
    return value


def number_text(value: float) -> str:
    """A number as Go writes it: `1`, `0.5`, `9223372036854776000`, `1e+21`, `1e-7`."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits = Decimal(repr(value))
    if _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        text = format(digits, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = format(digits.normalize(), "e").partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:].lstrip('0')}"


def _text(value: Any, *, in_order: bool) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, RawJSON):
        return value.decode()
    if isinstance(value, dict | Mapping):
        keys = value if in_order else sorted(value)
        fields = [f"{_name(key)}:{_text(value[key], in_order=in_order)}" for key in keys]
        return "{" + ",".join(fields) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "[" + ",".join([_text(item, in_order=in_order) for item in value]) + "]"
    raise TypeError(f"{type(value).__name__} is no JSON value")


def as_go_reads(text: str) -> str:
    """`text` with lone surrogates (a JSON `\\ud800`) replaced by U+FFFD, as Go's decoder does."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _string(text: str) -> str:
    quoted: str = encode_basestring(as_go_reads(text))
    if _ESCAPED.search(quoted) is None:
        return quoted
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


@lru_cache(maxsize=1024)
def _name(text: str) -> str:
    """A key as text: there are few, and they come again and again."""
    return _string(text)


def plain(value: Any) -> Any:
    """Encode values unknown to json.dumps: RawJSON as the text it holds."""
    return json.loads(bytes(value)) if isinstance(value, bytes) else str(value)
