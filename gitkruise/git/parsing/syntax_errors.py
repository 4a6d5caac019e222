"""libyaml's parse errors, explained to the person who wrote the file."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import yaml

from gitkruise.model.gitops.document import Position


class SyntaxProblem(NamedTuple):
    """A syntax error in plain words: where to point, and what to write at the caret."""

    message: str
    position: Position
    label: str = ""
    code: str = "GK1101"


_NO_SPACE: Final = re.compile(r"""^(\s*(?:-\s+)*(?:"[^"]*"|'[^']*'|[\w./-]+)):(?=[^\s:/])""")
_SAYINGS: Final[tuple[tuple[str, str, str], ...]] = (
    # libyaml's problem · our sentence · label at the caret
    ("mapping values are not allowed", "a second ':' on one line, or a wrong indentation",
     "quote the value, or start a new line"),
    ("block sequence entries are not allowed", "a list starts behind other text",
     "start the list on a new line"),
    ("could not find expected ':'", "a key without its ':'", "a ':' is missing after this"),
    ("found unexpected end of stream", "a quote is never closed", "this quote is open"),
    ("found unexpected document indicator", "a quote is never closed", "this quote is open"),
    ("did not find expected ',' or '}'", "a '{' is not closed, or a ',' is missing",
     "',' or '}' is missing"),
    ("did not find expected ',' or ']'", "a '[' is not closed, or a ',' is missing",
     "',' or ']' is missing"),
    ("did not find expected node content", "the file ends where a value should be", ""),
    ("did not find expected key", "this line does not fit the mapping around it",
     "check the indentation here"),
    ("did not find expected '-' indicator", "this line does not fit the list around it",
     "check the indentation here"),
    ("found unknown escape character", "an unknown escape in double quotes",
     "write \\\\ for a backslash, or use single quotes"),
    ("found unknown directive name", "an unknown % directive", ""),
    ("found incompatible YAML document", "a %YAML version other than 1.1 and 1.2", ""),
    ("did not find expected <document start>", "text after the end of a document",
     "start a new document with ---"),
    ("did not find expected comment or line break", "text behind a block scalar's | or >",
     "the text starts on the next line"),
    ("did not find expected alphabetic", "an anchor or alias without a name", ""),
)  # fmt: skip
_AT_CONTEXT: Final = (
    "could not find expected ':'",
    "found unexpected end of stream",
    "found unexpected document indicator",
)


def explain(error: yaml.MarkedYAMLError, lines: list[str]) -> SyntaxProblem:
    """The sentence, the place and the hint for one libyaml error."""
    problem = error.problem or "it cannot be read"
    position = _position(error.problem_mark)
    context = _position(error.context_mark) if error.context_mark else position
    special = _tab(problem, position, lines) or _missing_space(problem, context, lines)
    if special is not None:
        return special
    if "invalid Unicode character escape" in problem:
        return SyntaxProblem(
            "an escape that is no character", position, "half of a surrogate pair", "GK1001"
        )
    if "cannot start any token" in problem:
        return _bad_start(position, lines)
    for known, sentence, label in _SAYINGS:
        if known not in problem:
            continue
        at = context if known in _AT_CONTEXT else position
        if at.line > len(lines) and known.startswith("did not find expected ',' or"):
            return SyntaxProblem(_invalid(sentence), context, "this is never closed")
        return SyntaxProblem(_invalid(sentence), at, label)
    return SyntaxProblem(_invalid(problem), position)


def _invalid(why: str) -> str:
    return f"this is not valid YAML: {why}"


def _position(mark: yaml.Mark | None) -> Position:
    return Position(mark.line + 1, mark.column + 1, 1) if mark else Position(1, 1, 1)


def _line(position: Position, lines: list[str]) -> str:
    return lines[position.line - 1] if 0 < position.line <= len(lines) else ""


def _tab(problem: str, position: Position, lines: list[str]) -> SyntaxProblem | None:
    text = _line(position, lines)
    indent = text[: len(text) - len(text.lstrip())]
    if "tab character" not in problem and "\t" not in indent:
        return None
    column = indent.find("\t") + 1 or position.column
    message = _invalid(f"a tab at {position.line}:{column} where only spaces may indent")
    return SyntaxProblem(message, Position(position.line, column, 1), "use spaces")


def _bad_start(position: Position, lines: list[str]) -> SyntaxProblem:
    char = _line(position, lines)[position.column - 1 : position.column]
    return SyntaxProblem(
        _invalid(f"a value cannot start with {char!r}"), position, "quote the value"
    )


def _missing_space(problem: str, context: Position, lines: list[str]) -> SyntaxProblem | None:
    """`image:registry…` on the line libyaml took for a key, or on the one before it."""
    if "expected ':'" not in problem and "mapping values" not in problem:
        return None
    for number in (context.line, context.line - 1):
        text = _line(Position(number, 1, 1), lines)
        found = _NO_SPACE.match(text)
        if found:
            message = _invalid("a mapping value is missing its space after ':'")
            return SyntaxProblem(message, Position(number, found.end(1) + 1, 1), "put a space here")
    return None
