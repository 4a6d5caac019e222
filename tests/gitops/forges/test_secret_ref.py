"""Secrets of Sinks are read again while they are in use; a bad one does not take the good one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

import msgspec
import pytest

from gitkruise.errors import ApiError, UsageProblem
from gitkruise.gitops.forges.factory import open_forge
from gitkruise.gitops.source.secret_ref import Rotating
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import ForgeSink, Reference
from tests.gitops.forges.forges import TOKEN, ModelForge, served
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import MakeStage


def test_the_newest_good_secret_counts_half_a_minute_later(staged: MakeStage) -> None:
    stage = staged()
    made: list[str] = []

    def make(data: Mapping[str, str], where: str) -> str:
        assert where == "shop/key"
        if "token" not in data:
            raise UsageProblem
        made.append(data["token"])
        return data["token"]

    async def script() -> None:
        rotating = Rotating(
            Reference(name="key"), make, stage.clock, namespace="shop", transport=stage.wire
        )
        with pytest.raises(ApiError):
            await rotating.first()
        put_secret(stage, "key", token="one")
        assert await rotating.first() == "one"
        put_secret(stage, "key", token="two")
        assert await rotating.now() == "one"
        await stage.rest(30)
        assert await rotating.now() == "two"
        await stage.rest(30)
        assert await rotating.now() == "two"
        put_secret(stage, "key", other="x", token="")
        stage.wire.cut = True
        await stage.rest(30)
        assert await rotating.now() == "two"
        stage.wire.cut = False

    stage.play(script)
    assert made == ["one", "two"]


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_a_forge_is_asked_with_the_token_of_now(kind: str, staged: MakeStage) -> None:
    import asyncio  # noqa: PLC0415  real sockets take a real loop

    stage = staged()
    put_secret(stage, "forge", token="an old one")
    model = ModelForge(kind)

    class Hasty(SystemClock):
        """Half a minute passes with every look at it."""

        def monotonic(self) -> float:
            self.looks = getattr(self, "looks", 0.0) + 30.0
            return self.looks

    async def main() -> None:
        async with served(model) as url, AsyncExitStack() as stack:
            settings = {
                "type": kind,
                "url": url,
                "repo": "shop/fleet",
                "secretRef": {"name": "forge"},
            }
            spec = msgspec.convert(settings, ForgeSink)
            forge = await open_forge(spec, "shop", stage.wire, Hasty(), stack)
            with pytest.raises(ApiError):
                await forge.me()
            put_secret(stage, "forge", token=TOKEN)
            assert await forge.me() == "gitkruise-bot"
            asked = len(model.asked)
            assert await forge.me() == "gitkruise-bot"
            assert len(model.asked) == asked
            model.accounts["of another account"] = "another-bot"
            put_secret(stage, "forge", token="of another account")
            assert await forge.me() == "another-bot"

    asyncio.run(main())
