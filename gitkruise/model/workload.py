"""Workload: how one kind is driven, the same by the live controller, the sandbox and previews."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from gitkruise.model.plan import Plan
from gitkruise.model.settings import Gates
from gitkruise.model.view import View
from gitkruise.wire.names import GroupKind, ObjectKey

S = TypeVar("S")


def nobody(_: Mapping[str, str]) -> tuple[ObjectKey, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Generic[S]):
    """A kind with its planner.

    `version` is the API version its status is written in. A change of an object of the kinds in
    `owns` wakes the workload that any of its owner references names; a change of a pod also
    those that `named_by` reads from its annotations. `observe` reads one consistent snapshot
    (None: the object is gone); `decide` is pure.
    """

    kind: GroupKind
    version: str
    owns: tuple[GroupKind, ...]
    observe: Callable[[View, ObjectKey, datetime], S | None]
    decide: Callable[[S, Gates], Plan]
    named_by: Callable[[Mapping[str, str]], Iterable[ObjectKey]] = nobody
