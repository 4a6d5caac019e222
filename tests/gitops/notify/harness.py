"""A stage whose outcome is told to a model forge and a chat, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from gitkruise.gitops.forges.http import JsonReply
from gitkruise.gitops.notify.channel import Channel, deliver
from gitkruise.gitops.notify.commit_statuses import (
    CommitStatusWriter,
    StatusScope,
    UnitBranch,
    deployments,
)
from gitkruise.gitops.notify.merge_commits import MergeCommits
from gitkruise.gitops.notify.notifier import Notifier, WebhookTarget
from gitkruise.gitops.notify.outbox import NotificationOutbox
from gitkruise.gitops.notify.pull_request_plan import PullRequestPlanner
from gitkruise.gitops.notify.pull_requests import PullRequestLoop
from gitkruise.gitops.notify.sender import Sender
from gitkruise.model.gitops.config import (
    CommitStatus,
    Config,
    Deployment,
    GitSource,
    GitSourceSpec,
    Notify,
    PullRequests,
    Reference,
    Unit,
    UnitSpec,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.notify.commit_statuses import context_of
from gitkruise.sandbox.controllers import alongside
from tests.git.repos import run_git
from tests.gitops.forges.forges import ME, ModelForge, client
from tests.gitops.stage import UNIT, Stage, documents

CONTEXT: Final = "gitkruise/test/shop/web"
CHECK: Final = "gitkruise/plan"


class Chat:
    """Takes every message."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    async def exchange(
        self, _method: str, _url: str, _headers: Mapping[str, str], body: bytes | None
    ) -> JsonReply:
        self.received.append(body or b"")
        return JsonReply(200, CIMultiDictProxy(CIMultiDict()), b"ok")


class ForgeHarness:
    """One unit, its forge and its chats."""

    def __init__(self, stage: Stage, folder: Path, kind: str = "github") -> None:
        self.stage, self.folder = stage, folder
        self.model = ModelForge(kind)
        self.chat = Chat()
        self.rules = PullRequests()
        self.heads, self.passive = 0, False
        self.others: dict[str, str] = {}  # units that are planned for, too, and their paths

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """gitkruise and all that tells, while the block runs; its end is a crash."""
        stage, clock = self.stage, self.stage.clock
        self.outbox = NotificationOutbox(self.folder / "outbox.sqlite")
        forge = client(self.model, clock)
        to_forge, yields = partial(deliver, forge), lambda: self.passive
        post = Sender(self.outbox, "forge", to_forge, clock, yields=yields)
        channel = Channel(self.outbox, "forge", post.wake, yields)
        branch = UnitBranch(MergeCommits(stage.repository), lambda: stage.follower.followed)
        scope = StatusScope(cluster="test", units=[UNIT])
        standings = CommitStatusWriter(channel, CommitStatus(), {UNIT: branch}, clock, scope=scope)
        deployer = Sender(self.outbox, "deployment", partial(deliver, forge), clock)
        shown = Channel(self.outbox, "deployment", deployer.wake)
        to = Deployment(environment="on-{cluster}")
        deployed = deployments(shown, to, {UNIT: branch}, clock, scope=scope, ref="main")
        self.forge, self.channel = forge, channel
        self.pulls = self.loop(channel)
        stage.reporter.listen(standings.offer)
        stage.reporter.listen(self.pulls.offer)
        jobs = [post.run(), standings.run(), self.pulls.run()]
        if self.model.kind != "gitea":
            stage.reporter.listen(deployed.offer)
            jobs += [deployer.run(), deployed.run()]
        for kind in ("slack", "webhook"):
            receiver = WebhookTarget(self.chat, "https://chat.example", "", clock)
            sender = Sender(self.outbox, kind, receiver.send, clock)
            rule = Notify(type=kind, secret_ref=Reference(name="chat"), severity="info")
            chosen = Channel(self.outbox, kind, sender.wake)
            notifier = Notifier(chosen, rule, frozenset({UNIT}), clock)
            stage.reporter.listen(notifier.offer)
            jobs += [sender.run(), notifier.run()]
        async with stage.running(), alongside(*jobs):
            yield
        self.outbox.close()

    def loop(self, channel: Channel, part: str = "") -> PullRequestLoop:
        """What follows the pull requests for one shard; "" is the only one."""
        check = context_of(self.rules.check, "test", "")
        return PullRequestLoop(
            self.forge, channel, self.rules, {"main": self.planner("main")}, self.stage.clock,
            section=f"test.{part}" if part else "test",
            check=f"{check}/{part}" if part else check,
        )  # fmt: skip

    def specs(self, own: UnitSpec) -> list[tuple[str, UnitSpec]]:
        others = self.others.items()
        return [("web", own), *((n, msgspec.structs.replace(own, path=p)) for n, p in others)]

    def planner(self, branch: str) -> PullRequestPlanner:
        stage = self.stage
        source = GitSource("shop", "src", GitSourceSpec(url=str(stage.origin.bare), ref=stage.ref))
        units = {f"shop/{name}": Unit("shop", name, spec) for name, spec in self.specs(stage.spec)}
        return PullRequestPlanner(
            repository=stage.repository, branch=branch,
            config=Config({"shop/src": source}, units, {}),
            live=stage.live, cluster="test", gates=Gates(), clock=stage.clock,
        )  # fmt: skip

    # What people do -------------------------------------------------------------------------

    async def push(self, *objects: Any, message: str = "change", **files: str) -> str:
        commit = await self.stage.push(*objects, message=message, **files)
        self.model.commits.add(commit)
        return commit

    def branch(
        self, number: int, *objects: Any, files: Mapping[str, str | None] | None = None,
        text: str = "", repo: int = 1,
    ) -> str:  # fmt: skip
        """Push a pull request's branch: a commit on top of main; its head."""
        origin = self.stage.origin
        run_git(origin.work, "checkout", "--quiet", "--detach", "main")
        files = files or {"app.yaml": text or documents(*objects)}
        self.heads += 1
        head = origin.commit(files, f"pull {number}", branch=f"pull-{number}-{self.heads}")
        run_git(origin.bare, "update-ref", f"refs/pull/{number}/head", head)
        run_git(origin.work, "checkout", "--quiet", "main")
        self.model.open_pull(number, head, repo=repo)
        self.pulls.look_now()
        return head

    def merge_unseen(self, number: int) -> str:
        """Merge on the forge; no poll is asked for."""
        origin = self.stage.origin
        head = self.model.pulls[number]["head"]
        run_git(origin.work, "merge", "--quiet", "--no-ff", "-m", f"Merge {number}", head)
        run_git(origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
        merged = run_git(origin.work, "rev-parse", "HEAD")
        self.model.commits.add(merged)
        self.model.end_pull(number, "merged", merged)
        return merged

    async def merge(self, number: int) -> str:
        merged = self.merge_unseen(number)
        await self.stage.follower.check()
        self.pulls.look_now()
        return merged

    # What the forge shows -------------------------------------------------------------------

    def comment(self, number: int) -> str:
        """The only comment of ours."""
        (ours,) = [c["body"] for c in self.model.comments.get(number, []) if c["author"] == ME]
        return str(ours)

    def status(self, commit: str, context: str = CONTEXT) -> tuple[str, str]:
        return self.model.last(commit, context)
