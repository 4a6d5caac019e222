"""The pods of one owner by standing, brought up to date by what changed and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitkruise.model.pod import PodFacts
from gitkruise.model.pods import Lot, Pods, grouped


class Roll:
    """Keeps the lots from one look to the next: nobody looks at a pod that has not moved.

    `changed` are the names of pods that came, went or changed since.
    """

    __slots__ = ("_lots", "_standings", "changed")

    def __init__(self, pods: Iterable[PodFacts]) -> None:
        lots = grouped(pods).lots
        self._lots = {lot.first.standing: lot for lot in lots}
        self._standings = {pod.name: pod.standing for lot in lots for pod in lot}
        self.changed: set[str] = set()

    def look(self, there: Mapping[str, PodFacts]) -> Pods:
        """All pods, given those of the changed ones that are still `there`."""
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
            self._lots.pop(standing, None)
            if pods:
                self._lots[standing] = Lot(pods)
        return Pods(tuple(self._lots.values()))

    def _open(self, standing: str, moved: dict[str, dict[str, PodFacts]]) -> dict[str, PodFacts]:
        """A copy to change of the lot with that standing."""
        pods = moved.get(standing)
        if pods is None:
            lot = self._lots.get(standing)
            pods = moved[standing] = dict(lot.by_name) if lot else {}
        return pods
