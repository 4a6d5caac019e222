"""Other objects that disrupt the same pods, and the number of pods that each may disrupt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Forbidden
from gitkruise.model.planning.plan import HeldPod, Hold
from gitkruise.model.planning.unavailable_budget import BudgetFacts, related_budget
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET, DEPLOYMENT, SIDECARSET
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset_annotations import injected_sets
from gitkruise.printable import many

if TYPE_CHECKING:
    from gitkruise.gitops.inspect.cluster_view import Managed, Survey
    from gitkruise.wire.primitives.names import GroupKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The other objects that change pods of one: each with its own budget over its own pods.

    `unread` says which could not be read, and why.
    """

    others: tuple[Managed, ...] = ()
    unread: tuple[str, ...] = ()


ALONE: Final = Sharing()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableBudget:
    """A PodUnavailableBudget over pods of one object.

    `allowed` pods may become unavailable now, because `available` of `total` are and `desired`
    must stay. `recorded` are pods that were let go just now, `holds` those that wait for it.
    """

    name: str
    allowed: int
    desired: int
    available: int
    total: int
    recorded: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`lets 1 more pod go: 5 of 5 are available, and 4 must stay so`."""
        state = f"{self.available} of {self.total} are available, and {self.desired} must stay so"
        holds = f"; holds {many(len(self.holds))}" if self.holds else ""
        if not self.desired:
            return f"lets every pod go: none must stay available{holds}"
        if not self.allowed:
            return f"lets no pod go: {state}{holds}"
        return f"lets {many(self.allowed, 'more pod')} go: {state}{holds}"


def unavailable_budgets(
    budgets: Iterable[BudgetFacts], pods: Iterable[PodFacts], held: Iterable[HeldPod]
) -> tuple[UnavailableBudget, ...]:
    """Of all budgets of a namespace, those that pods name or wait for."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for one in held:
        if one.why is Hold.UNAVAILABLE_BUDGET:
            waiting[one.detail].append(one.pod)
    named = {related_budget(pod.annotations) for pod in pods} | waiting.keys()
    return tuple(
        UnavailableBudget(
            name=b.name,
            allowed=b.allowed,
            desired=b.desired,
            available=b.status.get("currentAvailable") or 0,
            total=b.status.get("totalReplicas") or 0,
            recorded=tuple(sorted({*b.disrupted, *b.unavailable})),
            holds=tuple(waiting[b.name]),
        )
        for b in budgets
        if b.name in named
    )


async def sharing(
    found: Managed, look: Callable[[GroupKind], Awaitable[Survey]], now: datetime
) -> Sharing:
    """The SidecarSets in the pods of `found`, and the workloads that own them.

    `look` surveys one kind in every namespace; it is asked only where pods name that kind.
    """
    sets = {name for pod in found.pods for name in injected_sets(pod.annotations)}
    owners = {pod.controller_uid for pod in found.pods} - {""}
    asked = [(SIDECARSET, sets - _own(found, SIDECARSET))]
    if found.key.group_kind == SIDECARSET:
        asked += [(kind, owners) for kind in (CLONESET, ADVANCED_STATEFULSET, DEPLOYMENT)]
    others: list[Managed] = []
    unread: list[str] = []
    for kind, wanted in asked:
        if not wanted:
            continue
        try:
            survey = await look(kind)
        except Forbidden as error:
            unread.append(f"{kind.kind}s that change these pods cannot be read: {error.message}")
        else:
            others += [m for m in survey.managed(now) if _names(m) & wanted]
    return Sharing(others=tuple(others), unread=tuple(unread))


def _own(found: Managed, kind: GroupKind) -> set[str]:
    return {found.key.name} if found.key.group_kind == kind else set()


def _names(m: Managed) -> set[str]:
    """Return the references of pods to it: the name of a SidecarSet, the uid of a controller."""
    if m.key.group_kind == SIDECARSET:
        return {m.key.name}
    return {m.obj["metadata"]["uid"], *(pod.controller_uid for pod in m.pods)}
