"""Base64 as Go reads and writes it: line breaks in it mean nothing, and are not written back.

kustomize and `base64` wrap long values; the API server stores them on one line.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from gitkruise.wire.primitives.names import Obj

_BREAKS: Final = str.maketrans("", "", "\r\n")
_FIELDS: Final = {"Secret": "data", "ConfigMap": "binaryData"}  # of bytes


def decoded(text: str) -> bytes:
    """Return the bytes in a base64 text. Raises ValueError for other text."""
    return base64.b64decode(text.translate(_BREAKS), validate=True)


def with_stored_bytes(obj: Obj) -> Obj:
    """Return a Secret or ConfigMap with its base64 as the API server stores it, any other object as
    it is. What is no base64 stays."""
    field = _FIELDS.get(str(obj.get("kind")), "") if obj.get("apiVersion") == "v1" else ""
    entries = obj.get(field)
    if not isinstance(entries, dict):
        return obj
    stored = {key: _stored(value) for key, value in entries.items()}
    return obj if stored == entries else {**obj, field: stored}


def _stored(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64encode(decoded(value)).decode()
    except ValueError:
        return value
