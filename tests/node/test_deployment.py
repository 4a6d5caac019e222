"""Pull requests and commands that lead a Deployment over its canary, on a node.

Next to kube-controller-manager, with plans and outcomes on a model forge.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import Obj
from tests.gitops.deliveries import GITHUB, KEY, signed, text
from tests.gitops.forges.forges import ME, TOKEN, ModelForge, served
from tests.kube.real.apiserver import talking
from tests.kube.real.commits import Commits, web
from tests.kube.real.shop import News, install_crds
from tests.node.cluster import Cluster
from tests.node.pods import namespace, pod_spec, ready, until

pytestmark = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]
SPACE = "deployed"
OUTCOME, CHECK = f"gitkruise/real/{SPACE}/{SPACE}", "gitkruise/plan"


class Pushed(set[str]):
    """The commits that a forge has: all that were pushed."""

    def __init__(self, git: Commits) -> None:
        super().__init__()
        self.git = git

    def __contains__(self, commit: object) -> bool:
        return self.git.has(str(commit))


@dataclass
class DeploymentHarness:
    """A person with a clone, a forge and the command line; and what the forge shows."""

    git: Commits
    forge: ModelForge
    news: News = field(default_factory=News)
    deliveries: int = 0

    async def deliver(self) -> None:
        """The web hook of a pull request that changed."""
        self.deliveries += 1
        body = text(GITHUB)
        headers = signed("github", body, delivery=str(self.deliveries))
        headers |= {"X-GitHub-Event": "pull_request"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.news.hooks[f"{SPACE}/forge"], data=body, headers=headers) as reply,
        ):
            assert reply.status == 202

    async def open_pull(self, number: int, obj: Obj) -> str:
        head = self.git.open_pull(number, obj, f"Pull {number}")
        self.forge.open_pull(number, head, branch=f"pull-{number}")
        await self.deliver()
        return head

    async def merge(self, number: int, head: str) -> str:
        merged = self.git.merge(head)
        self.forge.end_pull(number, "merged", merged)
        await self.deliver()
        return merged

    async def act(self, *words: str) -> str:
        named = ("deployment/web", "-n", SPACE)
        return await asyncio.to_thread(self.git.act, words[0], *named, *words[1:])

    async def comment(self, number: int, words: str) -> str:
        """The only comment of gitkruise, as soon as it contains `words`."""

        def look() -> str:
            ours = [c["body"] for c in self.forge.comments.get(number, []) if c["author"] == ME]
            assert len(ours) < 2, ours
            return str(ours[0]) if ours else ""

        return str(await asyncio.to_thread(until, look, lambda body: words in body))

    async def status(self, commit: str, wanted: tuple[str, str], context: str = OUTCOME) -> None:
        """Wait until the newest status of a commit has this state and these words."""

        def right(found: list[tuple[str, str]]) -> bool:
            return bool(found) and found[-1][0] == wanted[0] and wanted[1] in found[-1][1]

        statuses = self.forge.statuses
        await asyncio.to_thread(until, lambda: statuses.get((commit, context), []), right)


def app(image: str, canary: str) -> Obj:
    return web(image, canary, spec=pod_spec([{"name": "app"}]), replicas=4)


def live(node: Cluster) -> list[dict[str, Any]]:
    pods = node.ask(f"/api/v1/namespaces/{SPACE}/pods")["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def versions(node: Cluster) -> dict[str, int]:
    """Ready pods by the tag of their image."""
    tags = [p["spec"]["containers"][0]["image"].rpartition(":")[2] for p in live(node) if ready(p)]
    return dict(Counter(tags))


def put_secrets(node: Cluster) -> None:
    for name, token in (("forge", TOKEN), ("hook", KEY)):
        data = {"token": base64.b64encode(token.encode()).decode()}
        path = f"/api/v1/namespaces/{SPACE}/secrets"
        node.ask(path, "POST", {"metadata": {"name": name}, "data": data})


async def canary(harness: DeploymentHarness, node: Cluster, image: str) -> None:
    """A pull request that lowers the canary to one pod of four: planned, merged and Held."""
    head = await harness.open_pull(1, app(image, "1"))
    plan = await harness.comment(1, "✅ current")
    assert "1 of 4 pods REPLACED" in plan
    assert f"gitkruise promote deployment/web -n {SPACE}" in plan
    await harness.status(head, ("success", "changed"), CHECK)
    merged = await harness.merge(1, head)
    await harness.news.settled(head, State.HELD)
    assert versions(node) == {"v1": 3, "v2": 1}
    for commit in (head, merged):
        await harness.status(commit, ("success", "held at canary 1 (1/4 updated)"))
    assert f"`{merged[:7]}` → `main`" in await harness.comment(1, "⏸ Held")


async def promoted(harness: DeploymentHarness, node: Cluster) -> None:
    """Half of the pods by the command, then all."""
    half = await harness.act("promote", "--updated", "50%")
    await harness.news.settled(half, State.HELD)
    assert versions(node) == {"v1": 2, "v2": 2}
    await harness.comment(1, f"superseded by {half[:7]}")
    whole = await harness.act("promote")
    await harness.news.settled(whole)
    assert versions(node) == {"v2": 4}
    await harness.status(whole, ("success", "done (4/4 updated)"))


async def broken(harness: DeploymentHarness, node: Cluster, image: str) -> None:
    """A pull request of an image that the registry does not have, merged against its plan."""
    head = await harness.open_pull(2, app(image, "1"))
    await harness.comment(2, "✅ current")
    merged = await harness.merge(2, head)
    await harness.news.until(
        lambda r: r.causal is not None and r.causal.id == head and r.state is State.STUCK
    )
    assert versions(node)["v2"] >= 3
    await harness.status(merged, ("failure", "stuck"))
    await harness.comment(2, "✗ Stuck")


def test_a_canary_is_promoted_and_a_broken_one_rolled_back(node: Cluster, tmp_path: Path) -> None:
    namespace(node, SPACE)
    put_secrets(node)
    v1, v2 = node.image("deployed/app:v1"), node.image("deployed/app:v2")
    git = Commits(tmp_path, SPACE)
    forge = ModelForge("github", commits=Pushed(git))
    harness = DeploymentHarness(git, forge)

    async def play() -> None:
        async with talking(node.server) as transport, served(forge) as address:
            await install_crds(transport)
            git.report_to(address)
            first = git.write(app(v1, "100%"), "First")
            async with git.followed(transport) as harness.news:
                await harness.news.settled(first)
                assert versions(node) == {"v1": 4}
                await canary(harness, node, v2)
                await promoted(harness, node)
                await broken(harness, node, f"{node.registry.host}/deployed/app:missing")
                back = await harness.act("rollback")
                await harness.news.settled(back)
                assert versions(node) == {"v2": 4}
                await harness.status(back, ("success", "done (4/4 updated)"))
                await harness.comment(2, f"superseded by {back[:7]}")

    try:
        asyncio.run(play())
    finally:  # else its pods come back for ever
        path = f"/apis/apps/v1/namespaces/{SPACE}/deployments/web"
        node.ask(path, "DELETE", {"propagationPolicy": "Foreground"})
        until(lambda: live(node), lambda found: not found)
