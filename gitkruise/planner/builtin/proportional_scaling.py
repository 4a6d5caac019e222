"""The arithmetic of a Deployment: how many pods each ReplicaSet gets next.

Source: deployment controller of Kubernetes 1.34 (rolling.go, sync.go, deploymentutil).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One ReplicaSet in numbers. `desired` and `most` are its annotations, None without them."""

    name: str
    replicas: int
    available: int = 0
    observed: int = 0  # status.replicas
    desired: int | None = None
    most: int | None = None


def grow_new(new: int, total: int, wanted: int, surge: int) -> int:
    """The new ReplicaSet's next size; `total` is the sum of all sizes, its own among them."""
    if new >= wanted:
        return wanted
    return new + min(max(0, wanted + surge - total), wanted - new)


def shrink_old(
    new: Size | None, olds: Sequence[Size], wanted: int, unavailable: int, *, floor: int = 0
) -> dict[str, int]:
    """Sizes of old ReplicaSets (oldest first) that change: unhealthy pods go before ready ones.

    They keep `floor` pods together.
    """
    every = [*olds, *([new] if new else [])]
    total = sum(s.replicas for s in every)
    new_missing = new.replicas - new.available if new else 0
    sizes = {s.name: s.replicas for s in olds}
    room = min(total - (wanted - unavailable) - new_missing, sum(sizes.values()) - floor)
    if room <= 0:
        return {}
    clean_unhealthy(olds, sizes, room)
    # Upstream counts every available pod, also those a ReplicaSet has yet to delete.
    can = sum(min(s.available, s.replicas) for s in every) - (wanted - unavailable)
    can = min(can, sum(sizes.values()) - floor)
    for old in olds:
        step = min(sizes[old.name], max(can, 0))
        sizes[old.name] -= step
        can -= step
    return {s.name: sizes[s.name] for s in olds if sizes[s.name] != s.replicas}


def clean_unhealthy(olds: Sequence[Size], sizes: dict[str, int], room: int) -> None:
    """Take pods that are not available away, oldest ReplicaSet first, at most `room` of them."""
    for old in olds:
        step = min(room, max(0, old.replicas - old.available))
        sizes[old.name] -= step
        room -= step


def proportional(
    new: Size | None, olds: Sequence[Size], wanted: int, surge: int, *, held: bool = False
) -> dict[str, int]:
    """Sizes of all active ReplicaSets when the wanted number changes in the middle of a rollout.

    `olds` are newest first. The largest gets what rounding leaves over. `held`: no pod is added
    above the wanted number, as a canary pause asks for.
    """
    active = [s for s in [*([new] if new else []), *olds] if s.replicas > 0]
    allowed = wanted + (0 if held else surge) if wanted > 0 else 0
    to_add = allowed - sum(s.replicas for s in active)
    ranked = sorted(active if to_add >= 0 else active[::-1], key=lambda s: -s.replicas)
    added, sizes = 0, {}
    for one in ranked:
        part = _fraction(one, wanted, surge)
        left = to_add - added
        step = 0 if not left else min(part, left) if to_add > 0 else max(part, left)
        sizes[one.name] = one.replicas + step
        added += step
    if ranked:
        first = ranked[0].name
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _fraction(one: Size, wanted: int, surge: int) -> int:
    if wanted == 0:
        return -one.replicas
    most = one.most or one.observed
    if not most:
        return 0
    return _half_away(Fraction(one.replicas * (wanted + surge), most)) - one.replicas


def _half_away(value: Fraction) -> int:
    return int(value + Fraction(1, 2)) if value >= 0 else -int(-value + Fraction(1, 2))


def rescale(
    new: Size | None, olds: Sequence[Size], wanted: int, surge: int, *, recreate: bool
) -> dict[str, int]:
    """Sizes while paused or after the wanted number changed; `olds` newest first.

    A ReplicaSet whose size stays is listed too, so that its annotations are refreshed.
    """
    every = [*([new] if new else []), *olds]
    active = [s for s in every if s.replicas > 0]
    if len(active) <= 1:
        only = active or every[:1]
        return {s.name: wanted for s in only}
    if new and new.replicas == new.desired == new.available == wanted:
        return {s.name: 0 for s in olds if s.replicas}
    return {} if recreate else proportional(new, olds, wanted, surge)
