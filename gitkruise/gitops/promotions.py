"""Promotions and rollbacks that go by themselves: who writes them, where, on which forge."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final

from gitkruise.errors import ApiError, Reported
from gitkruise.gitops.judge import Surroundings
from gitkruise.gitops.makeup import Marks, sink_of
from gitkruise.gitops.offering import Offers
from gitkruise.gitops.parts import Parts
from gitkruise.gitops.promoting import Promoter
from gitkruise.gitops.promotion_rules import check_promotion
from gitkruise.gitops.proposing import Proposer
from gitkruise.gitops.remedy import Remedy
from gitkruise.gitops.reporter import Reporter
from gitkruise.gitops.status_sinks import Writer
from gitkruise.gitops.sync import UnitSync
from gitkruise.gitops.telling.opening import open_forge
from gitkruise.gitops.troubles import Troubles
from gitkruise.model.config import Config, Unit

_HEADS: Final = "refs/heads/"
Driven = tuple[UnitSync, Reporter]


class Promotions:
    """The promotions of units that run, by unit. Without `acts` they only say where they stand."""

    def __init__(self, tasks: asyncio.TaskGroup, around: Surroundings, *, acts: bool) -> None:
        self._parts: Parts[tuple[Promoter | None, Remedy | None]] = Parts(tasks)
        self._around, self._acts = around, acts

    async def keep(self, wanted: Mapping[str, object]) -> None:
        """End those whose unit is not wanted, or is made of something else."""
        await self._parts.keep(wanted)

    async def close(self) -> None:
        await self._parts.close()

    async def open(
        self,
        marks: Marks,
        units: Mapping[str, Driven],
        writers: Mapping[str, Writer],
        told: tuple[Troubles, Config],
    ) -> None:
        """Those of `units` that have one and do not run yet; `writers` are those of Sinks.

        What cannot be made is told to the troubles, or raised for a unit of the configuration
        that is sure: UsageProblem GK7033 and GK7028, SourceFailed, and ApiError.
        """
        troubles, sure = told
        for name, driven in units.items():
            unit = driven[0].unit
            acting = unit.spec.promotion is not None or unit.spec.on_failure != "hold"
            if name in self._parts or not acting:
                continue
            async with AsyncExitStack() as stack:
                try:
                    check_promotion(marks.config, unit)
                    writer = writers[sink_of(unit)]
                    made = await _opened(marks.config, driven, writer, self._around, stack)
                except (Reported, ApiError) as error:
                    troubles.failed(("Unit", name), error, raised=name in sure.units)
                    continue
                jobs = [one.run() for one in made if one is not None and self._acts]
                self._parts.add(name, made, marks.units[name], stack.pop_all(), jobs)


async def _opened(
    config: Config, driven: Driven, writer: Writer, around: Surroundings, stack: AsyncExitStack
) -> tuple[Promoter | None, Remedy | None]:
    sync, reporter = driven
    spec, has_news = sync.unit.spec, around.standings.has_news
    proposer = await _proposer(config, sync.unit, writer, around)
    base = (sync.unit, sync, reporter, proposer)
    promoter = remedy = None
    if spec.promotion is not None:
        pulls = spec.promotion.via == "pull-request"
        offers = await _offers(config, sync.unit, proposer, stack) if pulls else None
        promoter = Promoter(*base, offers=offers, has_news=has_news)
    if spec.on_failure != "hold":
        pulls = spec.on_failure == "revert-pr"
        offers = await _offers(config, sync.unit, proposer, stack) if pulls else None
        remedy = Remedy(*base, offers=offers, has_news=has_news)
    return promoter, remedy


async def _proposer(config: Config, unit: Unit, writer: Writer, around: Surroundings) -> Proposer:
    repository, identity = writer
    branch = config.source_of(unit).spec.ref.branch
    if not branch:
        head = await asyncio.to_thread(repository.default_branch)
        branch = head.removeprefix(_HEADS)
    return Proposer(
        repository=repository,
        branch=branch,
        config=Config(config.sources, {unit.id: unit}, config.sinks),
        live=around.live,
        gates=around.gates,
        clock=around.clock,
        identity=identity,
    )


async def _offers(config: Config, unit: Unit, proposer: Proposer, stack: AsyncExitStack) -> Offers:
    sink = config.sink_of(unit)
    assert sink is not None, "checked"
    assert sink.spec.forge is not None, "checked"
    transport, clock = proposer.live.transport, proposer.clock
    forge = await open_forge(sink.spec.forge, sink.namespace, transport, clock, stack)
    return Offers(forge, proposer)
