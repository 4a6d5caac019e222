"""Workload: how one kind is driven, the same by the live controller, the sandbox and previews."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from gitkruise.model.plan import Plan
from gitkruise.model.settings import Gates
from gitkruise.model.view import View
from gitkruise.wire.names import GroupKind, ObjectKey

S = TypeVar("S")


def nobody(_: Mapping[str, str]) -> tuple[ObjectKey, ...]:
    return ()


def always(_view: View, _key: ObjectKey) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Generic[S]):
    """A kind with its planner.

    `version` is the API version its status is written in. A change of an object of the kinds in
    `owns` wakes the workload that any of its owner references names; a change of a pod also
    those that `named_by` reads from its annotations. `concerns` keeps objects out for which there
    is never anything to decide; it follows from their spec alone, and is true of one that is gone.
    `only` names by kind how the names end of those owned objects that are looked at: others of that
    kind need not be kept. `observe` reads one consistent snapshot (None: the object is gone);
    `decide` is pure. `speaker` is the source of its events, where it is not the kind's controller.
    """

    kind: GroupKind
    version: str
    owns: tuple[GroupKind, ...]
    observe: Callable[[View, ObjectKey, datetime], S | None]
    decide: Callable[[S, Gates], Plan]
    named_by: Callable[[Mapping[str, str]], Iterable[ObjectKey]] = nobody
    concerns: Callable[[View, ObjectKey], bool] = always
    only: Mapping[GroupKind, str] = field(default_factory=dict)
    speaker: str = ""

    @property
    def component(self) -> str:
        """Who acts and speaks for it."""
        return self.speaker or f"{self.kind.kind.lower()}-controller"
