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

    @cached_property
    def first(self) -> PodFacts:
        """Any one of them."""
        return next(iter(self.by_name.values()))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.by_name)

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
