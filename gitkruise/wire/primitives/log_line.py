"""Lines of the log: one event and its facts, as `event=NAME key=value …`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

_BARE: Final = re.compile(r'[^\s"=]+')


class LogLine(str):
    """The text of an event, with the event and its facts for outlets that have fields."""

    __slots__ = ("event", "facts")
    event: str
    facts: Mapping[str, object]


def log_line(event: str, **facts: object) -> LogLine:
    """Return `event=NAME key=value …`; a value with spaces, quotes or `=` is a JSON string."""
    pairs = [f"event={event}", *[f"{key}={_value(fact)}" for key, fact in facts.items()]]
    line = LogLine(" ".join(pairs))
    line.event, line.facts = event, facts
    return line


def _value(fact: object) -> str:
    text = str(fact)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
