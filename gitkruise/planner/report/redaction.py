"""Redaction: values that are secret by kind, name or form."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gitkruise.model.gitops.change import MISSING, FieldChange, ObjectChange, Redacted
from gitkruise.model.gitops.document import FieldPath
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.names import GroupKind, Obj, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.secret_names import looks_secret, names_secret, refers

_SECRET: Final = GroupKind("", "Secret")
_ENTRIES: Final = frozenset({"data", "stringData"})
_OPEN: Final = frozenset({"type", "immutable", "kind", "apiVersion"})  # of a Secret
_ABOUT: Final = frozenset({"name", "namespace", "labels"})  # of its metadata
_KEY_MIN: Final = 16  # bytes


def covered(change: ObjectChange, key: bytes) -> Iterator[FieldChange]:
    """The fields of `change` with no secret in them; `key` makes the fingerprints.

    Where all data of a Secret come or go it is entry by entry. Raises ValueError for a key too
    short to hide anything.
    """
    if len(key) < _KEY_MIN:
        raise ValueError("a fingerprint needs a key")
    secret = change.key.group_kind == _SECRET
    for part in [p for f in change.fields for p in (_entries(f) if secret else (f,))]:
        hidden = secret and not _is_open(part.path)
        hidden = hidden or _any_names_secret(_names(part.path, change)) or _is_below(part.path)
        yield replace(
            part,
            before=_veiled(part.before, key, hidden=hidden),
            after=_veiled(part.after, key, hidden=hidden),
        )


def covered_object(obj: Obj, key: bytes) -> Any:
    """`obj` with no secret in it: a Secret keeps its names, labels and type. Raises ValueError as
    `covered` does."""
    if len(key) < _KEY_MIN:
        raise ValueError("a fingerprint needs a key")
    if key_of(obj).group_kind != _SECRET:
        return _veiled(obj, key, hidden=False)
    about = obj.get("metadata") or {}
    named = {name: _veiled(value, key, hidden=name not in _ABOUT) for name, value in about.items()}
    rest = {name: _veiled(value, key, hidden=name not in _OPEN) for name, value in obj.items()}
    return {**rest, "metadata": named}


def hidden_texts(document: Any) -> Iterator[str]:
    """The texts and numbers of a parsed document that are redacted in a change of it."""
    secret = isinstance(document, Mapping) and document.get("kind") == _SECRET.kind
    seen = {name: document.get(name) for name in _ENTRIES} if secret else document
    yield from _replaced(seen, _veiled(seen, bytes(_KEY_MIN), hidden=secret))


def _replaced(value: Any, veiled: Any) -> Iterator[str]:
    if isinstance(veiled, Redacted):
        yield str(value)
    elif isinstance(veiled, Mapping):
        for name, item in veiled.items():
            yield from _replaced(value[name], item)
    elif isinstance(veiled, list):
        for one, item in zip(value, veiled, strict=True):
            yield from _replaced(one, item)


def fingerprint(value: Any, key: bytes) -> str:
    """Four hex digits that are equal for equal values."""
    return hmac.new(key, compact(value), hashlib.sha256).hexdigest()[:4]


def _is_open(path: FieldPath) -> bool:
    """Return whether a field of a Secret reveals no contents (type, labels)."""
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


def _names(path: FieldPath, change: ObjectChange) -> list[str]:
    """Name of a field: its key, or the name of the list item whose value it is."""
    if path[-1:] == ("value",):
        sides = (change.before or {}, change.after or {})
        return [str(get(side, *path[:-1], "name", default="")) for side in sides]
    return [part for part in path if isinstance(part, str)][-1:]


def _is_below(path: FieldPath) -> bool:
    """Return whether a field above is called a secret, and this is no reference to one."""
    names = [part for part in path if isinstance(part, str)]
    return _any_names_secret(names[:-1]) and not refers(names[-1])


def _any_names_secret(names: Sequence[str]) -> bool:
    return any(map(names_secret, names))


def _veiled(value: Any, key: bytes, *, hidden: bool) -> Any:
    """`value` with its secret leaves redacted; numbers and flags next to secrets stay."""
    if value is MISSING or value is None:
        return value
    if isinstance(value, Mapping):
        named = hidden or ("value" in value and _any_names_secret((str(value.get("name", "")),)))
        return {
            name: _veiled(
                item,
                key,
                hidden=hidden or _any_names_secret((name,)) or (named and name == "value"),
            )
            for name, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_veiled(item, key, hidden=hidden) for item in value]
    if hidden and not isinstance(value, bool):
        return Redacted(fingerprint(value, key))
    if isinstance(value, str) and looks_secret(value):
        return Redacted(fingerprint(value, key))
    return value
