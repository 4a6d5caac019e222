"""Strategic merge patch: merging by the keys a schema names, with all of Kubernetes' directives.

Rules are those of apimachinery's strategicpatch, quirks included: a new element of a keyed list
goes before elements it has no known order with, and `$patch: delete` on a map leaves it empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import BadRequest
from gitkruise.wire.names import Obj
from gitkruise.wire.nodes import Node
from gitkruise.wire.patches import same

MAX_DEPTH: Final = 200
PATCH: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
SET_ORDER: Final = "$setElementOrder/"
DELETE_FROM: Final = "$deleteFromPrimitiveList/"


def strategic_patch(obj: Obj, patch: Any, node: Node) -> Obj:
    """`obj` after a strategic merge patch; merge keys and strategies come from `node`.

    Raises BadRequest for a patch that is no object, an unknown directive, an element without its
    merge key, or an order list that contradicts the patch.
    """
    if not isinstance(patch, Mapping):
        raise BadRequest("a strategic merge patch is an object")
    return _map(obj, patch, node, 0)


def _map(original: Obj, patch: Obj, node: Node | None, depth: int) -> Obj:
    if depth > MAX_DEPTH:
        raise BadRequest(f"the patch nests deeper than {MAX_DEPTH} levels")
    directive = patch.get(PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == "delete":
        return {}
    if directive is not None:
        raise BadRequest(f"unknown patch type: {directive!r} in map")
    out = _retained(dict(original), patch)
    ordered = {key.removeprefix(SET_ORDER) for key in patch if key.startswith(SET_ORDER)}
    for name in ordered:
        merged = _ordered_list(out, patch, name, node, depth)
        if merged is not None:
            out[name] = merged
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_from(out, key.removeprefix(DELETE_FROM), value)
        elif key != RETAIN_KEYS and not key.startswith(SET_ORDER) and key not in ordered:
            _entry(out, key, value, node, depth)
        elif key in ordered and value is None:
            out.pop(key, None)
    return out


def _entry(out: dict[str, Any], key: str, value: Any, node: Node | None, depth: int) -> None:
    """Merge one plain key of a patch into `out`."""
    if value is None:
        out.pop(key, None)
        return
    old = out.get(key)
    child = node.child(key) if node else None
    if isinstance(value, Mapping) and isinstance(old, Mapping):
        replace = child is not None and "replace" in child.merge_strategy
        out[key] = _plain(value) if replace else _map(old, value, child, depth + 1)
    elif isinstance(value, list | tuple) and isinstance(old, list | tuple):
        out[key] = _list(old, value, child, depth + 1)
    else:
        out[key] = _plain(value)


def _plain(value: Any, depth: int = 0) -> Any:
    """A patch's value where there was none before: without nulls in maps and without directives."""
    if depth > MAX_DEPTH:
        raise BadRequest(f"the patch nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {
            key: _plain(item, depth + 1)
            for key, item in value.items()
            if item is not None and not key.startswith("$")
        }
    if isinstance(value, list | tuple):
        kept = [item for item in value if not (isinstance(item, Mapping) and _is_deletion(item))]
        return [_plain(item, depth + 1) for item in kept if not _is_marker(item)]
    return value


def _is_deletion(item: Obj) -> bool:
    return item.get(PATCH) == "delete"


def _is_marker(item: Any) -> bool:
    return isinstance(item, Mapping) and set(item) == {PATCH}


def _retained(out: dict[str, Any], patch: Obj) -> dict[str, Any]:
    """Apply `$retainKeys`: what the list does not name goes."""
    keep = patch.get(RETAIN_KEYS)
    if keep is None:
        return out
    if not isinstance(keep, list | tuple):
        raise BadRequest("invalid patch format of retainKeys: a list of names is needed")
    strangers = [key for key in patch if not key.startswith("$") and key not in keep]
    if strangers:
        raise BadRequest(f"invalid patch format of retainKeys: {strangers[0]!r} is not in the list")
    return {key: value for key, value in out.items() if key in keep}


def _delete_from(out: dict[str, Any], name: str, values: Any) -> None:
    if not isinstance(values, list | tuple):
        raise BadRequest(f"{DELETE_FROM}{name} needs a list")
    old = out.get(name)
    if isinstance(old, list | tuple):
        out[name] = [item for item in old if not _contains(values, item)]


def _contains(values: Sequence[Any], wanted: Any) -> bool:
    return any(same(value, wanted) for value in values)


# Lists ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Identity:
    """What makes two elements of a list the same one: their merge key, or themselves."""

    key: str

    def of(self, item: Any) -> Any:
        if not self.key:
            return item
        if not isinstance(item, Mapping) or item.get(self.key) is None:
            raise BadRequest(f"map: {item} does not contain declared merge key: {self.key}")
        return item[self.key]

    def place(self, items: Sequence[Any], wanted: Any) -> int:
        """Index of the element with the identity `wanted`, or -1."""
        for index, item in enumerate(items):
            known = item.get(self.key) if self.key and isinstance(item, Mapping) else item
            if same(known, wanted):
                return index
        return -1

    def split(self, items: Sequence[Any], order: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(elements that `order` names, in its order; the others as they stand)."""
        named = [
            (place, item) for item in items if (place := self.place(order, self.of(item))) >= 0
        ]
        others = [item for item in items if self.place(order, self.of(item)) < 0]
        return [item for _, item in sorted(named, key=lambda pair: pair[0])], others


def _list(original: Sequence[Any], patch: Sequence[Any], node: Node | None, depth: int) -> Any:
    if node is None or "merge" not in node.merge_strategy:
        return _plain(patch)
    if not any(isinstance(item, Mapping) for item in (*original, *patch)):
        identity = _Identity("")
        merged = [*original, *(item for item in patch if not _contains(original, item))]
        return _in_order(_unique(merged), patch, original, identity)
    if not node.merge_key:
        raise BadRequest("cannot merge lists without merge key")
    identity = _Identity(node.merge_key)
    kept, plain, replaced = _specials(original, patch, identity)
    if replaced:
        return _plain(plain)
    return _in_order(
        _merged_elements(kept, plain, identity, node.items, depth), plain, kept, identity
    )


def _unique(items: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    for item in items:
        if not _contains(out, item):
            out.append(item)
    return out


def _specials(
    original: Sequence[Any], patch: Sequence[Any], identity: _Identity
) -> tuple[list[Any], list[Any], bool]:
    """Apply the `$patch` elements: (what stays, plain patch elements, whether the list is replaced)."""
    kept, plain, replaced = list(original), [], False
    for item in patch:
        directive = item.get(PATCH) if isinstance(item, Mapping) else None
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            gone = identity.of(item)
            kept = [old for old in kept if not same(identity.of(old), gone)]
        elif directive == "replace":
            replaced = True
            rest = {key: value for key, value in item.items() if key != PATCH}
            plain += [rest] if rest else []
        elif directive == "merge":
            raise BadRequest("merging lists cannot yet be specified in the patch")
        else:
            raise BadRequest(f"unknown patch type: {directive!r} in list")
    return kept, plain, replaced


def _merged_elements(
    original: Sequence[Any],
    patch: Sequence[Any],
    identity: _Identity,
    node: Node | None,
    depth: int,
) -> list[Any]:
    out = list(original)
    for item in patch:
        at = identity.place(out, identity.of(item))
        if at < 0:
            out.append(_plain(item))
        else:
            out[at] = _map(out[at], item, node, depth + 1)
    return out


def _in_order(
    merged: Sequence[Any], order: Sequence[Any], original: Sequence[Any], identity: _Identity
) -> list[Any]:
    """Elements `order` names in its order; the server's others keep their place relative to them.

    An element only the server has goes first when it stood before the next ordered one, and
    waits otherwise, which puts it behind elements that are new.
    """
    ours, others = identity.split(merged, order)
    _, others = identity.split(others, ()) if not original else (None, others)
    others.sort(key=lambda item: identity.place(original, identity.of(item)))
    out: list[Any] = []
    for item in ours:
        place = identity.place(original, identity.of(item))
        while others and -1 < identity.place(original, identity.of(others[0])) < place:
            out.append(others.pop(0))
        out.append(item)
    return out + others


def _ordered_list(
    out: Mapping[str, Any], patch: Obj, name: str, node: Node | None, depth: int
) -> list[Any] | None:
    """The list `name` merged and put in the order of its `$setElementOrder`; None when there is none."""
    order, old, new = patch[SET_ORDER + name], out.get(name), patch.get(name)
    if not isinstance(order, list | tuple):
        raise BadRequest(f"{SET_ORDER}{name} needs a list")
    for found in (old, new):
        if found is not None and not isinstance(found, list | tuple):
            raise BadRequest(f"{name} is not a list, but has {SET_ORDER}{name}")
    child = node.child(name) if node else None
    identity = _Identity(child.merge_key if child else "")
    _check_order(new or (), order, identity, name)
    if old is None and new is None:
        return None
    if old is None:
        merged = _plain(new)
    elif new is None:
        merged = old
    else:
        merged = _list(old, new, child, depth + 1)
    return _in_order(merged, order, old or (), identity)


def _check_order(
    patch: Sequence[Any], order: Sequence[Any], identity: _Identity, name: str
) -> None:
    """Every plain element of the patch stands in the order list, in the same order."""
    last = -1
    for item in patch:
        if isinstance(item, Mapping) and PATCH in item:
            continue
        place = identity.place(order, identity.of(item))
        if place <= last:
            raise BadRequest(
                f"the order in the patch list of {name} does not match {SET_ORDER}{name}"
            )
        last = place


# Making a patch ------------------------------------------------------------------------------


def strategic_diff(before: Obj, after: Obj, node: Node | None) -> dict[str, Any]:
    """The two-way strategic merge patch from `before` to `after`, keys sorted; `{}` when equal.

    As client-go makes it: null for a key that goes, merged lists by element with
    `$setElementOrder/…`, `$deleteFromPrimitiveList/…` and `$patch: delete`, other lists whole.
    """
    patch: dict[str, Any] = {}
    for key in before.keys() - after.keys():
        patch[key] = None
    for key, value in after.items():
        old = before.get(key)
        if key in before and same(old, value):
            continue
        child = node.child(key) if node else None
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            inner = strategic_diff(old, value, child)
            patch |= {key: inner} if inner else {}
        elif _is_list(old) and _is_list(value) and child and "merge" in child.merge_strategy:
            patch |= _list_diff(key, old, value, child)
        else:
            patch[key] = value
    return dict(sorted(patch.items()))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _list_diff(name: str, old: Sequence[Any], new: Sequence[Any], node: Node) -> dict[str, Any]:
    identity = _Identity(node.merge_key)
    if not any(isinstance(item, Mapping) for item in (*old, *new)):
        parts = {
            name: [item for item in new if not _contains(old, item)],
            DELETE_FROM + name: [item for item in old if not _contains(new, item)],
            SET_ORDER + name: list(new),
        }
        return {key: value for key, value in parts.items() if value}
    changed: list[Any] = []
    for item in new:
        key = identity.of(item)
        at = identity.place(old, key)
        inner = item if at < 0 else strategic_diff(old[at], item, node.items)
        changed += [{**inner, identity.key: key}] if inner else []
    gone = [
        {PATCH: "delete", identity.key: identity.of(item)}
        for item in old
        if identity.place(new, identity.of(item)) < 0
    ]
    parts = {
        name: changed + gone,
        SET_ORDER + name: [{identity.key: identity.of(item)} for item in new],
    }
    return {key: value for key, value in parts.items() if value}
