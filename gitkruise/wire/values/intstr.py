"""Integer or percentage: every rounding rule CloneSet uses, by name."""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

IntOrString: TypeAlias = int | str

DEFAULT_MAX_UNAVAILABLE: Final = "20%"
UNLIMITED: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")


def resolve(value: IntOrString | None, total: int, *, round_up: bool) -> int:
    """An int as it is, None as 0, a text as that many whole percent of `total`.

    Source: the lenient reading the controller uses at run time. Every `%` is stripped and an
    integer must remain, so "5" means 5 %. Raises ValueError on anything else ("12.5%").
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    digits = value.replace("%", "")
    if not _INTEGER.fullmatch(digits):
        raise ValueError(f"{value!r} is neither an integer nor a whole percentage")
    return _share(int(digits), total, round_up=round_up)


def resolve_decimal(value: IntOrString, total: int, *, round_up: bool) -> int:
    """An int as it is, a text as a percentage with `%` at its end and decimals allowed.

    Source: the strict reading of the validating webhook and of `partition`. Raises ValueError.
    """
    if isinstance(value, int):
        return value
    number, sign = value[:-1], value[-1:]
    if sign != "%" or not _DECIMAL.fullmatch(number):
        raise ValueError(f"{value!r} is neither an integer nor a percentage such as 33.3%")
    return _share(float(number), total, round_up=round_up)


def _share(percent: float, total: int, *, round_up: bool) -> int:
    exact = percent * total / 100  # the multiplication first, as doubles: 0.1 * 30 must round alike
    return math.ceil(exact) if round_up else math.floor(exact)


def partition_count(value: IntOrString | None, replicas: int) -> int:
    """Pods that stay on the old revision, 0 to `replicas`.

    Rounded up, but only the text "100%" may keep the last pod: "99%" of 5 is 4. What does not
    parse counts as 0, as in the controller (the webhook refuses it).
    """
    try:
        kept = resolve_decimal(value if value is not None else 0, replicas, round_up=True)
    except ValueError:
        return 0
    if isinstance(value, str) and value != "100%" and kept == replicas > 1:
        kept = replicas - 1
    return max(0, min(kept, replicas))


def surge_count(value: IntOrString | None, replicas: int, *, paused: bool) -> int:
    """Pods allowed above `replicas`: rounded up, 0 while paused, 0 for what does not parse."""
    return 0 if paused else _lenient(value, replicas, round_up=True)


def unavailable_count(value: IntOrString | None, replicas: int, *, surge: int) -> int:
    """Pods allowed to be unavailable: rounded up, but down when there is surge.

    None is 20 %, what does not parse is 0. `surge` is the result of `surge_count`.
    """
    chosen = DEFAULT_MAX_UNAVAILABLE if value is None else value
    return _lenient(chosen, replicas, round_up=surge == 0)


def scale_unavailable_count(value: IntOrString | None, replicas: int) -> int:
    """Cap on unavailable pods while scaling out: rounded up, unlimited when not set."""
    return UNLIMITED if value is None else _lenient(value, replicas, round_up=True)


def _lenient(value: IntOrString | None, replicas: int, *, round_up: bool) -> int:
    try:
        return resolve(value, replicas, round_up=round_up)
    except ValueError:
        return 0
