"""One rollout foretold, then lived; `python -m tests.laws.foretell '{"replicas": 3}'` replays."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.labels import REVISION_HASH
from gitkruise.planner.workloads import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import CommittedChange, World
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.simulation.forecast import predict
from tests.clock import ManualClock
from tests.laws.live import parts
from tests.worlds import PODS, SPACE, Lab, cloneset

WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
CLONESETS: Final = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
HORIZON: Final = timedelta(minutes=30)
_SAME_WAVE_S: Final = 0.5  # nodes take whole seconds for everything, controllers milliseconds

Move = tuple[str, str]  # pod, how


@dataclass(frozen=True, kw_only=True)
class Case:
    """A finished CloneSet, what has happened to some of its pods, and the change that comes.

    `rolling` are rollingUpdate's fields of the change; `sick` pods never become ready again;
    every pod has a label `tier` out of `tiers`, by its place in name order.
    """

    replicas: int = 3
    grow: int = 0
    image: str = "app:v2"
    env: bool = False  # the change touches more than images
    min_ready_s: int = 0
    on_delete: bool = False
    rolling: dict[str, Any]
    sick: tuple[int, ...] = ()
    tiers: str = "a"

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def read(text: str) -> Case:
    raw = {"rolling": {}, **json.loads(text)}
    return Case(**{**raw, "sick": tuple(raw.get("sick", ()))})


def prepared(case: Case) -> Lab:
    """The cluster just before the change, at rest."""
    lab, web = Lab(nodes=5), cloneset(replicas=case.replicas)
    lab.apply({**web, "spec": {**web["spec"], "minReadySeconds": case.min_ready_s}})
    assert lab.run().quiet
    for at, pod in enumerate(lab.pods()):
        tier = case.tiers[at % len(case.tiers)]
        lab.patch(pod, {"metadata": {"labels": {"tier": f"tier-{tier}"}}})
        if at in case.sick:
            body = [{**c, "image": "app:unready"} for c in pod["spec"]["containers"]]
            lab.patch(pod, {"spec": {"containers": body}})
    assert lab.run().quiet
    return lab


def change(case: Case) -> ApiRequest:
    container: dict[str, Any] = {"name": "app", "image": case.image}
    if case.env:
        container["env"] = [{"name": "NEW", "value": "1"}]
    strategy: dict[str, Any] = {"type": "RollingUpdate", "rollingUpdate": case.rolling}
    if case.on_delete:
        strategy = {"type": "OnDelete", "rollingUpdate": None}
    spec = {
        "replicas": max(case.replicas + case.grow, 0),
        "template": {"spec": {"containers": [container]}},
        "updateStrategy": strategy,
    }
    return ApiRequest(
        verb="patch",
        resource=CLONESETS,
        namespace=SPACE,
        name="web",
        body={"spec": spec},
        content_type=MERGE_PATCH,
    )


def foretold(lab: Lab, write: ApiRequest) -> tuple[list[list[Move]], Obj]:
    """(steps as a plan prints them, the status they end in)."""
    forecast = predict(lab.world, [write], lab.now, profile=FAST, horizon=HORIZON)
    (prediction,) = forecast.rollouts
    steps = [[(move.pod, move.how) for move in step.moves] for step in prediction.steps]
    return steps, numbers(forecast.world)


def lived(lab: Lab, write: ApiRequest) -> tuple[list[list[Move]], Obj]:
    """The same of the live controller: informers, store, executor, over the embedded cluster."""
    seen, world = live_through(lab, write, [CLONESET], _move)
    return waves(seen), numbers(world)


def _move(record: CommittedChange) -> Move | None:
    how = what_happened(record.before, record.after)
    return (record.key.name, how) if how else None


def live_through(
    lab: Lab,
    write: ApiRequest,
    workloads: Sequence[Workload[Any]],
    read_move: Callable[[CommittedChange], Move | None],
) -> tuple[list[tuple[datetime, Move]], World]:
    """What `read_move` makes of each change of a pod, and the cluster after `HORIZON`."""
    world, clock = lab.world.fork(), ManualClock(lab.now)
    cluster = Cluster(world, clock.now)
    transport = WorldTransport(cluster)
    seen: list[tuple[datetime, Move]] = []

    async def note() -> None:
        version = world.version
        while True:
            now = await cluster.changed(version)
            for record in world.records_since(version):
                move = read_move(record) if record.key.group_kind == PODS else None
                seen.extend([(clock.now(), move)] if move else [])
            version = now

    async def main() -> None:
        controllers = Controllers(workloads, transport, load_catalog(), clock, ControllerOptions())
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(run_parts(cluster, parts(), clock)),
                group.create_task(note()),
            ]
            await transport.send(write)
            group.create_task(controllers.run())
            await clock.sleep(HORIZON.total_seconds())
            controllers.stop()
            for task in running:
                task.cancel()

    clock.run(main())
    return seen, world


def what_happened(before: Obj | None, after: Obj | None) -> str:
    if before is None:
        return "create"
    if after is None:
        return "" if before["metadata"].get("deletionTimestamp") else "delete"
    going = [bool(o["metadata"].get("deletionTimestamp")) for o in (before, after)]
    if going == [False, True]:
        return "delete"
    revisions = {o["metadata"]["labels"].get(REVISION_HASH) for o in (before, after)}
    return "in-place" if len(revisions) > 1 else ""


def waves(seen: list[tuple[datetime, Move]]) -> list[list[Move]]:
    """Moves in waves. A deletion that a creation makes good is a recreation, and one move."""
    created = sum(how == "create" for _, (_, how) in seen)
    replaced = min(created, sum(how == "delete" for _, (_, how) in seen))
    more, left = created - replaced, replaced
    steps: list[list[Move]] = []
    last: datetime | None = None
    for at, (pod, how) in seen:
        made_good = how == "delete" and left > 0
        left -= made_good
        if how == "create":
            more -= 1
            if more < 0:
                continue
        if last is None or (at - last).total_seconds() > _SAME_WAVE_S:
            steps.append([])
        steps[-1].append((pod, "recreate" if made_good else how))
        last = at
    return steps


def numbers(world: World) -> Obj:
    """The status without what tells the time."""
    obj = world.get(WEB)
    assert obj is not None
    return {name: value for name, value in obj["status"].items() if name != "conditions" and value}


def check(case: Case) -> None:
    lab, write = prepared(case), change(case)
    promised, kept = foretold(lab, write), lived(lab, write)
    assert promised[0] == kept[0], f"replay: python -m tests.laws.foretell '{case.text}'"
    assert promised[1] == kept[1], f"replay: python -m tests.laws.foretell '{case.text}'"


if __name__ == "__main__":
    check(read(sys.argv[1]))
