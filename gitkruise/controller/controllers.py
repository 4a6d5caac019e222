"""A set of controllers over one cluster: their informers, store, executor, events and runners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gitkruise.controller.executor import Executor
from gitkruise.controller.repair import Repairer
from gitkruise.controller.runner import WORKERS, Runner, Tools
from gitkruise.kube.cache.informer import Informer, WatchOutages
from gitkruise.kube.cache.layered import LayeredCache
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.discovery import require
from gitkruise.kube.client.events import Recorder
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind, ObjectKey

PULL_JOB: Final = GroupKind("apps.kruise.io", "ImagePullJob")
RECREATE: Final = GroupKind("apps.kruise.io", "ContainerRecreateRequest")
LAST_EVENTS_S: Final = 2.0  # how long stopping waits for events still to be written


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Options of controllers. `namespace` "" follows all.

    `also` are kinds that planners read next to those they own; rounds do not wait for them, so
    they may be forbidden. `drives` returns whether an object is driven here: others are left to
    other processes.
    """

    gates: Gates = field(default_factory=Gates)
    namespace: str = ""
    workers: int = WORKERS
    drives: Callable[[ObjectKey], bool] = lambda _: True
    also: tuple[GroupKind, ...] = (GroupKind("", "Node"),)


class Controllers:
    """Everything between a Transport and its planners.

    `catalog` must be what the cluster serves. `store` is a cache over another one, whose owner
    follows the kinds that it shares; by default everything is followed here. Raises ClusterFailed
    GK4201 for kinds that the cluster does not serve.
    """

    def __init__(
        self,
        workloads: Sequence[Workload[Any]],
        transport: Transport,
        catalog: Catalog,
        clock: Clock,
        options: ControllerOptions | None = None,
        store: LayeredCache | None = None,
        *,
        outages: WatchOutages | None = None,
    ) -> None:
        outages = outages or WatchOutages()
        options = options or ControllerOptions()
        self.store: InformerCache = store or InformerCache()
        shared = store.shared if store is not None else frozenset()
        self.recorder = Recorder(transport, clock)
        self._clock = clock
        gates = possible(options.gates, catalog)
        self.informers = [
            Informer(feed, transport, self.store, clock, outages=outages)
            for feed in feeds(workloads, catalog, replace(options, gates=gates))
            if feed.group_kind not in shared
        ]
        tools = Tools(
            store=self.store,
            executor=Executor(transport, self.store, catalog, self.recorder),
            recorder=self.recorder,
            clock=clock,
            gates=gates,
            drives=options.drives,
        )
        self.runners = [Runner(w, tools, workers=options.workers) for w in workloads]
        self._repairer = Repairer(self.store, transport, clock, self.recorder, options.drives)

    def informer_of(self, feed: Feed) -> Informer | None:
        """Return the informer that shows every object of `feed`, and perhaps others; or None."""
        return next((one for one in self.informers if one.shows(feed)), None)

    @property
    def idle(self) -> bool:
        """No round runs or is due now."""
        return all(runner.idle for runner in self.runners)

    def stop(self) -> None:
        """Let running rounds finish; then `run` returns."""
        for runner in self.runners:
            runner.stop()

    async def run(self) -> None:
        """Until `stop` or cancellation."""
        async with asyncio.TaskGroup() as background:
            tasks = [background.create_task(informer.run()) for informer in self.informers]
            tasks.append(background.create_task(self.recorder.run()))
            tasks.append(background.create_task(self._repairer.run()))
            async with asyncio.TaskGroup() as rounds:
                for runner in self.runners:
                    rounds.create_task(runner.run())
            try:
                async with self._clock.timeout(LAST_EVENTS_S):
                    await self.recorder.flush()
            except TimeoutError:
                self.recorder.dropped += 1
            for task in tasks:
                task.cancel()


def possible(gates: Gates, catalog: Catalog) -> Gates:
    """`gates` without what the cluster cannot do: pull jobs or recreate requests it serves not."""
    if catalog.by_kind(PULL_JOB.group, "v1beta1", PULL_JOB.kind) is None:
        gates = replace(gates, pre_download_image_for_in_place_update=False)
    if catalog.by_kind(RECREATE.group, "v1beta1", RECREATE.kind) is None:
        gates = replace(gates, sidecar_terminator=False)
    return gates


def feeds(
    workloads: Sequence[Workload[Any]], catalog: Catalog, options: ControllerOptions
) -> list[Feed]:
    """One feed a kind, in the version its workload speaks or the cluster prefers."""
    versions: dict[GroupKind, str] = {}
    asked = _asked(options.gates)
    owned = (kind for w in workloads for kind in (*w.owns, *w.watches, *w.also_watches))
    for kind in (*owned, *options.also, *asked):
        found = catalog.preferred(*kind)
        versions.setdefault(kind, found.version if found else "v1")
    versions |= {workload.kind: workload.version for workload in workloads}
    fields = {kind: text for workload in workloads for kind, text in workload.fields.items()}
    only = {kind: end for workload in workloads for kind, end in workload.only.items()}
    return [
        Feed(
            ref=kind.ref,
            kind=kind.kind,
            namespace=options.namespace if kind.namespaced else "",
            field_selector=fields.get(kind.group_kind, ""),
            name_ends=only.get(kind.group_kind, ""),
        )
        for kind in require(catalog, versions.items())
    ]


def _asked(gates: Gates) -> Iterator[GroupKind]:
    """Kinds that are looked at under some gates only."""
    if gates.pre_download_image_for_in_place_update:
        yield PULL_JOB
    if gates.sidecar_terminator:
        yield RECREATE
