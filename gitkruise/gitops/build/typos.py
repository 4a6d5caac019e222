"""Misspelt fields with exactly one possible meaning, and the correct name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import Problem
from gitkruise.model.gitops.change import Desired
from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.wire.catalog.catalog import Kind
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.schema.nodes import Node
from gitkruise.wire.schema.structural import unknown_fields, validate

_CLEARLY: Final = 0.1  # how much nearer than any other name the meant one must be
_NEAR: Final = 0.7


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
