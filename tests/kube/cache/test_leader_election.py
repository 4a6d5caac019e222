"""Leader election: one at a time, quick hand-over, and no writes after a lost lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from random import Random  # noqa: TID251  drawn from a seed
from typing import Any

import pytest

from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Finding,
    Forbidden,
    GatewayTimeout,
    LeaseRefused,
    NotLeading,
    Unauthorized,
    Unavailable,
)
from gitkruise.kube.cache.leader_election import LEASES, Lease
from gitkruise.kube.system.lease_terms import (
    DURATION_S,
    JOINT,
    RENEW_WITHIN,
    RETRY,
    UNSENT_WITHIN,
    LeaseName,
)
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent
from tests.clock import ManualClock
from tests.kube.toy import Fault, Toy


def lease(who: str, toy: Toy, clock: ManualClock, **more: Any) -> Lease:
    return Lease(LeaseName(namespace="ops", name="gitkruise", identity=who, **more), toy, clock)


def spec(toy: Toy) -> dict[str, object]:
    found: dict[str, object] = get(toy.objects[LEASES, "ops", "gitkruise"], "spec")
    return found


def test_the_second_waits_until_the_first_lets_go() -> None:
    clock, toy, events = ManualClock(), Toy(), list[tuple[str, str, int]]()

    async def lead(who: str, seconds: float) -> None:
        one = lease(who, toy, clock)
        async with one.held():
            events.append((who, "leads", round(clock.monotonic())))
            await clock.sleep(seconds)
            one.check()
        events.append((who, "ends", round(clock.monotonic())))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(lead("a", 100))
            await clock.sleep(1)
            group.create_task(lead("b", 10))

    clock.run(main())
    names = [("a", "leads"), ("a", "ends"), ("b", "leads"), ("b", "ends")]
    assert [event[:2] for event in events] == names
    assert [at for *_, at in events[:2]] == [0, 100]
    assert 100 <= events[2][2] <= 100 + DURATION_S * RETRY
    assert (spec(toy)["holderIdentity"], spec(toy)["leaseTransitions"]) == ("", 1)


def left_by_a_dead_one(toy: Toy) -> None:
    """A lease whose holder renewed it for the last time just now."""
    spec = {
        "holderIdentity": "dead",
        "leaseDurationSeconds": 15,
        "renewTime": "2099-01-01T00:00:00.000000Z",
    }
    body = {"metadata": {"name": "gitkruise"}, "spec": spec}
    toy.do(ApiRequest(verb="create", resource=LEASES, namespace="ops", body=body))


def test_a_dead_holder_is_waited_out() -> None:
    clock, toy = ManualClock(), Toy()
    left_by_a_dead_one(toy)

    async def main() -> float:
        async with lease("b", toy, clock).held():
            return clock.monotonic()

    assert 15 < clock.run(main()) <= 15 + 2 * DURATION_S * RETRY


def test_who_observed_a_dead_holder_does_not_wait_for_it_again() -> None:
    """A replica wants the second lease only once it has the first one, of the same dead process."""
    clock, toy = ManualClock(), Toy()
    left_by_a_dead_one(toy)
    one = lease("b", toy, clock)

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(one.observe())
            toy.faults.append(Fault("get", Unavailable("down")))
            await clock.sleep(16)
            looking.cancel()
        assert spec(toy)["holderIdentity"] == "dead"
        async with one.held():
            return clock.monotonic()

    assert clock.run(main()) <= 16 + DURATION_S * RETRY


@pytest.mark.parametrize(("first", "second"), [(6.0, 6.0), (60.0, 6.0), (6.0, 60.0)])
def test_replicas_of_any_durations_never_lead_together(first: float, second: float) -> None:
    """The longer one is waited out, and the holder stops writing before that."""
    clock, toy = ManualClock(), Toy()
    ended: list[float] = []

    async def holder() -> None:
        async with lease("a", toy, clock, duration_s=first).held():
            down = Unavailable("down")
            toy.faults = [Fault("update", down) for _ in range(100)]
            try:
                await clock.sleep(3600)
            finally:
                ended.append(clock.monotonic())
                toy.faults = []

    async def loses() -> None:
        with pytest.raises(ExceptionGroup):
            await holder()

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            group.create_task(loses())
            await clock.sleep(0.5)
            assert spec(toy)["leaseDurationSeconds"] == int(first)
            async with lease("b", toy, clock, duration_s=second).held():
                return clock.monotonic()

    at = clock.run(main())
    assert ended[0] < at
    assert max(first, second) < at <= max(first, second) * 1.3 + first


def test_without_renewal_the_body_ends_and_writes_are_refused() -> None:
    clock, toy = ManualClock(), Toy()
    one = lease("a", toy, clock)
    ended: list[float] = []

    async def main() -> None:
        async with one.held():
            down = Unavailable("down")
            toy.faults = [Fault(verb, down) for _ in range(100) for verb in ("get", "update")]
            try:
                await clock.sleep(3600)
            finally:
                ended.append(clock.monotonic())

    with pytest.raises(ExceptionGroup) as caught:
        clock.run(main())
    assert caught.group_contains(ClusterFailed, match="GK4105")
    assert DURATION_S * (RENEW_WITHIN - RETRY) <= ended[0] <= DURATION_S
    with pytest.raises(ClusterFailed, match="a does not lead any more"):
        one.check()


def test_a_stolen_lease_ends_the_body_at_the_next_renewal() -> None:
    clock, toy = ManualClock(), Toy()

    async def main() -> None:
        async with lease("a", toy, clock).held():
            body = {"spec": {"holderIdentity": "thief"}}
            toy.do(
                ApiRequest(
                    verb="patch", resource=LEASES, namespace="ops", name="gitkruise", body=body
                )
            )
            await clock.sleep(3600)

    with pytest.raises(ExceptionGroup):
        clock.run(main())
    assert clock.monotonic() <= 4
    assert spec(toy)["holderIdentity"] == "thief"


@pytest.mark.parametrize("faults", [[], [Fault("get", Unavailable("away"))]])
def test_after_a_stop_it_is_not_known_who_leads(faults: list[Fault]) -> None:
    clock, toy = ManualClock(), Toy()

    async def main() -> None:
        one = lease("a", toy, clock)
        assert not one.is_doubtful
        with suppress(ExceptionGroup):
            async with one.held():
                assert not one.is_doubtful
                clock.advance(3600)  # the process was stopped
                assert (one.valid, one.others, one.is_doubtful) == (False, False, True)
                toy.faults += faults
                await one.look()
                assert (one.valid, one.is_doubtful) == (False, False)

    clock.run(main())


def test_nobody_leads_before_the_first_success() -> None:
    clock = ManualClock()
    with pytest.raises(ClusterFailed):
        lease("a", Toy(), clock).check()


@pytest.mark.parametrize(("keeper", "level"), [("", "WARNING"), ("sandbox", "INFO")])
def test_a_holder_by_design_is_no_warning(
    caplog: pytest.LogCaptureFixture, keeper: str, level: str
) -> None:
    clock, toy = ManualClock(), Toy()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(lead("sandbox"))
            await clock.sleep(1)
            second = group.create_task(lead("one", keeper=keeper))
            await clock.sleep(30)
            for task in (second, first):
                task.cancel()

    async def lead(who: str, **more: Any) -> None:
        async with lease(who, toy, clock, **more).held():
            await clock.sleep(1000)

    with caplog.at_level("INFO"):
        clock.run(main())
    levels = [r.levelname for r in caplog.records if "lease-not-held" in r.getMessage()]
    assert levels == [level]


REFUSALS: dict[str, tuple[ApiError, str]] = {
    "forbidden": (Forbidden("no leases for you"), "no leases for you"),
    "credentials": (
        Unauthorized("Unauthorized"),
        "the API server does not accept the credentials: Unauthorized",
    ),
}


@pytest.mark.parametrize("row", REFUSALS)
def test_a_lease_that_only_a_user_can_help_to_is_a_warning(
    row: str, caplog: pytest.LogCaptureFixture
) -> None:
    error, why = REFUSALS[row]
    clock, toy = ManualClock(), Toy(faults=[Fault("get", error)] * 2)

    async def main() -> None:
        async with lease("a", toy, clock).held():
            pass

    clock.run(main())
    messages = [r.getMessage() for r in caplog.records if "lease-not-held" in r.getMessage()]
    assert messages == [
        f'event=lease-not-held reason="lease ops/gitkruise cannot be written: {why}"'
    ]


def test_replicas_of_one_identity_hold_a_joint_lease_until_the_last_has_ended() -> None:
    clock, toy, events = ManualClock(), Toy(), list[str]()

    async def together(seconds: float) -> None:
        async with lease("3 shards", toy, clock, joint=True).held():
            await clock.sleep(seconds)

    async def alone() -> None:
        async with lease("other", toy, clock).held():
            events.append(f"other at {clock.monotonic():.0f}")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for seconds in (40, 100):
                group.create_task(together(seconds))
            await clock.sleep(1)
            group.create_task(alone())

    clock.run(main())
    (event,) = events
    assert 100 < int(event.rpartition(" ")[2]) <= 100 + DURATION_S * (JOINT + 2 * RETRY)


def finding(holder: str) -> Finding:
    return Finding(code="GK4119", message=f"{holder} divides the work in another way")


def test_a_rival_is_refused_once_it_is_known_to_live() -> None:
    clock, toy = ManualClock(), Toy()

    async def rival() -> None:
        async with lease("3 shards", toy, clock, joint=True).held():
            await clock.sleep(100)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            other = group.create_task(rival())
            await clock.sleep(1)
            with pytest.raises(LeaseRefused, match="3 shards divides the work"):
                async with lease("b", toy, clock, rival=finding).held():
                    pass
            other.cancel()

    clock.run(main())
    assert spec(toy)["holderIdentity"] == "3 shards"


def test_a_rival_that_is_dead_is_waited_out() -> None:
    clock, toy = ManualClock(), Toy()
    left_by_a_dead_one(toy)

    async def main() -> float:
        async with lease("b", toy, clock, rival=finding).held():
            return clock.monotonic()

    assert 15 < clock.run(main()) <= 15 + 2 * DURATION_S * RETRY


def test_a_drained_lease_lets_writes_end_and_none_begin() -> None:
    clock, toy, events = ManualClock(), Toy(), list[str]()
    one = lease("a", toy, clock)

    async def write() -> None:
        async with one.writing():
            await clock.sleep(2)
        events.append(f"written at {clock.monotonic():.0f}")

    async def main() -> None:
        async with one.held(), asyncio.TaskGroup() as group:
            group.create_task(write())
            await clock.sleep(1)
            await one.drain()
            events.append(f"drained at {clock.monotonic():.0f}")
            with pytest.raises(NotLeading):
                await write()
            assert spec(toy)["holderIdentity"] == "a"
        async with one.held():
            await write()

    clock.run(main())
    assert events[:2] == ["written at 2", "drained at 2"]
    assert len(events) == 3


class Link:
    """One replica's way to the server: a delay to it and back, and no writes when `mute`.

    Each request draws its delay, up to `spread_s` more than `delay_s`.
    """

    def __init__(
        self, toy: Toy, clock: ManualClock, delay_s: float = 0.0, spread_s: float = 0.0,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self._toy, self._clock, self._delay_s, self._spread_s = toy, clock, delay_s, spread_s
        self._random = Random(seed)
        self.mute = False
        self.sent: list[str] = []

    async def send(self, request: ApiRequest) -> ApiReply:
        self.sent.append(request.verb)
        delay_s = self._delay_s + self._spread_s * self._random.random()
        await self._clock.sleep(delay_s)
        if self.mute and request.verb != "get":
            raise Unavailable("down")
        try:
            return await self._toy.send(request)
        finally:
            await self._clock.sleep(delay_s)

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        return self._toy.watch(request)

    async def close(self) -> None:
        """Nothing to close."""


def joint(link: Link, clock: ManualClock) -> Lease:
    name = LeaseName(namespace="ops", name="gitkruise", identity="3 shards", joint=True)
    return Lease(name, link, clock)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("delay_s", "spread_s"), [(0.05, 0), (0.3, 0), (0.5, 0), (0.3, 0.45), (0.5, 0.5), (0.5, 1)]
)
def test_renewals_of_a_joint_lease_do_not_defeat_each_other(
    delay_s: float, spread_s: float, seed: int
) -> None:
    clock, toy = ManualClock(), Toy()
    links = [Link(toy, clock, delay_s, spread_s, 3 * seed + number) for number in range(3)]
    ones = [joint(link, clock) for link in links]
    invalid: list[float] = []

    async def keep(one: Lease) -> None:
        async with one.held():
            for _ in range(1000):
                await clock.sleep(0.1)
                invalid.extend([] if one.valid else [clock.monotonic()])

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for one in ones:
                group.create_task(keep(one))
                await clock.sleep(0.2)

    clock.run(main())
    assert invalid == []
    writes = [verb for link in links for verb in link.sent if verb != "get"]
    assert len(writes) < 60, "three replicas alone would write 120 times"


@pytest.mark.parametrize(("delay_s", "reads_only"), [(0.0, True), (0.2, False), (0.4, False)])
def test_replicas_of_a_joint_lease_end_before_a_rival_begins(
    delay_s: float, *, reads_only: bool
) -> None:
    clock, toy = ManualClock(), Toy()
    links = [Link(toy, clock), Link(toy, clock, delay_s)]
    ones = [joint(link, clock) for link in links]
    began: list[float] = []
    valid_until = [0.0, 0.0]

    async def keep(number: int) -> None:
        with suppress(BaseExceptionGroup):
            async with ones[number].held():
                while True:
                    await clock.sleep(0.05)
                    if ones[number].valid:
                        valid_until[number] = clock.monotonic()

    async def rival() -> None:
        async with lease("other", toy, clock).held():
            began.append(clock.monotonic())

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(keep(0))]
            await clock.sleep(5)
            links[1].mute = reads_only  # it reads what the first one renews
            keeping.append(group.create_task(keep(1)))
            contender = group.create_task(rival())
            await clock.sleep(45)
            assert ones[1].valid
            links[0].mute = links[1].mute = True
            await contender
            for task in keeping:
                task.cancel()

    clock.run(main())
    assert max(valid_until) < began[0]
    assert min(valid_until) > 50


class LossyLink(Link):
    """A way on which every fifth write is lost: the replica learns of it `silent_s` later."""

    def __init__(
        self, toy: Toy, clock: ManualClock, delay_s: float, silent_s: float | None
    ) -> None:
        super().__init__(toy, clock, delay_s)
        self._silent_s, self._writes = silent_s, 0

    async def send(self, request: ApiRequest) -> ApiReply:
        self._writes += request.verb == "update"
        if self._silent_s is not None and request.verb == "update" and self._writes % 5 == 4:
            await self._clock.sleep(self._silent_s)
            raise GatewayTimeout("lost")
        return await super().send(request)


@pytest.mark.parametrize(
    ("delay_s", "silent_s"),
    [
        pytest.param(0.1, 3600, id="a connection hangs"),
        pytest.param(0.4, 3600, id="a connection hangs, and replies take 0.8 s"),
        pytest.param(0.3, DURATION_S * UNSENT_WITHIN, id="the kernel drops a connection"),
        pytest.param(0.6, 0.6, id="a proxy answers 502, and replies take 1.2 s"),
        pytest.param(1.5, None, id="all replies take 3 s"),
    ],
)
def test_a_lost_renewal_or_slow_replies_do_not_lose_the_lease(
    delay_s: float, silent_s: float | None
) -> None:
    clock, toy = ManualClock(), Toy()

    async def main() -> None:
        name = LeaseName(namespace="ops", name="gitkruise", identity="a")
        async with Lease(name, LossyLink(toy, clock, delay_s, silent_s), clock).held():
            await clock.sleep(300)

    clock.run(main())
