"""Seeded faults between controllers and the model cluster: lost writes, lost replies, duplicate and
late writes, rejections, and controllers that crash.

A seed first selects the kinds of fault (most are off), then the writes that fail. After `until`
nothing fails any more, so that a test can require a run to become stable.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError, Conflict, GatewayTimeout, TooManyRequests, Unavailable
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.world.kubelet.profiles import draw

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World


class Fault(StrEnum):
    """Kind of failure of one write."""

    DROPPED = "dropped"  # lost before the server saw it
    UNANSWERED = "unanswered"  # done, and the answer lost
    DUPLICATED = "duplicated"  # sent twice
    LATE = "late"  # done some seconds after the sender gave up
    CONFLICT = "conflict"  # refused as if the object had moved
    THROTTLED = "throttled"  # 429
    CRASH = "crash"  # the controller stops: nothing more is sent at this instant


RATE: Final = 0.25  # of the writes, while a kind of fault is on
LATE_MAX_S: Final = 30.0
SHARE_ON: Final = 0.35  # chance of each kind to be on for a seed


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault that happened."""

    at: datetime
    fault: Fault
    request: str  # verb and path


class Faults:
    """Wraps the requests to a World (`Simulation.send`); also a component of it (late writes)."""

    def __init__(
        self,
        world: World,
        seed: int,
        *,
        until: datetime,
        kinds: Sequence[Fault] | None = None,
        user: str = "controller",
    ) -> None:
        self.until, self.user = until, user
        self._world, self._seed = world, seed
        chosen = [kind for kind in Fault if draw(f"{seed}/on/{kind}") < SHARE_ON]
        self.kinds = tuple(chosen if kinds is None else kinds)
        self.struck: list[FaultRecord] = []
        self._count = 0
        self._late: list[tuple[datetime, int, ApiRequest]] = []
        self._crashed: datetime | None = None

    def send(self, request: ApiRequest, now: datetime) -> ApiReply:
        """The World's answer, or the fault's. Raises ApiError."""
        self._count += 1
        if self._crashed == now:
            raise Unavailable("the controller has stopped")
        fault = self._draw(now)
        if fault is None:
            return self._deliver(request, now)
        self.struck.append(FaultRecord(now, fault, f"{request.verb} {request.path}"))
        return self._strike(fault, request, now)

    def run(self, world: World, now: datetime) -> datetime | None:
        """Deliver late writes that are due; their replies are dropped."""
        del world
        while self._late and self._late[0][0] <= now:
            _, _, request = heapq.heappop(self._late)
            self._try(request, now)
        return self._late[0][0] if self._late else None

    def tally(self) -> Counter[Fault]:
        """Count the faults by kind."""
        return Counter(one.fault for one in self.struck)

    def _draw(self, now: datetime) -> Fault | None:
        if now >= self.until or not self.kinds:
            return None
        if draw(f"{self._seed}/when/{self._count}") >= RATE:
            return None
        at = int(draw(f"{self._seed}/which/{self._count}") * len(self.kinds))
        return self.kinds[at]

    def _strike(self, fault: Fault, request: ApiRequest, now: datetime) -> ApiReply:
        match fault:
            case Fault.DROPPED:
                raise Unavailable("connection refused")
            case Fault.UNANSWERED:
                self._try(request, now)
                raise GatewayTimeout("the answer was lost")
            case Fault.DUPLICATED:
                reply = self._deliver(request, now)
                self._try(request, now)
                return reply
            case Fault.LATE:
                delay = timedelta(seconds=LATE_MAX_S * draw(f"{self._seed}/late/{self._count}"))
                heapq.heappush(self._late, (now + delay, self._count, request))
                raise GatewayTimeout("no answer in time")
            case Fault.CONFLICT:
                raise Conflict("the object has been modified; please apply your changes to it")
            case Fault.THROTTLED:
                raise TooManyRequests("too many requests")
            case Fault.CRASH:
                self._crashed = now
                raise Unavailable("the controller has stopped")

    def _deliver(self, request: ApiRequest, now: datetime) -> ApiReply:
        return self._world.handle(request, now, user=self.user)

    def _try(self, request: ApiRequest, now: datetime) -> None:
        try:
            self._deliver(request, now)
        except ApiError:  # the reply is dropped; only the change of the World counts
            return
