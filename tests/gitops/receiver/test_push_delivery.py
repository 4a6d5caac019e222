"""A push to a far repository that is seldom looked at reaches the cluster at once by its hook."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.record import UnitRecord
from tests.git.repos import serve
from tests.git.tls import context, issue
from tests.gitops.deliveries import GITEA, KEY, signed, text
from tests.gitops.receiver.test_receiver import receiver
from tests.gitops.source.test_repositories import configured, put_secret, source, unit
from tests.gitops.stage import MakeStage, config_map, documents

PATIENCE_S = 60.0  # of a test that has failed; nothing is measured


@pytest.mark.slow
def test_a_hook_is_received_long_before_the_interval_is_over(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage, clock, done = staged(), SystemClock(), asyncio.Queue[str]()
    authority = issue("authority")

    def report(record: UnitRecord) -> None:
        if str(record.state) == "Done" and record.applied is not None:
            done.put_nowait(record.applied.id)

    def push(mode: str) -> str:
        return stage.origin.commit({"app.yaml": documents(config_map("settings", mode=mode))}, mode)

    async def main(base: str) -> None:
        put_secret(stage, "hook", token=KEY)
        put_secret(stage, "git", ca__crt=authority.certificate)
        url = f"{base}/origin.git"
        config = configured(
            tmp_path,
            source("src", url=url, interval="24h", ref={"branch": "main"},
                   secretRef={"name": "git"}),
            unit("web", "src"),
            receiver("forge", "gitea"),
        )  # fmt: skip
        options = RunOptions(
            config=config, cluster="test", state_dir=tmp_path / "state", identity="me",
            listeners=(report,), listen=Listen(port=0),
        )  # fmt: skip
        body = text({**GITEA, "ref": "refs/heads/main", "repository": {"clone_url": url}})
        first = await asyncio.to_thread(push, "slow")
        async with (
            asyncio.timeout(PATIENCE_S),
            controller(options, stage.wire, clock) as running,
            aiohttp.ClientSession() as session,
        ):
            assert await done.get() == first
            second = await asyncio.to_thread(push, "fast")
            hook = running.hooks["shop/forge"]
            async with session.post(hook, data=body, headers=signed("gitea", body)) as answer:
                assert answer.status == 202
            while await done.get() != second:
                continue
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}

    with serve(tmp_path, tls=context(tmp_path, issue("server", authority))) as base:
        asyncio.run(main(base))
