"""JSON that anybody may have written: in annotations and messages of live objects, in replies."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, for one that nests too deeply as well."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(decode_problem(error)) from error


def decode_problem(error: Exception) -> str:
    """Return the message of a failed decoder. That of a RecursionError differs between Pythons."""
    return "it nests too deeply" if isinstance(error, RecursionError) else str(error)
