"""gitkruise over a real repository and a model cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import yaml

from gitkruise.controller.controllers import Controllers
from gitkruise.errors import ApiError, ClusterFailed, SourceFailed, Unavailable
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.push.status_branch import CommitAuthor, Notes, StatusBranch
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.analysis.memory import ANALYSIS, AnalysisMemory
from gitkruise.gitops.build.builder import Builder
from gitkruise.gitops.charts.cache import ChartCache
from gitkruise.gitops.charts.fetcher import ChartFetcher
from gitkruise.gitops.cluster.engine import OWN, Engine
from gitkruise.gitops.cluster.hook_runs import HOOKS, HookRuns
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.runtime.restore import restored
from gitkruise.gitops.source.follower import FollowPolicy, SourceFollower
from gitkruise.gitops.source.repositories import unknown_live
from gitkruise.gitops.source.verification import Trusted, anything
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.rollout_annotation import Annotator
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.gitops.workers.pool import InProcess
from gitkruise.model.gitops.config import (
    GitRef,
    GitSource,
    GitSourceSpec,
    Reference,
    Unit,
    UnitSpec,
)
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent
from gitkruise.world.api.cluster import World
from gitkruise.world.kubelet.profiles import FAST
from tests.clock import ManualClock
from tests.git.push.history import history
from tests.git.repos import Origin, make_origin, run_git
from tests.gitops.analysis.endpoint import fetch_now
from tests.worlds import SPACE, START, cloneset, empty_world, parts_of

WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
STATUS: Final = "refs/heads/gitkruise/status/test"
NOTES: Final = "refs/notes/gitkruise/test"
BOT: Final = CommitAuthor(name="gitkruise", email="gitkruise@localhost")
UNIT: Final = "shop/web"


class Inline(ThreadPoolExecutor):
    """Threads that are none: virtual time must not pass while one of them works."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # it belongs to whoever awaits
            future.set_exception(error)
        return future


async def _immediately(_: ApiRequest) -> None:
    """Nothing happens before the request."""


class Wire(WorldTransport):
    """gitkruise's way to the cluster: every request is kept, and the line can be cut."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.requests: list[ApiRequest] = []
        self.watched: Counter[str] = Counter()  # open watches by plural
        self.muted: set[str] = set()  # plurals whose watches tell nothing
        self.cut = False
        self.honours = True  # whom a request is made for
        self.refuse: Callable[[ApiRequest], ApiError | None] = lambda _: None
        self.before: Callable[[ApiRequest], Awaitable[None]] = _immediately

    async def send(self, request: ApiRequest) -> ApiReply:
        self.requests.append(request)
        await self.before(request)
        error = Unavailable("connection refused") if self.cut else self.refuse(request)
        if error is not None:
            raise error
        return await super().send(request if self.honours else replace(request, user=""))

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        return self._checked(super().watch(request), request.resource.plural)

    async def _checked(
        self, events: AsyncGenerator[WatchEvent], plural: str
    ) -> AsyncGenerator[WatchEvent]:
        if self.cut:
            raise Unavailable("connection refused")
        self.watched[plural] += 1
        try:
            async for event in events:
                if self.cut:
                    raise Unavailable("connection reset")
                if plural not in self.muted:
                    yield event
        finally:
            self.watched[plural] -= 1

    def writes(self, *, dry: bool = False) -> list[str]:
        """`patch web`, … in order: dry runs or the others, annotations left out."""
        return [
            f"{r.verb} {r.name}"
            for r in self.requests
            if r.verb not in {"get", "list"}
            and r.resource.plural != "events"
            and ("dryRun" in r.params) == dry
            and r.params.get("fieldManager") != "gitkruise-status"
        ]


@cache
def _furnished() -> World:
    """Three nodes, the namespace, and every kind a sandbox knows."""
    world = empty_world()
    bootstrap(world, START, nodes=3)
    return world


class Stage:
    """One unit, its repository and its cluster. `play` runs a script in virtual time."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        self.origin: Origin = make_origin(folder)
        self.clock = ManualClock(START)
        self.world = _furnished().fork()
        self.cluster = Cluster(self.world, self.clock.now)
        self.wire = Wire(self.cluster)
        self.spec = msgspec.convert({"sourceRef": {"name": "src"}, **spec}, UnitSpec)
        self.offered: list[UnitRecord] = []
        self.allow_force_push = False
        self.accepted = ""  # where a rewrite may lead
        self.server = ""  # the address of the repository, where it is followed from afar
        self.mirrors = folder / "mirrors"
        self.ref = GitRef(branch="main")
        self.trusted: Callable[[Repository], Trusted] = lambda _: anything
        self.approved = ""  # by the unit's annotation
        self._opened: list[Repository] = []
        self.remembered = LeaseAnnotation(
            transport=WorldTransport(self.cluster),
            namespace="kube-system",
            name="gitkruise-sync-units",
            annotation=HOOKS,
            cluster="test",
        )
        self.start_over()

    def start_over(self) -> None:
        """A new gitkruise process, which knows what the cluster and git tell and nothing else."""
        self.repository = Repository.open(str(self.origin.bare))
        self.followed = self.repository
        if self.server:
            self.followed = Repository.open(
                self.server, mirrors=self.mirrors, protocols={"http"}, timeout_s=10
            )
        self._opened += [self.repository, self.followed]
        self.live = LiveView(self.wire, self.clock)
        self.branch = StatusBranch(
            self.repository, STATUS, source_branch="main", identity=BOT, sleep=lambda _: None
        )
        notes = Notes(self.repository, NOTES, identity=BOT, sleep=lambda _: None)
        self.outbox = Outbox(self.branch, notes, self.clock, coalesce=timedelta(seconds=15))
        self.around = UnitContext(
            live=self.live,
            clock=self.clock,
            cluster="test",
            gates=Gates(),
            engine=Engine(OWN),
            workers=InProcess(),
            hooks=HookRuns(self.remembered, WriteAuthority()),
            analysis=AnalysisMemory(
                replace(self.remembered, name="gitkruise-sync-analysis", annotation=ANALYSIS),
                WriteAuthority(),
            ),
            charts=ChartFetcher(ChartCache(self.mirrors / "charts"), self.clock, fetch_now),
        )
        self.annotator = Annotator(self.live, self.clock)
        self.trust = self.trusted(self.followed)
        self.unit, self.reporter = self.add_unit(UNIT, self.spec)
        ref = GitSourceSpec(
            url=str(self.origin.bare),
            ref=self.ref,
            allow_force_push=self.allow_force_push,
        )
        self.follower = SourceFollower(
            GitSource("shop", "src", ref, self.accepted),
            self.followed,
            on_commit=self.unit.offer,
            on_problem=self.unit.source_problem,
            live=lambda: filter(None, [self.unit.live_commit]),
            policy=FollowPolicy(self.trust, renew=self._confirm),
        )

    async def _confirm(self) -> None:
        try:
            await self.unit.confirm()
        except (ApiError, ClusterFailed) as error:
            raise SourceFailed(unknown_live("src", error)) from error

    def add_unit(self, name: str, spec: UnitSpec) -> tuple[UnitReconciler, Reporter]:
        namespace, _, short = name.partition("/")
        unit = Unit(namespace, short, spec, approved=self.approved)
        sinks = [self.outbox.offer, self.annotator.offer, self.offered.append]
        reporter = Reporter(unit, "test", "main", self.clock, sinks=[*sinks])
        reporter.resume(*restored(self.branch.files(), name, "test"))
        reader = Builder(
            repository=self.followed,
            unit=unit,
            gates=Gates(),
            cache=ParseCache(),
            trusted=self.trust,
        )
        return UnitReconciler(unit, reader, self.around, reporter), reporter

    # Playing --------------------------------------------------------------------------------

    def play(
        self,
        script: Callable[[], Coroutine[Any, Any, None]],
        drive: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Run `script` beside the cluster. `drive` drives workloads; by default all are driven."""

        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            driver = (drive or self.driver(EMBEDDED).run)()
            parts = run_parts(self.cluster, parts_of(FAST), self.clock)
            async with alongside(parts, driver):
                await script()

        self.clock.run(main())

    def driver(self, workloads: Sequence[Workload[Any]]) -> Controllers:
        """Return controllers of `workloads` that stand in the cluster."""
        return Controllers(workloads, WorldTransport(self.cluster), self.world.catalog, self.clock)

    def close(self) -> None:
        for repository in self._opened:
            repository.close()

    @asynccontextmanager
    async def running(self, *more: UnitReconciler) -> AsyncIterator[None]:
        """gitkruise itself, while the block runs; its end is a crash."""
        work = [unit.run() for unit in (self.unit, *more)]
        await self.live.discover()
        async with alongside(self.live.run(), self.annotator.run(), self.outbox.run(), *work):
            yield

    async def push(self, *objects: Obj, message: str = "change", **files: str) -> str:
        """Commit `objects` as app.yaml (and `files`), push, and let the follower look."""
        text = {name.replace("__", "/") + ".yaml": body for name, body in files.items()}
        if objects:
            text["app.yaml"] = documents(*objects)
        commit = self.origin.commit(text, message)
        await self.follower.check()
        return commit

    async def rest(self, seconds: float = 60) -> None:
        """Let time pass."""
        await self.clock.sleep(seconds)

    # Looking --------------------------------------------------------------------------------

    @property
    def record(self) -> UnitRecord:
        return self.reporter.record

    @property
    def state(self) -> str:
        return str(self.record.state)

    @property
    def rollout(self) -> Rollout:
        return self.record.rollouts[0]

    def get(self, kind: str, name: str, group: str = "") -> Any:
        space = "" if kind in {"Namespace", "CustomResourceDefinition"} else SPACE
        return self.world.get(ObjectKey(group, kind, space, name))

    def images(self) -> list[str]:
        found = self.world.objects(GroupKind("", "Pod"), SPACE)
        return sorted(pod["spec"]["containers"][0]["image"] for pod in found)

    def meddle(self, obj: Obj, *, manager: str = "kubectl-edit") -> None:
        """Somebody applies `obj` by force under another name."""
        group, _, version = obj["apiVersion"].rpartition("/")
        kind = self.world.catalog.by_kind(group, version, obj["kind"])
        assert kind is not None
        request = ApiRequest(
            verb="patch",
            resource=kind.ref,
            namespace=SPACE,
            name=obj["metadata"]["name"],
            body=obj,
            content_type="application/apply-patch+yaml",
            params={"fieldManager": manager, "force": "true"},
        )
        self.world.handle(request, self.clock.now())
        self.cluster.publish()

    def diary(self) -> list[str]:
        """Subjects of the status branch, oldest first."""
        return [entry.subject for entry in reversed(history(self.branch))]

    def status_file(self, path: str) -> str:
        """A file of the status branch."""
        return run_git(self.origin.bare, "show", f"{STATUS}:{path}")


class MakeStage(Protocol):
    """The fixture `staged`: a stage whose unit has `spec`; it is closed after the test."""

    def __call__(self, **spec: Any) -> Stage: ...


def documents(*objects: Obj) -> str:
    texts = (yaml.dump(obj, Dumper=yaml.CSafeDumper, sort_keys=False) for obj in objects)
    return "---\n".join(texts)


def config_map(name: str, annotations: Mapping[str, str] | None = None, **data: str) -> Obj:
    meta = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def web(image: str = "app:v1", **rolling: Any) -> dict[str, Any]:
    return cloneset("web", 4, image, **rolling)


def reference(name: str) -> Reference:
    return Reference(name=name)
