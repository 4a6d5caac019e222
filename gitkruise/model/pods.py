"""The pods of one workload, and which of them a round need not tell apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final

from gitkruise.model.pod import PodFacts

_BY_NAME: Final = attrgetter("name")


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of one namespace in name order; `alike` are the same in lists by their standing.

    What one pod of such a list says of itself by `PodFacts.standing` holds for all of them: of a
    thousand pods a round has a handful of lists to look at. No list is empty.
    """

    in_order: Sequence[PodFacts] = ()
    alike: Sequence[Sequence[PodFacts]] = ()

    def __iter__(self) -> Iterator[PodFacts]:
        return iter(self.in_order)

    def __len__(self) -> int:
        return len(self.in_order)


def grouped(pods: Sequence[PodFacts]) -> Pods:
    """`pods`, which are in name order, as Pods."""
    by_standing: dict[str, list[PodFacts]] = defaultdict(list)
    for pod in pods:
        by_standing[pod.standing].append(pod)
    return Pods(pods, tuple(by_standing.values()))


def in_name_order(lists: Iterable[Sequence[PodFacts]]) -> list[PodFacts]:
    """The pods of some lists, each in name order, as one list in name order."""
    found = tuple(lists)
    merged = list(chain.from_iterable(found))
    if len(found) > 1:
        merged.sort(key=_BY_NAME)
    return merged
