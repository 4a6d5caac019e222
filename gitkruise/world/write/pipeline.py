"""The write pipeline: pruning, defaults, admission and validation before an object is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gitkruise.admission.rules.request import CREATE, UPDATE
from gitkruise.errors import BadRequest, InvalidObject, Problem, invalid_object
from gitkruise.model.workloads.labels import DELETION_COST
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.patch.json_patch import same
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get, put
from gitkruise.wire.schema.nodes import Node
from gitkruise.wire.schema.structural import (
    LEAVES,
    UNKNOWN_FIELD,
    prune,
    unknown_fields,
    validate,
    with_defaults,
)
from gitkruise.world.apply import managed_fields
from gitkruise.world.store import api_errors
from gitkruise.world.store.admission_cache import AdmittedPod, body_of
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.store.strategies import POD, on_create, on_update
from gitkruise.world.write import decoding, object_meta, warnings
from gitkruise.world.write.admission import admit_object
from gitkruise.world.write.changed_parts import rewritten, touched
from gitkruise.world.write.fast_write import create_fast, update_fast, uses_fast_path
from gitkruise.world.write.omitempty import without_zeroes
from gitkruise.world.write.server_set_fields import as_requested
from gitkruise.world.write.unset_times import with_unset_times

Listed = Sequence[Mapping[str, Any]]
COUNT_MAX: Final = 2**31 - 1
_GO: Final = {str: "string", bool: "bool", float: "float64", list: "[]interface {}"}


def new_object(call: RequestContext, obj: Obj, listed: Listed | None = None) -> Obj:
    """Return `obj` (named, of the right type) as it will be stored, in the request's version.

    `listed` is managedFields when an apply already knows them. Raises BadRequest, Forbidden and
    InvalidObject; nothing is stored.
    """
    kind, sent = call.kind, obj
    costs = DELETION_COST in (obj["metadata"].get("annotations") or ())  # a rule of each pod's own
    cacheable = kind.group_kind == POD and listed is None and not costs
    if cacheable and (made := _from_sibling(call, sent)) is not None:
        return made
    obj, sound = decoded_part(call, cleaned(call, obj, {}), {})
    asked, meta = obj, object_meta.init_metadata(kind, obj["metadata"], call.new_uid(), call.now)
    obj = with_part_defaults(kind, on_create(kind, {**obj, "metadata": meta}), {})
    sound = sound or typed(call, obj, {}) is obj
    if kind.crd and listed is None:
        obj = _owned(call, None, obj)
    problems = object_meta.check_new(kind, obj["metadata"])
    try:
        made = admit_object(call, CREATE, obj, None)
    except InvalidObject as error:
        raise api_errors.joined(kind, meta["name"], problems, error) from None
    made = with_unset_times(kind.group_kind, made, {})
    if listed is not None:
        made = with_managers(made, listed)
    elif not kind.crd:
        made = _owned(call, None, made, as_requested(kind.group_kind, asked, made))
    # What kept to its schema still does: admission of built-in kinds works on Go's types.
    problems += _schema_problems(kind, made, made if sound else {})
    problems += count_problems(kind, made, "")
    if problems:
        raise api_errors.invalid(kind, made["metadata"]["name"], problems)
    call.warnings.extend(warnings.of_write(kind.group_kind, made))
    if cacheable and asked.get("spec") is sent.get("spec"):
        call.state.admission_cache.keep(sent, made, call.state, call.now)
    return made


def _from_sibling(call: RequestContext, sent: Obj) -> Obj | None:
    """Return a new pod as its sibling was admitted; None for the first pod of a spec."""
    if call.state.fast_path:
        return create_fast(call.state, call.kind, sent, call.new_uid(), call.now)
    if "managedFields" in sent["metadata"]:
        return None
    admitted = call.state.admission_cache.find(sent, call.state)
    return None if admitted is None else _from_admitted(call, sent, admitted)


def _from_admitted(call: RequestContext, sent: Obj, admitted: AdmittedPod) -> Obj:
    """Return the pod `sent` with the admitted body; only its metadata are processed."""
    kind, rest = call.kind, body_of(sent)
    asked = cleaned(call, sent, rest)
    born = object_meta.init_metadata(kind, asked["metadata"], call.new_uid(), call.now)
    obj = with_part_defaults(kind, {**asked, "metadata": born}, rest)
    typed(call, obj, rest)
    if problems := object_meta.check_new(kind, obj["metadata"]):
        raise api_errors.invalid(kind, sent["metadata"]["name"], problems)
    meta = admitted.metadata(obj["metadata"], call.now)
    made = {**admitted.made, "metadata": meta}
    call.warnings.extend(warnings.of_write(kind.group_kind, made))
    if not admitted.has_same_fields(meta):
        return _owned(call, None, made, as_requested(kind.group_kind, asked, made))
    return with_managers(
        made, managed_fields.as_created(call, admitted.made["metadata"]["managedFields"])
    )


def changed_object(call: RequestContext, old: Obj, new: Obj, listed: Listed | None = None) -> Obj:
    """`new` as it is to be stored in place of `old`, both in the request's version.

    Answers `old` itself when nothing changes. Raises Conflict when `new` was made from another
    version, and what `new_object` raises.
    """
    kind, before = call.kind, old["metadata"]
    if uses_fast_path(call):
        _check_locks(call, before, new["metadata"])
        return _numbered(call, old, update_fast(call, old, new))
    new, sound = decoded_part(call, cleaned(call, new, old), old)
    _check_locks(call, before, new["metadata"])
    frozen = object_meta.changed_system_fields(kind, before, new["metadata"])
    if frozen:
        raise api_errors.invalid(kind, call.name, frozen)
    new = {**new, "metadata": object_meta.keep_system_fields(before, new["metadata"])}
    asked = new["metadata"]
    new = with_part_defaults(kind, on_update(kind, call.subresource, old, new), old)
    checked = new if sound else typed(call, new, old)
    defaulted, new = new, admit_object(call, UPDATE, new, old)
    problems = object_meta.check_update(kind, before, new["metadata"])
    problems += _schema_problems(kind, new, checked)
    problems += count_problems(kind, new, call.subresource)
    if problems:
        raise api_errors.invalid(kind, call.name, problems)
    new = with_unset_times(kind.group_kind, new, old)
    if listed is not None:
        new = with_managers(new, listed)
    else:
        seen = defaulted if kind.crd else new
        if kind.crd and call.subresource == "status":
            seen = {**seen, "metadata": asked}  # who asks for a label there owns it, all the same
        new = _owned(call, old, new, seen)
    new = _numbered(call, old, new)
    if new["metadata"].get("generation") != before.get("generation") or not before.get(
        "generation"
    ):
        call.warnings.extend(warnings.of_change(kind.group_kind, new))
    return new


def decoded(call: RequestContext, obj: Obj) -> None:
    """Refuse what is wrong with `obj` before a look at whether its place is taken."""
    typed(call, cleaned(call, obj, {}), {})


def _numbered(call: RequestContext, old: Obj, new: Obj) -> Obj:
    """`new` with its generation; `old` when they say the same (times of managers aside)."""
    before, after = old["metadata"], new["metadata"]
    if _same_content(old, new):
        left, right = before.get("managedFields") or (), after.get("managedFields") or ()
        if left == right or managed_fields.same_but_times(left, right):
            return old
        return new
    generation = object_meta.next_generation(call.kind, old, new)
    if call.subresource == "status" or not generation or generation == before.get("generation"):
        return new
    return {**new, "metadata": {**after, "generation": generation}}


def _same_content(old: Obj, new: Obj) -> bool:
    if old.keys() != new.keys():
        return False
    if not all(same(old[key], new[key]) for key in old if key != "metadata"):
        return False
    aside = ("managedFields", "resourceVersion")
    before, after = old["metadata"], new["metadata"]
    if before is after:
        return True
    names = (before.keys() | after.keys()).difference(aside)
    return all(before.get(name) == after.get(name) for name in names)


def _check_locks(call: RequestContext, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Optimistic concurrency: a resourceVersion or uid that is given must be the stored one."""
    kind, name, version = call.kind, call.name, new.get("resourceVersion")
    if not call.patched:  # or it was looked at before webhooks were asked
        check_uid(call, old, new)
    if version in (None, "", "0"):
        locked = kind.crd or kind.group_kind in object_meta.CONDITIONAL
        if call.request.verb == "update" and locked and call.subresource != "scale":
            path = ("metadata", "resourceVersion")
            why = "Invalid value: 0: must be specified for an update"
            problem = Problem(path, "FieldValueInvalid", why)
            raise invalid_object(kind.plural, kind.group, name, [problem])
        return
    if not (isinstance(version, str) and version.isdecimal()):
        raise BadRequest(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version != old["resourceVersion"]:
        raise api_errors.modified(kind, name)


def check_uid(call: RequestContext, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """An update is of the object it names by uid. Raises Conflict."""
    uid = new.get("uid")
    if call.request.verb == "update" and uid and uid != old["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}"
        raise api_errors.conflict(call.kind, call.name, why)


def cleaned(call: RequestContext, obj: Obj, old: Obj) -> Obj:
    """Prune fields that the schema does not know; reported as `fieldValidation` requires."""
    schema, unknown, out = call.kind.schema, list[Problem](), obj
    for path, value, node in touched(schema, obj, old):
        if node is None:
            if len(path) == 1 and schema.preserve_unknown:
                continue
            out = drop(out, path)
        elif (kept := prune(node, value)) is value:
            continue
        else:
            out = put(out, path, kept)
        unknown += _unknown(path, value, node)
    if unknown:
        typed(call, with_part_defaults(call.kind, out, old), old)  # type errors come first
    if call.kind.crd:
        unknown.sort(key=lambda problem: problem.message)
    if unknown and call.options.field_validation == "Strict":
        listed = ", ".join(problem.message for problem in unknown)
        raise _refusal(call, obj, f"strict decoding error: {listed}")
    if call.options.field_validation == "Warn":
        call.warnings.extend(problem.message for problem in unknown)
    return out


def _unknown(path: tuple[str | int, ...], value: Any, node: Node | None) -> list[Problem]:
    """The fields below `path` that go, named from the object's root."""
    if node is None:
        found = [Problem(path, UNKNOWN_FIELD, "")]
    else:
        found = [
            Problem((*path, *problem.path), UNKNOWN_FIELD, "")
            for problem in unknown_fields(node, value)
        ]
    return [Problem(p.path, UNKNOWN_FIELD, f'unknown field "{p.field}"') for p in found]


def _refusal(call: RequestContext, obj: Obj, why: str) -> Exception:
    if call.request.verb != "patch":
        return api_errors.undecodable(call.kind, why)
    return api_errors.rejected_patch(f"Invalid value: {api_errors.quoted(obj)}: {why}")


def with_part_defaults(kind: Kind, obj: Obj, old: Obj) -> Obj:
    """`obj` with its schema's defaults; parts equal to `old`'s are taken from there."""
    out = dict(obj)
    for name, part in obj.items():
        if name in old and part is not old[name] and part == old[name] and same(part, old[name]):
            out[name] = old[name]
    for name, child in kind.schema.defaulted():
        if name not in out:
            out[name] = with_defaults(child, child.default)
    schema = kind.schema
    result = rewritten(out, touched(schema, out, old), with_defaults)
    parts = touched(schema, result, old)
    if kind.crd:
        parts = [part for part in parts if part.path[0] == "metadata"]
    result = rewritten(result, parts, without_empty)
    emptied = [path for path, value, _ in parts if _goes(schema, path, value)]
    for path in emptied:
        result = drop(result, path)
    return without_zeroes(kind.group_kind, result, old)


def _goes(schema: Node, path: tuple[str | int, ...], value: Any) -> bool:
    """Return whether Go omits an empty value at `path`."""
    if value or not isinstance(path[-1], str):
        return False
    node: Node | None = schema
    for step in path[:-1]:
        if node is not None:
            node = node.items if isinstance(step, int) else node.child(step)
    child = node.child(path[-1]) if node is not None else None
    if node is None or child is None:
        return False
    if value is None:  # decoding null into a Go field leaves it as it was: unset
        return not child.nullable
    return path[-1] not in node.required and _omitted(child, value)


def without_empty(node: Node, value: Any) -> Any:
    """`value` as Go encodes a decoded built-in object: empty lists and free maps are left out."""
    if isinstance(value, list | tuple):
        items = node.items
        kept = [without_empty(items, item) for item in value] if items is not None else value
        return kept if any(a is not b for a, b in zip(kept, value, strict=True)) else value
    if not isinstance(value, (dict, Mapping)) or not node.has_fields:
        return value
    out: dict[str, Any] = {}
    for name, item in value.items():
        child = None if item.__class__ in LEAVES else node.child(name)
        if child is None or name in node.required:
            out[name] = item
        elif not _omitted(child, item):
            out[name] = without_empty(child, item)
    return out if len(out) < len(value) or any(out[k] is not value[k] for k in out) else value


def _omitted(node: Node, value: Any) -> bool:
    """Empty lists and empty maps with free keys carry `omitempty` in every built-in type."""
    return not value and (isinstance(value, list) or (value == {} and node.additional is not None))


def typed(call: RequestContext, obj: Obj, old: Obj) -> Obj:
    """Return the base of later comparisons: `obj` if it follows its schema, else `old`.

    Raises BadRequest for values that no Go type holds.
    """
    why, sound = decoding.undecodable(call.kind, obj, old)
    if why:
        raise _refusal(call, obj, why)
    return obj if sound and not call.kind.crd else old


def decoded_part(call: RequestContext, obj: Obj, old: Obj) -> tuple[Obj, bool]:
    """`obj`, safe to read, and whether it keeps its schema as it is. Raises BadRequest."""
    # A patch is refused by the rules of a Secret, which do not show its values.
    if call.request.verb != "patch" and (why := decoding.undecodable_bytes(call.kind, obj)):
        raise api_errors.undecodable(call.kind, why)
    if not decoding.flawed(call.kind, obj, old):
        return obj, not call.kind.crd
    why, _ = decoding.undecodable(call.kind, obj, old, nulls=False)
    if why:
        raise _refusal(call, obj, why)
    filled = with_part_defaults(call.kind, obj, old)  # nulls are removed or defaulted
    typed(call, filled, old)
    return filled, False


def _schema_problems(kind: Kind, obj: Obj, old: Obj) -> list[Problem]:
    schema = kind.schema
    # An event of core/v1 has no eventTime, and may be changed through events.k8s.io all the same.
    asked = schema.required if kind.home == kind.group_kind or not old else ()
    problems = [
        Problem((name,), "FieldValueRequired", "Required value")
        for name in asked
        if name not in obj
    ]
    for path, value, node in touched(schema, obj, old):
        if not kind.crd and (value is None or path[0] == "status"):
            continue  # Go writes a nil list as null, and enums of a status are prose
        if node is not None and path[0] != "metadata":
            problems += (_relocated(problem, path) for problem in validate(node, value))
    return problems


def _relocated(problem: Problem, path: tuple[str | int, ...]) -> Problem:
    """A part's problem, named from the object's root."""
    whole = Problem((*path, *problem.path), problem.reason, problem.message, problem.suggestion)
    message = problem.message.replace(f": {problem.field} in body", f": {whole.field} in body")
    return replace(whole, message=message)


def _owned(call: RequestContext, old: Obj | None, new: Obj, seen: Obj | None = None) -> Obj:
    """`new` with managedFields brought up to date; `seen` is what its writer is held to."""
    if uses_fast_path(call):
        return new
    source = new if seen is None else seen
    return with_managers(new, managed_fields.after_update(call, old, source))


def with_managers(obj: Obj, listed: Listed | None) -> Obj:
    meta = obj["metadata"]
    if not listed:
        if "managedFields" not in meta:
            return obj
        return {**obj, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}
    if meta.get("managedFields") == listed:
        return obj
    return {**obj, "metadata": {**meta, "managedFields": listed}}


def count_problems(kind: Kind, obj: Obj, subresource: str) -> Iterator[Problem]:
    """Validate the replica counts of `obj`.

    Source: ValidateScaleSpec and ValidateScaleStatus of customResourceValidator; a write of
    the status does not validate the spec.
    """
    if not kind.crd or kind.scale is None:
        return
    paths = kind.scale.replicas, kind.scale.status_replicas
    for path in paths[1:] if subresource == "status" else paths:
        why = _wrong(path, get(obj, *path, default=0))
        if why:
            yield Problem(("." + ".".join(path),), "FieldValueInvalid", f"Invalid value: {why}")


def _wrong(path: tuple[str, ...], count: Any) -> str:
    if isinstance(count, bool) or not isinstance(count, int):
        shown = str(count).lower() if isinstance(count, bool) else count
        reason = f"{shown} is of the type {_GO.get(type(count), 'map[string]interface {}')}"
        return f"0: .{'.'.join(path)} accessor error: {reason}, expected int64"
    if count < 0:
        return f"{count}: should be a non-negative integer"
    return f"{count}: should be less than or equal to {COUNT_MAX}" if count > COUNT_MAX else ""
