"""Budgets: the number of pods that one round may update or delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.pod import PodFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateQuota:
    """Limits of one round of updates.

    `pods` to move at most, of `asked` that the partition asks for (surplus pods need no update,
    they will be deleted); `down` unavailable pods of all; `target_down` those of them already
    on the target revision; `unavailable` how many may be (0 or less: none); `missing`: pods are
    to be created that the server may have refused.
    """

    pods: int
    unavailable: int
    asked: int = 0
    down: int = 0
    target_down: int = 0
    missing: bool = False


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
        return Hold.SCALE_FIRST if quota.missing else Hold.SURGE
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
