"""Misspelt or misplaced fields with exactly one possible meaning: the correct name or place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import Problem
from gitkruise.model.gitops.document import Desired, Document, FieldPath
from gitkruise.wire.catalog.catalog import Kind
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.schema.nodes import Node
from gitkruise.wire.schema.structural import unknown_fields, validate

_CLEARLY: Final = 0.1  # how much nearer than any other name the meant one must be
_NEAR: Final = 0.7
_DEEP: Final = 3  # fields between the object of a misplaced field and its place


@dataclass(frozen=True, slots=True)
class Slip:
    """A misspelt field: the one at `path` of a document's object should be called `name`."""

    document: Document
    path: FieldPath
    name: str


def slips(desired: Desired, kind: Kind) -> Iterator[Slip]:
    """The misspelt fields of one object whose correct name is certain, in file order."""
    unknown = unknown_fields(kind.strict, desired.obj)
    for problem in unknown:
        if is_sure(desired.obj, kind, problem, unknown):
            yield Slip(desired.document, problem.path, problem.suggestion)


def is_sure(obj: Any, kind: Kind, problem: Problem, unknown: Sequence[Problem]) -> bool:
    """Return whether `problem`, one of the `unknown` fields, is certainly its suggestion misspelt.

    It is not when the suggested field exists already, when two fields could be it, when another
    name is about as near, or when the value would be invalid under the suggested name.
    """
    *at, word = problem.path
    name, parent = problem.suggestion, get(obj, *at) if at else obj
    rivals = [p for p in unknown if p.path[:-1] == problem.path[:-1] and p.suggestion == name]
    node = _node_at(kind.strict, at)
    if not name or name in parent or len(rivals) > 1 or node is None:
        return False
    child = node.child(name)
    wrong = validate(child, parent[word]) if child else None
    fits = wrong is not None and all(
        p.path for p in wrong
    )  # what is wrong below it may be another slip
    return fits and _is_nearest_by_far(str(word), name, node)


def place_of(obj: Any, kind: Kind, problem: Problem) -> str:
    """Return the path of the object to which an unknown field belongs by its name and value, or "".

    It is the nearest object around its own that has such a field, or else the only one that is
    nearest inside of it. A field that is there already is not meant.
    """
    *at, name = problem.path
    value = get(obj, *problem.path)
    for length in range(len(at) - 1, -1, -1):
        if _takes(_node_at(kind.strict, at[:length]), get(obj, *at[:length]), name, value):
            return Problem(tuple(at[:length]), "", "").field or "the top"
    level = [(tuple(at), _node_at(kind.strict, at))]
    for _ in range(_DEEP):
        level = [inside for path, node in level for inside in _inside(obj, path, node)]
        fits = [path for path, node in level if _takes(node, get(obj, *path), name, value)]
        if fits:
            return Problem(fits[0], "", "").field if len(fits) == 1 else ""
    return ""


def _inside(
    obj: Any, path: FieldPath, node: Node | None
) -> Iterator[tuple[FieldPath, Node | None]]:
    """Yield the objects that are fields of an object, or items of its lists, with their paths."""
    for name, child in node.children() if node is not None else ():
        if not path and name == "status":
            continue
        if child.has_fields:
            yield (*path, name), child
        elif child.items is not None and child.items.has_fields:
            listed = get(obj, *path, name, default=())
            yield from (((*path, name, n), child.items) for n in range(len(listed)))


def _takes(node: Node | None, there: Any, name: str | int, value: Any) -> bool:
    """Return whether `value` may be the field `name` of the object `there`, which may be absent."""
    if node is None or not isinstance(name, str) or name not in node.names:
        return False
    child = node.child(name)
    free = not isinstance(there, Mapping) or name not in there
    return child is not None and free and not validate(child, value)


def _node_at(node: Node | None, path: Sequence[str | int]) -> Node | None:
    for step in path:
        if node is None:
            return None
        node = node.items if isinstance(step, int) else node.child(step)
    return node


def _is_nearest_by_far(word: str, name: str, node: Node) -> bool:
    import difflib  # noqa: PLC0415  only for what is misspelt

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, other.lower(), word.lower()).ratio()

    best = likeness(name)
    others = max((likeness(other) for other in node.names if other != name), default=0.0)
    return best >= _NEAR and best - others >= _CLEARLY
