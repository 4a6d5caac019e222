"""metadata.managedFields: parsing, updates on writes, and encoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from gitkruise.admission.conversion.registry import convert_into
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.schema.nodes import Node
from gitkruise.world.apply.fieldset import (
    NOTHING,
    FieldSet,
    covers,
    difference,
    from_fields_v1,
    intersection,
    path_set,
    to_fields_v1,
    touches,
    union,
    without_below,
)
from gitkruise.world.apply.typed import Comparison, compare
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.store.strategies import NAMESPACE

UPDATE_MANAGERS_MAX: Final = 10  # older ones are joined as "ancient-changes"
ANCIENT: Final = "ancient-changes"
APPLY: Final = "Apply"
UPDATE: Final = "Update"
# Fields that have no owner.
UNOWNED: Final = path_set(
    [("f:apiVersion",), ("f:kind",), ("f:metadata",)]
    + [
        ("f:metadata", "f:" + name)
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation",
            "managedFields", "resourceVersion",
        )
    ]
)  # fmt: skip


SPEC: Final = path_set([("f:spec",)])
STATUS: Final = path_set([("f:status",)])
FINALIZERS: Final = path_set([("f:spec", "f:finalizers")])


class ManagerIdentity(NamedTuple):
    """Identity of an entry; an applier's stays the same when it changes its API version."""

    manager: str
    operation: str
    api_version: str  # "" for appliers
    subresource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedEntry:
    """One manager's fields: parsed (`known`), or as they stand in the object (`raw`)."""

    api_version: str
    time: str = ""
    known: FieldSet | None = None
    raw: Mapping[str, Any] | None = None

    @property
    def fields(self) -> FieldSet:
        if self.known is not None:
            return self.known
        return from_fields_v1(self.raw) if self.raw is not None else NOTHING

    def touches(self, fields: FieldSet) -> bool:
        """Return whether the manager owns any of these fields."""
        if self.known is not None or self.raw is None:
            return bool(intersection(self.fields, fields))
        return touches(self.raw, fields)

    def covers(self, fields: FieldSet) -> bool:
        """Return whether the manager owns all of these fields."""
        if self.known is not None or self.raw is None:
            return not difference(fields, self.fields)
        return covers(self.raw, fields)

    @property
    def written(self) -> Mapping[str, Any]:
        """The fields as FieldsV1."""
        if self.raw is not None and self.known is None:
            return self.raw
        return to_fields_v1(self.fields)


Managers = dict[ManagerIdentity, ManagedEntry]


def writer(call: RequestContext, operation: str) -> ManagerIdentity:
    """The identity this request writes under."""
    version = "" if operation == APPLY else call.kind.api_version
    return ManagerIdentity(call.options.manager, operation, version, call.subresource)


def read_managers(listed: Sequence[Mapping[str, Any]] | None) -> Managers:
    """The entries of metadata.managedFields; malformed ones (a client's forgery) are not kept."""
    out: Managers = {}
    for raw in listed or ():
        fields, version, operation = (
            raw.get("fieldsV1"),
            raw.get("apiVersion"),
            raw.get("operation"),
        )
        if not isinstance(fields, Mapping) or not version or operation not in (APPLY, UPDATE):
            continue
        who = ManagerIdentity(
            raw.get("manager") or "",
            operation,
            "" if operation == APPLY else version,
            raw.get("subresource") or "",
        )
        out[who] = ManagedEntry(api_version=version, raw=fields, time=raw.get("time") or "")
    return out


def broken(listed: Any) -> str:
    """Return why managedFields are invalid, or "". Source: DecodeManagedFields."""
    if not isinstance(listed, list | tuple) or not all(isinstance(one, Mapping) for one in listed):
        return "they are no list of entries"
    for index, raw in enumerate(listed):
        kind = raw.get("fieldsType")
        if raw.get("operation") not in (APPLY, UPDATE):
            return "operation must be `Apply` or `Update`"
        if not raw.get("apiVersion"):
            return "apiVersion must not be empty"
        if not kind:
            return f"missing fieldsType in managed fields entry {index}"
        if kind != "FieldsV1" or not isinstance(raw.get("fieldsV1") or {}, Mapping):
            return f'invalid fieldsType "{kind}" in managed fields entry {index}'
    return ""


def write_managers(managers: Managers) -> list[dict[str, Any]]:
    """metadata.managedFields as the server sorts them: by operation, time, manager, version."""

    def order(item: tuple[ManagerIdentity, ManagedEntry]) -> tuple[str, ...]:
        who, entry = item
        return (who.operation, entry.time, who.manager, entry.api_version, who.subresource)

    return [
        _written(who, entry) for who, entry in sorted(managers.items(), key=order) if entry.fields
    ]


def _written(who: ManagerIdentity, entry: ManagedEntry) -> dict[str, Any]:
    out: dict[str, Any] = {
        "manager": who.manager,
        "operation": who.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.written,
        "subresource": who.subresource,
    }
    return {key: value for key, value in out.items() if value != ""}


def is_reset(listed: Any) -> bool:
    """Return whether a client resets all managers (`managedFields: [{}]`)."""
    return bool(listed) and len(listed) == 1 and not any(listed[0].values())


def owned(found: Comparison) -> tuple[FieldSet, FieldSet]:
    """Return the (set, removed) fields of a change, without those that are never owned."""
    taken = union(found.added, found.modified)
    return difference(taken, UNOWNED), difference(found.removed, UNOWNED)


def _enlarged(
    mine: ManagedEntry | None, api_version: str, taken: FieldSet, time: str
) -> ManagedEntry:
    if mine is None:
        return ManagedEntry(api_version=api_version, known=taken, time=time)
    if mine.covers(taken):
        return replace(mine, time=time)
    return replace(mine, known=union(mine.fields, taken), time=time)


class ManagedChange:
    """One change of an object, comparable in every version its managers speak."""

    def __init__(self, call: RequestContext, old: Obj, new: Obj) -> None:
        self._call = call
        self._old = old
        self._new = new
        self._known: dict[str, tuple[FieldSet, FieldSet]] = {}

    def in_version(self, api_version: str) -> tuple[FieldSet, FieldSet] | None:
        """(set, removed) as seen in `api_version`; None when that version is not served."""
        if api_version not in self._known:
            node = schema_of(self._call, api_version)
            if node is None:
                return None
            old, new = (in_version(obj, api_version) for obj in (self._old, self._new))
            self._known[api_version] = owned(compare(old, new, node))
        return self._known[api_version]


def schema_of(call: RequestContext, api_version: str) -> Node | None:
    if api_version == call.kind.api_version:
        return call.kind.schema
    group, version = split_api_version(api_version)
    kind = call.state.catalog.by_kind(group, version, call.kind.kind)
    return kind.schema if kind else None


def in_version(obj: Obj, api_version: str) -> Obj:
    if obj["apiVersion"] == api_version:
        return obj
    return convert_into(obj, *split_api_version(api_version))


def after_update(call: RequestContext, old: Obj | None, new: Obj) -> list[dict[str, Any]] | None:
    """managedFields of `new` after an ordinary write; None when its managers are not tracked.

    `old` is None on create. An object without managers is not tracked again before its first
    apply, and `[{}]` makes one of any object. Both objects are in the request's version.
    """
    given = new["metadata"].get("managedFields")
    if is_reset(given):
        return None
    before = old["metadata"].get("managedFields") if old is not None else None
    if old is not None and not (before or given):
        return None
    listed = given or before
    change = ManagedChange(call, old if old is not None else empty_object(call), new)
    taken, removed = change.in_version(call.kind.api_version) or (NOTHING, NOTHING)
    taken = own_part(call, taken)
    if not taken and not removed and listed is before:
        return list(before) if before else None
    managers = read_managers(listed) or read_managers(before)
    me = writer(call, UPDATE)
    mine = managers.get(me)
    owns_all = mine is not None and not removed and mine.covers(taken)
    managers = released(managers, change, me if owns_all else None)
    if taken:
        time = "" if call.subresource == "scale" else format_time(call.now)
        managers[me] = _enlarged(managers.get(me), call.kind.api_version, taken, time)
    return write_managers(_capped(managers)) or None


def as_created(call: RequestContext, listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`listed`, the managers of an object just created, for this request's writer and time."""
    return [
        {**one, "manager": call.options.manager, "time": format_time(call.now)} for one in listed
    ]


def own_part(call: RequestContext, fields: FieldSet) -> FieldSet:
    """Return the fields that a write to this (sub)resource can own."""
    if call.kind.group_kind == NAMESPACE:
        fields = without_below(fields, FINALIZERS)
    if "status" not in call.kind.subresources:
        return fields
    if call.subresource == "status":
        return without_below(fields, SPEC)
    return without_below(fields, STATUS)


def released(
    managers: Managers, change: ManagedChange, keep: ManagerIdentity | None = None
) -> Managers:
    """Managers after `change`: everyone but `keep` loses what it set or removed."""
    out: Managers = {}
    for who, entry in managers.items():
        seen = None if who == keep else change.in_version(entry.api_version)
        if seen is None:
            out[who] = entry
            continue
        if not (entry.touches(seen[0]) or entry.touches(seen[1])):
            out[who] = entry
            continue
        fields = difference(difference(entry.fields, seen[0]), seen[1])
        if fields:
            out[who] = replace(entry, known=fields)
    return out


def conflicts(
    managers: Managers, change: ManagedChange, keep: ManagerIdentity
) -> dict[ManagerIdentity, FieldSet]:
    """Return the fields of other managers that the change sets."""
    out: dict[ManagerIdentity, FieldSet] = {}
    for who, entry in managers.items():
        seen = None if who == keep else change.in_version(entry.api_version)
        if seen and entry.touches(seen[0]):
            out[who] = intersection(entry.fields, seen[0])
    return out


def _capped(managers: Managers) -> Managers:
    """At most so many update managers; the oldest are joined, one entry for each API version."""
    updates = [(entry.time, who) for who, entry in managers.items() if who.operation == UPDATE]
    excess = len(updates) - UPDATE_MANAGERS_MAX
    if excess <= 0:
        return managers
    out = dict(managers)
    for _, who in sorted(updates)[: excess + 1]:
        entry = out.pop(who)
        joined = ManagerIdentity(ANCIENT, UPDATE, entry.api_version, "")
        known = out.get(joined)
        fields = union(known.fields, entry.fields) if known else entry.fields
        out[joined] = replace(entry, known=fields)
    return out


# Fields that may be left out, and that Go writes all the same.
_ALWAYS_WRITTEN: Final[Mapping[GroupKind, Mapping[str, Any]]] = {
    GroupKind("discovery.k8s.io", "EndpointSlice"): {"ports": None},
    GroupKind("", "Event"): {
        **dict.fromkeys(("eventTime", "firstTimestamp", "lastTimestamp")),
        **dict.fromkeys(("reportingComponent", "reportingInstance"), ""),
    },
    GroupKind("events.k8s.io", "Event"): dict.fromkeys(
        ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")
    ),
}


def empty_object(call: RequestContext) -> Obj:
    """Return Go's zero value of the kind, as JSON."""
    base: dict[str, Any] = {"apiVersion": call.kind.api_version, "kind": call.kind.kind}
    if call.kind.crd:
        return base
    written = _ALWAYS_WRITTEN.get(call.kind.group_kind, {})
    return {**_zero(call.kind.schema), **written, **base}


def _zero(node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in node.required:
        child = node.child(name)
        if child is not None and child.type in ("array", "object"):
            out[name] = None
    for name, child in node.defaulted():
        if child.default == {}:
            out[name] = _zero(child)
    return out


def same_but_times(left: Iterable[Any], right: Iterable[Any]) -> bool:
    """Return whether two managedFields are equal except for their times."""

    def bare(listed: Iterable[Any]) -> list[Any]:
        return [{k: v for k, v in entry.items() if k != "time"} for entry in listed]

    return bare(left) == bare(right)
