"""CEL expressions of a person's own: compiled once, answered with true, false or an explanation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import cel

LONGEST: Final = 4096  # characters

_UNDEFINED: Final = re.compile(r"Undefined variable or function: '([^']+)'")


class BadExpression(ValueError):
    """An expression cannot be read, or has no answer; the message says why, in one line."""


@lru_cache(maxsize=256)
def compiled(text: str) -> cel.Program:
    """The program of an expression. Raises BadExpression when it cannot be read."""
    import cel  # noqa: PLC0415  slow to import, and most units have no expression

    if len(text) > LONGEST:
        raise BadExpression(f"it is longer than {LONGEST} characters")
    try:
        return cel.compile(text)
    except ValueError as error:
        raise BadExpression(_first_line(str(error))) from error


class Missing(BadExpression):
    """A field or a variable that an expression asks for is not there."""


def judged(text: str, variables: Mapping[str, Any]) -> bool:
    """Whether the expression is true of `variables`.

    Raises BadExpression when the expression cannot be read, mixes types, or answers with anything
    but true or false, and Missing for what is not there.
    """
    program = compiled(text)
    try:
        answer = program.execute(dict(variables))
    except KeyError as error:
        raise Missing(f"no such key: {_key(error)}") from error
    except RuntimeError as error:
        missing = _UNDEFINED.search(str(error))
        if missing and not re.search(rf"\b{re.escape(missing[1])}\s*\(", text):
            raise Missing(f"no such key: {missing[1]}") from error
        raise BadExpression(_first_line(str(error))) from error
    except (TypeError, ValueError) as error:
        raise BadExpression(_first_line(str(error))) from error
    if not isinstance(answer, bool):
        raise BadExpression(f"it answers {answer!r}, and not true or false"[:200])
    return answer


def holds(text: str, variables: Mapping[str, Any]) -> bool:
    """As `judged`, but what is not there makes it false.

    An object that was just made has no status: a field that is missing is no mistake.
    """
    try:
        return judged(text, variables)
    except Missing:
        return False


def _key(error: KeyError) -> str:
    return str(error.args[0]).rpartition(": ")[2].strip("'\"") if error.args else ""


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line.partition("ERROR: ")[2][:200] or line[:200]
