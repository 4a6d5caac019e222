"""Canary of a Deployment that kube-controller-manager drives (docs/behaviour)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  seeded: the same sequences in every run
from typing import Any, TypeAlias

import pytest

from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.names import Obj
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.deployments import (
    Field,
    Watched,
    manager,
    serves,
    steering,
    version_of,
    watched,
)
from tests.kube.real.kubelet import Kubelet
from tests.kube.real.shop import pods_run
from tests.planner.builtin.played import GO, RESUMED

pytestmark = [pytest.mark.kube, pytest.mark.slow]

# (replicas, maxSurge, maxUnavailable, canary): where the rollout of v2 ends
SETTLING: dict[str, tuple[int, Any, Any, str | None, str]] = {
    "CAN-44": (10, 2, 1, "3", "7,3 paused"),
    "CAN-45": (10, 0, 1, "3", "7,3 paused"),
    "CAN-46": (10, 2, 0, "3", "7,3 paused"),
    "CAN-47": (10, "25%", "25%", "30%", "7,3 paused"),
    "CAN-48": (10, 0, 5, "3", "7,3 paused"),
    "CAN-49": (10, 5, 5, "3", "7,3 paused"),
    "CAN-50": (10, 3, 0, "25%", "7,3 paused"),
    "CAN-51": (3, 1, 0, "90%", "1,2 paused"),
    "CAN-52": (7, 1, 1, "33%", "4,3 paused"),
    "CAN-53": (4, "25%", "25%", "2", "2,2 paused"),
    "CAN-55": (10, 2, 1, "1", "9,1 paused"),
    "CAN-56": (10, 2, 1, "9", "1,9 paused"),
    "CAN-57": (10, 2, 1, "0", "10,0 paused"),
    "CAN-58a": (10, 2, 1, "10", "0,10"),
    "CAN-58b": (10, 2, 1, "15", "0,10"),
    "CAN-58c": (10, 2, 1, "100%", "0,10"),
    "CAN-59": (1, 1, 0, "30%", "0,1"),
}
# edits by kubectl of CAN-44's end, and where each comes to rest
AFTER: dict[str, list[tuple[dict[str, Any], str]]] = {
    "CAN-68": [(GO, "0,10")],
    "CAN-69": [({**GO, "canary": "5"}, "5,5 paused"), (GO, "0,10")],
    "CAN-70": [({**GO, "canary": "2"}, "7,3 paused"), (GO, "0,10")],
    "CAN-71": [({**GO, "canary": None}, "0,10")],
    "CAN-72": [({"canary": "5"}, "7,3 paused")],
    "CAN-75": [({"image": "v3"}, "7,3 paused"), (GO, "7,0,3 paused"), (GO, "0,0,10")],
    "CAN-78": [({"image": "v1"}, "7,3 paused"), (GO, "10,0")],
    "CAN-85": [({"replicas": 20}, "14,6 paused")],
    "CAN-86": [({"replicas": 12}, "8,4 paused")],
    "CAN-87": [({"replicas": 11}, "8,3 paused")],
    "CAN-88": [({"replicas": 10}, "7,3 paused")],
    "CAN-89": [({"replicas": 9}, "6,3 paused")],
    "CAN-90": [({"replicas": 5}, "3,2 paused")],
    "CAN-91": [({"replicas": 4}, "3,1 paused")],
    "CAN-92": [({"replicas": 3}, "2,1 paused")],
    "CAN-93": [({"replicas": 2}, "1,1 paused")],
    "CAN-94": [({"replicas": 1}, "1,0 paused")],
    "CAN-96": [({"replicas": 0}, "0 paused"), ({"replicas": 5}, "2,3 paused")],
    "CAN-97": [({"replicas": 1}, "1,0 paused"), ({"replicas": 10}, "7,3 paused")],
    **{
        name: [(edits[0], end) for edits, end in row_steps]
        for name, row_steps in RESUMED.items()
        if all(len(edits) == 1 for edits, _ in row_steps)
    },
}


# (replicas, maxSurge, maxUnavailable): where it stays while no pod of v2 is ready, canary 3
NEVER_READY: dict[str, tuple[int, int, int, str]] = {
    "CAN-64": (10, 2, 1, "9,3"),
    "CAN-65": (10, 0, 1, "9,1"),
    "CAN-66": (10, 3, 0, "10,3"),
    "CAN-67": (10, 0, 3, "7,3 paused"),
}
Row: TypeAlias = tuple[int, Any, Any, str | None]
FIRST: Row = (10, 2, 1, "3")


@dataclass
class Stand:
    """Deployments on a real cluster, and a kubelet that keeps pods of some from being ready.

    Of those in `unready` no pod of v2 is; of those in `late` no pod becomes so.
    """

    seen: Field
    kubelet: Kubelet
    unready: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)

    def new(self, name: str) -> Watched:
        return self.seen.new(name.lower())

    def may_be_ready(self, pod: Obj) -> bool:
        image, app = pod["spec"]["containers"][0]["image"], pod["metadata"]["labels"]["app"]
        if app in self.late:
            return serves(pod)
        return not (image == "app:v2" and app in self.unready)

    async def heal(self, one: Watched) -> None:
        self.unready.discard(one.name)
        self.late.discard(one.name)
        await self.kubelet.nudge()

    async def settle(self, name: str, row: Row, line: str) -> Watched:
        one = self.new(name)
        await start(one, *row)
        await one.commit(image="v2")
        await one.until(line)
        return one

    async def after(self, name: str, edits: list[tuple[dict[str, Any], str]]) -> None:
        one = await self.settle(name, FIRST, "7,3 paused")
        for changes, line in edits:
            await one.edit(**changes)
            await one.until(line)

    async def never_ready(self, name: str, row: tuple[int, int, int, str]) -> None:
        self.unready.add(name.lower())
        await self.settle(name, (*row[:3], "3"), row[3])

    async def can_61_a_finished_rollout(self, name: str) -> None:
        one = await self.settle(name, (3, 1, 0, "3"), "0,3")
        await one.edit(replicas=10)
        await one.until("0,10")

    async def can_62_a_gate_appears(self, name: str) -> None:
        self.unready.add(name)
        one = await self.settle(name, (10, 2, 1, "12"), "9,3")
        await one.edit(replicas=20)
        await one.until("17,5")
        await self.heal(one)
        await one.until("8,12 paused")

    async def can_63_a_running_rollout(self, name: str) -> None:
        self.unready.add(name)
        one = self.new(name)
        await start(one, 10, 2, 1, None)
        await one.edit(image="v2")
        await one.until("9,3")
        await one.edit(canary="3")
        await one.until("9,3")
        await self.heal(one)
        await one.until("0,10")

    async def can_73_a_value_raised_later(self, name: str) -> None:
        one = await self.settle(name, FIRST, "7,3 paused")
        self.unready.add(name)
        await one.edit(**GO)
        await one.wait(lambda: one.lock() is None and one.size == 12)
        await one.edit(canary="8")
        await one.wait(lambda: one.lock() is not None)
        await self.heal(one)
        await one.until("2,8 paused")

    async def can_76_the_stable_one_is_not_the_largest(self, name: str) -> None:
        one = await self.settle(name, (10, 2, 1, "80%"), "2,8 paused")
        await one.commit(image="v3")
        await one.until("2,0,8 paused")

    async def can_79_a_rollback_to_running_pods(self, name: str) -> None:
        one = await self.settle(name, (10, 2, 1, "50%"), "5,5 paused")
        await one.commit(image="v1")
        await one.until("10,0")
        await one.commit(image="v2")
        await one.until("5,5 paused")

    async def can_80_the_canary_again_in_the_middle_of_a_rollback(self, name: str) -> None:
        one = await self.settle(name, FIRST, "7,3 paused")
        self.late.add(name)
        await one.commit(image="v1")
        await one.until("10,2")
        await one.commit(image="v2")
        await self.heal(one)
        await one.until("7,3 paused")

    async def can_81_a_third_template_after_the_approval(self, name: str) -> None:
        one = await self.settle(name, FIRST, "7,3 paused")
        self.unready.add(name)
        await self.kubelet.nudge()
        await one.wait(lambda: one.serving == 7)
        await one.edit(**GO)
        await one.until("7,5")
        await one.commit(image="v3")
        await one.until("7,0,3 paused")

    async def can_83_crashes_of_the_canary(self, name: str) -> None:
        one = await self.settle(name, FIRST, "7,3 paused")
        self.unready.add(name)
        await self.kubelet.nudge()
        await one.until("7,3 paused")

    async def can_84_a_resized_replica_set(self, name: str) -> None:
        one = await self.settle(name, FIRST, "7,3 paused")
        await one.resize("v2", 5)
        await one.until("5,5 paused")

    async def can_98_a_percentage_follows_the_scale(self, name: str) -> None:
        one = await self.settle(name, (10, 2, 1, "30%"), "7,3 paused")
        await one.edit(replicas=20)
        await one.until("14,6 paused")

    async def can_99_scaling_on_the_way(self, name: str) -> None:
        self.unready.add(name)
        one = await self.settle(name, FIRST, "9,3")
        await one.edit(replicas=20)
        await one.until("17,5")
        await self.heal(one)
        await one.until("15,5 paused")

    async def can_100_scaling_in_on_the_way(self, name: str) -> None:
        self.unready.add(name)
        one = await self.settle(name, FIRST, "9,3")
        await one.edit(replicas=4)
        await one.until("3,3")
        await self.heal(one)
        await one.until("1,3 paused")

    async def can_101_scaling_in_just_before_the_pause(self, name: str) -> None:
        self.unready.add(name)
        one = await self.settle(name, (10, 2, 1, "50%"), "9,3")
        self.late.add(name)
        self.unready.discard(name)
        for pod in [p for p in one.pods.values() if not serves(p)]:
            await self.kubelet.ready(pod)
        await one.until("6,5")
        await one.edit(replicas=4)
        await one.until("2,2 paused")

    async def a_user_pauses_on_the_way(self, name: str) -> None:
        self.unready.add(name)
        one = await self.settle(name, FIRST, "9,3")
        await one.edit(paused=True)
        await self.heal(one)
        await one.until("9,3")
        await one.edit(**GO)
        await one.until("7,3 paused")

    async def somebody_edits_a_locked_field(self, name: str) -> None:
        one = await self.settle(name, FIRST, "7,3 paused")
        await one.edit(strategy={"rollingUpdate": {"maxSurge": 5}})
        await one.until("7,3 paused")
        await one.edit(**GO)
        await one.until("0,10")
        assert one.raw["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 2, "maxUnavailable": 1}


SCENARIOS = (
    Stand.can_61_a_finished_rollout, Stand.can_62_a_gate_appears, Stand.can_63_a_running_rollout,
    Stand.can_73_a_value_raised_later, Stand.can_76_the_stable_one_is_not_the_largest,
    Stand.can_79_a_rollback_to_running_pods,
    Stand.can_80_the_canary_again_in_the_middle_of_a_rollback,
    Stand.can_81_a_third_template_after_the_approval, Stand.can_83_crashes_of_the_canary,
    Stand.can_84_a_resized_replica_set, Stand.can_98_a_percentage_follows_the_scale,
    Stand.can_99_scaling_on_the_way, Stand.can_100_scaling_in_on_the_way,
    Stand.can_101_scaling_in_just_before_the_pause, Stand.a_user_pauses_on_the_way,
    Stand.somebody_edits_a_locked_field,
)  # fmt: skip


async def start(one: Watched, replicas: int, surge: Any, down: Any, canary: str | None) -> None:
    await one.create(replicas, surge, down, canary)
    await one.until(str(replicas))
    await one.wait(lambda: one.serving == replicas)


async def all_of(runs: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Play all at once; every one that fails is reported."""
    wrong: list[str] = []

    async def one(run: Coroutine[Any, Any, Any]) -> None:
        try:
            await run
        except AssertionError as error:
            wrong.append(str(error))

    async with asyncio.TaskGroup() as tasks:
        for run in runs:
            tasks.create_task(one(run))
    assert not wrong, "\n".join(wrong)


def test_every_row_holds_where_kubernetes_sizes_the_replica_sets(server: Apiserver) -> None:
    async def play() -> None:
        async with (
            talking(server) as real, pods_run(real, "rows") as kubelet,
            watched(real, "rows") as seen,
            steering(real),
        ):  # fmt: skip
            on = Stand(seen, kubelet)
            kubelet.may_be_ready = on.may_be_ready
            rows: list[Coroutine[Any, Any, Any]]
            rows = [on.settle(name, row[:4], row[4]) for name, row in SETTLING.items()]
            rows += [on.after(name, edits) for name, edits in AFTER.items()]
            rows += [on.never_ready(name, row) for name, row in NEVER_READY.items()]
            rows += [scenario(on, scenario.__name__.replace("_", "-")) for scenario in SCENARIOS]
            await all_of(rows)

    with manager(server):
        asyncio.run(play())


def test_both_controllers_restart_in_the_middle(server: Apiserver) -> None:
    """Edits meet only one of them, and some neither; each row ends as if both had run."""

    async def play() -> None:
        async with (
            talking(server) as real,
            pods_run(real, "off") as kubelet,
            watched(real, "off") as seen,
        ):
            on = Stand(seen, kubelet)
            with manager(server):
                async with steering(real):
                    held = await on.settle("can-82", FIRST, "7,3 paused")
                    approved = await on.settle("can-69", FIRST, "7,3 paused")
                    waits = on.new("can-100")
                    await start(waits, *FIRST)
                await held.edit(**GO)  # gitkruise is stopped
                await approved.edit(**GO)
                await held.until("7,3")
                await held.edit(paused=True)
                await held.until("7,3 paused")
                assert approved.line == "7,3"
                await waits.commit(image="v2")
                await waits.until("10")
            async with steering(real):  # kube-controller-manager is
                await approved.wait(lambda: approved.lock() is None)
                await waits.edit(replicas=4)
                await waits.rest()
            await approved.edit(canary="5")  # both are
            async with steering(real):
                await approved.wait(lambda: approved.lock() is not None)
                assert (approved.line, waits.line) == ("7,3", "10")
                with manager(server):
                    await held.until("7,3 paused")
                    await approved.until("5,5 paused")
                    await waits.until("1,3 paused")
                    await approved.edit(**GO)
                    await approved.until("0,10")

    asyncio.run(play())


# Edits of one sequence; the last version is the one that is rolled out to the end.
SEQUENCES, EDITS = 50, 6
VERSIONS = ("v1", "v2", "v3", "v4")


@dataclass
class Failures:
    """Versions of Deployments whose pods are not ready, neither new ones nor those that run."""

    kubelet: Kubelet
    failing: set[tuple[str, str]] = field(default_factory=set)

    def may_be_ready(self, pod: Obj) -> bool:
        app = pod["metadata"]["labels"]["app"]
        return (app, version_of({"spec": {"template": pod}})) not in self.failing

    def of(self, one: Watched) -> bool:
        return any(name == one.name for name, _ in self.failing)

    async def fail(self, one: Watched, version: str) -> None:
        """Let a version fail. Pods that crash are none that a controller took away."""
        one.promise = None
        self.failing.add((one.name, version))
        await self.kubelet.nudge()
        await one.rest()
        await one.wait(lambda: one.counted == one.serving)
        one.promises()

    async def heal(self, one: Watched) -> None:
        self.failing -= {(one.name, version) for version in VERSIONS}
        await self.kubelet.nudge()


async def meddle(one: Watched, dice: Random, failures: Failures) -> None:
    """One edit of a commit, of kubectl, or of an autoscaler; or pods fail, or are well again."""
    kinds = ("commit", "commit", "canary", "scale", "resume", "wait", "fail", "heal")
    kind = dice.choice(kinds)
    canary = dice.choice(("0", "1", "2", "4", "30%", "50%", "100%", None))
    if kind == "commit":
        await one.commit(image=dice.choice(VERSIONS), canary=canary)
    elif kind == "canary":
        await one.edit(canary=canary, **dice.choice(({}, GO)))
    elif kind == "scale":
        await scale(one, dice.choice((2, 4, 7, 9)), failures)
    elif kind == "resume":
        await one.edit(**GO)
    elif kind == "fail":
        await failures.fail(one, dice.choice(VERSIONS))
    elif kind == "heal":
        await failures.heal(one)
    if kind == "wait" or dice.random() < 0.3:
        await one.rest()
        one.promises()


async def scale(one: Watched, size: int, failures: Failures) -> None:
    """Kubernetes scales without regard to pods that are not ready, and each step makes some.

    Only at rest, with all pods ready, is it known what may be lost. Rows play a scaling between two
    steps.
    """
    if failures.of(one):
        await one.rest()
        one.promises(size)
        one.any_may_fail()
    else:
        await one.wait(lambda: one.held or one.done)
        one.promises(size)
    await one.edit(replicas=size)


async def wander(one: Watched, seed: int, failures: Failures) -> None:
    """A sequence of edits, then as many resumptions as it takes: all pods run the last version."""
    dice = Random(seed)
    size = dice.choice((3, 5, 8))
    surge, down = dice.choice(((2, 1), (1, 0), (0, 1), (3, 2), ("25%", "25%")))
    await start(one, size, surge, down, "2")
    one.promises()
    for _ in range(EDITS):
        await meddle(one, dice, failures)
    await failures.heal(one)
    for _ in range(8):
        await one.wait(lambda: one.held or one.done)
        one.promises()
        if one.done:
            break
        await one.edit(**GO)
    await one.wait(lambda: one.done and one.lock() is None)
    assert not one.broken, f"{one.name}: {one.broken}"


async def come_and_go(transport: Transport, done: asyncio.Event) -> None:
    """gitkruise, which stops every now and then."""
    while not done.is_set():
        async with steering(transport):
            await waited(done, 4)
        await waited(done, 1)


async def killed_again_and_again(server: Apiserver, done: asyncio.Event) -> None:
    """kube-controller-manager, killed less often: its start takes a while."""
    while not done.is_set():
        with manager(server):
            await waited(done, 20)


async def waited(done: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await done.wait()
    except TimeoutError:
        return


def test_random_edits_never_break_a_promise_and_end_as_asked(server: Apiserver) -> None:
    """Both controllers stop again and again meanwhile; at the end nothing is written any more."""

    async def play() -> None:
        async with (
            talking(server) as real, pods_run(real, "wander") as kubelet,
            watched(real, "wander") as seen,
        ):  # fmt: skip
            done, failures = asyncio.Event(), Failures(kubelet)
            kubelet.may_be_ready = failures.may_be_ready
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(come_and_go(real, done))
                tasks.create_task(killed_again_and_again(server, done))
                try:
                    runs = (wander(seen.new(f"w{n}"), n, failures) for n in range(SEQUENCES))
                    await all_of(runs)
                    every = seen.found.values()
                    await all_of(one.rest(4.0) for one in every)  # longer than gitkruise stops
                    writes = {one.name: one.writes for one in every}
                    await all_of(one.rest(4.0) for one in every)
                    assert writes == {one.name: one.writes for one in every}
                finally:
                    done.set()

    asyncio.run(play())
