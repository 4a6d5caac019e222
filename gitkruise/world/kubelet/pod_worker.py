"""One pod on a simulated node: its state and its last reported status."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import is_
from typing import Any

from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.kubelet.runtime import PodRuntime, RuntimeIdentity
from gitkruise.world.kubelet.stages import WorkerState
from gitkruise.world.kubelet.status import (
    OWNED_CONDITIONS,
    containers_ready,
    first_conditions,
    in_transit,
    is_starting,
)
from gitkruise.world.store.memo import Memo


@dataclass(slots=True)
class PodWorker:
    """A pod that a kubelet is in charge of."""

    key: ObjectKey
    identity: RuntimeIdentity
    state: WorkerState
    reported: PodRuntime  # what its present status was made from
    spec: Obj | None = None  # the last one seen
    shape: Obj | None = None  # see SharedStates
    written: str = ""  # resourceVersion of our last write
    unwritten: dict[str, Any] | None = None  # parts of its status that only we know so far
    down: datetime | None = None  # since when containers are not ready, when only we know
    last_inputs: tuple[object, ...] | None = None  # what the last status was made from

    def status_inputs(self, pod: Obj) -> tuple[object, ...]:
        """Return the inputs of a decision and a status, to be compared by identity."""
        meta, state = pod["metadata"], self.state
        going, generation = meta.get("deletionTimestamp"), meta.get("generation")
        return pod["spec"], pod.get("status"), state.runtime, generation, going, bool(state.timers)

    def is_unchanged(self, pod: Obj) -> bool:
        """Return whether nothing changed since the last decision on the pod."""
        return self.last_inputs is not None and all(
            map(is_, self.last_inputs, self.status_inputs(pod))
        )

    def is_reported(self, status_inputs: tuple[object, ...]) -> bool:
        """Return whether the last status is up to date.

        While a timer runs, changes and the observed generation wait for it; a deletion shows as
        soon as one of the containers is down.
        """
        if self.last_inputs is None:
            return False
        spec, status, runtime, seen, going, waiting = map(is_, self.last_inputs, status_inputs)
        if not (spec and status and runtime):
            return False
        if seen and going and waiting:
            return True
        up = going or all(c.up for c in self.state.runtime.containers.values())
        return up and (bool(self.state.timers) or (seen and waiting))

    def may_defer(self, pod: Obj, now: datetime, memo: Memo) -> bool:
        """Return whether no controller acts on a new status, so that its write can wait.

        Keeps the first conditions for the status that is written later.
        """
        runtime = self.state.runtime
        if is_starting(pod, runtime):
            if self.unwritten is None:
                self.unwritten = first_conditions(pod, runtime, now, memo)
            return True
        if not in_transit(pod, runtime, self.reported):
            return False
        if self.down is None and containers_ready(pod, runtime, "Running")[0] == "False":
            self.down = now
        return True

    def with_unwritten(self, pod: Obj) -> Obj:
        """Return `pod` with the unwritten parts of its status; conditions of others are kept."""
        if self.unwritten is None and self.down is None:
            return pod
        status = pod["status"]
        listed = status.get("conditions") or ()
        if self.unwritten is not None:
            others = [c for c in listed if c["type"] not in OWNED_CONDITIONS]
            reported = [*self.unwritten["conditions"], *others]
            return {**pod, "status": {**status, **self.unwritten, "conditions": reported}}
        down = {"status": "False", "lastTransitionTime": format_time(self.down)}
        reported = [
            {**c, **down} if c["type"] == "ContainersReady" and c["status"] == "True" else c
            for c in listed
        ]
        return {**pod, "status": {**status, "conditions": reported}}
