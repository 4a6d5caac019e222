"""A cluster with one installation, for tests of its removal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gitkruise.gitops.install.installer import (
    InstallChange,
    Installer,
    InstallOptions,
    manifests,
)
from gitkruise.gitops.install.uninstall_plan import (
    UninstallChange,
    Uninstalled,
    UninstallOptions,
    UninstallPlanner,
)
from gitkruise.gitops.install.uninstaller import Uninstaller
from gitkruise.gitops.resources.declared import FINALIZER
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.webhook.registration import Address, Registrar
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.world.kubelet.profiles import FAST
from tests.clock import ManualClock
from tests.worlds import START, cloneset, create, empty_world, parts_of

SPACE: Final = "gitkruise-system"
SERVICE: Final = Address(namespace=SPACE, service="gitkruise-webhook")
CRD: Final = "CustomResourceDefinition"
RBAC: Final = "rbac.authorization.k8s.io"
UNIT: Final = {
    "apiVersion": "gitkruise.io/v1alpha1",
    "kind": "Unit",
    "metadata": {"name": "web", "namespace": "shop", "finalizers": [FINALIZER]},
    "spec": {"sourceRef": {"name": "src"}, "path": "web", "prune": {"deletionPolicy": "Delete"}},
}
Script = Callable[["Hall"], Coroutine[Any, Any, None]]


class Hall:
    """A cluster with namespaces, garbage collection and nodes, and one installation."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.world = empty_world()
        self.cluster = Cluster(self.world, self.clock.now)
        self.transport = WorldTransport(self.cluster)
        self.registrar = Registrar(self.transport, SERVICE)

    def run(self, script: Script) -> None:
        async def main() -> None:
            async with alongside(run_parts(self.cluster, parts_of(FAST), self.clock)):
                await script(self)

        self.clock.run(main())

    async def install(self, **flags: Any) -> None:
        options = InstallOptions(**flags)
        installer = Installer(self.transport, load_catalog(), self.clock, options)
        done = await installer.install(manifests(options))
        assert {item.change for item in done} <= {InstallChange.CREATED, InstallChange.UNCHANGED}

    async def uninstall(self, **flags: Any) -> list[Uninstalled]:
        planner = UninstallPlanner(self.transport, load_catalog(), UninstallOptions(**flags))
        uninstaller = Uninstaller(
            self.transport, self.clock, planner, self.registrar, finalizer=FINALIZER
        )
        return await uninstaller.uninstall(await planner.plan())

    async def create(self, obj: Obj) -> None:
        await self.transport.send(create(self.world, obj))
        await asyncio.sleep(0)

    def all(self) -> dict[ObjectKey, Obj]:
        """Every object of the cluster."""
        kinds = {kind.group_kind for kind in self.world.catalog.kinds()}
        return {
            key_of(obj): obj
            for kind in kinds
            for obj in self.world.objects(kind)
            if kind.kind != "Event"
        }

    def has(self, kind: str, name: str, namespace: str = "", group: str = "") -> bool:
        return self.world.get(ObjectKey(group, kind, namespace, name)) is not None


def stays(done: list[Uninstalled]) -> dict[str, str]:
    """Reasons of what stays, by kind and name."""
    return {str(i.key): i.why for i in done if i.change is UninstallChange.STAYS}


def web(**spec: Any) -> Obj:
    obj = cloneset(**spec)
    return {**obj, "metadata": {**obj["metadata"], "namespace": "shop"}}


def config_map(name: str, namespace: str = SPACE) -> Obj:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}}
