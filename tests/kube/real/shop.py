"""The example shop as a repository of its own, and a controller that follows it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gitkruise.app import RunningController, RunOptions, controller
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.install.installer import Installer, InstallOptions, manifests
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import data_dir, load_catalog
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.kube.real.kubelet import Kubelet

CLONESETS = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
REVISIONS = ResourceRef("apps", "v1", "controllerrevisions")
PODS = ResourceRef("", "v1", "pods")
HANG_S = 90.0  # a guard against hanging for ever, not a measurement
KINDS = ("cart", "checkout", "search")


@dataclass
class Shop:
    """A bare repository with the example's CloneSets, and a clone to change it in."""

    root: Path
    replicas: int = 3
    namespace: str = "shop"
    clone: Path = field(init=False)
    bare: Path = field(init=False)

    def __post_init__(self) -> None:
        self.bare, self.clone = self.root / "shop.git", self.root / "clone"
        self._git("init", "-q", "--bare", "-b", "main", str(self.bare), cwd=self.root)
        self._git("clone", "-q", str(self.bare), str(self.clone), cwd=self.root)
        self._git("checkout", "-q", "-B", "main")
        shutil.copytree(data_dir("examples-repo"), self.clone, dirs_exist_ok=True)
        for left_out in ("apps/storefront", "mesh", "batch", "envs"):
            shutil.rmtree(self.clone / left_out)
        config = self.clone / "gitkruise.yaml"
        documents = config.read_text().replace("url: .", f"url: {self.bare}").split("---\n")
        config.write_text("---\n".join(documents[:3]))  # the unit shop alone
        self._everywhere("namespace: shop\n", f"namespace: {self.namespace}\n")
        self._everywhere("name: shop\n", f"name: {self.namespace}\n", below="apps")
        for name in KINDS:
            self.edit(name, *[(f"replicas: {n}\n", f"replicas: {self.replicas}\n")
                              for n in (24, 10, 6)])  # fmt: skip

    def _everywhere(self, old: str, new: str, *, below: str = "") -> None:
        for path in (self.clone / below).rglob("*.yaml"):
            path.write_text(path.read_text().replace(old, new))

    def edit(self, name: str, *changes: tuple[str, str]) -> None:
        path = self.clone / "apps" / name / "cloneset.yaml"
        text = path.read_text()
        for old, new in changes:
            text = text.replace(old, new)
        path.write_text(text)

    def push(self, subject: str) -> str:
        self._git("add", "-A")
        self._git("commit", "-q", "-m", subject)
        self._git("push", "-q", "origin", "main")
        return self._git("rev-parse", "HEAD").strip()

    def head(self) -> str:
        """The commit that everybody sees."""
        return self._git("rev-parse", "main", cwd=self.bare).strip()

    def identify(self) -> None:
        """Let others commit in the clone as its owner."""
        self._git("config", "user.name", "Dana")
        self._git("config", "user.email", "dana@example.com")

    def status_branch(self, cluster: str) -> dict[str, str]:
        """Path → text of everything on the status branch."""
        branch = f"gitkruise/status/{cluster}"
        names = self._git("ls-tree", "-r", "--name-only", branch, cwd=self.bare).splitlines()
        return {n: self._git("show", f"{branch}:{n}", cwd=self.bare) for n in names}

    def options(self, cluster: str, news: News) -> RunOptions:
        return RunOptions(
            config=load_config(self.clone / "gitkruise.yaml"),
            cluster=cluster,
            state_dir=self.root / "state" / cluster,
            identity="test",
            listeners=(news.offer,),
        )

    def _git(self, *words: str, cwd: Path | None = None) -> str:
        who = ("-c", "user.name=Dana", "-c", "user.email=dana@example.com")
        done = subprocess.run(
            ["git", *who, *words], cwd=cwd or self.clone, capture_output=True, text=True, check=True
        )
        return done.stdout


class News:
    """The newest record of each unit; `until` waits for one that pleases."""

    def __init__(self) -> None:
        self.records: dict[str, UnitRecord] = {}
        self.hooks: Mapping[str, str] = {}  # URL of each Receiver
        self._changed = asyncio.Event()

    def offer(self, record: UnitRecord) -> None:
        self.records[record.unit] = record
        self._changed.set()

    async def until(self, pleased: Callable[[UnitRecord], bool]) -> UnitRecord:
        try:
            async with asyncio.timeout(HANG_S):
                while True:
                    record = next(iter(self.records.values()), None)
                    if record is not None and pleased(record):
                        return record
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"still waiting: {self.records}") from None

    async def settled(self, commit: str, state: State = State.DONE) -> UnitRecord:
        """The record in which `commit` has ended as `state`."""
        return await self.until(
            lambda r: (
                r.causal is not None
                and r.causal.id == commit
                and r.applied is not None
                and r.applied.id == commit
                and r.state is state
            )
        )


@asynccontextmanager
async def following(
    shop: Shop, transport: Transport, cluster: str = "real"
) -> AsyncIterator[tuple[RunningController, News]]:
    """A controller that runs while the body does, with records still owed written at the end."""
    news = News()
    async with controller(shop.options(cluster, news), transport, SystemClock()) as running:
        yield running, news
        for outbox in running.outboxes.values():
            await outbox.flush()


async def install_crds(transport: Transport) -> None:
    """Install the CRDs as `gitkruise install --crds` does."""
    options = InstallOptions(crds_only=True)
    installer = Installer(transport, load_catalog(), SystemClock(), options)
    await installer.install(manifests(options))


async def listed(transport: Transport, ref: ResourceRef, namespace: str = "shop") -> list[Obj]:
    reply = await transport.send(ApiRequest(verb="list", resource=ref, namespace=namespace))
    return [thaw(item) for item in reply.body["items"]]


@asynccontextmanager
async def pods_run(transport: Transport, namespace: str = "") -> AsyncIterator[Kubelet]:
    """A kubelet while the body runs, of all namespaces or of one."""
    kubelet = Kubelet(transport, SystemClock(), namespace=namespace)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(kubelet.run())
        yield kubelet
        task.cancel()
