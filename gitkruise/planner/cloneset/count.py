"""Count first, then act: one pass over the pods, then ten named numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.pod import PodFacts, State
from gitkruise.planner.cloneset.budget import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The owned active pods in name order, judged once a round. Sets hold pod names."""

    pods: tuple[PodFacts, ...]
    names: frozenset[str]
    updated: frozenset[str]  # on the update revision
    available: frozenset[str]  # with minReadySeconds, in no lifecycle step
    specified: frozenset[str]  # asked to be deleted, by label or by list
    preparing: frozenset[str]  # in the lifecycle step before deletion

    def without(self, names: Set[str]) -> Fleet:
        """As if these pods were gone."""
        if not names:
            return self
        return Fleet(
            pods=tuple([p for p in self.pods if p.name not in names]),
            names=self.names - names,
            updated=self.updated - names,
            available=self.available - names,
            specified=self.specified - names,
            preparing=self.preparing - names,
        )


def judge(
    pods: Sequence[PodFacts],
    *,
    update_revision: str,
    named: Iterable[str],
    min_ready_s: int,
    now: datetime,
) -> Fleet:
    """Judge `pods`; `named` are the names of podsToDelete."""
    short = update_revision.rpartition("-")[2]
    listed, preparing = frozenset(named), State.PREPARING_DELETE.value
    names = frozenset([p.name for p in pods])
    odd = [p for p in pods if p.specified_delete or not p.at_rest]
    rested = [p for p in pods if p.at_rest and p.in_service]
    if min_ready_s > 0:
        rested = [p for p in rested if p.update_ready(now, min_ready_s=min_ready_s)]
    return Fleet(
        pods=tuple(pods),
        names=names,
        updated=frozenset([p.name for p in pods if p.short_revision == short and p.revision]),
        available=frozenset([p.name for p in rested]),
        specified=(names & listed).union([p.name for p in odd if p.specified_delete]),
        preparing=frozenset([p.name for p in odd if p.state == preparing]),
    )


@dataclass(slots=True)
class Tally:
    """Pods of one side (updated or not)."""

    total: int = 0
    preparing_delete: int = 0
    to_delete: int = 0  # specified, in no lifecycle step towards deletion yet
    unavailable: int = 0  # without the specified ones, whatever their health

    @property
    def active(self) -> int:
        return self.total - self.preparing_delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What changes the arithmetic besides the amounts."""

    same_revision: bool = False  # current and update revision are one
    partition_rollback: bool = False  # gate CloneSetPartitionRollback
    exclude_preparing_delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What is missing and what is too much. Numbers are pods, 0 or more unless said.

    `update`: pods to move to the update revision; negative: to the current revision.
    `update_unavailable`: how many may be unavailable while doing so (may be negative).
    The `_old` figures are the current revision's share and may exceed their totals.
    """

    up: int = 0
    up_old: int = 0
    up_limit: int = 0
    down: int = 0
    down_old: int = 0
    delete_ready_limit: int = 0
    surge: int = 0
    surge_old: int = 0
    update: int = 0
    update_unavailable: int = 0


def tally(fleet: Fleet, updated: frozenset[str]) -> tuple[Tally, Tally]:
    """(new, old) counts, with `updated` as the predicate for new."""
    to_delete = fleet.specified - fleet.preparing
    unavailable = fleet.names - fleet.available - fleet.specified - fleet.preparing

    def side(of: frozenset[str]) -> Tally:
        return Tally(
            total=len(of),
            preparing_delete=len(fleet.preparing & of),
            to_delete=len(to_delete & of),
            unavailable=len(unavailable & of),
        )

    return side(fleet.names & updated), side(fleet.names - updated)


def diff(amounts: Amounts, new: Tally, old: Tally, rules: Rules) -> Diff:
    """All numbers of a round. Source: CloneSet's expectation diffs."""
    count = new.total + old.total
    preparing = new.preparing_delete + old.preparing_delete
    to_delete = new.to_delete + old.to_delete
    down = preparing + new.unavailable + old.unavailable
    old_diff = old.active - amounts.partition
    new_diff = new.active - (amounts.replicas - amounts.partition)
    if rules.same_revision or not rules.partition_rollback:
        old_diff, new_diff = max(old_diff, 0), min(new_diff, 0)
    surge, surge_old = _surge(amounts, new, old, (old_diff, new_diff), down)

    total_now = count - (preparing if rules.exclude_preparing_delete else 0)
    old_now = old.total - (old.preparing_delete if rules.exclude_preparing_delete else 0)
    total_want, old_want = amounts.replicas + surge, amounts.partition + surge_old
    up = max(total_want - total_now, 0)
    less = max(total_now - to_delete - total_want, 0)
    update = old_diff if abs(old_diff) <= abs(new_diff) else -new_diff
    spare = amounts.unavailable + count - amounts.replicas
    return Diff(
        up=up,
        up_old=max(old_want - old_now, 0) if up else 0,
        up_limit=min(up, max(amounts.scale_unavailable - down, 0)),
        down=less,
        down_old=max(old_now - old.to_delete - old_want, 0) if less else 0,
        delete_ready_limit=max(spare - down, 0) if to_delete or less else 0,
        surge=surge,
        surge_old=surge_old,
        update=update,
        update_unavailable=spare if update else 0,
    )


def _surge(
    amounts: Amounts, new: Tally, old: Tally, gaps: tuple[int, int], down: int
) -> tuple[int, int]:
    """Pods above replicas worth having, and how many of them on the current revision."""
    if amounts.surge <= 0:
        return 0, 0
    to_delete = new.to_delete + old.to_delete
    for_delete = min(max(down + to_delete - amounts.unavailable, 0), to_delete)
    for_delete_old = max(for_delete - new.to_delete, 0)
    for_update, for_update_old = _update_surge(*gaps)
    if for_delete >= for_update:
        used = min(amounts.surge, for_delete)
        return used, min(used, for_delete_old)
    used = min(amounts.surge, for_update)
    return used, min(used, for_update_old)


def _update_surge(old_diff: int, new_diff: int) -> tuple[int, int]:
    if old_diff * new_diff >= 0:
        return 0, 0
    if abs(old_diff) <= abs(new_diff):
        return abs(old_diff), abs(old_diff) if old_diff < 0 else 0
    return abs(new_diff), abs(new_diff) if new_diff > 0 else 0
