"""CEL expressions of a person's own: compiled once, answered with true, false or an explanation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from gitkruise.errors import Finding
from gitkruise.model.document import Document
from gitkruise.planner.sync.marks import HEALTH

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


def holds(text: str, variables: Mapping[str, Any]) -> bool:
    """Whether the expression is true of `variables`; what is not there makes it false.

    An object that was just made has no status: a field or a variable that is missing is no
    mistake. Raises BadExpression when the expression cannot be read, mixes types, or answers
    with anything but true or false.
    """
    program = compiled(text)
    try:
        answer = program.execute(dict(variables))
    except KeyError:
        return False
    except RuntimeError as error:
        missing = _UNDEFINED.search(str(error))
        if missing and not re.search(rf"\b{re.escape(missing[1])}\s*\(", text):
            return False
        raise BadExpression(_first_line(str(error))) from error
    except (TypeError, ValueError) as error:
        raise BadExpression(_first_line(str(error))) from error
    if not isinstance(answer, bool):
        raise BadExpression(f"it answers {answer!r}, and not true or false"[:200])
    return answer


def own_health(document: Document, why: str) -> Finding:
    """The finding for an object that does not say well when it is well."""
    return Finding(
        code="GK2017",
        message=f"{HEALTH} of {document.obj['kind']} {document.obj['metadata']['name']}: {why}",
        places=(document.place(("metadata", "annotations", HEALTH)),),
        notes=(
            ("why", "it is Ignore, or an expression in CEL that is true when the object is well"),
            ("next", "such as: status.phase == 'Up'"),
        ),
    )


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line.partition("ERROR: ")[2][:200] or line[:200]
