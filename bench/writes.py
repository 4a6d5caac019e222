"""Cost of a write to the model cluster, admission included, and of a lean one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

from bench.timing import Row, cpu
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.requests import PODS, ApiRequest, merge_request
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.client import write_status
from tests.worlds import SPACE, START, Lab, cloneset, create, pod

PODS_COUNT: Final = 200


def rows() -> Iterator[Row]:
    lab = Lab()
    lab.apply(cloneset(replicas=PODS_COUNT, maxUnavailable=PODS_COUNT))
    lab.run()
    for name, lean in (("full", False), ("lean", True)):
        world = lab.world.fork(fast_path=lean)
        for what, work in _works(world).items():
            value = cpu(work) / PODS_COUNT * 1e6
            yield Row(name=f"{what}, {name} cluster", value=value, unit="us")


def _works(world: World) -> dict[str, Callable[[], None]]:
    names = [p["metadata"]["name"] for p in world.objects(POD, SPACE)]
    turn = count()

    def status() -> None:
        number = next(turn)
        for p in world.objects(POD, SPACE):
            ready = [{**c, "lastProbeTime": f"2026-11-21T10:{number:02d}:00Z"} for c in _listed(p)]
            write_status(world, p, {**p["status"], "conditions": ready}, START, user="kubelet")

    def label() -> None:
        body = {"metadata": {"labels": {"turn": str(next(turn))}}}
        for name in names:
            world.handle(_patch(name, body), START)

    def creation() -> None:
        number = next(turn)
        for index in range(PODS_COUNT):
            made = pod(f"new-{number}-{index}")
            made["metadata"]["namespace"] = SPACE
            world.handle(create(world, made), START)

    return {
        "update a pod's status": status,
        "patch a pod's label": label,
        "create a minimal pod": creation,
    }


def _listed(p: Any) -> list[dict[str, Any]]:
    return list(p["status"]["conditions"])


def _patch(name: str, body: Any) -> ApiRequest:
    return merge_request(PODS, name, body, namespace=SPACE)
