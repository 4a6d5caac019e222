"""Integer or percentage: every rounding rule CloneSet uses, by name.

A text that means no number is an `UnreadableAmount`, never 0: 0 would update every pod.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

IntOrString: TypeAlias = int | str

DEFAULT_MAX_UNAVAILABLE: Final = "20%"
UNLIMITED: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")


class UnreadableAmount(ValueError):
    """A value that means no number of pods."""


def resolve(value: IntOrString | None, total: int, *, round_up: bool) -> int:
    """An int as it is, None as 0, a text as that many whole percent of `total`.

    Source: the lenient reading the controller uses at run time. Every `%` is stripped and an
    integer must remain, so "5" means 5 %. Raises UnreadableAmount on anything else ("12.5%").
    """
    if value is None:
        return 0
    if _is_number(value):
        return int(value)
    digits = str(value).replace("%", "")
    if not isinstance(value, str) or not _INTEGER.fullmatch(digits):
        raise UnreadableAmount(f"{value!r} is neither an integer nor a whole percentage")
    return _share(int(digits), total, round_up=round_up)


def resolve_decimal(value: IntOrString, total: int, *, round_up: bool) -> int:
    """An int as it is, a text as a percentage with `%` at its end and decimals allowed.

    Source: the strict reading of the validating webhook and of `partition`. Raises
    UnreadableAmount.
    """
    if _is_number(value):
        return int(value)
    number, sign = str(value)[:-1], str(value)[-1:]
    readable = isinstance(value, str) and sign == "%" and _DECIMAL.fullmatch(number)
    if not readable or not math.isfinite(float(number)):
        raise UnreadableAmount(f"{value!r} is neither an integer nor a percentage such as 33.3%")
    return _share(float(number), total, round_up=round_up)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _share(percent: float, total: int, *, round_up: bool) -> int:
    exact = percent * total / 100  # the multiplication first, as doubles: 0.1 * 30 must round alike
    return math.ceil(exact) if round_up else math.floor(exact)


@dataclass(frozen=True, slots=True)
class Partition:
    """The pods that stay on their revision, as written: a number, a percentage, None for none."""

    written: IntOrString | None = None

    @property
    def text(self) -> str:
        return "0" if self.written is None else str(self.written)

    def kept(self, pods: int) -> int:
        """Those of `pods` that stay, 0 to `pods`. Raises UnreadableAmount.

        Rounded up, but only the text "100%" may keep the last pod: "99%" of 5 is 4.
        """
        kept = resolve_decimal(0 if self.written is None else self.written, pods, round_up=True)
        if isinstance(self.written, str) and self.written != "100%" and kept == pods > 1:
            kept = pods - 1
        return max(0, min(kept, pods))

    def keeps_none(self) -> bool:
        """Return whether no pod stays, however many there are. Raises UnreadableAmount."""
        return self.kept(UNLIMITED) == 0


def surge_count(value: IntOrString | None, replicas: int, *, paused: bool) -> int:
    """Pods allowed above `replicas`: rounded up, 0 while paused. Raises UnreadableAmount."""
    surge = resolve(value, replicas, round_up=True)
    return 0 if paused else surge


def unavailable_count(value: IntOrString | None, replicas: int, *, surge: int) -> int:
    """Pods allowed to be unavailable: rounded up, but down when there is surge; None is 20 %.

    `surge` is the result of `surge_count`. Raises UnreadableAmount.
    """
    chosen = DEFAULT_MAX_UNAVAILABLE if value is None else value
    return resolve(chosen, replicas, round_up=surge == 0)


def scale_unavailable_count(value: IntOrString | None, replicas: int) -> int:
    """Cap on unavailable pods while scaling out: rounded up, unlimited when not set.

    Raises UnreadableAmount.
    """
    return UNLIMITED if value is None else resolve(value, replicas, round_up=True)
