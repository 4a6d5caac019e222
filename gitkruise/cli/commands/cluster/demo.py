"""gitkruise demo: play a GitOps canary on this machine, deleted on exit."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.style import Style
from gitkruise.errors import Finding, TimedOut, UsageProblem
from gitkruise.model.gitops.unit_state import State

if TYPE_CHECKING:
    from gitkruise.app import RunOptions
    from gitkruise.cli.commands.cluster.demo_screen import DemoScreen
    from gitkruise.cli.commands.cluster.demo_sidecars import Pair
    from gitkruise.cli.commands.cluster.demo_story import Chapter, Workbench
    from gitkruise.cli.commands.inspect.dashboard_records import ReceivedRecords
    from gitkruise.kube.client.transport import Transport
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.record import Rollout, UnitRecord
    from gitkruise.sandbox.server import SandboxServer
    from gitkruise.wire.primitives.names import Obj

PAUSE_S: Final = 2.0  # between chapters, so that a reader can follow
PATIENCE_S: Final = 120.0  # a chapter that takes longer has failed
CLUSTER: Final = "sandbox"


@click.command(cls=ExitCodesCommand, exits=(6,), serves=True)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Directory in which to create and keep the repository and the kubeconfig.",
)
@click.option("--exit", "leave", is_flag=True, help="Exit when the story ends.")
@click.option("--speed", default=1.0, show_default=True, help="Speed-up factor of the story.")
@click.option("--seed", default=0, show_default=True, help="Seed of the simulated cluster.")
def demo(keep: Path | None, leave: bool, speed: float, seed: int) -> None:
    """Play a whole GitOps canary: release, canary, roll-out, bad image, rollback, sidecars.

    \b
    Examples:
      gitkruise demo
      gitkruise demo --exit --speed 10
      gitkruise demo --keep /tmp/shop

    Everything runs on this machine: a git repository, a Kubernetes-compatible cluster with
    simulated containers, and gitkruise between them.
    """
    if not 0 < speed < float("inf"):  # NaN is neither
        message = "--speed must be a number greater than 0"
        raise UsageProblem(Finding(code="GK7012", message=message))
    with ExitStack() as stack:
        root = _root(keep, stack)
        asyncio.run(_play(_DemoOptions(root=root, leave=leave, speed=speed, seed=seed)))


def _root(keep: Path | None, stack: ExitStack) -> Path:
    if keep is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gitkruise-demo-")))
    if keep.exists() and any(keep.iterdir()):
        raise UsageProblem(
            Finding(
                code="GK7013",
                message=f"{keep} is not empty",
                notes=(("next", "name a directory that does not exist"),),
            )
        )
    keep.mkdir(parents=True, exist_ok=True)
    return keep.absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class _DemoOptions:
    root: Path
    leave: bool
    speed: float
    seed: int


class _UnitRecords:
    """The newest record of each unit, and a way to wait for the next one."""

    def __init__(self) -> None:
        self.records: dict[str, UnitRecord] = {}
        self._changed = asyncio.Event()

    def offer(self, record: UnitRecord) -> None:
        self.records[record.unit] = record
        self._changed.set()

    async def next(self) -> None:
        await self._changed.wait()
        self._changed.clear()


async def _play(options: _DemoOptions) -> None:
    """Start everything, play the story, and run until a signal (or exit)."""
    from gitkruise.cli.commands.cluster.demo_screen import DemoScreen  # noqa: PLC0415  start-up budget
    from gitkruise.cli.console.log_format import logged_to_file  # noqa: PLC0415  imports logging
    from gitkruise.cli.console.signals import stop_event  # noqa: PLC0415

    environment = read_environment()
    stop = stop_event()
    live = environment.interactive and environment.stdout_tty
    screen = DemoScreen(Style.of(environment), live=live)
    with logged_to_file(options.root / "gitkruise.log"):
        async with asyncio.TaskGroup() as tasks:
            story = tasks.create_task(_Player(options, screen).play())
            stopping = tasks.create_task(stop.wait())
            await asyncio.wait({story, stopping}, return_when=asyncio.FIRST_COMPLETED)
            story.cancel()
            stopping.cancel()


class _Player:
    """Plays the story once."""

    def __init__(self, options: _DemoOptions, screen: DemoScreen) -> None:
        self._options, self._screen = options, screen
        self._news = _UnitRecords()
        self._url = ""  # of the dashboard
        self._once: Callable[[str], str] = str  # its address for a browser that is started

    async def play(self) -> None:
        from gitkruise.app import controller  # noqa: PLC0415
        from gitkruise.cli.commands.cluster.demo_story import STORY, Workbench  # noqa: PLC0415  imports git
        from gitkruise.driving import sandbox_controllers  # noqa: PLC0415
        from gitkruise.kube.auth.connection import from_kubeconfig  # noqa: PLC0415
        from gitkruise.kube.client.http import HttpTransport  # noqa: PLC0415
        from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415
        from gitkruise.sandbox.server import SandboxOptions, serve  # noqa: PLC0415

        options, clock = self._options, SystemClock()
        self._screen.say(
            "gitkruise demo · everything runs on this machine"
            + (
                " and is deleted when you quit"
                if options.root.name.startswith("gitkruise-")
                else ""
            )
        )
        workbench = Workbench(options.root)
        await asyncio.to_thread(workbench.create)
        kubeconfig = options.root / "kubeconfig"
        sandbox_options = SandboxOptions(
            ephemeral=True, speed=options.speed, seed=options.seed, kubeconfig=kubeconfig, nodes=6
        )
        async with (
            serve(sandbox_options, controllers=sandbox_controllers) as sandbox,
            HttpTransport(from_kubeconfig([kubeconfig]), clock) as transport,
            self._dashboard(transport, clock, kubeconfig, workbench) as received,
        ):
            self._introduce(workbench, sandbox, kubeconfig)
            began = clock.monotonic()
            commit = await self._push(workbench, STORY[0])
            shop = await asyncio.to_thread(
                _declared, workbench.clone / "gitkruise.yaml", workbench.bare
            )
            await _declare(shop, transport)
            run_options = self._run_options(received.receive)
            async with self._keys(), controller(run_options, transport, clock) as running:
                for number, chapter in enumerate(STORY, 1):
                    pair = await self._pair(chapter, transport, clock)
                    if number > 1:
                        await clock.sleep(PAUSE_S / options.speed)
                        commit = await self._push(workbench, chapter)
                    async with self._sidecars(pair):
                        await self._chapter(workbench, number, commit, clock=clock, began=began)
                for outbox in running.outboxes.values():
                    await outbox.flush()
                self._conclude(workbench, kubeconfig)
                if not options.leave:
                    await self._follow(clock)

    @asynccontextmanager
    async def _dashboard(
        self, transport: Transport, clock: Clock, kubeconfig: Path, workbench: Workbench
    ) -> AsyncIterator[ReceivedRecords]:
        """Serve the dashboard on a free port, with a token of its own; nothing of it is kept."""
        from gitkruise.cli.commands.inspect import dashboard  # noqa: PLC0415  start-up budget
        from gitkruise.cli.commands.inspect.dashboard_records import ReceivedRecords  # noqa: PLC0415
        from gitkruise.cli.context.cluster import ChosenCluster, ClusterChoice  # noqa: PLC0415
        from gitkruise.dashboard.gate import MachineGate  # noqa: PLC0415  start-up budget
        from gitkruise.kube.serve.addresses import Listen  # noqa: PLC0415  start-up budget

        choice = ClusterChoice(kubeconfig=str(kubeconfig))
        chosen = ChosenCluster(
            transport=transport, clock=clock, name=CLUSTER, namespace="", embedded=True,
            flags=choice.flags,
        )  # fmt: skip
        gate, received = MachineGate(secrets.token_urlsafe(32), clock), ReceivedRecords()
        self._once = gate.once
        pages = dashboard.PagesOptions(
            listen=Listen(port=0),
            gate=gate,
            repository=(workbench.bare.name.removesuffix(".git"), str(workbench.clone)),
            choice=choice,
            received=received,
        )
        async with dashboard.serving_pages(chosen, pages, read_environment()) as self._url:
            yield received

    @asynccontextmanager
    async def _keys(self) -> AsyncIterator[None]:
        """Open the dashboard on the key `o` while the block runs, where there is a keyboard."""
        if not self._screen.live:
            yield
            return
        from gitkruise.cli.commands.inspect.dashboard import open_page  # noqa: PLC0415
        from gitkruise.cli.console.keyboard import keyboard  # noqa: PLC0415  only for terminals

        async def opened() -> None:
            if not await asyncio.to_thread(open_page, self._once(self._url)):
                self._screen.say(f"no browser was found; the address is {self._url}")

        async with asyncio.TaskGroup() as tasks:
            opening: list[asyncio.Task[None]] = []

            def press(key: str) -> None:
                if key == "o":
                    opening.append(tasks.create_task(opened()))

            with keyboard(press):
                try:
                    yield
                finally:
                    for task in opening:
                        task.cancel()

    def _run_options(self, received: Callable[[UnitRecord], None]) -> RunOptions:
        from gitkruise.app import RunOptions  # noqa: PLC0415
        from gitkruise.gitops.resources.declared import ResourceRules  # noqa: PLC0415
        from gitkruise.model.gitops.config import Config  # noqa: PLC0415

        return RunOptions(
            config=Config(),
            custom=ResourceRules(local_sources=True),
            cluster=CLUSTER,
            state_dir=self._options.root / "state",
            identity="demo",
            listeners=(self._news.offer, received),
            processes=1,
        )

    def _introduce(self, workbench: Workbench, sandbox: SandboxServer, kubeconfig: Path) -> None:
        say = self._screen.say
        say()
        say(f"  git         {workbench.bare}")
        say(f"  cluster     {sandbox.url}   (simulated: 6 nodes, Kubernetes API)")
        say(f"  kubectl     export KUBECONFIG={kubeconfig}")
        say(f"  dashboard   {self._url}" + ("   (o opens it)" if self._screen.live else ""))
        say()

    async def _pair(self, chapter: Chapter, transport: Transport, clock: Clock) -> Pair | None:
        """Look at the two containers of a hot sidecar before the chapter of one begins."""
        if not chapter.pair:
            return None
        from gitkruise.cli.commands.cluster.demo_sidecars import Pair  # noqa: PLC0415  imports msgspec

        pair = Pair(transport, clock, self._screen.say)
        await pair.begin()
        return pair

    @asynccontextmanager
    async def _sidecars(self, pair: Pair | None) -> AsyncIterator[None]:
        """Show the two containers while the block runs."""
        if pair is None:
            yield
            return
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(pair.follow(self._options.speed))
            yield
            following.cancel()

    async def _push(self, workbench: Workbench, chapter: Chapter) -> str:
        await asyncio.to_thread(chapter.change, workbench)
        return await asyncio.to_thread(workbench.push, chapter.subject)

    async def _chapter(
        self, workbench: Workbench, number: int, commit: str, *, clock: Clock, began: float
    ) -> None:
        """Show one commit's rollout until it ends as the story says."""
        from gitkruise.cli.commands.cluster.demo_story import STORY  # noqa: PLC0415  imports git

        chapter = STORY[number - 1]
        started = clock.monotonic()
        clock_text = _minutes(started - began)
        self._screen.say(f' {clock_text}  commit {number}  {commit[:7]}  "{chapter.subject}"')
        if chapter.lesson:
            self._screen.say(f"        {chapter.lesson}")
        for line in workbench.changed_lines() if number > 1 else ():
            self._screen.say(f"        {line}")
        with self._screen:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while not self._ended(chapter, commit):
                        await self._news.next()
                        if self._moving(chapter, commit):
                            self._screen.show(self._shown(chapter), clock.monotonic(), chapter.ends)
            except TimeoutError:
                raise TimedOut(self._late(chapter)) from None
        took = clock.monotonic() - started
        for rollout in self._shown(chapter):
            self._screen.say(self._result(rollout, took))
        self._screen.say()

    def _shown(self, chapter: Chapter) -> list[Rollout]:
        record = self._news.records.get(chapter.unit)
        rollouts = record.rollouts if record else ()
        return [r for r in rollouts if chapter.watch in {None, r.key}]

    def _moving(self, chapter: Chapter, commit: str) -> bool:
        """Return whether the record describes this commit, not the end of the previous one."""
        record = self._news.records.get(chapter.unit)
        if record is None or record.causal is None or record.causal.id != commit:
            return False
        return any(r.state is State.ROLLING for r in self._shown(chapter))

    def _ended(self, chapter: Chapter, commit: str) -> bool:
        record = self._news.records.get(chapter.unit)
        if record is None or record.causal is None or record.causal.id != commit:
            return False
        if chapter.watch is None:
            return record.state is chapter.ends and record.applied is not None
        steps = dict(record.steps).get(chapter.watch, ())
        begun = (
            bool(steps) and steps[-1].commit.id == commit
        )  # otherwise it describes an earlier one
        rollout = next((r for r in record.rollouts if r.key == chapter.watch), None)
        return begun and rollout is not None and rollout.state is chapter.ends

    def _late(self, chapter: Chapter) -> Finding:
        seen = "; ".join(f"{r.unit}: {r.state} {r.message}" for r in self._news.records.values())
        return Finding(
            code="GK9010",
            message=f'"{chapter.subject}": not {chapter.ends} after {PATIENCE_S:g} s',
            notes=(("seen", seen or "nothing"),),
        )

    def _result(self, rollout: Rollout, took: float) -> str:
        from gitkruise.cli.views.progress import rollout_bar  # noqa: PLC0415

        return f"        {rollout_bar(rollout, self._screen.style)}  in {took:.1f} s"

    async def _follow(self, clock: Clock) -> None:
        """Print the progress of the reader's own pushes until cancelled."""
        from gitkruise.cli.views.progress import ProgressLines  # noqa: PLC0415

        progress_lines = ProgressLines(self._screen.style)
        for record in self._news.records.values():
            list(progress_lines.lines(record, clock.now()))  # the story has shown these
        while True:
            await self._news.next()
            for record in self._news.records.values():
                for line in progress_lines.lines(record, clock.now()):
                    self._screen.say(line)

    def _conclude(self, workbench: Workbench, kubeconfig: Path) -> None:
        say, branch = self._screen.say, f"gitkruise/status/{CLUSTER}"
        say(f"Eight commits, no kubectl. The record in git ({branch}):")
        for line in workbench.diary(branch):
            say(f"  {line}")
        if self._options.leave:
            return
        say()
        say("Try, in another terminal:")
        say(f"  git clone {workbench.bare} shop && cd shop")
        say(
            "  edit `partition` or an image in apps/checkout/cloneset.yaml; git commit -a; git push"
        )
        say(f"  export KUBECONFIG={kubeconfig}")
        say(f"  {_own_name()} status")
        say("  kubectl get units,clonesets,pods -n shop")
        say("Ctrl-C to quit.")


def _declared(file: Path, bare: Path) -> list[Obj]:
    """The shop's configuration as objects of a cluster, following the bare repository."""
    from gitkruise.git.parsing.documents import parse_file  # noqa: PLC0415
    from gitkruise.wire.primitives.paths import put  # noqa: PLC0415

    documents = parse_file(file.read_bytes(), str(file)).documents
    space = {"name": documents[0].obj["metadata"]["namespace"]}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": space}
    return [namespace] + [
        put(d.obj, ("spec", "url"), str(bare)) if d.obj["kind"] == "GitSource" else d.obj
        for d in documents
    ]


async def _declare(objects: Sequence[Obj], transport: Transport) -> None:
    """Apply objects as `kubectl apply` would, so that kubectl shows them."""
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415
    from gitkruise.wire.primitives.names import key_of, split_api_version  # noqa: PLC0415
    from gitkruise.wire.primitives.requests import apply_request  # noqa: PLC0415

    for obj in objects:
        kind = load_catalog().by_kind(*split_api_version(obj["apiVersion"]), obj["kind"])
        assert kind is not None
        namespace = key_of(obj).namespace
        await transport.send(apply_request(kind.ref, obj, "gitkruise-demo", namespace=namespace))


def _own_name() -> str:
    """Return the command that starts this program in another terminal."""
    if shutil.which("gitkruise"):
        return "gitkruise"
    here = Path(sys.argv[0])
    return str(here.resolve()) if here.name == "gitkruise" else f"{sys.executable} -m gitkruise"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
