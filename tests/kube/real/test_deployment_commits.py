"""Commits that lead a Deployment of kube-controller-manager over its canary, and back."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.canary_lock import lock_of, unlocked
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.commits import Commits, web
from tests.kube.real.deployments import DEPLOYMENTS, HANG_S, PODS, manager
from tests.kube.real.shop import News, install_crds, listed, pods_run

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]
SPACE = "deployed"
POD: Obj = {"containers": [{"name": "app"}]}


def app(version: str, canary: str | None, **more: Any) -> Obj:
    return web(f"app:{version}", canary, spec=POD, **more)


async def versions(transport: Transport) -> dict[str, int]:
    pods = await listed(transport, PODS, SPACE)
    live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return dict(Counter(pod["spec"]["containers"][0]["image"] for pod in live))


async def live(transport: Transport) -> Any:
    request = ApiRequest(verb="get", resource=DEPLOYMENTS, namespace=SPACE, name="web")
    return thaw((await transport.send(request)).body)


async def unlocked_again(transport: Transport) -> Any:
    """The Deployment once it has no lock any more: all its pods may be the right ones before."""
    request = ApiRequest(
        verb="watch", resource=DEPLOYMENTS, namespace=SPACE, params={"resourceVersion": "0"}
    )
    async with asyncio.timeout(HANG_S):
        while True:
            async for event in transport.watch(request):
                if event.type in {"ADDED", "MODIFIED"} and lock_of(thaw(event.object)) is None:
                    return thaw(event.object)


async def pause_by_git(real: Transport, git: Commits, news: News) -> None:
    """Git pauses at a canary with another template, which has its canary at the end (CAN-38)."""
    await news.settled(git.write(app("v3", "3"), "Canary"), State.HELD)
    held = {"app:v2": 7, "app:v3": 3}
    assert await versions(real) == held
    paused = git.write(app("v4", "3", paused=True), "Paused")
    await news.until(
        lambda r: r.state is State.PAUSED and r.sent is not None and r.sent.id == paused
    )
    assert await versions(real) == held
    await news.settled(git.write(app("v4", "3"), "Resumed"), State.HELD)
    assert await versions(real) == {"app:v2": 7, "app:v4": 3}
    await news.settled(git.write(app("v4", "100%"), "All"))
    assert await versions(real) == {"app:v4": 10}


def test_commits_lead_a_deployment_over_its_canary_and_back(
    server: Apiserver, tmp_path: Path
) -> None:
    """Held, raised, Held, promoted, Done; a canary that is never ready is rolled back."""

    async def play() -> None:
        async with talking(server) as real, pods_run(real) as kubelet:
            kubelet.may_be_ready = lambda pod: "bad" not in str(pod["spec"]["containers"])
            await install_crds(real)
            git = Commits(tmp_path, SPACE)
            first = git.write(app("v1", "3"), "First")
            async with git.followed(real) as news:
                await news.settled(first)
                assert await versions(real) == {"app:v1": 10}

                await news.settled(git.write(app("v2", "3"), "Canary"), State.HELD)
                assert await versions(real) == {"app:v1": 7, "app:v2": 3}
                held = await live(real)
                assert held["spec"]["paused"] is True
                rolling = unlocked(held)["spec"]["strategy"]["rollingUpdate"]
                assert rolling == {"maxSurge": 2, "maxUnavailable": 1}

                commit = git.write(app("v2", "60%", minReadySeconds=1), "More")
                await news.settled(commit, State.HELD)
                assert await versions(real) == {"app:v1": 4, "app:v2": 6}
                assert news.records[f"{SPACE}/{SPACE}"].drift == ()
            promoted = git.write(app("v2", "100%"), "All")
            async with git.followed(real) as news:
                await news.settled(promoted)
                assert await versions(real) == {"app:v2": 10}
                done = await live(real)
                assert done["spec"].get("minReadySeconds", 0) == 0
                assert done["spec"]["progressDeadlineSeconds"] == 600
                assert not any("lock" in key for key in done["metadata"]["annotations"])

                bad = git.write(app("bad", "3"), "Bad")
                await news.until(
                    lambda r: (
                        any(x.updated == 3 for x in r.rollouts)
                        and r.causal is not None
                        and r.causal.id == bad
                    )
                )
                found = await versions(real)
                assert found["app:v2"] >= 9
                await news.settled(git.write(app("v2", "3"), "Back"))
                assert await versions(real) == {"app:v2": 10}
                freed = await unlocked_again(real)
                assert unlocked(freed) == freed
                await pause_by_git(real, git, news)

    with manager(server):
        asyncio.run(play())
