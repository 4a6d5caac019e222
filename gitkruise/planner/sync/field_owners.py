"""Field owners by metadata.managedFields: who changed a field that git had set, and which fields an
apply gives up."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gitkruise.model.gitops.change import MISSING, FieldChange
from gitkruise.model.gitops.document import FieldPath
from gitkruise.planner.sync.annotations import MANAGER, SIGNED, UNIT
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

_DEFAULTS: Final = {"protocol": "TCP"}  # of list keys that git may leave out
# Fields that have one path in every version of a workload.
_UNMOVED: Final = (("metadata",), ("spec", "replicas"), ("spec", "template"))


class FieldOwner(NamedTuple):
    """A manager other than gitkruise, and its last write (RFC 3339, as stored)."""

    manager: str
    time: str


def read_managed(managed: bytes) -> list[Obj]:
    """The entries of metadata.managedFields kept as JSON; () without any."""
    return json.loads(managed) if managed else []


def owners_patch(stored: Obj, entries: Sequence[Obj]) -> list[Obj]:
    """Return the JSON patch that gives a `stored` object these entries of managedFields, if it is
    still the version that was read."""
    version = get(stored, "metadata", "resourceVersion")
    return [
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]


def in_version(entries: Iterable[Obj], gone: Container[str], present: str) -> tuple[Obj, ...]:
    """Return entries of managedFields with those of the API versions `gone` in `present`."""
    return tuple(
        {**e, "apiVersion": present} if e.get("apiVersion") in gone else e for e in entries
    )


def field_owners(entries: Sequence[Obj], obj: Obj, path: FieldPath) -> tuple[FieldOwner, ...]:
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


def set_by_server(entries: Sequence[Obj], desired: Obj, change: FieldChange) -> bool:
    """Return whether the API server took another value of a field than the one we sent.

    An admission webhook becomes no manager of what it sets; everyone else does who changes a
    value. Where managers write another version of the kind, only paths are compared that no
    conversion moves.
    """
    whole = [entry for entry in entries if entry.get("subresource") != "status"]
    alike = any(change.path[: len(path)] == path for path in _UNMOVED) or all(
        entry.get("apiVersion") == desired["apiVersion"] for entry in whole
    )
    changed = change.before is not MISSING and not change.owners
    return changed and alike and any(map(_is_our_apply, whole))


def marks_are_ours(entries: Sequence[Obj]) -> bool:
    """Return whether the marks of an object are as an apply of gitkruise wrote them.

    `kubectl rollout undo` brings back the annotations of an older ReplicaSet, for example. Without
    managedFields nothing speaks against it.
    """
    ours = next((e.get("fieldsV1") for e in entries if _is_our_apply(e)), None)
    meta = get(ours, "f:metadata", default={})
    notes = get(meta, "f:annotations", default={})
    label = "f:" + UNIT in get(meta, "f:labels", default={})
    return not entries or (label and all(f"f:{name}" in notes for name in SIGNED))


def given_up(entries: Sequence[Obj], desired: Obj, live: Obj) -> Iterator[FieldChange]:
    """Yield the fields of `live` that an apply of `desired` removes: ours alone, and not in git.

    As server-side apply does; indices of list items are those of `live`.
    """
    ours = next((e for e in entries if _is_our_apply(e)), None)
    if ours is None:
        return
    for path, value in _left_out(ours.get("fieldsV1"), desired, live, ()):
        if not field_owners(entries, live, path):
            yield FieldChange(path=path, before=value, after=MISSING)


def _is_our_apply(entry: Obj) -> bool:
    whole = not entry.get("subresource")
    return whole and entry.get("manager") == MANAGER and entry.get("operation") == "Apply"


def _left_out(
    fields: Any, want: Any, live: Any, path: FieldPath
) -> Iterator[tuple[FieldPath, Any]]:
    """Yield (path, live value) of what a set of fields names and `want` lacks."""
    for name, below in fields.items() if isinstance(fields, Mapping) else ():
        sort, _, text = name.partition(":")
        if sort == "f" and isinstance(live, Mapping) and text in live:
            wanted = want.get(text, MISSING) if isinstance(want, Mapping) else MISSING
            yield from _of_field(below, wanted, live[text], (*path, text))
        elif sort in {"k", "v"} and _is_list(live):
            index = _found({name: below}, live)
            if index is not None:
                other = _found({name: below}, want) if _is_list(want) else None
                wanted = want[other] if other is not None else MISSING
                yield from _of_field(below, wanted, live[index], (*path, index))


def _of_field(below: Any, want: Any, live: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    if want is MISSING:
        yield path, live
    else:
        yield from _left_out(below, want, live, path)


def _found(named: Mapping[str, Any], items: Sequence[Any]) -> int | None:
    """The place of the item that a key or a value of FieldsV1 names."""
    return next((n for n, item in enumerate(items) if _item(named, item) is not None), None)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _covers(fields: Any, value: Any, path: FieldPath) -> bool:
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
