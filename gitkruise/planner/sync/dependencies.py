"""Objects that wait for other objects of their unit: what they name, and whether it makes sense."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from gitkruise.model.gitops.document import Desired
from gitkruise.planner.sync.apply_order import place_of
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

DEPENDS_ON: Final = ("gitkruise.io/depends-on", "config.kubernetes.io/depends-on")
Name = TypeVar("Name", bound=Hashable)
_SEGMENT: Final = re.compile(r"[A-Za-z0-9][-.:A-Za-z0-9]*")
FORM: Final = "group/namespaces/NAMESPACE/Kind/name, or group/Kind/name without a namespace"


def depends_on(obj: Obj) -> tuple[ObjectKey, ...]:
    """The objects that an object waits for, in the form of cli-utils: ids joined by commas.

    The core group is written as nothing: `/namespaces/shop/ConfigMap/settings`. Raises ValueError
    with the id that cannot be read.
    """
    notes = get(obj, "metadata", "annotations", default={})
    text = next((notes[name] for name in DEPENDS_ON if name in notes), "")
    return tuple(dict.fromkeys(_parsed(part.strip()) for part in text.split(",") if part.strip()))


def _parsed(text: str) -> ObjectKey:
    group, *rest = text.split("/")
    namespaced = len(rest) == 4 and rest[0] == "namespaces"
    if not (namespaced or len(rest) == 2) or not all(map(_SEGMENT.fullmatch, rest)):
        raise ValueError(text)
    if group and not _SEGMENT.fullmatch(group):
        raise ValueError(text)
    namespace = rest[1] if namespaced else ""
    return ObjectKey(group, rest[-2], namespace, rest[-1])


def strangers(objects: Sequence[Desired]) -> Iterator[tuple[Desired, ObjectKey]]:
    """(object, what it waits for) where git has no such object in the unit."""
    known = {d.key for d in objects}
    return ((d, key) for d in objects for key in d.depends_on if key not in known)


def too_early(objects: Sequence[Desired]) -> Iterator[tuple[Desired, Desired]]:
    """(object, what it waits for) where the latter has its turn in a later wave: never first."""
    known = {d.key: d for d in objects}
    for d in objects:
        for key in d.depends_on:
            other = known.get(key)
            if other is not None and place_of(other) > place_of(d):
                yield d, other


def cycle(edges: Mapping[Name, Sequence[Name]]) -> tuple[Name, ...]:
    """One circle of names that wait for each other, the first repeated last; () when none is."""
    done: set[Name] = set()
    for start in edges:
        path: list[Name] = []
        walk = [iter((start,))]
        while walk:
            name = next(walk[-1], None)
            if name is None:
                walk.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return (*path[path.index(name) :], name)
            elif name not in done:
                path.append(name)
                walk.append(iter(edges.get(name, ())))
    return ()
