"""A cluster with all its loops, and objects of every kind in it; what its loops log is kept."""

from __future__ import annotations

import logging
from collections import Counter
from random import Random  # noqa: TID251  drawn from a seed
from typing import Final

from gitkruise.admission.conversion.registry import convert
from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.health.health import health
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.http.negotiation import ResponseForm
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.sandbox.server import SandboxOptions, parts_of
from gitkruise.sandbox.tables.tables import Shaper
from gitkruise.world.api.cluster import World
from tests.admitted import Admitting
from tests.clock import ManualClock
from tests.worlds import START, empty_world

TABLE: Final = ResponseForm("Table", "meta.k8s.io", "v1")
STEP_S: Final = 0.9


class Log(logging.Handler):
    """Keeps the records of exceptions."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(logging.Formatter().format(record))


def play(seed: int, objects: int, gates: Gates | None = None) -> tuple[Counter[str], list[str]]:
    """Admit so many objects, a second apart, with every loop of the cluster running.

    Return what was admitted by kind, and the exceptions that reached the log.
    """
    chosen = gates or Gates()
    clock, world = ManualClock(START), empty_world(seed=seed, gates=chosen)
    bootstrap(world, START, nodes=2)
    cluster = Cluster(world, clock.now)
    admitting, log = Admitting(world, Random(seed)), Log()
    controllers = Controllers(
        EMBEDDED, WorldTransport(cluster), world.catalog, clock, ControllerOptions(gates=chosen)
    )

    async def admit() -> None:
        parts = parts_of(SandboxOptions(profile="fast"))
        async with alongside(run_parts(cluster, parts, clock), controllers.run()):
            while sum(admitting.admitted.values()) < objects:
                admitting.step(clock.now())
                cluster.publish()
                await clock.sleep(STEP_S)
            await clock.sleep(60)
            read_all(world, clock)

    logging.getLogger().addHandler(log)
    try:
        clock.run(admit())
    finally:
        logging.getLogger().removeHandler(log)
    return admitting.admitted, log.records


def read_all(world: World, clock: ManualClock) -> None:
    """Show every object as kubectl does, and judge its health."""
    shaper = Shaper(clock.now)
    for kind in world.catalog.kinds():
        for obj in world.objects(kind.group_kind):
            served = convert(obj, kind.version)
            shaper.shape(served, kind, TABLE, include="Metadata")
            health(served, now=clock.now())
