"""Server-side apply: merge of an applied configuration, and conflicts with other managers.

The last-applied annotation migrates objects between kubectl's client-side and server-side apply,
for the manager `kubectl` alone.

Source: structured-merge-diff's updater (merge, prune what the manager no longer applies and no
other manager owns, then compare) and the API server's field manager around it, with its
lastAppliedManager and lastAppliedUpdater.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gitkruise.errors import ApplyConflict, BadRequest, Cause, StatusDetails, Untyped
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get, put
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.schema.nodes import Node
from gitkruise.wire.schema.structural import unknown_fields
from gitkruise.world.apply.fieldset import (
    NOTHING,
    FieldSet,
    difference,
    intersection,
    members,
    printed,
    union,
)
from gitkruise.world.apply.managed_fields import (
    APPLY,
    UNOWNED,
    UPDATE,
    ManagedChange,
    ManagedEntry,
    ManagerIdentity,
    Managers,
    conflicts,
    empty_object,
    in_version,
    own_part,
    owned,
    read_managers,
    released,
    schema_of,
    write_managers,
    writer,
)
from gitkruise.world.apply.typed import (
    compare,
    duplicate,
    field_set,
    merge,
    mistyped,
    remove,
    with_named_fields,
)
from gitkruise.world.store.request_context import RequestContext

ANNOTATION: Final = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
MANAGER: Final = "kubectl"
BEFORE_FIRST_APPLY: Final = "before-first-apply"


def apply(call: RequestContext, live: Obj | None, config: Obj) -> tuple[Obj, list[dict[str, Any]]]:
    """(the object after applying `config`, its managedFields), in the request's version.

    `live` is the present object in that version, None on create. Raises ApplyConflict when others
    own what would change and force is not set, BadRequest for a config that cannot be applied.
    """
    if config["metadata"].get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    _check_declared(call, config)
    me = writer(call, APPLY)
    base = live if live is not None else empty_object(call)
    managers = _managers_of(call, live)
    last = managers.get(me)
    node = call.kind.schema
    merged = merge(base, config, node)
    named = own_part(call, field_set(config, node))
    if last is not None and last.fields:
        # The name is in every config, so metadata stay however little else of them is applied.
        mine = ManagedEntry(api_version=call.kind.api_version, known=named)
        merged = _pruned(call, merged, {**managers, me: mine}, last)
    wanted = difference(named, UNOWNED)
    managers[me] = ManagedEntry(api_version=call.kind.api_version, known=wanted)
    change = ManagedChange(call, base, merged)
    if not call.options.force:
        _refuse_conflicts(call, live, change, managers)
    after = released(managers, change, me)
    time = format_time(call.now) if live is None else _time(call, change, last)
    after[me] = replace(after[me], time=time)
    return kept_up(call, live, merged), write_managers(after)


def _refuse_conflicts(
    call: RequestContext, live: Obj | None, change: ManagedChange, managers: Managers
) -> None:
    """Raises ApplyConflict about what others own and client-side apply did not set."""
    found = conflicts(managers, change, writer(call, APPLY))
    if not found:
        return
    mine = own_fields(call, live)
    left = {who: rest for who, fields in found.items() if (rest := difference(fields, mine))}
    if left:
        raise _conflict(left, managers)


def _time(call: RequestContext, change: ManagedChange, last: ManagedEntry | None) -> str:
    """Return the time of the manager's entry; an apply that changes no value keeps it."""
    if any(change.in_version(call.kind.api_version) or ()):
        return format_time(call.now)
    return last.time if last else ""


def _managers_of(call: RequestContext, live: Obj | None) -> Managers:
    """The live object's managers; an untracked one's fields are "before-first-apply"'s."""
    if live is None:
        return {}
    managers = read_managers(live["metadata"].get("managedFields"))
    if managers:
        return managers
    found = compare(empty_object(call), live, call.kind.schema)
    fields = own_part(call, owned(found)[0])
    who = ManagerIdentity(BEFORE_FIRST_APPLY, UPDATE, call.kind.api_version, "")
    entry = ManagedEntry(
        api_version=call.kind.api_version, known=fields, time=format_time(call.now)
    )
    return {who: entry} if fields else {}


def _pruned(call: RequestContext, merged: Obj, managers: Managers, last: ManagedEntry) -> Obj:
    """Remove fields that the manager no longer applies and no other manager owns."""
    node = schema_of(call, last.api_version)
    if node is None:
        return merged
    whole = in_version(merged, last.api_version)
    kept = remove(whole, with_named_fields(last.fields, node), node)
    by_version: dict[str, FieldSet] = {}
    for entry in managers.values():
        known = by_version.get(entry.api_version, {})
        by_version[entry.api_version] = union(known, entry.fields)
    order = sorted(by_version, key=lambda version: version != last.api_version)
    for version in order:
        whole, kept = _with_owned(call, whole, kept, version, by_version[version])
    whole, kept = (in_version(obj, last.api_version) for obj in (whole, kept))
    dangling = intersection(
        difference(_named(whole, node), _named(kept, node)), with_named_fields(last.fields, node)
    )
    return in_version(remove(whole, dangling, node), call.kind.api_version)


def _with_owned(
    call: RequestContext, whole: Obj, kept: Obj, version: str, fields: FieldSet
) -> tuple[Obj, Obj]:
    """Restore those parts of `whole` in `kept` that any manager owns in `version`."""
    node = schema_of(call, version)
    if node is None:
        return whole, kept
    whole, kept = in_version(whole, version), in_version(kept, version)
    stay = union(_named(kept, node), with_named_fields(fields, node))
    return whole, remove(whole, difference(_named(whole, node), stay), node)


def _named(obj: Obj, node: Node) -> FieldSet:
    return with_named_fields(field_set(obj, node), node)


def _check_declared(call: RequestContext, config: Obj) -> None:
    """Reject a configuration that the schema does not type: unknown fields, duplicate entries,
    values of another type."""
    problems = unknown_fields(call.kind.schema, config)
    why = duplicate(config, call.kind.schema) or mistyped(config, call.kind.schema)
    if problems:
        why = f".{problems[0].field}: field not declared in schema"
    if not why:
        return
    meta = call.request.body.get("metadata") or {}
    namespace, name = meta.get("namespace") or "", meta.get("name") or ""
    group, version = call.kind.group, call.kind.version
    raise Untyped(
        f"{Untyped.says} ({namespace}/{name}; {group}/{version}, Kind={call.kind.kind}): {why}"
    )


def _conflict(found: Mapping[ManagerIdentity, FieldSet], managers: Managers) -> ApplyConflict:
    """The 409 with one cause for each field; managers and fields in order."""
    listed = [
        (_printed(who, managers[who]), [printed(path) for path in members(fields)])
        for who, fields in sorted(found.items())
    ]
    causes = tuple(
        Cause(path, "FieldManagerConflict", f"conflict with {who}")
        for who, paths in listed
        for path in paths
    )
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines = [
            line
            for who, paths in listed
            for line in (f"conflicts with {who}:", *(f"- {path}" for path in paths))
        ]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ApplyConflict(text, StatusDetails(causes=causes))


def _printed(who: ManagerIdentity, entry: ManagedEntry) -> str:
    text = f'"{who.manager}"'
    if who.subresource:
        text += f' with subresource "{who.subresource}"'
    return f"{text} using {entry.api_version}" if who.operation == UPDATE else text


def own_fields(call: RequestContext, live: Obj | None) -> FieldSet:
    """Fields that client-side apply set and that are still as it set them: kubectl's own."""
    last = _decoded(_annotation(call, live))
    if live is None or last.get("apiVersion") != call.kind.api_version:
        return NOTHING
    found = compare(last, live, call.kind.schema)
    fields = field_set(last, call.kind.schema)
    for other in (found.modified, found.added, found.removed):
        fields = difference(fields, other)
    return fields


def kept_up(call: RequestContext, live: Obj | None, merged: Obj) -> Obj:
    """`merged` with the annotation of what is applied now."""
    if not _annotation(call, live):
        return merged
    bare = drop(drop(call.request.body, ("metadata", "managedFields")), ANNOTATION)
    updated: Obj = put(merged, ANNOTATION, compact(bare).decode() + "\n")
    return updated


def _annotation(call: RequestContext, live: Obj | None) -> str:
    """Return the last-applied annotation; "" when it does not concern this field manager."""
    return str(get(live, *ANNOTATION, default="")) if call.options.manager == MANAGER else ""


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        found = read_json(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}
