"""Text from outside as people may see it: nothing in it moves a cursor or turns a line around."""

from __future__ import annotations

import re
from typing import Final

UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def shown(text: str, limit: int = 200) -> str:
    """Untrusted text for a message: control and bidi characters escaped, cut at `limit`."""
    safe = UNPRINTABLE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
