"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386): applying and making them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from gitkruise.errors import BadRequest, InvalidObject, StatusDetails, TooLarge
from gitkruise.wire.primitives.gojson import RawJSON

MAX_OPERATIONS: Final = 10_000  # kube-apiserver's own limit
MAX_COPIED: Final = 3 << 20  # bytes all `copy` operations of a patch may add, as kube-apiserver
MAX_DEPTH: Final = 200

Operation: TypeAlias = Mapping[str, Any]

MAPS: Final = (dict, Mapping)  # dict first: nearly all are, and that is quickly seen
LISTS: Final = (list, tuple)
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_MISSING: Final = object()
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,19}")


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: true is not 1, 1 is 1.0, key order does not matter. Any depth."""
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if a.__class__ in _SCALARS and b.__class__ in _SCALARS:
            if a != b or (a.__class__ is bool) is not (b.__class__ is bool):
                return False
        elif isinstance(a, MAPS) and isinstance(b, MAPS):
            if a.keys() != b.keys():
                return False
            stack += [(value, b[key]) for key, value in a.items() if value is not b[key]]
        elif isinstance(a, LISTS) and isinstance(b, LISTS):
            if len(a) != len(b):
                return False
            stack += zip(a, b, strict=True)
        elif isinstance(a, bool) != isinstance(b, bool) or a != b:
            return False
    return True


def check_depth(value: Any) -> None:
    """Raises BadRequest when a patch nests deeper than our recursion may go."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if item.__class__ in _SCALARS:
                continue
            if isinstance(item, MAPS):
                inner += item.values()
            elif isinstance(item, LISTS):
                inner += item
        level = inner
        if not level:
            return
    raise BadRequest(f"the patch nests deeper than {MAX_DEPTH} levels")


# JSON patch ----------------------------------------------------------------------------------


class PatchDoesNotApply(InvalidObject):
    """An operation that cannot be carried out. kube-apiserver keeps to itself why (`why`)."""

    def __init__(self, why: str) -> None:
        text = "the server rejected our request due to an error in our request"
        super().__init__(text, StatusDetails(shown=True))
        self.why = why


def json_patch(obj: Any, operations: Any) -> Any:
    """`obj` after all operations, sharing what they do not touch.

    A missing `value` is null. Raises BadRequest for a document that is no JSON patch, TooLarge for
    more than 10,000 operations and PatchDoesNotApply (422) for an operation that does not apply or
    a `test` that fails.
    """
    if not isinstance(operations, list | tuple):
        raise _undecodable(operations, "value of type []handlers.jsonPatchOp")
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}"
        )
    draft = _PatchedDocument(obj)
    for operation in operations:
        _check_types(operation)
    for operation in operations:
        _check_shape(operation)
        _OPERATIONS[operation["op"]](draft, operation)
    return draft.root


def _check_types(operation: Any) -> None:
    """Raises BadRequest in the words of Go's decoder."""
    if operation is None:
        return  # decoded as an operation without fields
    if not isinstance(operation, Mapping):
        raise _undecodable(operation, "value of type handlers.jsonPatchOp")
    for name in ("op", "path", "from"):
        value = operation.get(name)
        if value is not None and not isinstance(value, str):
            raise _undecodable(value, f"struct field jsonPatchOp.{name} of type string")


def _undecodable(value: Any, target: str) -> BadRequest:
    kinds = ((bool, "bool"), (int | float, "number"), (str, "string"), (Mapping, "object"))
    kind = next((word for of, word in kinds if isinstance(value, of)), "array")
    return BadRequest(f"error decoding patch: json: cannot unmarshal {kind} into Go {target}")


def _check_shape(operation: Operation | None) -> None:
    if operation is None or operation.get("path") is None:
        raise PatchDoesNotApply("an operation of a JSON patch needs `op` and `path`")
    op = operation.get("op")
    if op not in _OPERATIONS:
        raise PatchDoesNotApply(f"unknown operation {op!r} in a JSON patch")
    if op in ("move", "copy") and operation.get("from") is None:
        raise PatchDoesNotApply(f"operation {op} needs `from`")


def pointer_tokens(pointer: str) -> list[str]:
    """The tokens of a JSON pointer, unescaped. Raises PatchDoesNotApply, BadRequest (too long)."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PatchDoesNotApply(f"JSON pointer {pointer!r} does not start with /")
    tokens = pointer[1:].split("/")
    if len(tokens) > MAX_DEPTH:
        raise BadRequest(f"a JSON pointer has more than {MAX_DEPTH} tokens")
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens]


def leads_to(obj: Any, pointer: str) -> bool:
    """Return whether a JSON pointer resolves in `obj`."""
    try:
        _read(obj, pointer)
    except (BadRequest, PatchDoesNotApply):
        return False
    return True


def pointer_to(path: Sequence[str | int]) -> str:
    """The JSON pointer of a path, escaped."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _index(items: Sequence[Any], token: str, *, end: int, pointer: str) -> int:
    """A list index below `end`; `-` is the place after the last element.

    As in the library kube-apiserver uses, signs and zeros may precede the digits, and negative
    indices count from the end.
    """
    if token == "-":  # noqa: S105  the pointer's word for the end of a list
        at = len(items)
    elif _INDEX.fullmatch(token):
        at = int(token)
    else:
        raise PatchDoesNotApply(f"{pointer}: {token!r} is not an index of a list")
    if not -end <= at < end:
        raise PatchDoesNotApply(f"{pointer}: index {token} is out of bounds")
    return at % end


def _step(value: Any, token: str, pointer: str) -> Any:
    if isinstance(value, Mapping):
        if token in value:
            return value[token]
    elif isinstance(value, list | tuple):
        return value[_index(value, token, end=len(value), pointer=pointer)]
    raise PatchDoesNotApply(f"doc is missing path: {pointer}: missing value")


def _read(obj: Any, pointer: str) -> Any:
    for token in pointer_tokens(pointer):
        obj = _step(obj, token, pointer)
    return obj


class _PatchedDocument:
    """The document while it is patched: a container is copied before its first change alone.

    Copies that only this draft knows are then changed in place, so that an operation costs no
    more than the containers on its way; what was given is never changed.
    """

    __slots__ = ("_copied", "_own", "root")

    def __init__(self, root: Any) -> None:
        self.root = root
        self._own: dict[int, Any] = {}  # by id; kept, so that no id is used twice
        self._copied = 0  # bytes added by `copy`

    def read(self, pointer: str, *, or_null: bool = False) -> Any:
        """The value at a pointer. Raises PatchDoesNotApply where there is none.

        `or_null`: a missing key of a map equals null, as in the library kube-apiserver uses; a
        missing parent or element of a list equals nothing.
        """
        found, tokens = self.root, pointer_tokens(pointer)
        for place, token in enumerate(tokens, 1):
            if or_null and place == len(tokens) and isinstance(found, MAPS):
                found = found.get(token)
            else:
                found = _step(found, token, pointer)
        return found

    def add(self, pointer: str, value: Any) -> None:
        """Set a key of a map, or insert into a list."""
        tokens = pointer_tokens(pointer)
        if not tokens:
            self.root = value
            return
        container, token = self._container(tokens, pointer), tokens[-1]
        if isinstance(container, dict):
            container[token] = value
        elif isinstance(container, list):
            at = _index(container, token, end=len(container) + 1, pointer=pointer)
            container.insert(at, value)
        else:
            raise PatchDoesNotApply(f"add operation does not apply: doc is missing path: {pointer}")

    def replace(self, pointer: str, value: Any) -> None:
        """Set a value. A missing key is added, as by the library kube-apiserver uses."""
        tokens = pointer_tokens(pointer)
        if not tokens:
            self.root = value
            return
        container, token = self._container(tokens, pointer), tokens[-1]
        if not isinstance(container, dict):
            _step(container, token, pointer)
        _set(container, token, value)

    def remove(self, pointer: str) -> Any:
        """Take a value out, and return it."""
        tokens = pointer_tokens(pointer)
        if not tokens:
            raise PatchDoesNotApply("the whole document cannot be removed")
        container, token = self._container(tokens, pointer), tokens[-1]
        _step(container, token, pointer)
        return container.pop(token if isinstance(container, dict) else int(token))

    def copy(self, source: str, target: str) -> None:
        """Add the value at one pointer at another, within the limit on copied bytes."""
        value = self.read(source, or_null=True)
        self._copied += _size(value)
        if self._copied > MAX_COPIED:
            raise PatchDoesNotApply(
                f"the copies add {self._copied} bytes, more than the limit {MAX_COPIED}"
            )
        self._share(value)
        self.add(target, value)

    def _container(self, tokens: Sequence[str], pointer: str) -> Any:
        """The container of the last token, with all on the way to it, as copies of our own."""
        at = self.root = self._owned(self.root)
        for token in tokens[:-1]:
            inner = _step(at, token, pointer)
            own = self._owned(inner)
            if own is not inner:
                _set(at, token, own)
            at = own
        return at

    def _owned(self, value: Any) -> Any:
        if id(value) in self._own:
            return value
        if isinstance(value, MAPS):
            value = dict(value)
        elif isinstance(value, LISTS):
            value = list(value)
        else:
            return value
        self._own[id(value)] = value
        return value

    def _share(self, value: Any) -> None:
        """Give up what is from now on in two places: each is copied before it changes."""
        stack = [value]
        while stack:
            one = stack.pop()
            self._own.pop(id(one), None)
            if isinstance(one, MAPS):
                stack += one.values()
            elif isinstance(one, LISTS):
                stack += one


def _set(container: Any, token: str, value: Any) -> None:
    container[token if isinstance(container, dict) else int(token)] = value


def _move(draft: _PatchedDocument, operation: Operation) -> None:
    source, target = operation["from"], operation["path"]
    if target.startswith(source + "/"):
        raise PatchDoesNotApply(f"{source} cannot be moved into itself")
    if source == target:
        draft.read(source)
        return
    draft.add(target, draft.remove(source))


def _test(draft: _PatchedDocument, operation: Operation) -> None:
    pointer = operation["path"]
    if not same(draft.read(pointer, or_null=True), operation.get("value")):
        raise PatchDoesNotApply(f"testing value {pointer} failed: test failed")


_OPERATIONS: Final[Mapping[str, Callable[[_PatchedDocument, Operation], object]]] = {
    "add": lambda draft, operation: draft.add(operation["path"], operation.get("value")),
    "remove": lambda draft, operation: draft.remove(operation["path"]),
    "replace": lambda draft, operation: draft.replace(operation["path"], operation.get("value")),
    "copy": lambda draft, operation: draft.copy(operation["from"], operation["path"]),
    "move": _move,
    "test": _test,
}


def _size(value: Any) -> int:
    """About how many bytes the value has as JSON."""
    total, stack = 0, [value]
    while stack:
        item = stack.pop()
        total += len(item) + 2 if isinstance(item, str | bytes) else 6
        if isinstance(item, Mapping):
            total += sum(len(key) + 4 for key in item)
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
    return total


def json_diff(before: Any, after: Any) -> list[dict[str, Any]]:
    """Operations that turn `before` into `after`, in order; [] when they are equal.

    Lists of objects with names, or types as conditions have them, are compared by name (what stays
    and keeps its order is the same object, so one put in front of others is one operation), other
    lists position by position.
    """
    return list(_differences(before, after, ()))


def _differences(before: Any, after: Any, at: tuple[str | int, ...]) -> Iterator[dict[str, Any]]:
    if before is after or (before.__class__ is str and before == after):
        return  # most of what two objects have in common
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() - after.keys()):
            yield {"op": "remove", "path": pointer_to((*at, key))}
        for key, value in after.items():
            if key in before:
                yield from _differences(before[key], value, (*at, key))
            else:
                yield {"op": "add", "path": pointer_to((*at, key)), "value": value}
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        yield from _list_differences(before, after, at)
    elif not same(before, after):
        yield {"op": "replace", "path": pointer_to(at), "value": after}


def _list_differences(
    before: Sequence[Any], after: Sequence[Any], at: tuple[str | int, ...]
) -> Iterator[dict[str, Any]]:
    partner = _partners(before, after)
    for index in sorted(set(range(len(before))) - set(partner.values()), reverse=True):
        yield {"op": "remove", "path": pointer_to((*at, index))}
    for index, value in enumerate(after):
        if index in partner:
            yield from _differences(before[partner[index]], value, (*at, index))
        else:
            yield {"op": "add", "path": pointer_to((*at, index)), "value": value}


def _partners(before: Sequence[Any], after: Sequence[Any]) -> dict[int, int]:
    """Place after → place before of the elements that stay, ascending in both."""
    olds, news = _names(before), _names(after)
    if olds is None or news is None:
        return {index: index for index in range(min(len(before), len(after)))}
    place = {name: index for index, name in enumerate(news)}
    found: dict[int, int] = {}
    last = -1
    for old, name in enumerate(olds):
        new = place.get(name, -1)
        if new > last:
            found[new], last = old, new
    return found


def _names(items: Sequence[Any]) -> list[str] | None:
    """The names or types of all, when all have one and no two the same."""
    for field in ("name", "type"):
        found = [item.get(field) if isinstance(item, Mapping) else None for item in items]
        if all(isinstance(name, str) for name in found) and len({*found}) == len(found):
            return [str(name) for name in found]
    return None


# JSON merge patch ----------------------------------------------------------------------------


def merge_patch(obj: Any, patch: Any) -> Any:
    """`obj` after a merge patch; the same object when nothing changes. BadRequest if too deep."""
    check_depth(patch)
    return _merged(obj, patch)


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return target if target is not _MISSING and same(target, patch) else patch
    base: Mapping[str, Any] = target if isinstance(target, Mapping) else {}
    if isinstance(target, RawJSON):  # opaque to types, not to a patch of its text
        base = json.loads(target)
    out = dict(base)
    changed = base is not target
    for key, value in patch.items():
        if value is None:
            changed = out.pop(key, _MISSING) is not _MISSING or changed
            continue
        old = base.get(key, _MISSING)
        out[key] = new = _merged(old, value)
        changed = changed or new is not old
    return out if changed else target


def merge_diff(before: Any, after: Any) -> Any:
    """The smallest merge patch that turns `before` into `after`; `{}` when they are equal.

    A merge patch cannot say null: a null in `after` counts as absent.
    """
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return after
    patch: dict[str, Any] = {
        key: None for key in before if after.get(key) is None and before[key] is not None
    }
    for key, value in after.items():
        old = before.get(key)
        if value is None or same(old, value):
            continue
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        patch[key] = merge_diff(old, value) if both else value
    return patch
