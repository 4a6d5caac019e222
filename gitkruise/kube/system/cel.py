"""CEL expressions of a person's own: compiled once, answered with true, false or an explanation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from gitkruise.kube.system.cel_budget import METER, CelBudget, Exhausted, metered, size_of

if TYPE_CHECKING:
    import cel

LONGEST: Final = 4096  # characters
_SHORT: Final = 64  # characters that do little to the largest object
_SIZE_MAX: Final = 100_000_000  # characters times values: half a second of comparisons

_TYPES: Final[Mapping[type, str]] = {
    type(None): "null", str: "a text", int: "a number", float: "a number", list: "a list",
    dict: "a map",
}  # fmt: skip
_UNDEFINED: Final = re.compile(r"Undefined variable or function: '([^']+)'")


class BadCelExpression(ValueError):
    """An expression cannot be read, or has no answer; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A program, and the number of its characters; `loops` when it calls the meter."""

    program: cel.Program
    length: int
    loops: bool


@lru_cache(maxsize=256)
def compiled(text: str) -> Expression:
    """The program of an expression. Raises BadExpression when it cannot be read."""
    import cel  # noqa: PLC0415  slow to import, and most units have no expression

    if len(text) > LONGEST:
        raise BadCelExpression(f"it is longer than {LONGEST} characters")
    try:
        program = cel.compile(text)
    except ValueError as error:
        raise BadCelExpression(_first_line(str(error))) from error
    with_meter = metered(text)
    if with_meter is None:
        return Expression(program, len(text), loops=False)
    try:
        return Expression(cel.compile(with_meter), len(text), loops=True)
    except ValueError as error:  # only its depth has grown
        raise BadCelExpression("its loops nest too deeply") from error


class TooCostly(BadCelExpression):
    """An expression costs more than its budget has."""


class MissingField(BadCelExpression):
    """A field or a variable that an expression asks for is not there."""


def judged(text: str, variables: Mapping[str, Any], budget: CelBudget | None = None) -> bool:
    """Return whether the expression is true of `variables`.

    Raises BadExpression when the expression cannot be read, mixes types, answers with anything
    but true or false, or costs more than the budget has; Missing for what is not there. Several
    expressions may share a budget.
    """
    expression = compiled(text)
    budget = budget or CelBudget()
    try:
        budget.begin()
        if expression.length > _SHORT:
            _check_size(expression.length, variables)
        try:
            answer = _answer(expression, variables, budget)
        finally:
            budget.end()
    except Exhausted as error:
        raise TooCostly(str(error)) from None
    if not isinstance(answer, bool):
        raise BadCelExpression(f"its result is {_type_of(answer)}, and not true or false")
    return answer


def _type_of(answer: object) -> str:
    """Return the type of a result: its value may be that of a Secret."""
    return next((name for kind, name in _TYPES.items() if isinstance(answer, kind)), "no boolean")


def _check_size(length: int, variables: Mapping[str, Any]) -> None:
    """Without any loop a long expression may compare or copy its variables hundreds of times."""
    if length * size_of(variables) > _SIZE_MAX:
        raise Exhausted


def _answer(expression: Expression, variables: Mapping[str, Any], budget: CelBudget) -> Any:
    try:
        if not expression.loops:
            return expression.program.execute(dict(variables))
        import cel  # noqa: PLC0415

        context = cel.Context(variables=dict(variables), functions={METER: budget.turn})
        return expression.program.execute(context)
    except KeyError as error:
        raise MissingField(f"no such key: {_key(error)}") from error
    except IndexError as error:
        raise MissingField(_first_line(str(error))) from error
    except RuntimeError as error:
        missing = _UNDEFINED.search(str(error))
        source = expression.program.source
        if missing and not re.search(rf"\b{re.escape(missing[1])}\s*\(", source):
            raise MissingField(f"no such key: {missing[1]}") from error
        raise BadCelExpression(_first_line(str(error))) from error
    except (TypeError, ValueError) as error:
        raise BadCelExpression(_first_line(str(error))) from error


def holds(text: str, variables: Mapping[str, Any]) -> bool:
    """As `judged`, but what is not there makes it false.

    An object that was just made has no status: a field that is missing is no mistake.
    """
    try:
        return judged(text, variables)
    except MissingField:
        return False


def _key(error: KeyError) -> str:
    return str(error.args[0]).rpartition(": ")[2].strip("'\"") if error.args else ""


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line.partition("ERROR: ")[2][:200] or line[:200]
