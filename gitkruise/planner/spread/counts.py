"""Status of the subsets of a WorkloadSpread: counts, records, and whether pods can be scheduled.

Source: WS-50 to WS-57.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from gitkruise.model.planning.plan import Event
from gitkruise.model.planning.workload_spread import (
    SCHEDULABLE,
    Records,
    SpreadFacts,
    Subset,
    SubsetStatus,
    subset_match,
    subset_status,
)
from gitkruise.model.workloads.conditions import dated
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.spread.grouping import PlacedPod
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import parse_time

CREATED_WITHIN: Final = timedelta(seconds=30)
DELETED_WITHIN: Final = timedelta(seconds=15)
UNSCHEDULABLE_FOR: Final = timedelta(seconds=300)
_UNSCHEDULABLE: Final = ("PodUnschedulable", "a pod of the subset could not be scheduled in time")


@dataclass(slots=True, kw_only=True)
class Counting:
    """One count of a WorkloadSpread at `now`; `events` and `wakes` come of it."""

    spread: SpreadFacts
    replicas: int
    now: datetime
    events: list[Event] = field(default_factory=list)
    wakes: list[datetime] = field(default_factory=list)

    def status(self, pods: Sequence[PlacedPod]) -> Obj:
        """The status of the WorkloadSpread with these pods."""
        conditions = {s.name: self._conditions(s, pods) for s in self.spread.subsets}
        known = {
            version: tuple(found)
            for version, found in self.spread.versions.items()
            if any(one.creating or one.deleting for one in found)
        }
        versions = {pod.version for pod in pods} | known.keys()
        whole = [
            self._counted(s, pods, self.spread.versions.values(), conditions[s.name])
            for s in self.spread.subsets
        ]
        lists = {}
        for version in sorted(versions):
            mine = [pod for pod in pods if pod.version == version]
            old = self.spread.versions.get(version, ())
            found = [
                self._counted(s, mine, (old,), conditions[s.name], events_due=True)
                for s in self.spread.subsets
            ]
            if mine or any(one.creating or one.deleting for one in found):
                lists[version] = [one.obj() for one in found]
        status: dict[str, object] = {
            "observedGeneration": self.spread.generation,
            "subsetStatuses": [one.obj() for one in whole],
        }
        return {**status, **({"versionedSubsetStatuses": lists} if lists else {})}

    def failing(self, pods: Iterable[PlacedPod]) -> list[PodFacts]:
        """The pods that could not be scheduled in time, except those of the last subset."""
        if not self.spread.reschedule_s:
            return []
        last = self.spread.subsets[-1].name
        mine = (p for p in pods if p.subset not in ("", last))
        return [p.facts for p in mine if self._is_overdue(p.facts)]

    def _counted(
        self,
        subset: Subset,
        pods: Sequence[PlacedPod],
        before: Iterable[Sequence[SubsetStatus]],
        conditions: tuple[Obj, ...],
        *,
        events_due: bool = False,
    ) -> SubsetStatus:
        """One subset over `pods`; `before` are statuses with records."""
        old = [one for found in before for one in found if one.name == subset.name]
        mine = [pod.facts for pod in pods if pod.subset == subset.name]
        active = {pod.name for pod in mine if pod.active}
        there = {_ident(pod) for pod in mine} | {pod.name for pod in mine}
        creating = self._kept(
            {k: at for one in old for k, at in one.creating.items() if k not in there},
            CREATED_WITHIN,
            ("CreatePodFailed", "created") if events_due else None,
        )
        deleting = self._kept(
            {k: at for one in old for k, at in one.deleting.items() if k in active},
            DELETED_WITHIN,
            ("DeletePodFailed", "deleted") if events_due else None,
        )
        found = SubsetStatus(
            name=subset.name,
            replicas=len(active),
            creating=creating,
            deleting=deleting,
            conditions=conditions,
        )
        return found.within(subset.pods(self.replicas))

    def _kept(
        self, records: Records, lasts: timedelta, event: tuple[str, str] | None
    ) -> Mapping[str, datetime]:
        """The records that are not too old."""
        kept = {}
        for ident, at in sorted(records.items()):
            if at + lasts >= self.now:
                kept[ident] = at
                self.wakes.append(at + lasts + timedelta(milliseconds=1))
            elif event is not None:
                where = f"{self.spread.key.namespace}/{ident}"
                text = f"Pod {where} was expected to be {event[1]} but it wasn't"
                self.events.append(Event("Warning", event[0], text))
        return kept

    def _conditions(self, subset: Subset, pods: Sequence[PlacedPod]) -> tuple[Obj, ...]:
        """The condition Schedulable, where pods are rescheduled at all."""
        if not self.spread.reschedule_s:
            return ()
        listed = self.spread.status.get("subsetStatuses") or ()
        known = (subset_status(one) for one in listed)
        old = next((s.condition(SCHEDULABLE) for s in known if s.name == subset.name), None)
        last = subset.name == self.spread.subsets[-1].name
        failing = not last and any(
            self._is_overdue(p.facts) for p in pods if p.subset == subset.name
        )
        if failing or (not last and old and self._rests(subset, old)):
            return (self._condition(old, "False", *_UNSCHEDULABLE),)
        return (self._condition(old, "True", SCHEDULABLE, ""),)

    def _rests(self, subset: Subset, old: Obj) -> bool:
        """Return whether a subset that was unschedulable has to stay so."""
        if old.get("status") != "False":
            return False
        until = (parse_time(old.get("lastTransitionTime")) or self.now) + UNSCHEDULABLE_FOR
        if until >= self.now:
            self.wakes.append(until + timedelta(milliseconds=1))
            return True
        where = f"{self.spread.key.namespace}/{self.spread.name}"
        text = f"Subset {subset.name} of WorkloadSpread {where} is schedulable again"
        self.events.append(Event("Normal", "RecoverSchedulable", text))
        return False

    def _condition(self, old: Obj | None, status: str, reason: str, message: str) -> Obj:
        condition = {"type": SCHEDULABLE, "status": status, "reason": reason, "message": message}
        return dated(condition, old, self.now)

    def _is_overdue(self, pod: PodFacts) -> bool:
        """Return whether a pod could not be scheduled for too long; wakes when it will be."""
        if pod.deleting is not None or pod.phase not in ("", "Pending") or pod.node:
            return False
        found = pod.condition("PodScheduled")
        if found is None or found.status != "False" or found.reason != "Unschedulable":
            return False
        end = (pod.created or self.now) + timedelta(seconds=self.spread.reschedule_s)
        if end >= self.now:
            self.wakes.append(end + timedelta(milliseconds=1))
        return end < self.now


def _ident(pod: PodFacts) -> str:
    match = subset_match(pod.annotations)
    return match.uid if match is not None and match.uid else pod.name
