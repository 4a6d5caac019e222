"""The pods of one workload, and which of them a round need not tell apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Final

from gitkruise.model.workloads.pod import PodFacts

_BY_NAME: Final = attrgetter("name")


class PodGroup:
    """Pods that share a `standing`, by name, in no order; at least one, and never changed.

    Every answer that `PodFacts.standing` gives for `first` holds for all of them, so that a round
    looks at a handful of groups instead of a thousand pods. A group in which nothing moves is the
    same object in the next round.
    """

    def __init__(self, by_name: Mapping[str, PodFacts]) -> None:
        self.by_name = by_name
        self._unlike: tuple[Mapping[str, str], frozenset[str]] | None = None

    @cached_property
    def first(self) -> PodFacts:
        """Any one of them."""
        return next(iter(self.by_name.values()))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.by_name)

    def without_labels(self, pairs: Mapping[str, str]) -> frozenset[str]:
        """Names of pods that lack one of `pairs`; the last answer is kept."""
        if self._unlike is None or self._unlike[0] != pairs:
            self._unlike = pairs, _unlike(self, pairs)
        return self._unlike[1]

    def followed_by(self, by_name: Mapping[str, PodFacts], changed: Set[str]) -> PodGroup:
        """Return the next group of this standing, which keeps what is known of unchanged pods."""
        group = PodGroup(by_name)
        if self._unlike is not None:
            pairs, names = self._unlike
            fresh = [by_name[name] for name in changed if name in by_name]
            group._unlike = pairs, (names - changed) | _unlike(fresh, pairs)
        return group

    def without(self, names: Set[str]) -> PodGroup | None:
        """The group without pods of these names; None when no pod is left."""
        if self.names.isdisjoint(names):
            return self
        left = {name: pod for name, pod in self.by_name.items() if name not in names}
        return PodGroup(left) if left else None

    def __iter__(self) -> Iterator[PodFacts]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)


def _unlike(pods: PodGroup | list[PodFacts], pairs: Mapping[str, str]) -> frozenset[str]:
    return frozenset([p.name for k, text in pairs.items() for p in pods if p.labels.get(k) != text])


@dataclass(frozen=True, slots=True, eq=False)
class PodGroups:
    """Pods of one namespace by their standing; iterates over them in name order."""

    groups: tuple[PodGroup, ...] = ()

    def __iter__(self) -> Iterator[PodFacts]:
        return iter(in_name_order(self.groups))

    def __len__(self) -> int:
        return sum(map(len, self.groups))


def grouped(pods: Iterable[PodFacts]) -> PodGroups:
    """`pods` of one namespace by their standing."""
    by_standing: dict[str, dict[str, PodFacts]] = defaultdict(dict)
    for pod in pods:
        by_standing[pod.standing][pod.name] = pod
    return PodGroups(tuple([PodGroup(alike) for alike in by_standing.values()]))


def in_name_order(pods: Iterable[Iterable[PodFacts]]) -> list[PodFacts]:
    """The pods of some groups of one namespace as one list."""
    return sorted(chain.from_iterable(pods), key=_BY_NAME)


class PodGroupIndex:
    """Groups of the last read; an unchanged pod is never read again.

    `changed` holds the names of pods that were created, deleted or changed since.
    """

    __slots__ = ("_groups", "_standings", "changed")

    def __init__(self, pods: Iterable[PodFacts]) -> None:
        groups = grouped(pods).groups
        self._groups = {group.first.standing: group for group in groups}
        self._standings = {pod.name: pod.standing for group in groups for pod in group}
        self.changed: set[str] = set()

    def look(self, there: Mapping[str, PodFacts]) -> PodGroups:
        """Return all groups, given the changed pods that still exist."""
        moved: dict[str, dict[str, PodFacts]] = {}
        for name in sorted(self.changed):
            before, after = self._standings.pop(name, None), there.get(name)
            if before is not None:
                del self._open(before, moved)[name]
            if after is not None:
                self._standings[name] = after.standing
                self._open(after.standing, moved)[name] = after
        for standing, pods in moved.items():
            group = self._groups.pop(standing, None)
            if pods:
                known = group or PodGroup(pods)
                self._groups[standing] = known.followed_by(pods, self.changed)
        self.changed.clear()
        return PodGroups(tuple(self._groups.values()))

    def _open(self, standing: str, moved: dict[str, dict[str, PodFacts]]) -> dict[str, PodFacts]:
        """Return a mutable copy of the group with that key."""
        pods = moved.get(standing)
        if pods is None:
            group = self._groups.get(standing)
            pods = moved[standing] = dict(group.by_name) if group else {}
        return pods
