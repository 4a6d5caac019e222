"""JSON in annotations and messages of live objects, which anybody may have written."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, for one that nests too deeply as well."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it nests too deeply") from error
