"""Arithmetic of a resourcesPolicy: `max(cpu*50%, 100m)` over numbers and Kubernetes quantities.

Source: OpenKruise's expression evaluator, with the quirks of its lexer: letters after a number
belong to the number, and an invalid number is 0 (`2cpu`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from gitkruise.wire.values.quantity import SI, parse_quantity, written

LENGTH_MAX: Final = 1024  # characters of an expression
_DEPTH_MAX: Final = 50
_MILLI: Final = 1000
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[A-Za-z]*%?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/(),]))"
)
_FLOAT: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "m", "k", "M", "G", "T", "P")


class BadAmountExpression(ValueError):
    """An expression that cannot be read, or not be computed."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity: its exact value, and the style it prints in."""

    value: Fraction
    style: str = SI

    @property
    def milli(self) -> int:
        """Thousandths, rounded up."""
        return math.ceil(self.value * _MILLI)

    @property
    def text(self) -> str:
        return written(self.value, self.style)


Value: TypeAlias = float | Amount
ZERO: Final = Amount(Fraction(0))


def amount(text: str | float) -> Amount:
    """A quantity as it is written. Raises ValueError."""
    parsed = parse_quantity(text)
    return Amount(parsed.value, parsed.style)


def evaluate(expression: str, variables: Mapping[str, Value], *, strict: bool = False) -> Value:
    """The value of an expression; names are looked up in lower case. Raises BadExpression.

    A negative result is an error, a negative step on the way is none. `strict`: a malformed number
    is an error too, and not 0.
    """
    if len(expression) > LENGTH_MAX:
        raise BadAmountExpression(f"longer than {LENGTH_MAX} characters")
    result = _Parser(_tokens(expression), variables, strict=strict).whole()
    if not isinstance(result, Amount):
        whole(result)
    if (result.value if isinstance(result, Amount) else result) < 0:
        raise BadAmountExpression("the result is negative")
    return result


def whole(number: float) -> int:
    """The number without its decimals. Raises BadExpression on infinity and what is no number."""
    if not math.isfinite(number):
        raise BadAmountExpression("a number is too large")
    return int(number)


def _tokens(expression: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, text = 0, expression.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadAmountExpression(f"unexpected {text[at:].strip()[:1]!r}")
        assert match.lastgroup is not None
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


def _negated(value: Value) -> Value:
    return Amount(-value.value, value.style) if isinstance(value, Amount) else -value


def in_milli(number: float) -> Amount:
    """A plain number as a quantity, cut to thousandths."""
    return Amount(Fraction(whole(number * _MILLI), _MILLI))


def _pair(left: Value, right: Value) -> tuple[Amount, Amount] | None:
    """Both as quantities when at least one is one."""
    if not isinstance(left, Amount) and not isinstance(right, Amount):
        return None
    return (
        left if isinstance(left, Amount) else in_milli(left),
        right if isinstance(right, Amount) else in_milli(right),
    )


def _scaled(quantity: Amount, factor: Callable[[float], float]) -> Amount:
    return Amount(Fraction(whole(factor(float(quantity.milli))), _MILLI), quantity.style)


def _add(left: Value, right: Value) -> Value:
    pair = _pair(left, right)
    if pair is None:
        assert not isinstance(left, Amount)
        assert not isinstance(right, Amount)
        return left + right
    one, other = pair
    return Amount(one.value + other.value, one.style if one.value else other.style)


def _subtract(left: Value, right: Value) -> Value:
    return _add(left, _negated(right))


def _multiply(left: Value, right: Value) -> Value:
    if isinstance(left, Amount):
        if isinstance(right, Amount):
            raise BadAmountExpression("a quantity cannot be multiplied by a quantity")
        return _scaled(left, lambda milli: milli * right)
    if isinstance(right, Amount):
        return _scaled(right, lambda milli: milli * left)
    return left * right


def _divide(left: Value, right: Value) -> Value:
    if isinstance(right, Amount):
        raise BadAmountExpression("nothing can be divided by a quantity")
    if right == 0:
        raise BadAmountExpression("division by zero")
    return _scaled(left, lambda milli: milli / right) if isinstance(left, Amount) else left / right


def _larger(left: Value, right: Value) -> Value:
    return _chosen(left, right, first=lambda a, b: a >= b)


def _smaller(left: Value, right: Value) -> Value:
    return _chosen(left, right, first=lambda a, b: a <= b)


def _chosen(
    left: Value, right: Value, *, first: Callable[[float | Fraction, float | Fraction], bool]
) -> Value:
    pair = _pair(left, right)
    if pair is None:
        assert not isinstance(left, Amount)
        assert not isinstance(right, Amount)
        return left if first(left, right) else right
    return pair[0] if first(pair[0].value, pair[1].value) else pair[1]


_FUNCTIONS: Final = {"max": _larger, "min": _smaller}
_SUMS: Final = {"+": _add, "-": _subtract}
_PRODUCTS: Final = {"*": _multiply, "/": _divide}
_Operators: TypeAlias = Mapping[str, Callable[[Value, Value], Value]]


class _Parser:
    """Recursive descent: sums of products of signed values."""

    __slots__ = ("_at", "_depth", "_strict", "_tokens", "_variables")

    def __init__(
        self, tokens: list[tuple[str, str]], variables: Mapping[str, Value], *, strict: bool
    ) -> None:
        self._tokens, self._variables, self._strict = tokens, variables, strict
        self._at = self._depth = 0

    def whole(self) -> Value:
        value = self._sum()
        if self._at < len(self._tokens):
            raise BadAmountExpression(f"unexpected {self._peek()!r}")
        return value

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise BadAmountExpression(f"expected {sign!r}, found {self._peek() or 'the end'!r}")
        self._at += 1

    def _chain(self, operators: _Operators, operand: Callable[[], Value]) -> Value:
        value = operand()
        while (sign := self._peek()) in operators:
            self._at += 1
            value = operators[sign](value, operand())
        return value

    def _sum(self) -> Value:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise BadAmountExpression(f"nested deeper than {_DEPTH_MAX} levels")
        value = self._chain(_SUMS, lambda: self._chain(_PRODUCTS, self._signed))
        self._depth -= 1
        return value

    def _signed(self) -> Value:
        negative = False
        while self._peek() == "-":
            self._at += 1
            negative = not negative
        value = self._operand()
        return _negated(value) if negative else value

    def _operand(self) -> Value:
        if self._at >= len(self._tokens):
            raise BadAmountExpression("the expression ends too soon")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return _number(text, strict=self._strict)
        if kind == "name":
            return self._named(text.lower())
        if text != "(":
            raise BadAmountExpression(f"unexpected {text!r}")
        value = self._sum()
        self._expect(")")
        return value

    def _named(self, name: str) -> Value:
        if self._peek() != "(":
            if name not in self._variables:
                raise BadAmountExpression(f"unknown variable {name!r}")
            return self._variables[name]
        if name not in _FUNCTIONS:
            raise BadAmountExpression(f"unknown function {name!r}")
        self._expect("(")
        left = self._sum()
        self._expect(",")
        right = self._sum()
        self._expect(")")
        return _FUNCTIONS[name](left, right)


def _number(text: str, *, strict: bool) -> Value:
    """A number, a percentage or a quantity."""
    if text.endswith(_SUFFIXES):
        try:
            return amount(text)
        except ValueError as error:
            raise BadAmountExpression(str(error)) from error
    bare = text.removesuffix("%")
    if not _FLOAT.fullmatch(bare):
        if strict:
            raise BadAmountExpression(f"{text!r} is no number")
        return 0.0
    return float(bare) / 100 if text.endswith("%") else float(bare)
