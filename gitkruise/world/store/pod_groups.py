"""Pod groups of one owner, updated incrementally from the pods that changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import PodGroup, PodGroups, grouped


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
        self.changed.clear()
        for standing, pods in moved.items():
            self._groups.pop(standing, None)
            if pods:
                self._groups[standing] = PodGroup(pods)
        return PodGroups(tuple(self._groups.values()))

    def _open(self, standing: str, moved: dict[str, dict[str, PodFacts]]) -> dict[str, PodFacts]:
        """Return a mutable copy of the group with that key."""
        pods = moved.get(standing)
        if pods is None:
            group = self._groups.get(standing)
            pods = moved[standing] = dict(group.by_name) if group else {}
        return pods
