"""-o jsonpath=…: text with `{paths}` replaced by their values, as kubectl prints it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from gitkruise.errors import BadRequest
from gitkruise.printable import visible

PREFIX: Final = "jsonpath="
_PART: Final = re.compile(r"\{((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|[^{}\"'])*)\}|([^{}]+)")
_BLOCKS: Final = re.compile(r"(?:range|end)\b")


class OutputType(click.Choice[str]):
    """One of the words, or jsonpath=TEMPLATE."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__([*words, f"{PREFIX}…"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).startswith(PREFIX) and len(value) > len(PREFIX):
            try:
                fill(value.removeprefix(PREFIX), {})
            except BadRequest as error:
                self.fail(error.message, param, ctx)
            return str(value)
        return super().convert(value, param, ctx)


def fill(template: str, obj: Mapping[str, Any]) -> str:
    """Replace every `{path}` of `template` by its values, separated by blanks.

    A template without braces is one path; `{"text"}` is the text, with its escapes. Raises
    BadRequest, also for kubectl's `{range}`: a path with `[*]` gives the same values.
    """
    from gitkruise.wire.values.jsonpath import parse_json_path  # noqa: PLC0415  not for --help

    whole = template if "{" in template else "{" + template + "}"
    out, at = [], 0
    while at < len(whole):
        part = _PART.match(whole, at)
        if part is None:
            raise BadRequest(f"{template!r} has an unmatched brace")
        at = part.end()
        path = part[1]
        if path is None:
            out.append(part[2])
        elif path[:1] == '"':
            out.append(_text(path))
        elif _BLOCKS.match(path.strip()):
            raise BadRequest(f"{{{path}}} is not supported; use {{.items[*].name}} instead")
        else:
            out.append(" ".join(_shown(v) for v in parse_json_path(path).find_all(obj)))
    return "".join(out)


def _text(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise BadRequest(f"{quoted} is not a quoted string") from None


def _shown(value: Any) -> str:
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
