"""Lines of the log: one event and its facts, as `event=NAME key=value …`."""

from __future__ import annotations

import json
import re
from typing import Final

_BARE: Final = re.compile(r'[^\s"=]+')


def log_line(event: str, **facts: object) -> str:
    """Return `event=NAME key=value …`; a value with spaces, quotes or `=` is a JSON string."""
    return " ".join([f"event={event}", *[f"{key}={_value(fact)}" for key, fact in facts.items()]])


def _value(fact: object) -> str:
    text = str(fact)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
