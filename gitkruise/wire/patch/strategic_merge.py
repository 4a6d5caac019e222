"""Strategic merge patch: merging by the keys a schema names, with all of Kubernetes' directives.

Rules are those of apimachinery's strategicpatch, quirks included: a new element of a keyed list
goes before elements it has no known order with, and `$patch: delete` on a map leaves it empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import BadRequest
from gitkruise.wire.patch.json_patch import LISTS, MAPS, check_depth, same
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.schema.nodes import Node

PATCH: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
SET_ORDER: Final = "$setElementOrder/"
DELETE_FROM: Final = "$deleteFromPrimitiveList/"


def strategic_patch(obj: Obj, patch: Any, node: Node) -> Obj:
    """`obj` after a strategic merge patch; merge keys and strategies come from `node`.

    Raises BadRequest for a patch that is no object, an unknown directive, an element without its
    merge key, or an order list that contradicts the patch.
    """
    if not isinstance(patch, MAPS):
        raise BadRequest("a strategic merge patch is an object")
    check_depth(patch)
    return _map(obj, patch, node)


def _map(original: Obj, patch: Obj, node: Node | None) -> Obj:
    directive = patch.get(PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == "delete":
        return {}
    if directive is not None:
        raise BadRequest(f"unknown patch type: {directive!r} in map")
    if "$" not in [key[:1] for key in patch]:
        out = dict(original)
        for key, value in patch.items():
            _entry(out, key, value, node)
        return out
    out = _retained(dict(original), patch)
    names = (key.removeprefix(SET_ORDER) for key in patch if key.startswith(SET_ORDER))
    ordered = [name for name in names if patch.get(name, ()) is not None]
    for name in ordered:
        _ordered_entry(out, patch, name, node)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_from(out, key.removeprefix(DELETE_FROM), value)
        elif not key.startswith((RETAIN_KEYS, SET_ORDER)) and key not in ordered:
            _entry(out, key, value, node)
    return out


def _entry(out: dict[str, Any], key: str, value: Any, node: Node | None) -> None:
    """Merge one plain key of a patch into `out`."""
    if value is None:
        out.pop(key, None)
        return
    if value.__class__ is str or value.__class__ is bool:
        out[key] = value
        return
    old = out.get(key)
    child = node.child(key) if node else None
    if isinstance(value, MAPS) and isinstance(old, MAPS):
        replace = child is not None and "replace" in child.merge_strategy
        out[key] = _plain(value) if replace else _map(old, value, child)
    elif isinstance(value, LISTS) and isinstance(old, LISTS):
        out[key] = _list(old, value, child)
    else:
        out[key] = _plain(value)


def _plain(value: Any) -> Any:
    """A patch's value where there was none before: without nulls in maps and without directives."""
    if isinstance(value, MAPS):
        return {
            key: _plain(item)
            for key, item in value.items()
            if item is not None and not key.startswith("$")
        }
    if isinstance(value, LISTS):
        kept = [item for item in value if not (isinstance(item, MAPS) and _is_deletion(item))]
        return [_plain(item) for item in kept if not _is_marker(item)]
    return value


def _is_deletion(item: Obj) -> bool:
    return item.get(PATCH) == "delete"


def _is_marker(item: Any) -> bool:
    return isinstance(item, MAPS) and set(item) == {PATCH}


def _retained(out: dict[str, Any], patch: Obj) -> dict[str, Any]:
    """Apply `$retainKeys`: what the list does not name goes."""
    keep = patch.get(RETAIN_KEYS)
    if keep is None:
        return out
    if not isinstance(keep, LISTS):
        raise BadRequest("invalid patch format of retainKeys: a list of names is needed")
    names = {key for key in keep if isinstance(key, str)}
    strangers = [key for key in patch if not key.startswith("$") and key not in names]
    if strangers:
        raise BadRequest(f"invalid patch format of retainKeys: {strangers[0]!r} is not in the list")
    return {key: value for key, value in out.items() if key in names}


def _delete_from(out: dict[str, Any], name: str, values: Any) -> None:
    if not isinstance(values, LISTS):
        raise BadRequest(f"{DELETE_FROM}{name} needs a list")
    old = out.get(name)
    if isinstance(old, LISTS):
        gone = {_token(value) for value in values}
        out[name] = [item for item in old if _token(item) not in gone]


# Lists ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Identity:
    """Identity of list elements: their merge key, or the whole element."""

    key: str

    def value(self, item: Any) -> Any:
        if not self.key:
            return item
        if not isinstance(item, MAPS) or item.get(self.key) is None:
            raise BadRequest(f"map: {item} does not contain declared merge key: {self.key}")
        return item[self.key]

    def token(self, item: Any) -> Hashable:
        """The identity as something to look up; in order lists a bare key may stand for it."""
        bare = self.key and not isinstance(item, MAPS)
        return _token(item if bare else self.value(item))

    def places(self, items: Sequence[Any]) -> dict[Hashable, int]:
        """Token -> index of its first element."""
        out: dict[Hashable, int] = {}
        for index, item in enumerate(items):
            out.setdefault(self.token(item), index)
        return out


def _token(value: Any) -> Hashable:
    """A hashable stand-in, equal for equal JSON values: true is not 1, 1 is 1.0."""
    if isinstance(value, str):
        return value
    if isinstance(value, MAPS):
        return frozenset((key, _token(item)) for key, item in value.items())
    if isinstance(value, LISTS):
        return tuple(_token(item) for item in value)
    return (isinstance(value, bool), value)


def _list(original: Sequence[Any], patch: Sequence[Any], node: Node | None) -> Any:
    if node is None or "merge" not in node.merge_strategy:
        return _plain(patch)
    if not any(isinstance(item, MAPS) for item in (*original, *patch)):
        identity = _Identity("")
        both = (*original, *patch)
        merged = [both[index] for index in identity.places(both).values()]
        return _in_order(merged, patch, original, identity)
    if not node.merge_key:
        raise BadRequest("cannot merge lists without merge key")
    identity = _Identity(node.merge_key)
    if (quick := _plainly(original, patch, node)) is not None:
        return quick
    kept, plain, replaced = _specials(original, patch, identity)
    if replaced:
        return _plain(plain)
    merged = _merged_elements(kept, plain, identity, node.items)
    return _in_order(merged, plain, kept, identity)


def _plainly(original: Sequence[Any], patch: Sequence[Any], node: Node) -> list[Any] | None:
    """Fast path: merge and order a list whose elements are plain and unique.
    The result equals `_merged_elements` followed by `_in_order`. None where that does not hold."""
    before, wanted = _named(original, node.merge_key), _named(patch, node.merge_key)
    if before is None or wanted is None or any(PATCH in item for item in patch):
        return None
    others = [name for name in before if name not in wanted]
    out, done = list[Any](), 0
    for name, at in wanted.items():
        place = before.get(name, -1)
        while done < len(others) and before[others[done]] < place:
            out.append(original[before[others[done]]])
            done += 1
        item = patch[at]
        out.append(_plain(item) if place < 0 else _map(original[place], item, node.items))
    return out + [original[before[name]] for name in others[done:]]


def _named(items: Sequence[Any], key: str) -> dict[str, int] | None:
    """Name -> index; None when an element is no dict, or its name no text or another's too."""
    places: dict[str, int] = {}
    for index, item in enumerate(items):
        name = item.get(key) if item.__class__ is dict else None
        if name.__class__ is not str or name in places:
            return None
        places[name] = index
    return places


def _specials(
    original: Sequence[Any], patch: Sequence[Any], identity: _Identity
) -> tuple[list[Any], list[Any], bool]:
    """Apply the `$patch` elements: (what stays, plain elements, whether the list is replaced)."""
    gone, plain, replaced = set[Hashable](), list[Any](), False
    for item in patch:
        directive = item.get(PATCH) if isinstance(item, MAPS) else None
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            gone.add(identity.token(item))
        elif directive == "replace":
            replaced = True
            rest = {key: value for key, value in item.items() if key != PATCH}
            plain += [rest] if rest else []
        elif directive == "merge":
            raise BadRequest("merging lists cannot yet be specified in the patch")
        else:
            raise BadRequest(f"unknown patch type: {directive!r} in list")
    kept = [old for old in original if identity.token(old) not in gone] if gone else [*original]
    return kept, plain, replaced


def _merged_elements(
    original: Sequence[Any],
    patch: Sequence[Any],
    identity: _Identity,
    node: Node | None,
) -> list[Any]:
    out = list(original)
    places = identity.places(out)
    for item in patch:
        at = places.setdefault(identity.token(item), len(out))
        if at == len(out):
            out.append(_plain(item))
        else:
            out[at] = _map(out[at], item, node)
    return out


def _in_order(
    merged: Sequence[Any], order: Sequence[Any], original: Sequence[Any], identity: _Identity
) -> list[Any]:
    """Elements `order` names in its order; the server's others keep their place relative to them.

    An element only the server has goes first when it stood before the next ordered one, and
    waits otherwise, which puts it behind elements that are new.
    """
    wanted, before = identity.places(order), identity.places(original)
    named = [(identity.token(item), item) for item in merged]
    ours = [(token, item) for token, item in named if token in wanted]
    ours.sort(key=lambda pair: wanted[pair[0]])
    others = deque((token, item) for token, item in named if token not in wanted)
    out: list[Any] = []
    for token, item in ours:
        place = before.get(token, -1)
        while others and before.get(others[0][0], place) < place:
            out.append(others.popleft()[1])
        out.append(item)
    return [*out, *(item for _, item in others)]


def _ordered_entry(out: dict[str, Any], patch: Obj, name: str, node: Node | None) -> None:
    """Merge the list `name` and put it in the order of its `$setElementOrder`."""
    order, old, new = patch[SET_ORDER + name], out.get(name), patch.get(name)
    for found in (order, old or (), new or ()):
        if not isinstance(found, LISTS):
            raise BadRequest(f"{SET_ORDER}{name} and what it orders must be lists")
    child = node.child(name) if node else None
    identity = _Identity(child.merge_key if child else "")
    _check_order(new or (), order, identity, name)
    if old is not None and new is not None:
        out[name] = _list(old, new, child)
    elif new is not None:
        out[name] = _plain(new)
    if name in out:
        out[name] = _in_order(out[name], order, old or (), identity)


def _check_order(
    patch: Sequence[Any], order: Sequence[Any], identity: _Identity, name: str
) -> None:
    """Check that the order list names every plain element of the patch, in the same order."""
    places, last = identity.places(order), -1
    for item in patch:
        if isinstance(item, MAPS) and PATCH in item:
            continue
        place = places.get(identity.token(item), -1)
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
        if isinstance(old, Mapping) and isinstance(value, MAPS):
            inner = strategic_diff(old, value, child)
            patch |= {key: inner} if inner else {}
        elif _merges(old, value, child):
            assert child is not None
            patch |= _list_diff(key, old or (), value, child)
        else:
            patch[key] = value
    return dict(sorted(patch.items()))


def _merges(old: Any, new: Any, node: Node | None) -> bool:
    lists = isinstance(old, LISTS) and isinstance(new, LISTS)
    return lists and node is not None and "merge" in node.merge_strategy


def _list_diff(name: str, old: Sequence[Any], new: Sequence[Any], node: Node) -> dict[str, Any]:
    identity = _Identity(node.merge_key)
    before, after = identity.places(old), identity.places(new)
    gone = [item for item in old if identity.token(item) not in after]
    if not any(isinstance(item, MAPS) for item in (*old, *new)):
        parts = {
            name: [item for item in new if identity.token(item) not in before],
            DELETE_FROM + name: gone,
            SET_ORDER + name: list(new),
        }
        return {key: value for key, value in parts.items() if value}
    changed: list[Any] = []
    for item in new:
        at = before.get(identity.token(item))
        inner = item if at is None else strategic_diff(old[at], item, node.items)
        changed += [{**inner, identity.key: identity.value(item)}] if inner else []
    changed += [{PATCH: "delete", identity.key: identity.value(item)} for item in gone]
    order = [{identity.key: identity.value(item)} for item in new]
    return {key: value for key, value in ((name, changed), (SET_ORDER + name, order)) if value}
