"""One field of one object changed in a file's bytes; everything else stays as it was written."""

from __future__ import annotations

from typing import Any

from gitkruise.model.document import FieldPath
from gitkruise.wire.names import ObjectKey


def edit_field(data: bytes, file: str, key: ObjectKey, path: FieldPath, value: Any) -> bytes:
    """`data` with `value` at `path` of the object `key`. Raises InvalidManifests."""
    raise NotImplementedError
