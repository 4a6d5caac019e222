"""An informer keeps the store at the truth through cuts, expiry, failures and silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from gitkruise.errors import ApiError, Forbidden, Unavailable, WatchExpired
from gitkruise.kube.cache.informer import Informer, WatchOutages
from gitkruise.kube.cache.list_watch import SILENCE_S, Feed
from gitkruise.kube.cache.store import InformerCache
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.log_line import LogLine
from gitkruise.wire.primitives.requests import OPENED, ApiReply, ApiRequest, WatchEvent
from tests.clock import ManualClock
from tests.kube.toy import PODS, Fault, Toy

FEED = Feed(ref=PODS, kind="Pod")
Play = Callable[[Toy, Informer], None]


def played(
    toy: Toy, *moves: Play, feed: Feed = FEED
) -> tuple[Informer, InformerCache, ManualClock]:
    """Run an informer; a minute after the start and after each move it is left to settle."""
    clock, store = ManualClock(), InformerCache()
    informer = Informer(feed, toy, store, clock)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(informer.run())
            for move in (*moves, lambda *_: None):
                await clock.sleep(60)
                move(toy, informer)
            running.cancel()

    clock.run(main())
    return informer, store, clock


def names(store: InformerCache) -> list[str]:
    return [seen.key.name for seen in store.all_seen(POD)]


def test_changes_arrive() -> None:
    toy = Toy()
    toy.make(PODS, "old")
    informer, store, _ = played(
        toy,
        lambda toy, _: void(toy.make(PODS, "new")),
        lambda toy, _: void(toy.remove(PODS, "old")),
    )
    assert informer.synced.is_set()
    assert names(store) == ["new"]
    assert [r.verb for r in toy.requests] == ["list"]


def test_a_feed_may_keep_only_names_that_end_so() -> None:
    toy = Toy()
    for name in ("a-barrier", "b"):
        toy.make(PODS, name)
    informer, store, _ = played(
        toy,
        lambda toy, _: void([toy.make(PODS, name) for name in ("c-barrier", "d")]),
        lambda toy, _: void([toy.remove(PODS, name) for name in ("a-barrier", "b")]),
        feed=replace(FEED, name_ends="-barrier"),
    )
    assert informer.synced.is_set()
    assert names(store) == ["c-barrier"]


def test_a_cut_watch_is_resumed_without_a_new_list() -> None:
    def cut_and_make(toy: Toy, _: Informer) -> None:
        toy.cut_watches()
        toy.make(PODS, "meanwhile")

    toy = Toy()
    _, store, _ = played(toy, cut_and_make)
    assert names(store) == ["meanwhile"]
    assert len(toy.requests) == 1


def test_expiry_means_one_new_list() -> None:
    def forget(toy: Toy, _: Informer) -> None:
        toy.remove(PODS, "gone")
        toy.make(PODS, "there")
        toy.forget()

    toy = Toy()
    toy.make(PODS, "gone")
    _, store, _ = played(toy, forget)
    assert names(store) == ["there"]
    assert [r.verb for r in toy.requests] == ["list", "list"]


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "told"])
def test_an_expired_version_is_no_failure(
    caplog: pytest.LogCaptureFixture, *, refused: bool
) -> None:
    """The API server has forgotten what the watch begins at: a list follows immediately."""

    class Expiring(Toy):
        seen: ClassVar[list[ApiError | None]] = []

        async def send(self, request: ApiRequest) -> ApiReply:
            self.seen.append(informers[0].error if informers else None)
            return await super().send(request)

        async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
            if len(self.seen) > 1:
                async for event in super().watch(request):
                    yield event
                return
            if refused:
                raise WatchExpired("too old resource version: 1 (2)")
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            yield WatchEvent(type="ERROR", object=gone)

    informers: list[Informer] = []
    toy = Expiring()
    toy.make(PODS, "there")
    clock, store = ManualClock(), InformerCache()
    informers.append(Informer(FEED, toy, store, clock))

    async def main() -> None:
        running = asyncio.ensure_future(informers[0].run())
        await clock.sleep(60)
        running.cancel()

    clock.run(main())
    assert toy.seen == [None, None]
    assert names(store) == ["there"]
    assert "watch-failed" not in caplog.text


def test_an_error_in_a_watch_is_shown() -> None:
    class Broken(Toy):
        watches = 0

        async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
            self.watches += 1
            status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "oops"}
            yield WatchEvent(type="ERROR", object=status)

    errors: list[str] = []
    toy = Broken()
    played(toy, lambda _, informer: errors.append(str(informer.error)))
    assert errors == ["oops"]
    assert 2 <= toy.watches <= 20, "there are pauses"


def test_long_lists_come_in_pages() -> None:
    toy = Toy()
    for n in range(1001):
        toy.make(PODS, f"p{n:04}")
    _, store, _ = played(toy)
    assert len(names(store)) == 1001
    assert [r.params.get("continue") for r in toy.requests] == [None, "500", "1000"]


def test_failures_are_shown_and_paused_for() -> None:
    toy = Toy(faults=[Fault("list", Forbidden("no list for you")) for _ in range(3)])
    errors: list[str] = []

    def look(_: Toy, informer: Informer) -> None:
        errors.append(str(informer.error))

    toy.faults += [Fault("list", Unavailable("down")) for _ in range(40)]
    informer, _, _ = played(toy, look, look)
    assert errors == ["down", "down"]
    assert not informer.synced.is_set()
    assert 5 <= len(toy.requests) <= 20


class Silent(Toy):
    """Its watches never say anything."""

    watches = 0

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        self.watches += 1
        await asyncio.Event().wait()
        yield WatchEvent(type="BOOKMARK", object={})


def test_a_silent_watch_is_given_up_for_a_new_list() -> None:
    """A proxy swallows the events, or the server was restored to an older state."""
    toy = Silent()
    _, store, _ = played(
        toy,
        lambda toy, _: void(toy.make(PODS, "unheard")),
        lambda *_: None, lambda *_: None, lambda *_: None,
    )  # fmt: skip
    assert SILENCE_S < 4 * 60
    assert toy.watches == 2
    assert names(store) == ["unheard"]


@dataclass
class Quiet(Toy):
    """Its watches have nothing to say; the connection of each is lost after `lasts_s`."""

    lasts_s: float = 50.0
    down: bool = False
    watches: int = 0

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        self.watches += 1
        if self.down:
            raise Unavailable("cannot reach it")
        yield WatchEvent(type=OPENED, object={})
        await asyncio.sleep(self.lasts_s)
        raise Unavailable("connection reset")


def test_the_loss_of_an_open_watch_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """A load balancer cuts what is quiet for 50 seconds, sooner than a bookmark comes."""
    toy, errors = Quiet(), list[ApiError | None]()

    def look(_: Toy, informer: Informer) -> None:
        errors.append(informer.error)

    played(toy, *[look] * 10)
    assert errors == [None] * 10
    assert toy.watches == 14, "each is opened again without a pause"
    assert "watch-failed" not in caplog.text


def test_an_open_watch_is_a_recovery_before_anything_happens() -> None:
    toy, errors = Quiet(lasts_s=1_000), list[str]()

    def move(toy: Toy, informer: Informer) -> None:
        assert isinstance(toy, Quiet)
        toy.down = not toy.down
        errors.append(str(informer.error))

    toy.down = True
    played(toy, move, move)
    assert errors == ["cannot reach it", "None"]


def turn(toy: Toy, _: Informer) -> None:
    """Begin an outage, or end it."""
    assert isinstance(toy, Quiet)
    toy.down = not toy.down


def test_a_cluster_that_was_restored_during_an_outage_is_listed_again() -> None:
    """A watch from a version that it has not reached yet would never show what it lost."""
    toy = Quiet()
    toy.make(PODS, "kept")
    toy.make(PODS, "late")

    def restore(toy: Toy, informer: Informer) -> None:
        toy.remove(PODS, "late")
        toy.version -= 5
        turn(toy, informer)

    _, store, _ = played(toy, restore, turn)
    assert names(store) == ["kept"]


def test_a_cluster_that_comes_back_as_it_was_is_not_listed_again() -> None:
    toy = Quiet()
    played(toy, turn, turn)
    lists = [request.params.get("limit") for request in toy.requests]
    assert lists[0] == "500"
    assert set(lists[1:]) == {"1"}


def test_watches_that_are_cut_immediately_are_a_failure() -> None:
    toy, errors = Quiet(lasts_s=0.1), list[str]()
    played(toy, lambda _, informer: errors.append(str(informer.error)))
    assert errors == ["connection reset"]
    assert 2 <= toy.watches <= 20, "there are pauses"


def test_an_unreadable_object_is_skipped_and_the_rest_goes_on() -> None:
    toy = Toy()
    toy.make(PODS, "bad", spec={"containers": "none"})
    toy.make(PODS, "good")
    informer, store, _ = played(toy, lambda toy, _: void(toy.make(PODS, "later")))
    assert names(store) == ["good", "later"]
    assert informer.error is None


def void(_: object) -> None:
    """A move without a waiting caller."""


def test_an_outage_of_several_watches_is_one_line_and_its_end_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A watch with a reason of its own keeps its lines; one that is stopped holds up no line."""
    caplog.set_level(logging.INFO)
    clock, toy, outages = ManualClock(), Toy(), WatchOutages()
    away, denied = Unavailable("cannot reach it"), Forbidden("no list for you")
    watched = [Informer(FEED, toy, InformerCache(), clock, outages=outages) for _ in range(4)]

    def lines() -> list[str]:
        messages = [record.msg for record in caplog.records]
        found = [line for line in messages if isinstance(line, LogLine) and "error" in line.facts]
        caplog.clear()
        return [f"{line.event} {line.facts['error']}" for line in found]

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            toy.faults += [Fault("list", error) for error in (away, away, away, denied)]
            running = [group.create_task(one.run()) for one in watched]
            await clock.sleep(0.01)
            assert lines() == ["watch-failed cannot reach it", "watch-failed no list for you"]
            running[0].cancel()
            await clock.sleep(60)
            assert sorted(lines()) == [
                "watch-recovered cannot reach it", "watch-recovered no list for you",
            ]  # fmt: skip
            toy.faults += [Fault("list", away) for _ in range(3)]
            toy.make(PODS, "news")
            toy.forget()
            await clock.sleep(60)
            assert lines() == ["watch-failed cannot reach it", "watch-recovered cannot reach it"]
            for task in running:
                task.cancel()

    clock.run(main())
