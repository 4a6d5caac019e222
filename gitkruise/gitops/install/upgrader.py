"""Upgrade of an installation, in an order in which old and new processes find what they need.

Definitions come first and keep the versions that objects are stored in. Rights follow, then the
processes; only when the new ones are available do rights of earlier versions go, and objects are
rewritten in the storage version. Every step reads the cluster, so a repeated run continues where
another one ended. No object of a unit is written, apart from its rewriting without a change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from gitkruise import __version__
from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Conflict,
    Finding,
    NotFound,
    TimedOut,
)
from gitkruise.gitops.install.definitions import defined
from gitkruise.gitops.install.installer import (
    CRD,
    MANAGER,
    NAMESPACE,
    InstallChange,
    Installed,
    Installer,
)
from gitkruise.gitops.install.uninstall_plan import InstalledObject
from gitkruise.gitops.install.upgrade_plan import (
    DEPLOYMENTS,
    PROCESSES,
    StorageMigration,
    UpgradePlan,
    stored_versions,
)
from gitkruise.kube.client.discovery import CRDS, listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.health import Health, Phase
from gitkruise.planner.health.health import health
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ApiRequest, merge_request

AVAILABLE_WITHIN: Final = timedelta(minutes=5)
_LOOK_S: Final = 0.5
_TRIES: Final = 3
_AGAIN: Final = ("next", "gitkruise upgrade again: it continues with what is left")
Outcome = Installed | StorageMigration
OnChange = Callable[[Outcome], None]


class Upgrader:
    """Upgrades one installation; `on_change` is called with every object when it is done."""

    def __init__(
        self,
        transport: Transport,
        catalog: Catalog,
        clock: Clock,
        *,
        within: timedelta = AVAILABLE_WITHIN,
        on_change: OnChange = lambda _: None,
    ) -> None:
        self._transport, self._catalog, self._clock = transport, catalog, clock
        self._within, self._on_change = within, on_change
        self._done: list[Outcome] = []

    async def upgrade(self, plan: UpgradePlan) -> list[Outcome]:
        """Carry out a plan; return the outcome of every object.

        Raises ClusterFailed GK4501 and GK4508, TimedOut GK4502 and GK4511.
        """
        first = [obj for obj in plan.objects if key_of(obj).group_kind in {NAMESPACE, CRD}]
        processes = [obj for obj in plan.objects if key_of(obj).kind in PROCESSES]
        rest = [obj for obj in plan.objects if obj not in first and obj not in processes]
        steps: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("the definitions", lambda: self._apply(plan, first)),
            ("the rights", lambda: self._apply(plan, rest)),
            ("the processes", lambda: self._start(plan, processes)),
            ("the objects of earlier versions", lambda: self._remove(plan.removals)),
            ("the stored objects", lambda: self._migrate(plan)),
        )
        for name, step in steps:
            try:
                await step()
            except ApiError as error:
                raise ClusterFailed(_stopped(name, error)) from error
        dropped = plan.changes[len(plan.objects) :]
        for item in dropped:
            self._report(item)
        return self._done

    async def _apply(self, plan: UpgradePlan, objects: Sequence[Obj]) -> None:
        for item in await self._installer(plan).install(objects):
            self._report(item)

    async def _start(self, plan: UpgradePlan, processes: Sequence[Obj]) -> None:
        await self._apply(plan, processes)
        deadline = self._clock.monotonic() + self._within.total_seconds()
        for obj in processes:
            await self._available(key_of(obj), deadline)

    async def _available(self, key: ObjectKey, deadline: float) -> None:
        """Come back when the pods of the new template are available."""
        request = ApiRequest(
            verb="get", resource=DEPLOYMENTS, namespace=key.namespace, name=key.name
        )
        while True:
            live = (await self._transport.send(request)).body
            state = health({**live, "apiVersion": "apps/v1", "kind": key.kind})
            if state.phase is Phase.CURRENT:
                return
            if state.phase is Phase.FAILED or self._clock.monotonic() > deadline:
                raise TimedOut(_not_available(key, state))
            await self._clock.sleep(_LOOK_S)

    async def _remove(self, targets: Sequence[InstalledObject]) -> None:
        for target in targets:
            request = ApiRequest(
                verb="delete", resource=target.ref,
                namespace=target.key.namespace, name=target.key.name,
                body={
                    "kind": "DeleteOptions", "apiVersion": "v1",
                    "propagationPolicy": "Background", "preconditions": {"uid": target.uid},
                },
            )  # fmt: skip
            try:
                await self._transport.send(request)
            except NotFound:
                continue
            self._report(removal(target))

    # Stored versions ---------------------------------------------------------------------------

    async def _migrate(self, plan: UpgradePlan) -> None:
        for migration in plan.migrations:
            self._report(migration if migration.blocked else await self._rewrite(migration))
        # Only now an API server lets go of a version that objects were stored in.
        blocked = {migration.name for migration in plan.migrations if migration.blocked}
        final = [obj for obj in plan.final if key_of(obj).name not in blocked]
        await self._installer(plan).install(final)

    async def _rewrite(self, migration: StorageMigration) -> StorageMigration:
        """Write every object again, which stores it in the storage version, and record that.

        Another writer of the definition might change that version meanwhile: its record is written
        only for the definition that was read before.
        """
        name = migration.name
        for _ in range(_TRIES):
            crd = (
                await self._transport.send(ApiRequest(verb="get", resource=CRDS, name=name))
            ).body
            storage = next(v["name"] for v in crd["spec"]["versions"] if v["storage"])
            _, ref = defined(crd)
            objects = await listed(self._transport, ref)
            for obj in objects:
                await self._touch(replace(migration, ref=ref), obj)
            meta = {"resourceVersion": crd["metadata"]["resourceVersion"]}
            body = {"metadata": meta, "status": {"storedVersions": [storage]}}
            trim = merge_request(CRDS, name, body, MANAGER, subresource="status")
            if stored_versions(crd) == (storage,):
                return replace(migration, storage=storage, objects=len(objects))
            try:
                await self._transport.send(trim)
            except Conflict:
                continue
            return replace(migration, storage=storage, objects=len(objects))
        raise ClusterFailed(_changing(name))

    async def _touch(self, migration: StorageMigration, obj: Obj) -> None:
        meta = obj["metadata"]
        space = meta.get("namespace") or ""
        request = merge_request(migration.ref, meta["name"], {}, MANAGER, namespace=space)
        try:
            await self._transport.send(request)
        except NotFound:
            return

    def _installer(self, plan: UpgradePlan) -> Installer:
        return Installer(self._transport, self._catalog, self._clock, plan.options)

    def _report(self, outcome: Outcome) -> None:
        self._done.append(outcome)
        self._on_change(outcome)


def removal(target: InstalledObject) -> Installed:
    """Outcome for an object of an earlier version."""
    why = f"{__version__} does not have it"
    return Installed(key=target.key, change=InstallChange.REMOVED, why=why)


def _stopped(step: str, error: ApiError) -> Finding:
    return Finding(
        code="GK4508",
        message=f"upgrade stopped at {step}: {error.message}",
        notes=(
            ("unchanged", "the steps after it, and every workload with its pods"),
            _AGAIN,
        ),
    )


def _changing(name: str) -> Finding:
    return Finding(
        code="GK4508",
        message=f"upgrade stopped at the stored objects: {name} changes all the time",
        notes=(("why", "another process writes the definition"), _AGAIN),
        object=f"CustomResourceDefinition {name}",
    )


def _not_available(key: ObjectKey, state: Health) -> Finding:
    seen = f"{state.reason}: {state.message}".strip(": ")
    kept = "objects of earlier versions, stored objects, and every workload with its pods"
    back = "with the earlier gitkruise: gitkruise upgrade --downgrade"
    return Finding(
        code="GK4511",
        message=f"{key} does not become available after the upgrade",
        notes=(
            ("seen", seen or str(state.phase)),
            ("unchanged", f"{kept}; rollouts wait for a controller"),
            ("next", f"kubectl describe pods -n {key.namespace}, then gitkruise upgrade again"),
            ("or", back),
        ),
        object=str(key),
    )
