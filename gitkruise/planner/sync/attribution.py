"""Whose fields these are, by metadata.managedFields: who changed what git had set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gitkruise.model.change import Path
from gitkruise.planner.sync.marks import MANAGER
from gitkruise.wire.names import Obj

_DEFAULTS: Final = {"protocol": "TCP"}  # of list keys that git may leave out


class Owner(NamedTuple):
    """A manager beside ours, and when it last wrote (RFC 3339, as stored)."""

    manager: str
    time: str


def read_managed(managed: bytes) -> list[Obj]:
    """The entries of metadata.managedFields kept as JSON; none of none."""
    return json.loads(managed) if managed else []


def field_owners(entries: Sequence[Obj], obj: Obj, path: Path) -> tuple[Owner, ...]:
    """Managers beside ours that own `path` of `obj` (as git wants it), the newest first.

    A field nobody owns was removed, and nothing tells by whom. Format: FieldsV1 of
    structured-merge-diff, `f:name`, `k:{keys}`, `v:value`; an empty set owns all below it.
    """
    found = [
        Owner(entry.get("manager") or "", entry.get("time") or "")
        for entry in entries
        if entry.get("manager") != MANAGER and _covers(entry.get("fieldsV1"), obj, path)
    ]
    return tuple(sorted(found, key=lambda owner: owner.time, reverse=True))


def _covers(fields: Any, value: Any, path: Path) -> bool:
    if not isinstance(fields, Mapping):
        return False
    for part in path:
        if not fields:
            return True
        value = value[part]
        found = fields.get(f"f:{part}") if isinstance(part, str) else _item(fields, value)
        if not isinstance(found, Mapping):
            return False
        fields = found
    return True


def _item(fields: Mapping[str, Any], item: Any) -> Any:
    """The set of one list item, named by its keys or by its value."""
    for name, found in fields.items():
        sort, _, text = name.partition(":")
        if sort == "v" and json.loads(text) == item:
            return found
        if sort == "k" and isinstance(item, Mapping):
            keys = json.loads(text)
            if all(item.get(key, _DEFAULTS.get(key)) == keys[key] for key in keys):
                return found
    return None
