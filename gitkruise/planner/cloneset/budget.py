"""Amounts: percentages resolved to pods, and the number of pods that one round may move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gitkruise.errors import Problem
from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.cloneset import CloneSetFacts, UpdateStrategy
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.revisions.int_or_percent_checks import bad_amounts
from gitkruise.wire.values.intstr import (
    partition_count,
    scale_unavailable_count,
    surge_count,
    unavailable_count,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """The numbers of a CloneSet's spec, resolved against its replicas."""

    replicas: int
    partition: int = 0  # pods that stay on the current revision
    surge: int = 0
    unavailable: int = 0  # while updating and deleting
    scale_unavailable: int = 2**31 - 1  # while scaling out


def resolve_amounts(owner: CloneSetFacts) -> Amounts:
    """Amounts by NUM-1 to NUM-5: partition up, surge up (0 while paused), maxUnavailable up without
    surge and down with it. Without rollingUpdate (OnDelete) the default fifth is rounded up too:
    OpenKruise's 0 below five replicas never deletes a healthy pod that a user marked for deletion.
    Never raises: see `unreadable_amounts`."""
    update, replicas = owner.update, owner.replicas
    scale = scale_unavailable_count(owner.scale.max_unavailable, replicas)
    if not update.rolling:
        unavailable = unavailable_count(None, replicas, surge=0)
        return Amounts(replicas=replicas, unavailable=unavailable, scale_unavailable=scale)
    surge = surge_count(update.max_surge, replicas, paused=update.paused)
    return Amounts(
        replicas=replicas,
        partition=partition_count(update.partition, replicas),
        surge=surge,
        unavailable=unavailable_count(update.max_unavailable, replicas, surge=surge),
        scale_unavailable=scale,
    )


def unreadable_amounts(update: UpdateStrategy) -> tuple[Problem, ...]:
    """Amounts that mean nothing: no pod is moved while there are any."""
    return bad_amounts(
        {
            "partition": update.partition,
            "maxUnavailable": update.max_unavailable,
            "maxSurge": update.max_surge,
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateQuota:
    """Limits of one round of updates.

    `pods` to move at most, of `asked` that the partition asks for (surplus pods need no update,
    they will be deleted); `down` unavailable pods of all; `target_down` those of them already
    on the target revision; `unavailable` how many may be (0 or less: none).
    """

    pods: int
    unavailable: int
    asked: int = 0
    down: int = 0
    target_down: int = 0


def choose_updates(
    waiting: Sequence[PodFacts], available: frozenset[str], quota: UpdateQuota
) -> tuple[list[PodFacts], list[tuple[Hold, Sequence[PodFacts]]]]:
    """Split `waiting`, in update order, into pods to update now and pods held back, by reason.

    The first refusal holds every later pod too: skipping ahead would let a pod overtake the
    order the user asked for. Pods already down cost no availability.
    Source: CloneSet's update limit.
    """
    chosen: list[PodFacts] = []
    held: list[tuple[Hold, Sequence[PodFacts]]] = []
    allowed, down = waiting[: max(quota.pods, 0)], quota.down
    for pod in allowed:
        up = pod.name in available
        if stop := _refusal(len(chosen), down, quota, up=up):
            held.append((stop, allowed[len(chosen) :]))
            break
        chosen.append(pod)
        down += up
    asked = max(quota.asked, len(allowed))
    held.append((Hold.SURGE, waiting[len(allowed) : asked]))
    held.append((Hold.PARTITION, waiting[asked:]))
    return chosen, held


def refusal(quota: UpdateQuota) -> Hold | None:
    """Reason why no pod may be updated now, up or down; None when one may."""
    return _refusal(0, quota.down, quota, up=False)


def _refusal(chosen: int, down: int, quota: UpdateQuota, *, up: bool) -> Hold | None:
    if quota.unavailable <= 0:
        return Hold.SURGE
    if quota.target_down + chosen >= quota.unavailable:
        return Hold.NEW_NOT_READY if quota.target_down else Hold.BUDGET
    if up and down >= quota.unavailable:
        return Hold.BUDGET
    return None


def choose_deletions(
    wanted: Sequence[PodFacts], available: frozenset[str], limit: int
) -> tuple[list[PodFacts], list[PodFacts], int]:
    """(to delete, to wait, limit left): unavailable pods are free, available ones cost one.

    OpenKruise frees only pods that are not ready, so that with a large minReadySeconds pods that
    are ready and not yet available use up the budget and cannot be deleted themselves.
    """
    chosen: list[PodFacts] = []
    waiting: list[PodFacts] = []
    for pod in wanted:
        if pod.name not in available:
            chosen.append(pod)
        elif limit > 0:
            limit -= 1
            chosen.append(pod)
        else:
            waiting.append(pod)
    return chosen, waiting, limit
