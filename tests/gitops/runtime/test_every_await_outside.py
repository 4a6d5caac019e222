"""An exception at any await of forges, chats, receivers and objects stops its own thing alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from gitkruise.app import RunningController, controller
from gitkruise.kube.serve.addresses import Listen
from gitkruise.wire.primitives.names import GroupKind
from tests.fuzz.outlets import Outlets
from tests.gitops.deliveries import GITEA, KEY, signed, text
from tests.gitops.forges.forges import served
from tests.gitops.runtime.test_every_await import (
    MENDED_S,
    ROLLOUT_S,
    RUNS,
    UNITS,
    started,
    struck_at_each,
)
from tests.gitops.runtime.thrown import Place, Thrower
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import Stage, config_map, documents
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

# What the test of a program without objects does not reach.
OUTSIDE: Final = tuple(
    f"gitops/{name}/" for name in ("forges", "notify", "receiver", "resources")
)  # fmt: skip


class FaultyProgram:
    """A program of objects that tells a forge and a chat, in which one exception is thrown."""

    def __init__(self, folder: Path, at: Place | None, *, always: bool) -> None:
        self.thrower = Thrower(at, always=always)
        self.stage = Stage(folder)
        self.house = Outlets(self.stage, folder, [*UNITS], "room")
        self.meanwhile: set[str] = set()
        self._pushes = 0

    def play(self) -> None:
        """Apply three commits and show one pull request; the exception comes before the third."""
        try:
            self.stage.play(self._script)
        finally:
            self.stage.close()

    async def _script(self) -> None:
        house = self.house
        async with served(house.forge) as url:
            await house.declare(url)
            put_secret(self.stage, "hook", token=KEY)
            await house.apply("Receiver", "forge", type="gitea", secretRef={"name": "hook"})
            self._commit("v1")
            self.thrower.install()
            self.stage.wire.refuse = self.thrower.refuse
            chosen = replace(house.options(), listen=Listen(port=0))
            begun = lambda: controller(chosen, self.stage.wire, self.stage.clock)  # noqa: E731
            async with started(self.thrower, begun) as running:
                await self._follow(running)

    async def _follow(self, running: RunningController) -> None:
        house = self.house
        await self.stage.rest(ROLLOUT_S)
        await house.pull(1, files("pulled"))
        await self._deliver(running)
        self._commit("v2")
        await self.stage.rest(ROLLOUT_S)
        self.thrower.armed = False
        self.meanwhile = self.live("v2")
        await self.stage.rest(MENDED_S)
        commit = self._commit("v3")
        await self.stage.rest(ROLLOUT_S)
        assert self.live("v3") == set(UNITS)
        assert [house.says("Unit", name)[0] for name in UNITS] == ["True"] * 2
        for name in UNITS:
            assert house.forge.last(commit, f"gitkruise/test/shop/{name}")[0] == "success"
        assert house.forge.comments[1]
        assert await self._deliver(running) == 202

    async def _deliver(self, running: RunningController) -> int:
        """Return the receiver's answer to a push; 0 where it gave none."""
        url = str(self.stage.origin.bare)
        body = text({**GITEA, "ref": "refs/heads/main", "repository": {"clone_url": url}})
        self._pushes += 1  # a delivery that was heard is not heard again
        headers = {**signed("gitea", body), "X-Gitea-Delivery": str(self._pushes)}
        hook = running.hooks.get("shop/forge", "")
        if not hook:
            return 0
        try:
            async with (
                aiohttp.ClientSession(trust_env=False) as session,
                session.post(hook, data=body, headers=headers) as answer,
            ):
                return answer.status
        except aiohttp.ClientError:
            return 0

    def _commit(self, value: str) -> str:
        commit = self.stage.origin.commit(files(value), value)
        self.house.forge.commits.add(commit)
        return commit

    def live(self, value: str) -> set[str]:
        """Return the units of which the cluster runs this value."""
        found = self.stage.world.objects(GroupKind("", "ConfigMap"), SPACE)
        values = {obj["metadata"]["name"]: obj.get("data", {}).get("x") for obj in found}
        return {name for name in UNITS if values.get(f"settings-{name}") == value}


def files(value: str) -> dict[str, str | None]:
    return {
        f"{name}/all.yaml": documents(config_map(f"settings-{name}", x=value)) for name in UNITS
    }


@pytest.mark.parametrize(("shard", "always"), RUNS)
def test_an_exception_at_each_await_outside(tmp_path: Path, shard: int, *, always: bool) -> None:
    def played(folder: Path, at: Place | None = None) -> FaultyProgram:
        folder.mkdir()
        program = FaultyProgram(folder, at, always=always)
        program.play()
        return program

    def chosen(place: Place) -> bool:
        return any(line.startswith(OUTSIDE) for line in place.lines)

    struck_at_each(tmp_path, played, chosen, shard, always=always)
