"""Amounts of a strategy resolved to pods: the one place that rounds what a spec asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gitkruise.errors import Problem
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.wire.values.intstr import (
    UNLIMITED,
    IntOrString,
    UnreadableAmount,
    resolve,
    scale_unavailable_count,
    surge_count,
    unavailable_count,
)

_UPDATE = ("spec", "updateStrategy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """The numbers of a spec, resolved against `replicas` pods.

    An amount that means nothing is one of `problems`; then all others are those that move no pod.
    """

    replicas: int
    partition: int = 0  # pods that stay on the current revision
    surge: int = 0
    unavailable: int = 0  # while updating and deleting
    scale_unavailable: int = UNLIMITED  # while scaling out
    on_delete: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def problem_texts(self) -> tuple[str, ...]:
        """`problems` in words."""
        return tuple(f"{p.field}: {p.message}" for p in self.problems)

    def asked(self, updated: int) -> int:
        """The number of pods that are to run the update revision, where `updated` do.

        No other pod is asked for with OnDelete, nor while an amount means nothing.
        """
        if self.on_delete or self.problems:
            return min(updated, self.replicas)
        return self.replicas - self.partition


def resolve_amounts(owner: CloneSetFacts) -> Amounts:
    """Amounts by NUM-1 to NUM-5: partition up, surge up (0 while paused), maxUnavailable up without
    surge and down with it. Without rollingUpdate (OnDelete) the default fifth is rounded up too:
    OpenKruise's 0 below five replicas never deletes a healthy pod that a user marked for deletion.
    """
    update, replicas, found = owner.update, owner.replicas, _Reader()
    partition = found.read(
        (*_UPDATE, "partition"), update.partition.written, lambda: update.partition.kept(replicas)
    )
    surge = found.read(
        (*_UPDATE, "maxSurge"),
        update.max_surge,
        lambda: surge_count(update.max_surge, replicas, paused=update.paused),
    )
    unavailable = found.read(
        (*_UPDATE, "maxUnavailable"),
        update.max_unavailable,
        lambda: unavailable_count(update.max_unavailable, replicas, surge=surge),
    )
    scale = found.read(
        ("spec", "scaleStrategy", "maxUnavailable"),
        owner.scale.max_unavailable,
        lambda: scale_unavailable_count(owner.scale.max_unavailable, replicas),
    )
    if found.problems:
        return _none(replicas, found)
    return Amounts(
        replicas=replicas,
        partition=partition,
        surge=surge,
        unavailable=unavailable,
        scale_unavailable=scale,
        on_delete=update.on_delete,
    )


def resolve_sidecar_amounts(owner: SidecarSetFacts, pods: int) -> Amounts:
    """Amounts of a SidecarSet over `pods` matched ones: one may be unavailable by default."""
    update, found = owner.update, _Reader()
    partition = found.read(
        (*_UPDATE, "partition"), update.partition.written, lambda: update.partition.kept(pods)
    )
    most = update.max_unavailable
    unavailable = found.read(
        (*_UPDATE, "maxUnavailable"),
        most,
        lambda: 1 if most is None else resolve(most, pods, round_up=True),
    )
    if found.problems:
        return _none(pods, found)
    return Amounts(replicas=pods, partition=partition, unavailable=unavailable)


def _none(pods: int, found: _Reader) -> Amounts:
    return Amounts(
        replicas=pods, partition=pods, scale_unavailable=0, problems=tuple(found.problems)
    )


class _Reader:
    """Collects what cannot be read, so that all of it is reported together."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read(
        self, path: tuple[str, ...], value: IntOrString | None, resolved: Callable[[], int]
    ) -> int:
        try:
            return resolved()
        except UnreadableAmount:
            text = f'Invalid value: "{value}": must be an integer or a percentage such as "25%"'
            self.problems.append(Problem(path, "FieldValueInvalid", text))
            return 0


_DEPLOYED: Final = {"maxSurge": "25%", "maxUnavailable": "25%"}  # of apps/v1


class Bounds(NamedTuple):
    """Pods allowed above the wanted number, and allowed to be missing from it."""

    surge: int
    unavailable: int


def bounds(strategy: Mapping[str, Any], replicas: int) -> Bounds:
    """maxSurge rounded up and maxUnavailable rounded down; both 0 means one may be missing.

    Raises ValueError on what is neither an integer nor a percentage.
    """
    if strategy.get("type") == "Recreate":
        return Bounds(0, 0)
    rolling = strategy.get("rollingUpdate")
    if rolling is None:
        rolling = _DEPLOYED
    surge = resolve(rolling.get("maxSurge"), replicas, round_up=True)
    unavailable = resolve(rolling.get("maxUnavailable"), replicas, round_up=False)
    return Bounds(surge, unavailable) if surge or unavailable else Bounds(0, 1)
