"""A toy workload for controller tests: a ConfigMap that wants `data.pods` pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.plan import Action, Create, Delete, Event, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_reference
from gitkruise.wire.primitives.requests import ApiRequest
from tests.clock import ManualClock
from tests.kube.toy import CONFIG_MAPS, PODS, Toy

FLEET = GroupKind("", "ConfigMap")


@dataclass(frozen=True)
class Snapshot:
    owner: Obj
    pods: tuple[PodFacts, ...]
    now: datetime


def observe(view: ClusterView, key: ObjectKey, now: datetime) -> Snapshot | None:
    owner = view.get(key)
    if owner is None:
        return None
    return Snapshot(owner, tuple(view.pods_of(owner["metadata"]["uid"], key.namespace)), now)


def pod_of(owner: Obj, name: str) -> dict[str, Any]:
    meta = owner["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": {},
    }


def delete_of(pod: PodFacts) -> Delete:
    return Delete(key=pod.key, version="v1", uid=pod.uid, resource_version=pod.resource_version)


def decide(snapshot: Snapshot, _gates: Gates) -> Plan:
    """Create or delete the difference, one at a time past the first; status is the count."""
    owner, pods = snapshot.owner, snapshot.pods
    data = owner.get("data") or {}
    if "crash" in data:
        raise ZeroDivisionError(data["crash"])
    wanted = {f"{owner['metadata']['name']}-{n}" for n in range(int(data["pods"]))}
    there = {pod.name for pod in pods}
    actions: list[Action] = [
        Create(
            obj=pod_of(owner, name),
            wave=at,
            done=Event("Normal", "SuccessfulCreate", f"created pod {name}"),
            failed=Event("Warning", "FailedCreate", f"could not create pod {name}: "),
        )
        for at, name in enumerate(sorted(wanted - there))
    ]
    actions += [delete_of(pod) for pod in pods if pod.name not in wanted]
    wake = data.get("wake")
    return Plan(
        actions=tuple(actions),
        status={"pods": len(pods)},
        wake_at=snapshot.now + timedelta(seconds=float(wake)) if wake else None,
    )


WORKLOAD: Workload[Snapshot] = Workload(
    kind=FLEET, version="v1", owns=(POD,), observe=observe, decide=decide
)


@dataclass
class Stage:
    """Controllers over a Toy on a virtual clock."""

    toy: Toy = field(default_factory=Toy)
    clock: ManualClock = field(default_factory=ManualClock)
    fence: Transport | None = None  # what controllers use in place of `toy`
    workload: Workload[Snapshot] = WORKLOAD

    def __post_init__(self) -> None:
        self.controllers: Controllers | None = None

    def fleet(self, name: str, pods: int, **data: str) -> Obj:
        return self.toy.make(CONFIG_MAPS, name, data={"pods": str(pods), **data})

    def scale(self, name: str, **data: str) -> Obj:
        return self.toy.change(CONFIG_MAPS, name, {"data": data})

    def pods(self) -> list[str]:
        return sorted(name for (ref, _, name) in self.toy.objects if ref == PODS)

    def status(self, name: str) -> Any:
        return self.toy.objects[CONFIG_MAPS, "default", name].get("status")

    def writes(self) -> list[str]:
        """Writes so far, events aside: `create web-0`, `patch web`."""
        return [
            f"{r.verb} {r.name or r.body['metadata']['name']}"
            for r in self.toy.requests
            if r.verb not in {"get", "list"} and r.resource.plural != "events"
        ]

    def play(self, script: Callable[[Controllers], Coroutine[Any, Any, None]]) -> Controllers:
        """Run controllers while `script` runs; they are stopped at its end."""

        async def main() -> Controllers:
            controllers = Controllers(
                [self.workload],
                self.fence or self.toy,
                load_catalog(),
                self.clock,
                ControllerOptions(also=()),
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(controllers.run())
                await script(controllers)
                controllers.stop()
            return controllers

        return self.clock.run(main())

    def settled(self, seconds: float = 60.0) -> Controllers:
        """Run for so long."""

        async def wait(_: Controllers) -> None:
            await self.clock.sleep(seconds)

        return self.play(wait)


def without(name: str, entry: str) -> ApiRequest:
    """A request that takes an entry out of a fleet's data."""
    return ApiRequest(
        verb="patch",
        resource=CONFIG_MAPS,
        namespace="default",
        name=name,
        body={"data": {entry: None}},
    )
