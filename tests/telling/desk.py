"""A stage whose outcome is told to a model forge and a chat, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from multidict import CIMultiDict, CIMultiDictProxy

from gitkruise.gitops.telling.box import LetterBox
from gitkruise.gitops.telling.deploying import deployments
from gitkruise.gitops.telling.foretelling import Foreteller
from gitkruise.gitops.telling.http import Answer
from gitkruise.gitops.telling.landing import Landings
from gitkruise.gitops.telling.notify import Notifier, Receiver
from gitkruise.gitops.telling.outlet import Outlet, deliver
from gitkruise.gitops.telling.postman import Postman
from gitkruise.gitops.telling.pulls import Pulls
from gitkruise.gitops.telling.standings import Ground, Standings
from gitkruise.model.config import (
    CommitStatus,
    Config,
    Deployment,
    GitSource,
    GitSourceSpec,
    Notify,
    PullRequests,
    Reference,
    Unit,
)
from gitkruise.model.settings import Gates
from gitkruise.sandbox.live import alongside
from tests.git.repos import run_git
from tests.gitops.stage import UNIT, Stage, documents
from tests.telling.forges import ME, ModelForge, client

CONTEXT: Final = "gitkruise/test/shop/web"
CHECK: Final = "gitkruise/plan"


class Chat:
    """Takes every message."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def exchange(
        self, _method: str, _url: str, _headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        self.heard.append(body or b"")
        return Answer(200, CIMultiDictProxy(CIMultiDict()), b"ok")


class Desk:
    """One unit, its forge and its chats."""

    def __init__(self, stage: Stage, folder: Path, kind: str = "github") -> None:
        self.stage, self.folder = stage, folder
        self.model = ModelForge(kind)
        self.chat = Chat()
        self.heads = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """gitkruise and all that tells, while the block runs; its end is a crash."""
        stage, clock = self.stage, self.stage.clock
        self.box = LetterBox(self.folder / "letters.sqlite")
        forge = client(self.model, clock)
        post = Postman(self.box, "forge", partial(deliver, forge), clock)
        outlet = Outlet(self.box, "forge", post.wake)
        ground = Ground(Landings(stage.repository), lambda: stage.unit.live_commit)
        standings = Standings(outlet, (CommitStatus(), "test"), {UNIT: ground}, clock)
        foretellers = {"main": self._foreteller()}
        deployer = Postman(self.box, "deployment", partial(deliver, forge), clock)
        shown = Outlet(self.box, "deployment", deployer.wake)
        to = (Deployment(environment="on-{cluster}"), "test", "main")
        deployed = deployments(shown, to, {UNIT: ground}, clock)
        self.pulls = Pulls(forge, outlet, ("test", PullRequests()), foretellers, clock)
        stage.reporter.listen(standings.offer)
        stage.reporter.listen(self.pulls.offer)
        jobs = [post.run(), standings.run(), self.pulls.run()]
        if self.model.kind != "gitea":
            stage.reporter.listen(deployed.offer)
            jobs += [deployer.run(), deployed.run()]
        for kind in ("slack", "webhook"):
            receiver = Receiver(self.chat, "https://chat.example", "", clock)
            sender = Postman(self.box, kind, receiver.send, clock)
            rule = Notify(type=kind, secret_ref=Reference(name="chat"), severity="info")
            chosen = Outlet(self.box, kind, sender.wake)
            notifier = Notifier(chosen, rule, frozenset({UNIT}), clock)
            stage.reporter.listen(notifier.offer)
            jobs += [sender.run(), notifier.run()]
        async with stage.running(), alongside(*jobs):
            yield
        self.box.close()

    def _foreteller(self) -> Foreteller:
        stage = self.stage
        source = GitSource("shop", "src", GitSourceSpec(url=str(stage.origin.bare), ref=stage.ref))
        unit = Unit("shop", "web", stage.spec)
        return Foreteller(
            repository=stage.repository, branch="main",
            config=Config({"shop/src": source}, {"shop/web": unit}, {}),
            live=stage.live, cluster="test", gates=Gates(), clock=stage.clock,
        )  # fmt: skip

    # What people do -------------------------------------------------------------------------

    async def push(self, *objects: Any, message: str = "change") -> str:
        commit = await self.stage.push(*objects, message=message)
        self.model.commits.add(commit)
        return commit

    def branch(self, number: int, *objects: Any, text: str = "", repo: int = 1) -> str:
        """Push a pull request's branch: a commit on top of main; its head."""
        origin = self.stage.origin
        run_git(origin.work, "checkout", "--quiet", "--detach", "main")
        files = {"app.yaml": text or documents(*objects)}
        self.heads += 1
        head = origin.commit(files, f"pull {number}", branch=f"pull-{number}-{self.heads}")
        run_git(origin.bare, "update-ref", f"refs/pull/{number}/head", head)
        run_git(origin.work, "checkout", "--quiet", "main")
        self.model.open_pull(number, head, repo=repo)
        self.pulls.look_now()
        return head

    async def merge(self, number: int) -> str:
        origin = self.stage.origin
        head = self.model.pulls[number]["head"]
        run_git(origin.work, "merge", "--quiet", "--no-ff", "-m", f"Merge {number}", head)
        run_git(origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
        merged = run_git(origin.work, "rev-parse", "HEAD")
        self.model.commits.add(merged)
        self.model.end_pull(number, "merged", merged)
        await self.stage.follower.check()
        self.pulls.look_now()
        return merged

    # What the forge shows -------------------------------------------------------------------

    def comment(self, number: int) -> str:
        """The only comment of ours."""
        (ours,) = [c["body"] for c in self.model.comments.get(number, []) if c["author"] == ME]
        return str(ours)

    def told(self, commit: str, context: str = CONTEXT) -> tuple[str, str]:
        return self.model.last(commit, context)
