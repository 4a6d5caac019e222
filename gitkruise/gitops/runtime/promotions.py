"""Promotions, rollbacks and newer images that go by themselves: who writes them, where, on which
forge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from gitkruise.errors import ApiError, DiagnosticError
from gitkruise.git.plumbing.refs import HEADS
from gitkruise.gitops.actions.image_automation import ImageUpdater, image_branch
from gitkruise.gitops.actions.on_failure import FailureHandler
from gitkruise.gitops.actions.promotion import Promoter
from gitkruise.gitops.actions.proposals import Proposer
from gitkruise.gitops.actions.pull_requests import ActionPullRequests
from gitkruise.gitops.actions.withdrawals import Withdrawals, proposed_by
from gitkruise.gitops.analysis.analyst import Analyst
from gitkruise.gitops.cluster.impersonation import account_of, acting_as
from gitkruise.gitops.config.fingerprints import Fingerprints, forge_place, sink_of
from gitkruise.gitops.config.promotion_checks import check_promotion
from gitkruise.gitops.forges.factory import open_forge
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.gitops.images.tags import TagReader
from gitkruise.gitops.preview.inputs import units_by_branch
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.runtime.component_errors import ComponentErrors
from gitkruise.gitops.runtime.components import ComponentSet
from gitkruise.gitops.status.sinks import Writer
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.model.gitops.config import Config, Sink, Unit

Driven = tuple[UnitReconciler, Reporter]
_Acting = Promoter | FailureHandler | ImageUpdater


class Promotions:
    """The promotions of units that run, by unit. Without `acts` they only say where they stand."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        context: UnitContext,
        whole: Callable[[], Config],
        *,
        acts: bool,
    ) -> None:
        """`whole` returns the configuration with the units of other shards."""
        self._parts: ComponentSet[tuple[_Acting | None, ...]] = ComponentSet(
            "Unit", tasks, context.containment, context.clock
        )
        self._withdrawals: ComponentSet[Withdrawals] = ComponentSet(
            "Sink", tasks, context.containment, context.clock
        )
        self._context, self._whole, self._acts = context, whole, acts
        self._left = set[str]()

    async def keep(self, marks: Fingerprints) -> None:
        """End those whose unit or Sink is not wanted, or is made of something else."""
        await self._withdrawals.keep(marks.sinks)
        await self._parts.keep(marks.units)

    async def close(self) -> None:
        await self._withdrawals.close()
        await self._parts.close()

    def left(self, unit: str) -> None:
        """Withdraw the pull requests of a unit that left the configuration."""
        self._left.add(unit)
        for one in self._withdrawals.values():
            one.look_again()

    async def open(
        self,
        marks: Fingerprints,
        units: Mapping[str, Driven],
        writers: Mapping[str, Writer],
        *,
        errors: ComponentErrors,
        required: Config,
    ) -> None:
        """Start the promotions of `units` that do not run yet; `writers` are those of Sinks.

        Errors are recorded, or raised for a required unit: UsageProblem GK7033 and GK7028,
        SourceFailed, and ApiError.
        """
        for name, driven in units.items():
            unit = driven[0].unit
            if name in self._parts or not _acts(unit):
                continue
            async with AsyncExitStack() as stack:
                try:
                    with self._context.containment.of(f"Unit {name}: its promotion"):
                        check_promotion(marks.config, unit)
                        writer = writers[sink_of(unit)]
                        proposer = await _proposer(
                            marks.config, driven[0].unit, writer, self._context, self._whole
                        )
                    made = await _opened(marks.config, driven, proposer, self._context, stack)
                except (DiagnosticError, ApiError) as error:
                    errors.failed(("Unit", name), error, raised=name in required.units)
                    continue
                jobs = [one.run for one in made if one is not None and self._acts]
                self._parts.add(name, made, marks.units[name], stack.pop_all(), jobs)
        self._look_for_obsolete(marks, writers)

    def _look_for_obsolete(self, marks: Fingerprints, writers: Mapping[str, Writer]) -> None:
        """Withdraw pull requests that no unit asks for any more, by one Sink of each repository."""
        config = marks.config
        places = {n: forge_place(s) for n, s in sorted(config.sinks.items())}
        for name, place in places.items():
            first = next(n for n, other in places.items() if other == place)
            if place is None or name not in writers or name != first:
                continue
            if name not in self._withdrawals:
                one = self._withdrawing(config.sinks[name], writers[name])
                jobs = [one.run] if self._acts else []
                self._withdrawals.add(name, one, marks.sinks[name], AsyncExitStack(), jobs)
            asked = {
                n: proposed_by(u) if places.get(sink_of(u)) == place else frozenset[str]()
                for n, u in config.units.items()
            }
            self._withdrawals[name].expect(asked)

    def _withdrawing(self, sink: Sink, writer: Writer) -> Withdrawals:
        context, spec = self._context, sink.spec.forge
        assert spec is not None

        @asynccontextmanager
        async def opened() -> AsyncIterator[ForgeRepository]:
            async with AsyncExitStack() as stack:
                transport = context.live.transport
                yield await open_forge(spec, sink.namespace, transport, context.clock, stack)

        return Withdrawals(
            f"{sink.namespace}/{sink.name}", opened, writer, context.cluster, context.clock,
            left=self._left, containment=context.containment,
        )  # fmt: skip


async def _opened(
    config: Config, driven: Driven, proposer: Proposer, context: UnitContext, stack: AsyncExitStack
) -> tuple[_Acting | None, ...]:
    sync, reporter = driven
    spec, edge = sync.unit.spec, context.containment

    def has_news(unit: str) -> bool:
        """Return whether the record of a unit may be out of date: no round runs while passive."""
        return context.authority.passive or context.standings.has_news(unit)

    promoter = failure_handler = updater = None
    if spec.promotion is not None:
        pulls = spec.promotion.via == "pull-request"
        offers = await _offers(config, sync.unit, proposer, stack) if pulls else None
        analyst = Analyst(
            sync.unit, context.live.transport, context.clock,
            workers=context.workers, memory=context.analysis,
        )  # fmt: skip
        promoter = Promoter(
            sync.unit, sync, reporter, proposer,
            pull_requests=offers, analyst=analyst, has_news=has_news, containment=edge,
        )  # fmt: skip
    if spec.on_failure != "hold":
        pulls = spec.on_failure == "revert-pr"
        offers = await _offers(config, sync.unit, proposer, stack) if pulls else None
        failure_handler = FailureHandler(
            sync.unit,
            sync,
            reporter,
            proposer,
            pull_requests=offers,
            has_news=has_news,
            containment=edge,
        )
    writes = {image.write for image in spec.images} - {"none"}
    if writes:
        pulls = "pullRequest" in writes
        offers = await _offers(config, sync.unit, proposer, stack) if pulls else None
        transport = acting_as(account_of(sync.unit), context.live.transport)
        updater = ImageUpdater(
            sync, reporter, proposer,
            pull_requests=offers, branch=image_branch(context.cluster, sync.unit),
            reader=TagReader(unit=sync.unit, transport=transport, clock=context.clock),
            has_news=has_news, containment=edge,
        )  # fmt: skip
    return promoter, failure_handler, updater


def _acts(unit: Unit) -> bool:
    """Return whether commits for a unit are written without a user."""
    spec = unit.spec
    followed = any(image.write != "none" for image in spec.images)
    return spec.promotion is not None or spec.on_failure != "hold" or followed


async def _proposer(
    config: Config,
    unit: Unit,
    writer: Writer,
    context: UnitContext,
    whole: Callable[[], Config],
) -> Proposer:
    branch = config.source_of(unit).spec.ref.branch
    if not branch:
        head = await asyncio.to_thread(writer.repository.default_branch)
        branch = head.removeprefix(HEADS)
    return Proposer(
        repository=writer.repository,
        branch=branch,
        config=Config(config.sources, {unit.id: unit}, config.sinks),
        live=context.live,
        gates=context.gates,
        clock=context.clock,
        identity=writer.identity,
        renew=writer.renew,
        others=lambda: _others(whole(), config, unit, branch),
    )


def _others(whole: Config, config: Config, unit: Unit, branch: str) -> Config:
    """Return the other units that follow the branch of the repository of `unit`."""
    url = config.source_of(unit).spec.url
    of_branch = units_by_branch(whole, branch).get(branch, whole).units
    units = {
        name: one
        for name, one in of_branch.items()
        if name != unit.id and whole.source_of(one).spec.url == url
    }
    return Config(whole.sources, units, whole.sinks)


async def _offers(
    config: Config, unit: Unit, proposer: Proposer, stack: AsyncExitStack
) -> ActionPullRequests:
    sink = config.sink_of(unit)
    assert sink is not None, "checked"
    assert sink.spec.forge is not None, "checked"
    transport, clock = proposer.live.transport, proposer.clock
    forge = await open_forge(sink.spec.forge, sink.namespace, transport, clock, stack)
    return ActionPullRequests(forge, proposer)
