"""Running pieces of a process by name: kept while what they are made of is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from gitkruise.errors import Finding
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.gitops.cluster.shard_states import ShardStates
from gitkruise.gitops.containment import Containment
from gitkruise.gitops.receiver.server import HookAddress
from gitkruise.gitops.runtime.component_errors import Name
from gitkruise.gitops.source.accepted_rewrites import AcceptedRewrites
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.shards import WHOLE, Shard

T = TypeVar("T")
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDeps:
    """Dependencies that all components of a process share."""

    state_dir: Path
    hooks: HookAddress
    cache: ParseCache
    rewrites: AcceptedRewrites
    listeners: tuple[Callable[[UnitRecord], None], ...]
    moved: Callable[[str], None] = lambda _: None  # a source has another state
    crashed: Callable[[Name], None] = lambda _: None  # something crashed, or is well again
    acts: bool = True  # whether promotions act; their progress is recorded in any case
    shard: Shard = WHOLE
    states: ShardStates | None = None  # that other shards report


@dataclass(frozen=True, slots=True)
class _Part(Generic[T]):
    value: T
    made_of: object
    stack: AsyncExitStack
    jobs: tuple[asyncio.Task[None], ...]


class ComponentSet(Mapping[str, T]):
    """Values by name, each with what it is made of, what closes it, and what it runs.

    Its jobs run in `tasks`: one that fails is run again after growing pauses, and `report` gets
    the part's name and what happened, or of None when it is well again.
    """

    def __init__(
        self,
        kind: str,
        tasks: asyncio.TaskGroup,
        containment: Containment,
        clock: Clock,
        report: Callable[[str, Finding | None], None] = lambda *_: None,
    ) -> None:
        self._kind, self._tasks, self._report = kind, tasks, report
        self._containment, self._clock = containment, clock
        self._parts: dict[str, _Part[T]] = {}

    def __getitem__(self, name: str) -> T:
        return self._parts[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def fits(self, name: str, made_of: object) -> bool:
        """Return whether a component of this name exists with exactly these inputs."""
        part = self._parts.get(name)
        return part is not None and part.made_of == made_of

    def add(
        self,
        name: str,
        value: T,
        made_of: object,
        stack: AsyncExitStack,
        jobs: Collection[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        """A new part; `stack` closes it when it goes, after its jobs have ended."""
        if name in self._parts:
            raise ValueError(f"{name} runs already")
        subject, report = f"{self._kind} {name}", partial(self._report, name)
        keep, clock = self._containment.keep, self._clock
        running = tuple(self._tasks.create_task(keep(subject, job, clock, report)) for job in jobs)
        self._parts[name] = _Part(value, made_of, stack, running)

    async def keep(self, wanted: Mapping[str, object]) -> None:
        """End every part that is not wanted, or is made of something else than it should be."""
        going = [n for n, p in self._parts.items() if wanted.get(n, _NOTHING) != p.made_of]
        for name in going:
            for job in self._parts[name].jobs:
                job.cancel()
        for name in going:
            await self._end(name)

    async def drop(self, name: str) -> None:
        """End a part."""
        await self.keep({n: part.made_of for n, part in self._parts.items() if n != name})

    async def rest(self) -> None:
        """Stop the jobs of all parts, which stay as they are."""
        jobs = [job for part in self._parts.values() for job in part.jobs]
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait(jobs)

    async def close(self) -> None:
        """End them all."""
        await self.keep({})

    async def _end(self, name: str) -> None:
        part = self._parts.pop(name)
        async with part.stack:  # it closes whatever happens to the jobs
            if part.jobs:
                await asyncio.wait(part.jobs)
