"""One pod on a simulated node: what goes on there, and what has been told of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import is_
from typing import Any

from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.times import format_time
from gitkruise.world.alike import Alike
from gitkruise.world.containers import Identity, PodRuntime
from gitkruise.world.kubelet_status import (
    OWNED_CONDITIONS,
    containers_ready,
    first_conditions,
    in_transit,
    is_starting,
)
from gitkruise.world.stages import Life


@dataclass(slots=True)
class PodRun:
    """A pod that a kubelet is in charge of."""

    key: ObjectKey
    who: Identity
    life: Life
    told: PodRuntime  # what its present status was made from
    spec: Obj | None = None  # the last one seen
    shape: Obj | None = None  # see Fates
    written: str = ""  # resourceVersion of our last write
    untold: dict[str, Any] | None = None  # parts of its status that only we know so far
    down: datetime | None = None  # since when containers are not ready, when only we know
    judged: tuple[object, ...] | None = None  # what the last status was made from

    def made_from(self, pod: Obj) -> tuple[object, ...]:
        """What a decision and a status are made from, to be compared by identity."""
        meta, life = pod["metadata"], self.life
        going, generation = meta.get("deletionTimestamp"), meta.get("generation")
        return pod["spec"], pod.get("status"), life.runtime, generation, going, bool(life.timers)

    def is_judged(self, pod: Obj) -> bool:
        """Whether nothing changed since the last decision on the pod."""
        return self.judged is not None and all(map(is_, self.judged, self.made_from(pod)))

    def has_told(self, made_from: tuple[object, ...]) -> bool:
        """Whether the last status says all there is to say.

        A timer puts news off, as it does which generation was seen; and that a pod is to go shows
        once one of its containers is down.
        """
        if self.judged is None:
            return False
        spec, status, runtime, seen, going, waiting = map(is_, self.judged, made_from)
        if not (spec and status and runtime):
            return False
        if seen and going and waiting:
            return True
        up = going or all(c.up for c in self.life.runtime.containers.values())
        return up and (bool(self.life.timers) or (seen and waiting))

    def keeps_quiet(self, pod: Obj, now: datetime, alike: Alike) -> bool:
        """Whether no controller acts on a new status of the pod, so that it can wait for news.

        What it would say first is remembered.
        """
        runtime = self.life.runtime
        if is_starting(pod, runtime):
            if self.untold is None:
                self.untold = first_conditions(pod, runtime, now, alike)
            return True
        if not in_transit(pod, runtime, self.told):
            return False
        if self.down is None and containers_ready(pod, runtime, "Running")[0] == "False":
            self.down = now
        return True

    def as_known(self, pod: Obj) -> Obj:
        """`pod` with what only we know of its status; what others say of it stands."""
        if self.untold is None and self.down is None:
            return pod
        status = pod["status"]
        listed = status.get("conditions") or ()
        if self.untold is not None:
            others = [c for c in listed if c["type"] not in OWNED_CONDITIONS]
            told = [*self.untold["conditions"], *others]
            return {**pod, "status": {**status, **self.untold, "conditions": told}}
        down = {"status": "False", "lastTransitionTime": format_time(self.down)}
        told = [
            {**c, **down} if c["type"] == "ContainersReady" and c["status"] == "True" else c
            for c in listed
        ]
        return {**pod, "status": {**status, "conditions": told}}
