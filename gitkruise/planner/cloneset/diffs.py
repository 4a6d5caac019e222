"""Count first, then act: one pass over the pods, then ten named numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from gitkruise.model.planning.amounts import Amounts
from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.model.workloads.pod_groups import PodGroup, in_name_order


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroup:
    """Owned active pods that this round judges alike."""

    members: PodGroup
    updated: bool  # on the update revision
    available: bool  # with minReadySeconds, in no lifecycle step
    specified: bool  # asked to be deleted, by label or by list
    preparing: bool  # in the lifecycle step before deletion

    @property
    def first(self) -> PodFacts:
        return self.members.first


@dataclass(frozen=True)
class PodSet:
    """The owned active pods, judged once a round."""

    groups: tuple[JudgedGroup, ...]

    @cached_property
    def pods(self) -> list[PodFacts]:
        """All of them in name order."""
        return self.where(lambda _: True)

    @cached_property
    def available(self) -> frozenset[str]:
        """Names of the available ones."""
        return frozenset().union(*[group.members.names for group in self.groups if group.available])

    @property
    def size(self) -> int:
        return self.count(lambda _: True)

    def count(self, wanted: Callable[[JudgedGroup], bool]) -> int:
        """The number of pods in the groups that are `wanted`."""
        return sum([len(group.members) for group in self.groups if wanted(group)])

    def where(self, wanted: Callable[[JudgedGroup], bool]) -> list[PodFacts]:
        """Their pods, in name order."""
        return in_name_order([group.members for group in self.groups if wanted(group)])

    def without(self, names: Set[str]) -> PodSet:
        """As if these pods were gone."""
        if not names:
            return self
        left = [(group.members.without(names), group) for group in self.groups]
        return PodSet(
            tuple(
                [replace(group, members=members) for members, group in left if members is not None]
            )
        )


def judge(
    groups: Iterable[PodGroup],
    *,
    update_revision: str,
    named: Iterable[str],
    min_ready_s: int,
    now: datetime,
) -> PodSet:
    """Judge the pods of `groups`; `named` are the names of podsToDelete."""
    listed = frozenset(named)

    def available(pod: PodFacts) -> bool:
        return pod.available(now, min_ready_s=min_ready_s)

    def group(members: PodGroup) -> JudgedGroup:
        first = members.first
        return JudgedGroup(
            members=members,
            updated=first.on_revision(update_revision),
            available=available(first),
            specified=first.specified_delete or first.name in listed,
            preparing=first.state == LifecycleState.PREPARING_DELETE,
        )

    if listed:
        groups = [
            half for members in groups for half in _split(members, lambda pod: pod.name in listed)
        ]
    if min_ready_s > 0:
        groups = [half for members in groups for half in _split(members, available)]
    return PodSet(tuple([group(members) for members in groups]))


def _split(members: PodGroup, wanted: Callable[[PodFacts], bool]) -> Iterator[PodGroup]:
    """Those that are `wanted` and those that are not, as far as there are any."""
    chosen = {pod.name for pod in members if wanted(pod)}
    if rest := members.without(chosen):
        yield rest
    if chosen:
        yield PodGroup({name: members.by_name[name] for name in chosen})


@dataclass(slots=True)
class RevisionCounts:
    """Pods of one side (updated or not)."""

    total: int = 0
    preparing_delete: int = 0
    to_delete: int = 0  # specified, in no lifecycle step towards deletion yet
    unavailable: int = 0  # without the specified ones, whatever their health

    @property
    def active(self) -> int:
        return self.total - self.preparing_delete


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRules:
    """Settings that change the arithmetic besides the amounts."""

    same_revision: bool = False  # current and update revision are one
    partition_rollback: bool = False  # gate CloneSetPartitionRollback
    exclude_preparing_delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationDiffs:
    """Missing and surplus pods (OpenKruise: `expectationDiffs`); 0 or more unless said.

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


def tally(
    fleet: PodSet, is_new: Callable[[JudgedGroup], bool]
) -> tuple[RevisionCounts, RevisionCounts]:
    """(new, old) counts."""
    new, old = RevisionCounts(), RevisionCounts()
    for group in fleet.groups:
        side, size = new if is_new(group) else old, len(group.members)
        side.total += size
        if group.preparing:
            side.preparing_delete += size
        elif group.specified:
            side.to_delete += size
        elif not group.available:
            side.unavailable += size
    return new, old


def diff(
    amounts: Amounts, new: RevisionCounts, old: RevisionCounts, rules: DiffRules
) -> ExpectationDiffs:
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
    return ExpectationDiffs(
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
    amounts: Amounts, new: RevisionCounts, old: RevisionCounts, gaps: tuple[int, int], down: int
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
