"""Values that are shown to nobody: what is secret by its kind, its name or its looks."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gitkruise.model.change import MISSING, Change, FieldChange, Path
from gitkruise.model.veiled import Veiled
from gitkruise.wire.gojson import compact
from gitkruise.wire.names import GroupKind
from gitkruise.wire.paths import get

_SECRET: Final = GroupKind("", "Secret")
_ENTRIES: Final = frozenset({"data", "stringData"})
_OPEN: Final = frozenset({"type", "immutable", "kind", "apiVersion"})  # of a Secret
_TELLING: Final = (
    r"passw(?:or)?d|passphrase|secret|token|credential"
    r"|api[-_.]?key|private[-_.]?key|access[-_.]?key"
)
_REFERRING: Final = r"(?:names?|refs?|paths?|files?|class|type|policy|mode)\Z"
_LOOKS: Final = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]+\.[\w-]+\.[\w-]+"
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[abprs]-[\w-]{10,}"
    r"|://[^/\s:@]*:[^/\s@]+@"
    r"|--?[\w-]*(?:password|passwd|token|secret|api-?key)[\w-]*[= ]\S"
)
_KEY_MIN: Final = 16  # bytes


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def covered(change: Change, key: bytes) -> Iterator[FieldChange]:
    """The fields of `change` with no secret in them; `key` makes the fingerprints.

    Where all data of a Secret come or go it is entry by entry. Raises ValueError for a key too
    short to hide anything.
    """
    if len(key) < _KEY_MIN:
        raise ValueError("a fingerprint needs a key")
    secret = change.key.group_kind == _SECRET
    for part in [p for f in change.fields for p in (_entries(f) if secret else (f,))]:
        hidden = secret and not _is_open(part.path)
        hidden = hidden or _tells(_names(part.path, change))
        yield replace(
            part,
            before=_veiled(part.before, key, hidden=hidden),
            after=_veiled(part.after, key, hidden=hidden),
        )


def fingerprint(value: Any, key: bytes) -> str:
    """Four hex digits that are equal for equal values."""
    return hmac.new(key, compact(value), hashlib.sha256).hexdigest()[:4]


def _is_open(path: Path) -> bool:
    """Whether a field of a Secret says nothing of what it keeps: its type and its labels."""
    return path[:1] != () and (path[0] in _OPEN or path[:2] == ("metadata", "labels"))


def _entries(change: FieldChange) -> Iterator[FieldChange]:
    sides = [side for side in (change.before, change.after) if side is not MISSING]
    whole = change.path[0] in _ENTRIES and len(change.path) == 1
    if not whole or not all(isinstance(side, Mapping) for side in sides):
        yield change
        return
    for name in sorted({name for side in sides for name in side}):
        before, after = (
            side.get(name, MISSING) if isinstance(side, Mapping) else MISSING
            for side in (change.before, change.after)
        )
        yield replace(change, path=(*change.path, name), before=before, after=after)


def _names(path: Path, change: Change) -> list[str]:
    """What a field is called: its key, or the name of the list item whose value it is."""
    if path[-1:] == ("value",):
        sides = (change.before or {}, change.after or {})
        return [str(get(side, *path[:-1], "name", default="")) for side in sides]
    return [part for part in path if isinstance(part, str)][-1:]


def _tells(names: Sequence[str]) -> bool:
    return any(_has(_TELLING, name) and not _has(_REFERRING, name) for name in names)


def _veiled(value: Any, key: bytes, *, hidden: bool) -> Any:
    """`value` with its secret leaves replaced; numbers and flags beside secrets stay."""
    if value is MISSING or value is None:
        return value
    if isinstance(value, Mapping):
        named = hidden or ("value" in value and _tells((str(value.get("name", "")),)))
        return {
            name: _veiled(
                item, key, hidden=hidden or _tells((name,)) or (named and name == "value")
            )
            for name, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_veiled(item, key, hidden=hidden) for item in value]
    if hidden and not isinstance(value, bool):
        return Veiled(fingerprint(value, key))
    if isinstance(value, str) and _has(_LOOKS, value):
        return Veiled(fingerprint(value, key))
    return value
