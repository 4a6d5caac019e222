"""Laws of the node agent, whatever is killed when, on virtual time: a request recreates a container
at most once; the containers of a pod's successor are left alone; what is reported as pulled is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitkruise.agent.cri import cri_pb2 as cri
from gitkruise.agent.cri.calls import RuntimeCallFailed
from gitkruise.agent.cri.runtime import Runtime
from gitkruise.agent.pull import NODE_IMAGES
from gitkruise.agent.service import AgentOptions, acting
from gitkruise.kube.client.rawobject import thaw
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.agent.cri_server import METHODS, MemoryRuntime
from tests.agent.scenes import NODE, Scene, api_server
from tests.agent.test_pull import APP
from tests.clock import ManualClock
from tests.laws.examples import one_in

ENDS_S, LOOK_S = 600, 0.2
Fault = tuple[float, str]
DOWN_S: Final = {"agent": 0.0, "agent for a while": 12.0}  # longer than any stop and restart
RECREATES: Final = (*DOWN_S, "runtime", "runtime with its stops", "crash", "pod")
tenths = st.integers(0, 100).map(lambda n: n / 10)


def faults(*kinds: str) -> st.SearchStrategy[list[Fault]]:
    """Instants at which something is killed or replaced, in order."""
    return st.lists(st.tuples(tenths, st.sampled_from(kinds)), max_size=8).map(sorted)


@dataclass
class VirtualRuntime:
    """A runtime on virtual time, and kubelet's restarts. A stop goes on without its caller.

    `asked` are the containers that an agent stopped; `away` ends at an instant of the clock.
    """

    clock: ManualClock
    memory: MemoryRuntime
    tasks: asyncio.TaskGroup
    takes_s: float
    restart_s: float = 1.0
    away: float = 0.0
    asked: list[str] = field(default_factory=list)
    ending: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def call(self, service: str, method: str, request: Any, *, within_s: float) -> Any:
        self._answers(method)
        if method == "StopContainer":
            self.asked.append(request.container_id)
            await asyncio.wait({self._end(request.container_id)})
        elif method == "PullImage":
            await self.clock.sleep(self.takes_s)
        self._answers(method)
        try:
            return METHODS[method][0](self.memory, request)
        except KeyError as error:
            raise RuntimeCallFailed(method, "NOT_FOUND", f"no {error}") from None

    def kill(self, *, stops: bool) -> None:
        """No answer for two seconds; `stops`: containers being stopped run on."""
        self.away = self.clock.monotonic() + 2
        for task in self.ending.values() if stops else ():
            task.cancel()

    def crash(self, container_id: str) -> None:
        """A container ends by itself."""
        found = self.memory.find(container_id)
        if found is not None and found.state == cri.CONTAINER_RUNNING:
            found.state = cri.CONTAINER_EXITED
            self.tasks.create_task(self._restart(found.pod_uid, found.name, found.attempt + 1))

    def _answers(self, method: str) -> None:
        if self.clock.monotonic() < self.away:
            raise RuntimeCallFailed(method, "UNAVAILABLE", "away")

    def _end(self, container_id: str) -> asyncio.Task[None]:
        known = self.ending.get(container_id)
        if known is None or known.cancelled():
            known = self.ending[container_id] = self.tasks.create_task(self._stop(container_id))
        return known

    async def _stop(self, container_id: str) -> None:
        await self.clock.sleep(self.takes_s)
        self.crash(container_id)

    async def _restart(self, pod_uid: str, name: str, attempt: int) -> None:
        await self.clock.sleep(self.restart_s)
        if any(c.pod_uid == pod_uid for c in self.memory.containers):
            self.memory.create(pod_uid, name, attempt)


@dataclass
class Machine:
    """A node whose agent is killed and started again."""

    scene: Scene
    runtime: VirtualRuntime
    clock: ManualClock

    async def live(self, plan: Sequence[Fault], over: Callable[[], Awaitable[bool]]) -> None:
        """Play the faults, then go on until it is over."""
        agent = self._agent()
        try:
            for at, kind in plan:
                await self._watch(at, over)
                if kind in DOWN_S:
                    agent.cancel()
                    await asyncio.wait({agent})
                    await self._watch(self.clock.monotonic() + DOWN_S[kind], over)
                    agent = self._agent()
                else:
                    self._strike(kind)
            await self._watch(ENDS_S, over)
        finally:
            agent.cancel()
            await asyncio.wait({agent})

    async def _watch(self, until_s: float, over: Callable[[], Awaitable[bool]]) -> None:
        while self.clock.monotonic() < until_s and not await over():
            await self.clock.sleep(LOOK_S)

    def _strike(self, kind: str) -> None:
        memory = self.runtime.memory
        if kind == "crash":
            self.runtime.crash(memory.containers[-1].id)
        elif kind == "pod":
            memory.containers[:] = [c for c in memory.containers if c.pod_uid != "a"]
            memory.create("b", "app")
        else:
            self.runtime.kill(stops=kind == "runtime with its stops")

    def _agent(self) -> asyncio.Task[None]:
        async def run() -> None:
            runtime: Any = Runtime("memory", "1", self.runtime)  # type: ignore[arg-type]
            options = AgentOptions(node=NODE, socket=Path())
            async with acting(options, runtime, self.scene.transport, self.clock):
                await asyncio.Event().wait()

        return self.runtime.tasks.create_task(run())


def play(takes_s: float, body: Callable[[Machine], Awaitable[None]]) -> None:
    """Run a body on a machine of virtual time."""
    clock = ManualClock()

    async def whole() -> None:
        memory = MemoryRuntime(restarts=False)
        scene = Scene(await api_server(clock), memory, Path())
        async with asyncio.TaskGroup() as tasks:
            await body(Machine(scene, VirtualRuntime(clock, memory, tasks, takes_s), clock))

    clock.run(whole())


@settings(max_examples=one_in(5))
@example(plan=[(0.3, "agent for a while")], takes_s=0.5, force=True, ordered=False)
@given(plan=faults(*RECREATES), takes_s=tenths, force=st.booleans(), ordered=st.booleans())
def test_a_request_recreates_a_container_at_most_once(
    plan: list[Fault], takes_s: float, force: bool, ordered: bool
) -> None:
    async def body(machine: Machine) -> None:
        scene, memory = machine.scene, machine.runtime.memory
        names = ("app", "log")
        born = {memory.create("a", name): name for name in names}
        strategy = {"forceRecreate": force, "orderedRecreate": ordered}
        await scene.request("one", *({"name": name} for name in names), strategy=strategy)

        async def over() -> bool:
            """The controller's part: it reports the pod's containers until the request is over."""
            seen = [c.id for c in memory.containers if c.state == cri.CONTAINER_RUNNING]
            born.update({c.id: c.name for c in memory.containers if c.pod_uid == "a"})
            status = (await scene.read("one")).get("status", {})
            entries = status.get("containerStatusSnapshot", ())
            if seen != [entry["containerID"].rpartition("/")[2] for entry in entries]:
                await scene.snapshot("one")
            return bool(status.get("phase") == "Completed")

        await machine.live(plan, over)
        stopped = [born[id_] for id_ in set(machine.runtime.asked)]  # a KeyError: the successor's
        assert len(stopped) == len(set(stopped)), machine.runtime.asked
        if all(kind != "pod" for _, kind in plan):
            states = (await scene.read("one"))["status"]["containerRecreateStates"]
            assert [state["phase"] for state in states] == ["Succeeded"] * 2

    play(takes_s, body)


@settings(max_examples=one_in(5))
@given(plan=faults(*DOWN_S, "runtime"), takes_s=tenths)
def test_what_is_reported_as_pulled_is_there(plan: list[Fault], takes_s: float) -> None:
    """Also after restarts; a tag that the registry lacks fails."""

    async def body(machine: Machine) -> None:
        memory = machine.runtime.memory
        memory.registry |= {f"{APP}:v1": "", f"{APP}:v2": ""}
        tags = [{"tag": tag, "version": 0, "pullPolicy": {"backoffLimit": limit}}
                for tag, limit in (("v1", 50), ("v2", 50), ("lost", 1))]  # fmt: skip
        images = {APP: {"tags": tags}}
        wanted = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
                  "metadata": {"name": NODE}, "spec": {"images": images}}  # fmt: skip
        create = ApiRequest(verb="create", resource=NODE_IMAGES, body=wanted)
        await machine.scene.transport.send(create)
        done: dict[str, Obj] = {}

        async def over() -> bool:
            ask = ApiRequest(verb="get", resource=NODE_IMAGES, name=NODE)
            status = thaw((await machine.scene.transport.send(ask)).body).get("status", {})
            found = status.get("imageStatuses", {}).get(APP, {}).get("tags", [])
            for tag in found:
                assert tag["phase"] != "Succeeded" or f"{APP}:{tag['tag']}" in memory.held
                if tag["phase"] in ("Succeeded", "Failed"):
                    assert done.setdefault(tag["tag"], tag) == tag
            return len(done) == len(tags)

        await machine.live(plan, over)
        phases = {name: tag["phase"] for name, tag in done.items()}
        assert phases == {"v1": "Succeeded", "v2": "Succeeded", "lost": "Failed"}

    play(takes_s, body)
