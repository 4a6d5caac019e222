"""Field owners by metadata.managedFields: who changed a field that git had set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gitkruise.model.gitops.change import Path
from gitkruise.planner.sync.annotations import MANAGER
from gitkruise.wire.primitives.names import Obj

_DEFAULTS: Final = {"protocol": "TCP"}  # of list keys that git may leave out


class FieldOwner(NamedTuple):
    """A manager other than gitkruise, and its last write (RFC 3339, as stored)."""

    manager: str
    time: str


def read_managed(managed: bytes) -> list[Obj]:
    """The entries of metadata.managedFields kept as JSON; () without any."""
    return json.loads(managed) if managed else []


def field_owners(entries: Sequence[Obj], obj: Obj, path: Path) -> tuple[FieldOwner, ...]:
    """Managers other than ours that own `path` of `obj` (as desired), newest first.

    A field without an owner was removed; managedFields do not record by which manager. Format:
    FieldsV1 of structured-merge-diff, `f:name`, `k:{keys}`, `v:value`; an empty set owns all below
    it.
    """
    found = [
        FieldOwner(entry.get("manager") or "", entry.get("time") or "")
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
