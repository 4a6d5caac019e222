"""Workers for repository content: a pool of processes, or this process for one command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.base_mirrors import BASES, BaseMirrors, KeptBases
from gitkruise.gitops.build.builder import Builder, BuildRequest, BuildResult
from gitkruise.gitops.build.post_build import PostBuildInputs
from gitkruise.gitops.build.release import KnownData, knowing
from gitkruise.gitops.build.untrusted import Asked, BuiltUnit, CheckResult, PageRequest
from gitkruise.gitops.charts.cache import CHARTS
from gitkruise.gitops.preview.inputs import (
    PlanSide,
    UnitRead,
    base_side,
    read_base,
    read_side,
    side_of,
)
from gitkruise.gitops.workers import frames
from gitkruise.gitops.workers.jobs import first_true, page, plan_text
from gitkruise.gitops.workers.main import HealthJob, PageJob, PlanTextJob, SideJob, SiftJob
from gitkruise.gitops.workers.process import (
    HEALTH,
    STRANGER,
    TRUSTED,
    JobBudget,
    LentBases,
    WorkerEnded,
    WorkerProcess,
    beyond,
    place,
    store_path,
)
from gitkruise.gitops.workers.queue import WorkerSlot
from gitkruise.gitops.workers.reads import PendingRead, bare, spec, unpack, with_kinds
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.catalog.catalog import Catalog

if TYPE_CHECKING:
    from gitkruise.gitops.preview.cluster_facts import ClusterFacts

_T = TypeVar("_T")
_F = TypeVar("_F", frames.PlanText, frames.PlanPage)
_READING_MAX: Final = 4  # processes that read


class InProcess:
    """Does the work in threads of this process: for one command of a user, and for tests."""

    async def read(
        self, reader: Builder, request: BuildRequest, catalog: Catalog, inputs: PostBuildInputs
    ) -> BuildResult:
        return await asyncio.to_thread(reader.answer, request, catalog, inputs)

    async def find_unchanged(
        self, units: Sequence[BuiltUnit], commit: str
    ) -> tuple[GitCommit, Sequence[bool]]:
        def all_of_them() -> tuple[GitCommit, Sequence[bool]]:
            unchanged = [reader.is_unchanged(commit, old, tree) for reader, old, tree in units]
            return units[0][0].repository.commit(commit), unchanged

        return await asyncio.to_thread(all_of_them)

    async def judge(self, asked: Sequence[Asked], *, strict: bool = False) -> Sequence[CheckResult]:
        objects = [(texts, msgspec.json.encode(obj)) for texts, obj in asked]
        return [first_true(*one, strict=strict) for one in objects]

    async def check(self, asked: Sequence[Asked]) -> Sequence[CheckResult]:
        samples = [(texts, msgspec.json.encode(sample)) for texts, sample in asked]
        return [first_true(*one, every=True) for one in samples]

    async def side(
        self, repository: Repository, commit: str, config: Config, catalog: Catalog, gates: Gates,
        *, base: bool = False, known: KnownData | None = None,
    ) -> PlanSide:  # fmt: skip
        rules = (config, catalog, gates)
        with knowing(known):
            if base:
                return await asyncio.to_thread(read_base, repository, commit, config, *rules)
            return await asyncio.to_thread(read_side, repository, commit, *rules)

    async def plan_text(
        self, repository: Repository, config: Config, catalog: Catalog, gates: Gates,
        facts: ClusterFacts | None = None, *, base: str, head: str,
    ) -> frames.PlanText:  # fmt: skip
        return await asyncio.to_thread(
            plan_text, repository, config, catalog, gates, facts, base=base, head=head
        )

    async def page(
        self, repository: Repository, config: Config, catalog: Catalog, gates: Gates,
        request: PageRequest,
    ) -> frames.PlanPage:  # fmt: skip
        return await asyncio.to_thread(page, repository, config, catalog, gates, request)


class WorkerPool:
    """Processes that read (each always the same repositories, because it caches them), one for
    strangers' pull requests and one for health expressions."""

    def __init__(
        self,
        state_dir: Path,
        reading: int,
        budgets: tuple[JobBudget, ...] = (TRUSTED, STRANGER, HEALTH),
    ) -> None:
        trusted, stranger, health = budgets
        store, charts = store_path(state_dir), str(state_dir / CHARTS)
        mirrors = self._bases = BaseMirrors(state_dir / BASES)
        lent = LentBases(mirrors, mirrors)
        count = max(1, min(reading, _READING_MAX))
        self._reading = [
            WorkerSlot(WorkerProcess(trusted, store, charts, lent)) for _ in range(count)
        ]
        # A stranger's commit may name each tag of a repository that a unit allows.
        kept = LentBases(KeptBases(mirrors, stranger=True), mirrors)
        self._stranger = WorkerSlot(WorkerProcess(stranger, bases=kept))
        self._health = WorkerSlot(WorkerProcess(health))
        self._places: dict[Path, int] = {}

    @property
    def pids(self) -> list[int]:
        """Return the ids of the running processes."""
        slots = (*self._reading, self._stranger, self._health)
        return [pid for slot in slots if (pid := slot.process.pid)]  # read once: it may end

    def start(self) -> None:
        """Start the first process, so that its imports overlap with other start-up work.

        Actions of this process render, too, with the same bases.
        """
        BaseMirrors.shared = self._bases
        self._reading[0].process.start()

    def close(self) -> None:
        """End all processes, and those that they started."""
        for slot in (*self._reading, self._stranger, self._health):
            slot.process.close()
        self._bases.close()

    # Jobs -----------------------------------------------------------------------------------

    async def read(
        self, reader: Builder, request: BuildRequest, catalog: Catalog, inputs: PostBuildInputs
    ) -> BuildResult:
        reading = PendingRead(reader=reader, asked=request, catalog=catalog, given=inputs)
        return await self._slot(reader.repository).read(reading)

    async def find_unchanged(
        self, units: Sequence[BuiltUnit], commit: str
    ) -> tuple[GitCommit, Sequence[bool]]:
        repository = units[0][0].repository

        def exchange(process: WorkerProcess) -> tuple[GitCommit, Sequence[bool]]:
            specs = tuple((one.number, spec(one), old, tree) for one, old, tree in units)
            job = SiftJob(cpu_s=process.budget.cpu_s, commit=commit, units=specs)
            for frame in process.exchange(job, repository, [one.unit for one, _, _ in units]):
                if isinstance(frame, frames.UnchangedUnits) and len(frame.unchanged) == len(units):
                    return frame.commit, frame.unchanged
            raise WorkerEnded("", "it did not answer")

        try:
            return await self._slot(repository).run(exchange)
        except WorkerEnded:  # each unit will fail when it reads the commit, and report it
            info = await asyncio.to_thread(repository.commit, commit)
            return info, [False] * len(units)

    async def judge(self, asked: Sequence[Asked], *, strict: bool = False) -> Sequence[CheckResult]:
        return await self._evaluated(asked, every=False, strict=strict)

    async def check(self, asked: Sequence[Asked]) -> Sequence[CheckResult]:
        return await self._evaluated(asked, every=True)

    async def _evaluated(
        self, asked: Sequence[Asked], *, every: bool, strict: bool = False
    ) -> Sequence[CheckResult]:
        verdicts: list[CheckResult] = []
        while len(verdicts) < len(asked):
            rest = asked[len(verdicts) :]

            def exchange(process: WorkerProcess, rest: Sequence[Asked] = rest) -> None:
                del verdicts[len(asked) - len(rest) :]
                questions = tuple((texts, msgspec.json.encode(obj)) for texts, obj in rest)
                cpu_s = process.budget.cpu_s
                job = HealthJob(cpu_s=cpu_s, asked=questions, every=every, strict=strict)
                answers = process.exchange(job, None)
                verdicts.extend(one for one in answers if isinstance(one, CheckResult))

            try:
                await self._health.run(exchange)
            except WorkerEnded as ended:
                verdicts.append(CheckResult(0, _too_costly(ended), costly=True))
        return verdicts[: len(asked)]

    async def side(
        self, repository: Repository, commit: str, config: Config, catalog: Catalog, gates: Gates,
        *, base: bool = False, known: KnownData | None = None,
    ) -> PlanSide:  # fmt: skip
        def exchange(process: WorkerProcess) -> PlanSide:
            job = SideJob(
                cpu_s=process.budget.cpu_s, place=place(repository), commit=commit,
                config=_units(config), gates=gates, base=base, known=known,
            )  # fmt: skip
            unpacker = frames.Unpacker(repository, commit, ())
            read: list[UnitRead] = []
            units = config.units.values()
            for frame in process.exchange(with_kinds(job, process, catalog), repository, units):
                if isinstance(frame, frames.Part):
                    unpack(unpacker, frame)
                elif isinstance(frame, frames.BuiltSide):
                    objects = tuple(unpacker.objects)
                    read.append((frame.unit, objects, frame.findings, frame.bases))
                    unpacker.objects = []
                elif isinstance(frame, frames.Read):
                    return (base_side if base else side_of)(frame.commit, config, read)
            raise WorkerEnded("", "it did not answer")

        return await self._planned(self._slot(repository), exchange, f"commit {commit[:7]}")

    async def plan_text(
        self, repository: Repository, config: Config, catalog: Catalog, gates: Gates,
        facts: ClusterFacts | None = None, *, base: str, head: str,
    ) -> frames.PlanText:  # fmt: skip
        slot = self._stranger if facts is None else self._slot(repository)
        job = PlanTextJob(
            cpu_s=slot.process.budget.cpu_s, place=place(repository), base=base, head=head,
            config=_units(config), gates=gates, facts=facts,
        )  # fmt: skip
        planned = partial(_one_frame, job, catalog, repository, frames.PlanText)
        return await self._planned(slot, planned, "the pull request")

    async def page(
        self, repository: Repository, config: Config, catalog: Catalog, gates: Gates,
        request: PageRequest,
    ) -> frames.PlanPage:  # fmt: skip
        slot = self._stranger if request.stranger else self._slot(repository)
        job = PageJob(
            cpu_s=slot.process.budget.cpu_s, place=place(repository), config=_units(config),
            gates=gates, asked=request,
        )  # fmt: skip
        planned = partial(_one_frame, job, catalog, repository, frames.PlanPage)
        return await self._planned(slot, planned, f"commit {request.head[:7]}")

    # Running them ---------------------------------------------------------------------------

    async def _planned(
        self, slot: WorkerSlot, exchange: Callable[[WorkerProcess], _T], what: str
    ) -> _T:
        try:
            return await slot.run(exchange)
        except WorkerEnded as ended:
            raise beyond(ended, what) from ended

    def _slot(self, repository: Repository) -> WorkerSlot:
        number = self._places.setdefault(repository.git_dir, len(self._places))
        return self._reading[number % len(self._reading)]


def _one_frame(
    job: PlanTextJob | PageJob, catalog: Catalog, repository: Repository, kind: type[_F],
    process: WorkerProcess,
) -> _F:  # fmt: skip
    """Return the answer to a job that is one frame of a kind."""
    units = job.config.units.values()
    for frame in process.exchange(with_kinds(job, process, catalog), repository, units):
        if isinstance(frame, kind):
            return frame
    raise WorkerEnded("", "it did not answer")


def _units(config: Config) -> Config:
    """Return the part of a configuration that a worker needs: units, and where their files are."""
    return Config(config.sources, {name: bare(unit) for name, unit in config.units.items()})


def _too_costly(ended: WorkerEnded) -> str:
    if ended.limit:
        return f"it is beyond a limit: {ended.limit} > {ended.how}"
    return f"the process that evaluated it died: {ended.how}"
