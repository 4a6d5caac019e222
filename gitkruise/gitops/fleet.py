"""The sources, units, sinks and receivers that run, kept as a configuration that may change says.

What a change does not concern goes on undisturbed; what cannot be made is told, and tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gitkruise.errors import ApiError, Reported
from gitkruise.git.history import History
from gitkruise.git.manifests import ParseCache
from gitkruise.git.repo import Repository
from gitkruise.git.status_branch import StatusBranch
from gitkruise.gitops.following import Followers, Habits, follow
from gitkruise.gitops.intake import Reader
from gitkruise.gitops.makeup import (
    DOORS,
    Marks,
    Outer,
    listened_for,
    place_of,
    sink_of,
    source_of,
    written_to,
)
from gitkruise.gitops.parts import Parts
from gitkruise.gitops.polling import Polling
from gitkruise.gitops.promotions import Promotions
from gitkruise.gitops.receiver import Hearing, open_receivers, receiver_keys
from gitkruise.gitops.reporter import Reporter
from gitkruise.gitops.resume import Past, by_unit, resumed
from gitkruise.gitops.source import SourceFollower
from gitkruise.gitops.sources import Pool, Renewal, patience_of, trust_sources
from gitkruise.gitops.status_sinks import Writer, open_status_sinks
from gitkruise.gitops.sync import Surroundings, UnitSync
from gitkruise.gitops.target import ref_of
from gitkruise.gitops.telling.assembly import Telling, open_telling
from gitkruise.gitops.troubles import Troubles
from gitkruise.gitops.trust import Trusted
from gitkruise.gitops.writeback import Outbox
from gitkruise.kube.listening import Listen
from gitkruise.model.config import Config, Sink, Unit
from gitkruise.model.record import UnitRecord

NOBODY: Final = Config()


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """What every part of a process shares beside its surroundings."""

    state_dir: Path
    listen: Listen
    cache: ParseCache
    listeners: tuple[Callable[[UnitRecord], None], ...]
    moved: Callable[[str], None] = lambda _: None  # a source stands otherwise than before
    acts: bool = True  # whether promotions go on; where they stand is told in any case


@dataclass(frozen=True, slots=True)
class _Source:
    repository: Repository
    trusted: Trusted


@dataclass(frozen=True, slots=True)
class _Branch:
    """A Sink's status branch, as it was when it was opened."""

    outbox: Outbox
    branch: StatusBranch
    told: Mapping[str, Mapping[str, bytes]]  # by unit: our files
    writer: Writer


class Fleet:
    """Everything that follows git, for one process. Only `become` changes what runs."""

    def __init__(self, home: Home, around: Surroundings, tasks: asyncio.TaskGroup) -> None:
        self._home, self._around = home, around
        self._transport = around.live.transport
        self._renewal = Renewal(self._transport)
        self._pool = Pool(home.state_dir, self._transport, self._renewal)
        self._habits = Habits(
            home.state_dir, around.cluster, around.clock, self._renewal, home.moved
        )
        self._histories: dict[Repository, History] = {}
        self._past: dict[str, Past] = {}  # of units that are made anew
        self._sources: Parts[_Source] = Parts(tasks)
        self._branches: Parts[_Branch | None] = Parts(tasks)
        self.units: Parts[UnitSync] = Parts(tasks)
        self._follows: Parts[Followers] = Parts(tasks)
        self._tellings: Parts[Telling] = Parts(tasks)
        self._doors: Parts[Hearing] = Parts(tasks)
        self._promotions = Promotions(tasks, around, acts=home.acts)
        self.reporters: dict[str, Reporter] = {}
        self.config = NOBODY
        self.cluster = around.cluster
        self.troubles = Troubles()

    # What runs ------------------------------------------------------------------------------

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        """By sink."""
        return {name: one.outbox for name, one in self._branches.items() if one is not None}

    @property
    def told(self) -> Mapping[str, Mapping[str, Mapping[str, bytes]]]:
        """By sink and unit: the files of the status branch as they were found."""
        return {name: one.told for name, one in self._branches.items() if one is not None}

    @property
    def followers(self) -> Mapping[str, SourceFollower]:
        """By source."""
        return {name: f for one in self._follows.values() for name, f in one.by_source.items()}

    @property
    def pollings(self) -> Mapping[str, Polling]:
        """By source; sources of one repository share theirs."""
        return {name: one.polling for one in self._follows.values() for name in one.by_source}

    @property
    def telling(self) -> Telling:
        """What all sinks tell, as one."""
        whole = Telling()
        for one in self._tellings.values():
            whole.listeners += one.listeners
            whole.jobs += one.jobs
            whole.postmen |= one.postmen
            for source, pulls in one.pulls.items():
                whole.pulls.setdefault(source, []).extend(pulls)
        return whole

    @property
    def hooks(self) -> Mapping[str, str]:
        """Where each Receiver listens."""
        return {name: url for one in self._doors.values() for name, url in one.urls.items()}

    # Changing it ----------------------------------------------------------------------------

    async def become(
        self, config: Config, *, sure: Config = NOBODY, lame: Collection[str] = ()
    ) -> None:
        """Run exactly what `config` says. What cannot be made is in `troubles` afterwards.

        Units that are `lame` still are there, though they do not run: what they wanted stays
        theirs. Of what is in `sure`, whatever cannot be made is raised: UsageProblem,
        SourceFailed or ApiError.
        """
        marks = Marks(config)
        self.config = config
        outer = self._outer(marks)
        await self._doors.keep(outer.doors)
        await self._tellings.keep(outer.tellings)
        await self._follows.keep(outer.follows)
        await self._promotions.keep(marks.units)
        for name in [n for n in self.units if not self.units.fits(n, marks.units.get(n))]:
            self._remember(name, stays=name in config.units or name in lame)
        await self.units.keep(marks.units)
        await self._branches.keep(marks.sinks)
        await self._sources.keep(marks.sources)
        self.troubles.clear()
        await self._open_sources(marks, sure)
        await self._open_sinks(marks, sure)
        for name in config.units:
            self._start_unit(name, marks)
        writers = {n: b.writer for n, b in self._branches.items() if b is not None}
        pairs = {n: (u, self.reporters[n]) for n, u in self.units.items()}
        await self._promotions.open(marks, pairs, writers, (self.troubles, sure))
        await self._open_outer(marks, sure)

    def look_again(self, unit: str, source: str) -> None:
        """Look at a source before its time, and at its newest commit once more for `unit`."""
        for name, follower in self.followers.items():
            if name == source and unit in self.units and follower.followed:
                self.units[unit].offer(follower.followed)
        if source in self.pollings:
            self.pollings[source].look_now()

    async def rest(self) -> None:
        """Stop everything that runs; records not written yet stay in the outboxes."""
        await self._doors.close()
        await self._tellings.close()
        await self._follows.close()
        await self._promotions.close()
        await self.units.rest()
        await self._branches.rest()

    async def close(self) -> None:
        """Let go of all repositories, at the very end."""
        await self.units.close()
        await self._branches.close()
        await self._sources.close()

    def _remember(self, name: str, *, stays: bool) -> None:
        """Where a unit stood, for when it is made anew with other settings."""
        record = self.reporters.pop(name).record
        if stays:
            self._past[name] = Past.of(record, self.units[name].pruning)
        else:
            self._around.claims.leave(name)
            self._around.standings.leave(name)

    # Sources and sinks ----------------------------------------------------------------------

    async def _open_sources(self, marks: Marks, sure: Config) -> None:
        sources = marks.config.sources
        for name, source in sources.items():
            if name in self._sources:
                continue
            patience = patience_of(sources, source.spec.url)
            async with AsyncExitStack() as stack:
                try:
                    repository = await self._pool.open(name, source, patience, stack)
                    trusts = await trust_sources(
                        {name: source},
                        {name: repository},
                        self._home.state_dir,
                        self._transport,
                        self._around.clock,
                        self._renewal,
                    )
                except (Reported, ApiError) as error:
                    self.troubles.failed(("GitSource", name), error, raised=name in sure.sources)
                    continue
                made = _Source(repository, trusts[name])
                self._sources.add(name, made, marks.sources[name], stack.pop_all())

    async def _open_sinks(self, marks: Marks, sure: Config) -> None:
        for name, sink in marks.config.sinks.items():
            if name in self._branches or self.troubles.blocked(
                ("Sink", name), ("GitSource", written_to(sink))
            ):
                continue
            async with AsyncExitStack() as stack:
                try:
                    made = await self._status_branch(name, sink, marks.config, stack)
                except (Reported, ApiError) as error:
                    self.troubles.failed(("Sink", name), error, raised=name in sure.sinks)
                    continue
                jobs = [made.outbox.run()] if made is not None else []
                self._branches.add(name, made, marks.sinks[name], stack.pop_all(), jobs)

    async def _status_branch(
        self, name: str, sink: Sink, config: Config, stack: AsyncExitStack
    ) -> _Branch | None:
        one = msgspec.structs.replace(config, sinks={name: sink})
        repositories = {n: s.repository for n, s in self._sources.items()}
        where = (self._home.state_dir, self._transport)
        around = self._around
        opened = await open_status_sinks(
            one, around.cluster, repositories, where, around.clock, stack
        )
        if name not in opened.branches:
            return None
        files = await asyncio.to_thread(opened.branches[name].files)
        told, writer = by_unit(files), opened.writers[name]
        return _Branch(opened.outboxes[name], opened.branches[name], told, writer)

    # Units ----------------------------------------------------------------------------------

    def _start_unit(self, name: str, marks: Marks) -> None:
        unit = marks.config.units[name]
        source, sink = source_of(unit), sink_of(unit)
        if name in self.units or self.troubles.blocked(
            ("Unit", name), ("GitSource", source), ("Sink", sink)
        ):
            return
        made = self._sources[source]
        reader = Reader(
            repository=made.repository,
            unit=unit,
            gates=self._around.gates,
            cache=self._home.cache,
            trusted=made.trusted,
            ignore=tuple(marks.config.sources[source].spec.ignore.splitlines()),
            shared=self._histories.setdefault(made.repository, History(made.repository)),
        )
        past = self._past.pop(name, None)
        reporter = self._reporter(unit, past, ref_of(marks.config.sources[source]), sink)
        sync = UnitSync(unit, reader, self._around, reporter)
        if past is not None:
            sync.pruning.inherit(past.pruning)
        self.reporters[name] = reporter
        self.units.add(name, sync, marks.units[name], AsyncExitStack(), [sync.run()])

    def _reporter(self, unit: Unit, past: Past | None, source: str, sink: str) -> Reporter:
        """Goes on from where the unit stood, or else from what its status branch tells."""
        around, branch = self._around, self._branches[sink] if sink else None
        sinks = [*self._home.listeners, self._tell]
        reporter = Reporter(unit, around.cluster, source, around.clock, sinks=sinks)
        if branch is not None:
            reporter.listen(branch.outbox.offer)
        if past is not None:
            reporter.resume(past.record, past.steps)
        elif branch is not None:
            files = branch.told.get(unit.id, {})
            reporter.resume(*resumed(files, unit.id, around.cluster))
        return reporter

    def _tell(self, record: UnitRecord) -> None:
        for telling in self._tellings.values():
            telling.offer(record)

    # What follows and tells -----------------------------------------------------------------

    def _outer(self, marks: Marks) -> Outer:
        """What is to follow the sources and tell of the units that are there now."""
        sources = {n: m for n, m in marks.sources.items() if self._sources.fits(n, m)}
        units = {n: m for n, m in marks.units.items() if self.units.fits(n, m)}
        return Outer.of(marks, sources, units)

    async def _open_outer(self, marks: Marks, sure: Config) -> None:
        outer = self._outer(marks)
        await self._doors.keep(outer.doors)
        await self._tellings.keep(outer.tellings)
        await self._follows.keep(outer.follows)
        repositories = {n: s.repository for n, s in self._sources.items()}
        for repository in [r for r in self._histories if r not in repositories.values()]:
            del self._histories[repository]
        for place, made_of in outer.follows.items():
            if place not in self._follows:
                self._follow(place, made_of, marks.config)
        for name, told_of in outer.tellings.items():
            if name not in self._tellings and not self.troubles.blocked(("Sink", name)):
                await self._open_telling(name, told_of, marks.config, sure)
        if outer.doors and DOORS not in self._doors:
            await self._open_doors(outer.doors[DOORS], marks.config, sure)

    def _follow(self, place: str, made_of: object, config: Config) -> None:
        mine = {n: s for n, s in config.sources.items() if place_of(s) == place}
        here = {n: s for n, s in mine.items() if n in self._sources}
        opened = {n: (self._sources[n].repository, self._sources[n].trusted) for n in here}
        followers = follow(here, opened, self.units, self._habits)
        self._follows.add(place, followers, made_of, AsyncExitStack(), [followers.polling.run()])

    async def _open_telling(self, name: str, made_of: object, config: Config, sure: Config) -> None:
        here = {n: config.units[n] for n in self.units}
        one = msgspec.structs.replace(config, sinks={name: config.sinks[name]}, units=here)
        told = (one, self._around.cluster, self._home.state_dir)
        repositories = {n: s.repository for n, s in self._sources.items()}
        units = {n: (u, self.reporters[n]) for n, u in self.units.items()}
        async with AsyncExitStack() as stack:
            try:
                telling = await open_telling(told, self._around, repositories, units, stack)
            except (Reported, ApiError) as error:
                self.troubles.failed(("Sink", name), error, raised=name in sure.sinks)
                return
            jobs = [job() for job in telling.jobs]
            self._tellings.add(name, telling, made_of, stack.pop_all(), jobs)

    async def _open_doors(self, made_of: object, config: Config, sure: Config) -> None:
        good = {}
        for name, receiver in config.receivers.items():
            needs = [("GitSource", source) for source in listened_for(receiver)]
            if self.troubles.blocked(("Receiver", name), *needs):
                continue
            try:
                await receiver_keys(receiver, self._transport)
            except (Reported, ApiError) as error:
                self.troubles.failed(("Receiver", name), error, raised=name in sure.receivers)
                continue
            good[name] = receiver
        here = {n: config.sources[n] for n in self._sources}
        effective = msgspec.structs.replace(config, receivers=good, sources=here)
        around = (self._transport, self._around.clock)
        async with AsyncExitStack() as stack:
            try:
                heard = await open_receivers(
                    effective, self.pollings, self._home.listen, around, stack,
                    self.telling.calls(),
                )  # fmt: skip
            except (Reported, ApiError) as error:
                for name in good:
                    self.troubles.failed(("Receiver", name), error, raised=name in sure.receivers)
                return
            jobs = [bell.run() for bell in heard.bells]
            self._doors.add(DOORS, heard, made_of, stack.pop_all(), jobs)
