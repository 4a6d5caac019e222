"""An exception at any await of the program stops its own thing alone, and for a while only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest

from gitkruise.app import RunningController, controller
from gitkruise.planner.workloads import BUILTIN
from gitkruise.wire.primitives.names import GroupKind
from tests.conftest import NIGHT
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.runtime.thrown import Place, Thrower, Thrown
from tests.gitops.stage import Stage, config_map, documents
from tests.worlds import SPACE, cloneset

pytestmark = pytest.mark.slow

SHARDS: Final = 4
# Each place fails once; a quarter of them fails always, and at night each: make slow PROFILE=night
RUNS: Final = [
    pytest.param(shard, always, id=f"{shard}-{'always' if always else 'once'}")
    for shard in range(SHARDS)
    for always in (False, True)
    if NIGHT or not always or shard == 0
]
UNITS: Final = ("one", "two")
SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
CONFIG: Final = SOURCE + SINK + "".join(unit(name, ", sinkRef: {{name: git}}") for name in UNITS)
ROLLOUT_S: Final = 60.0
MENDED_S: Final = 400.0  # longer than any pause after one failure


class Played:
    """A program over two units, in which one exception is thrown."""

    def __init__(self, folder: Path, at: Place | None, *, always: bool) -> None:
        self.thrower = Thrower(at, always=always)
        self.stage, self._folder = Stage(folder), folder
        self.meanwhile: set[str] = set()  # units that ran the commit while one thing was broken

    def play(self) -> None:
        """Roll out three commits; the exception comes with the first or the second."""
        self._commit("v1")
        try:
            self.stage.play(self._script, self.stage.driver(BUILTIN).run)
        finally:
            self.stage.close()

    async def _script(self) -> None:
        self.thrower.install()
        self.stage.wire.refuse = self.thrower.refuse
        chosen = options(self.stage, self._folder, CONFIG)
        begun = lambda: controller(chosen, self.stage.wire, self.stage.clock)  # noqa: E731
        async with started(self.thrower, begun) as running:
            await self._follow(running)

    async def _follow(self, running: RunningController) -> None:
        await self.stage.rest(ROLLOUT_S)
        self._commit("v2")
        await self.stage.rest(ROLLOUT_S)
        self.thrower.armed = False
        self.meanwhile = self.live("v2")
        await self.stage.rest(MENDED_S)
        self._commit("v3")
        await self.stage.rest(ROLLOUT_S)
        assert self.live("v3") == set(UNITS)
        assert self.stage.images() == ["app:v3"] * 4
        states = {name: reporter.record.state for name, reporter in running.reporters.items()}
        assert states == {f"shop/{name}": "Done" for name in UNITS}
        for name in UNITS:
            assert "state: Done" in self.stage.status_file(f"units/shop/{name}/status.yaml")

    def _commit(self, value: str) -> None:
        self.stage.origin.commit(
            {
                f"{name}/all.yaml": documents(
                    cloneset(f"web-{name}", 2, f"app:{value}"),
                    config_map(f"settings-{name}", x=value),
                )
                for name in UNITS
            },
            value,
        )

    def live(self, value: str) -> set[str]:
        """Return the units of which the cluster runs this value."""
        found = self.stage.world.objects(GroupKind("", "ConfigMap"), SPACE)
        values = {obj["metadata"]["name"]: obj.get("data", {}).get("x") for obj in found}
        return {name for name in UNITS if values.get(f"settings-{name}") == value}


@pytest.mark.parametrize(("shard", "always"), RUNS)
def test_an_exception_at_each_await(tmp_path: Path, shard: int, *, always: bool) -> None:
    def played(folder: Path, at: Place | None = None) -> Played:
        folder.mkdir()
        one = Played(folder, at, always=always)
        one.play()
        return one

    struck_at_each(tmp_path, played, lambda _: True, shard, always=always)


class Struck(Protocol):
    """A program in which one exception is thrown."""

    thrower: Thrower
    meanwhile: set[str]


def struck_at_each(
    folder: Path,
    played: Callable[..., Struck],
    chosen: Callable[[Place], bool],
    shard: int,
    *,
    always: bool,
) -> None:
    """Play a program once for each place of a shard, and check that it recovers."""
    recorded = played(folder / "recorded")
    places = sorted(filter(chosen, recorded.thrower.seen))[shard::SHARDS]
    assert len(places) > 7  # or the recording sees nothing
    assert recorded.meanwhile == set(UNITS)
    wrong: dict[str, str] = {}
    thrown = 0
    for number, place in enumerate(places):
        try:
            one = played(folder / str(number), place)
        except (AssertionError, ExceptionGroup) as error:
            wrong[str(place)] = repr(error)
            continue
        thrown += one.thrower.thrown
        if not one.meanwhile and not always:
            wrong[str(place)] = "no unit went on"
    assert not wrong
    assert thrown >= 0.8 * len(places)  # a few are not reached each time


@asynccontextmanager
async def started(
    thrower: Thrower, begun: Callable[[], AbstractAsyncContextManager[RunningController]]
) -> AsyncIterator[RunningController]:
    """A program that is started again, as a pod is, when the exception ends its start."""
    thrower.armed, starts = True, 0
    async with AsyncExitStack() as stack:
        running: RunningController | None = None
        while running is None:
            starts += 1
            try:
                running = await stack.enter_async_context(begun())
            except (Thrown, ExceptionGroup) as error:
                if not _only_thrown(error):
                    raise
                assert starts == 1 or thrower.always
                thrower.armed = starts < 3
        yield running


def _only_thrown(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_only_thrown, error.exceptions))
    return isinstance(error, Thrown)
