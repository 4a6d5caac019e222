"""A repository on the real forge, its hooks and pull requests, and gitkruise that follows it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gitkruise.app import RunningController, RunOptions, controller
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.kubelet.profiles import FAST
from tests.forge.gitea import OWNER, Gitea
from tests.git.repos import ENV, run_git
from tests.gitops.deliveries import KEY
from tests.gitops.receiver.test_receiver import receiver
from tests.gitops.source.test_repositories import HEAD, configured, put_secret, source
from tests.gitops.stage import Stage, Wire, documents
from tests.worlds import parts_of

PATIENCE_S: Final = 120.0  # of a test that has failed; nothing is measured
CLUSTER: Final = "test"


@dataclass
class Fleet:
    """One repository: what a person does with git and in the forge's pages."""

    forge: Gitea
    folder: Path
    name: str
    url: str = ""
    work: Path = field(init=False)

    def __post_init__(self) -> None:
        self.url = self.forge.make_repository(self.name)
        self.work = self.folder / f"work-{self.name}"
        authority = self.folder / "ca.pem"
        authority.write_text(self.forge.ca_pem)
        run_git(self.folder, "init", "--quiet", "--initial-branch=main", str(self.work))
        run_git(self.work, "config", "http.sslCAInfo", str(authority))
        run_git(self.work, "config", "http.extraHeader", f"Authorization: token {self.forge.token}")
        run_git(self.work, "remote", "add", "origin", self.url)

    @property
    def repo(self) -> str:
        return f"{OWNER}/{self.name}"

    def push(self, *objects: Obj, message: str = "change", branch: str = "main") -> str:
        """Commit `objects` as app.yaml on top of `branch` (of main where it is new), and push."""
        run_git(self.work, "checkout", "--quiet", "-B", branch)
        (self.work / "app.yaml").write_text(documents(*objects))
        run_git(self.work, "add", "--all")
        run_git(self.work, "commit", "--quiet", "--allow-empty", "-m", message)
        run_git(self.work, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return run_git(self.work, "rev-parse", "HEAD")

    def act(self, verb: str) -> str:
        """As a person does it: `gitkruise VERB web` in the checkout; the commit it pushed."""
        before = self.sync()
        words = [
            sys.executable, "-m", "gitkruise", verb, "web", "-n", "shop", "--yes", "--commit",
            "--repo", str(self.work), "--config", str(self.folder / "gitkruise.yaml"),
        ]  # fmt: skip
        env = {**ENV, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(words, cwd=self.work, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        made = self.sync()
        assert made != before, done.stdout.decode() + done.stderr.decode()
        return made

    def sync(self) -> str:
        """Be where main is; its commit."""
        run_git(self.work, "fetch", "--quiet", "origin")
        run_git(self.work, "checkout", "--quiet", "-B", "main", "origin/main")
        return run_git(self.work, "rev-parse", "HEAD")

    def hook(self, url: str, *, key: str = KEY, events: tuple[str, ...] = ("push",)) -> int:
        """A web hook to `url`; its id."""
        config = {"url": url, "content_type": "json", "secret": key}
        body = {"type": "gitea", "active": True, "events": list(events), "config": config}
        return int(self.forge.api("POST", f"/repos/{self.repo}/hooks", body)["id"])

    def test_hook(self, hook: int) -> None:
        """As the button `Test delivery` does it."""
        self.forge.api("POST", f"/repos/{self.repo}/hooks/{hook}/tests")

    def open_pull(self, branch: str, title: str) -> int:
        body = {"head": branch, "base": "main", "title": title}
        return int(self.forge.api("POST", f"/repos/{self.repo}/pulls", body)["number"])

    def merge(self, number: int, how: str = "merge") -> str:
        """The commit of main that the merge made."""
        self.forge.api("POST", f"/repos/{self.repo}/pulls/{number}/merge", {"Do": how})
        return self.sync()

    def statuses(self, commit: str) -> dict[str, tuple[str, str]]:
        """(state, description) by context, the newest of each."""
        found = self.forge.api("GET", f"/repos/{self.repo}/commits/{commit}/status")
        return {
            s["context"]: (s["status"], s["description"]) for s in (found.get("statuses") or [])
        }

    def comments(self, number: int) -> list[Mapping[str, Any]]:
        return list(self.forge.api("GET", f"/repos/{self.repo}/issues/{number}/comments"))


@dataclass
class Follower:
    """gitkruise at work on a fleet: its records arrive here."""

    running: RunningController
    news: asyncio.Queue[UnitRecord]
    record: UnitRecord | None = None

    async def until(self, state: str, commit: str = "") -> UnitRecord:
        """The first record from now on that is in `state`, for `commit` where one is given."""
        while True:
            record = self.record
            causal = record.causal if record else None
            if (
                record
                and str(record.state) == state
                and (not commit or (causal and causal.id == commit))
            ):
                return record
            self.record = await self.news.get()


def documents_for(
    fleet: Fleet, *, sink: Mapping[str, Any] | None, spec: Mapping[str, Any]
) -> list[str]:
    """One unit that follows main, looked at once a day; and a Receiver."""
    ref = {"branch": "main"}
    unit: dict[str, Any] = {
        "sourceRef": {"name": "src"}, "path": ".", "health": {"noProgressTimeout": "3s"}, **spec,
    }  # fmt: skip
    more = []
    if sink is not None:
        unit["sinkRef"] = {"name": "out"}
        meta = "metadata: {name: out, namespace: shop}"
        more = [f"{HEAD}kind: Sink\n{meta}\nspec: {dict(sink)}\n"]
    return [
        source("src", url=fleet.url, interval="24h", ref=ref, secretRef={"name": "git"}),
        f"{HEAD}kind: Unit\nmetadata: {{name: web, namespace: shop}}\nspec: {unit}\n",
        receiver("forge", "gitea"),
        *more,
    ]


@asynccontextmanager
async def living(stage: Stage) -> AsyncIterator[None]:
    """Let the model cluster's scheduler and kubelets act in real time, while the block runs."""
    clock = SystemClock()
    stage.cluster = Cluster(stage.world, clock.now)
    stage.wire = Wire(stage.cluster)
    async with alongside(run_parts(stage.cluster, parts_of(FAST), clock)):
        yield


@asynccontextmanager
async def following(
    stage: Stage,
    fleet: Fleet,
    *,
    sink: Mapping[str, Any] | None = None,
    unit: Mapping[str, Any] | None = None,
) -> AsyncIterator[Follower]:
    """gitkruise, while the block runs; its unit has `unit` besides."""
    forge = fleet.forge
    put_secret(stage, "hook", token=KEY)
    put_secret(stage, "git", username=OWNER, password=forge.token, ca__crt=forge.ca_pem)
    put_secret(stage, "forge", token=forge.token, ca__crt=forge.ca_pem)
    news: asyncio.Queue[UnitRecord] = asyncio.Queue()
    sections = documents_for(fleet, sink=sink, spec=unit or {})
    options = RunOptions(
        config=configured(fleet.folder, *sections), cluster=CLUSTER,
        state_dir=fleet.folder / "state", identity="me", listeners=(news.put_nowait,),
        listen=Listen(port=0),
    )  # fmt: skip
    async with controller(options, stage.wire, SystemClock()) as running:
        yield Follower(running, news)
