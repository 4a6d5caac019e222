"""Workload: how one kind is driven, the same by the live controller, the sandbox and previews."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from gitkruise.model.planning.plan import Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, ObjectKey

S = TypeVar("S")
Find: TypeAlias = Callable[[ClusterView, ObjectKey], Iterable[ObjectKey]]
Later: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]  # (known, new status)


class Shows(StrEnum):
    """Condition or field by which a workload reports that writes without progress paused it."""

    NOWHERE = ""  # an event says it
    CONDITION = "condition"
    ANNOTATION = "annotation"  # its CRD knows no conditions


def nobody(_: Mapping[str, str]) -> tuple[ObjectKey, ...]:
    return ()


def never(_known: Mapping[str, Any], _status: Mapping[str, Any]) -> bool:
    return False


def always(_view: ClusterView, _key: ObjectKey) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Generic[S]):
    """A kind with its planner.

    `version` is the API version its status is written in. A change of an object of the kinds in
    `owns` wakes the workload that any of its owner references names; a change of a pod also
    those that `named_by` reads from its annotations. `concerns` keeps objects out for which there
    is never anything to decide; it follows from their spec alone, and is true of one that is gone.
    `watches` finds by kind the keys that a change of one object wakes, where neither owner
    references nor annotations name them; `also_watches` does so for kinds that rounds do not wait
    for, because an account may not be allowed to list them. `fields` limits what is read of a kind
    by a field selector. `only` names by kind how the names end of those owned
    objects that are looked at: others of that kind need not be kept. `stalls` is where it shows
    that it is paused because its writes make no progress. `later` accepts a status whose news
    may be late by a moment. `observe` reads one consistent snapshot (None: the object is gone);
    `decide` is pure. `speaker` is the source of its events, where it is not the kind's controller.
    """

    kind: GroupKind
    version: str
    owns: tuple[GroupKind, ...]
    observe: Callable[[ClusterView, ObjectKey, datetime], S | None]
    decide: Callable[[S, Gates], Plan]
    named_by: Callable[[Mapping[str, str]], Iterable[ObjectKey]] = nobody
    concerns: Callable[[ClusterView, ObjectKey], bool] = always
    watches: Mapping[GroupKind, Find] = field(default_factory=dict)
    also_watches: Mapping[GroupKind, Find] = field(default_factory=dict)
    fields: Mapping[GroupKind, str] = field(default_factory=dict)
    only: Mapping[GroupKind, str] = field(default_factory=dict)
    speaker: str = ""
    stalls: Shows = Shows.NOWHERE
    later: Later = never

    @property
    def component(self) -> str:
        """The controller that acts for the workload and is the source of its events."""
        return self.speaker or f"{self.kind.kind.lower()}-controller"
