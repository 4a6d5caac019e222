"""Removal of an installation from a cluster, in an order that strands and deletes no workload.

Webhooks go first: without their pods they would reject writes. Then the rights go, so that a
controller that follows its own manifests cannot apply them again, and then the processes. Only when
no process is left do finalizers and units go: a running controller would end deleted units by their
deletion policy, which may delete their objects. Every step reads the cluster, so a repeated run
continues where another one ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Conflict,
    Finding,
    InvalidObject,
    NotFound,
    TimedOut,
    UsageProblem,
)
from gitkruise.gitops.install.installer import CRD, defines_kruise
from gitkruise.gitops.install.uninstall_plan import (
    NAMED,
    InstalledObject,
    UninstallChange,
    Uninstalled,
    UninstallPlan,
    UninstallPlanner,
    objects_left,
)
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.discovery import each
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.printable import listing
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import JSON_PATCH, PODS, ApiRequest, ResourceRef

GONE_WITHIN_S: Final = 120.0  # pods end within their grace period, by default 30 s
_LOOK_S: Final = 0.5
_TRIES: Final = 3
_REPLICASETS: Final = ResourceRef("apps", "v1", "replicasets")
_GRANTS: Final = GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding")
_AGAIN: Final = ("next", "gitkruise uninstall again: it continues with what is left")
OnChange = Callable[[Uninstalled], None]


class Registration(Protocol):
    """The webhooks of a cluster as `gitkruise.webhook` registers them."""

    async def registered(self) -> list[ObjectKey]:
        """The configurations, and the CRDs with a conversion of ours. Raises ApiError."""
        ...

    async def withdraw(self) -> list[str]:
        """Take both away. Raises ApiError."""
        ...


class Uninstaller:
    """Removes one installation. `finalizer` is the one that our controller sets on units;
    `on_change` is called with every object as soon as it is gone."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        planner: UninstallPlanner,
        registration: Registration,
        *,
        finalizer: str,
        on_change: OnChange = lambda _: None,
    ) -> None:
        self._transport, self._clock = transport, clock
        self._planner, self._registration = planner, registration
        self._finalizer, self._on_change = finalizer, on_change
        self._done: list[Uninstalled] = []

    async def uninstall(self, plan: UninstallPlan) -> list[Uninstalled]:
        """Remove what the plan found; return the outcome of every object.

        Raises ClusterFailed GK4503 or GK4506, TimedOut GK4504, UsageProblem GK4505.
        """
        definitions = [t for t in plan.objects if t.key.group_kind == CRD]
        own = [t for t in definitions if t.key.name.endswith(f".{OWN_GROUP}")]
        kruise = [t for t in definitions if defines_kruise(t.key)]
        grants = [t for t in plan.objects if t.key.group_kind == _GRANTS]
        workloads = [t for t in plan.objects if t.selector]
        early = {t.key for t in (*definitions, *grants, *workloads)}
        rest = [t for t in plan.objects if t.key not in early]
        leases = [t for t in plan.written if t.ref == LEASES]
        others = [t for t in plan.written if t.ref != LEASES]
        steps: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("the leases", lambda: self._check_outsiders(leases, workloads)),
            ("the webhooks", self._withdraw),
            ("the rights", lambda: self._remove(grants)),
            ("the controllers", lambda: self._stop(workloads)),
            ("the webhooks", self._withdraw),  # a webhook that still ran may have put them back
            ("the leases", lambda: self._free(leases)),
            ("the objects of gitkruise.io", lambda: self._custom(plan.custom)),
            ("the definitions of gitkruise.io", lambda: self._remove(own)),
            ("the definitions of workloads", lambda: self._definitions(kruise)),
            ("the other objects", lambda: self._remove((*rest, *others))),
            ("the namespaces", lambda: self._spaces(plan)),
        )
        for name, step in steps:
            try:
                await step()
            except ApiError as error:
                raise ClusterFailed(self._stopped(name, error, plan)) from error
        self._done += plan.stays
        return self._done

    # Steps -----------------------------------------------------------------------------------

    async def _withdraw(self) -> None:
        deadline = self._clock.monotonic() + GONE_WITHIN_S
        while found := await self._registration.registered():
            await self._registration.withdraw()
            left = set(await self._registration.registered())
            for key in (key for key in found if key not in left):
                self._report_withdrawn(key)
            if left and self._clock.monotonic() > deadline:
                raise TimedOut(_waiting(sorted(left), "another process writes them again"))
            if left:
                await self._clock.sleep(_LOOK_S)

    def _report_withdrawn(self, key: ObjectKey) -> None:
        if key.group_kind == CRD:
            why = "its storage version alone is served: no webhook converts it any more"
            self._report(Uninstalled(key=key, change=UninstallChange.CONFIGURED, why=why))
        else:
            self._report(Uninstalled(key=key, change=UninstallChange.REMOVED))

    async def _stop(self, workloads: Sequence[InstalledObject]) -> None:
        """Delete the workloads, and come back when their pods have ended."""
        for target in workloads:
            await self._delete(target)
        deadline = self._clock.monotonic() + GONE_WITHIN_S
        while left := await self._running(workloads):
            if self._clock.monotonic() > deadline:
                raise TimedOut(_waiting(left, "a kubelet or the garbage collector is missing"))
            await self._clock.sleep(_LOOK_S)
        await self._gone(workloads)

    async def _running(self, workloads: Sequence[InstalledObject]) -> list[ObjectKey]:
        found: list[ObjectKey] = []
        for target in workloads:
            selector = ",".join(f"{name}={value}" for name, value in target.selector.items())
            for ref, kind in ((_REPLICASETS, "ReplicaSet"), (PODS, "Pod")):
                namespace = target.key.namespace
                objects = each(self._transport, ref, namespace=namespace, selector=selector)
                found += [
                    ObjectKey(ref.group, kind, namespace, obj["metadata"]["name"])
                    async for obj in objects
                ]
        return found

    async def _check_outsiders(
        self, leases: Sequence[InstalledObject], workloads: Sequence[InstalledObject]
    ) -> None:
        """Stop before the first change while a process outside of the installation holds a lease.

        An identity begins with the name of the machine, which is that of the pod.
        """
        pods = {key.name for key in await self._running(workloads)}
        holders = {t.key: _holder(t.live).rpartition("_")[0] for t in leases if _holder(t.live)}
        await self._check_ended([t for t in leases if holders.get(t.key, "") not in {"", *pods}])

    async def _check_ended(self, leases: Sequence[InstalledObject]) -> None:
        """Raise ClusterFailed GK4506 for a lease that its holder renews."""
        seen = {target.key: await self._read(target) for target in leases}
        held = [target for target in leases if _holder(seen[target.key])]
        if held:  # a holder that lives renews several times in that time
            await self._clock.sleep(max(_duration(seen[target.key]) for target in held))
        for target in held:
            now = await self._read(target)
            if _holder(now) and get(now, "spec") != get(seen[target.key], "spec"):
                raise ClusterFailed(_another(target, _holder(now)))

    async def _free(self, leases: Sequence[InstalledObject]) -> None:
        """Remove the leases of processes that have ended, the memory of ended units with them.

        A next installation would end the units in that memory by their deletion policies.
        """
        await self._check_ended(leases)
        await self._remove(leases)

    async def _custom(self, targets: Sequence[InstalledObject]) -> None:
        for target in targets:
            await self._release(target)
        await self._gone(targets)

    async def _definitions(self, targets: Sequence[InstalledObject]) -> None:
        """Remove definitions of workloads, unless objects were created since the plan."""
        for target in targets:
            objects = await self._planner.objects_of(target.live)
            if objects:
                raise UsageProblem(objects_left(target.key.name, [*map(key_of, objects)]))
        await self._remove(targets)

    async def _spaces(self, plan: UninstallPlan) -> None:
        for space in plan.spaces:
            kept = await self._planner.space_kept(space, plan)
            if kept:
                self._report(kept)
            else:
                await self._remove([space])

    # Objects ---------------------------------------------------------------------------------

    async def _remove(self, targets: Sequence[InstalledObject]) -> None:
        for target in targets:
            await self._delete(target)
        await self._gone(targets)

    async def _release(self, target: InstalledObject) -> None:
        """Take our finalizer off and delete the object in that version.

        The deletion fails when another process writes it meanwhile: a controller would set the
        finalizer again and end the unit by its deletion policy. Raises ClusterFailed GK4506.
        """
        for _ in range(_TRIES):
            live = await self._read(target)
            if live is None:
                return
            try:
                live = await self._without_finalizer(target, live)
                version = live["metadata"]["resourceVersion"]
                await self._delete(target, resourceVersion=version)
            except (Conflict, InvalidObject):
                continue
            return
        raise ClusterFailed(_another(target))

    async def _without_finalizer(self, target: InstalledObject, live: Obj) -> Obj:
        finalizers = get(live, "metadata", "finalizers", default=[])
        if self._finalizer not in finalizers:
            return live
        place = f"/metadata/finalizers/{finalizers.index(self._finalizer)}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": target.uid},
            {"op": "test", "path": place, "value": self._finalizer},
            {"op": "remove", "path": place},
        ]
        reply = await self._transport.send(
            self._request("patch", target, body=patch, content_type=JSON_PATCH)
        )
        return reply.body

    async def _delete(self, target: InstalledObject, **preconditions: str) -> None:
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {"uid": target.uid, **preconditions},
        }
        try:
            await self._transport.send(self._request("delete", target, body=body))
        except NotFound:
            return

    async def _gone(self, targets: Sequence[InstalledObject]) -> None:
        """Come back when the objects are gone; report each."""
        deadline = self._clock.monotonic() + GONE_WITHIN_S
        waiting = list(targets)
        while True:
            left = []
            for target in waiting:
                live = await self._read(target)
                if live is None:
                    self._report(Uninstalled(key=target.key, change=UninstallChange.REMOVED))
                else:
                    left.append((target, live))
            if not left:
                return
            if self._clock.monotonic() > deadline:
                raise TimedOut(
                    _waiting([t.key for t, _ in left], _held([live for _, live in left]))
                )
            waiting = [target for target, _ in left]
            await self._clock.sleep(_LOOK_S)

    async def _read(self, target: InstalledObject) -> Obj | None:
        """The object of the plan; None when it is gone or has a successor of its name."""
        key = target.key
        live = await find_object(self._transport, target.ref, key.name, key.namespace)
        return live if live is not None and live["metadata"]["uid"] == target.uid else None

    def _request(self, verb: str, target: InstalledObject, **more: Any) -> ApiRequest:
        key = target.key
        return ApiRequest(
            verb=verb, resource=target.ref, namespace=key.namespace, name=key.name, **more
        )

    def _report(self, removal: Uninstalled) -> None:
        self._done.append(removal)
        self._on_change(removal)

    def _stopped(self, step: str, error: ApiError, plan: UninstallPlan) -> Finding:
        done = {removal.key for removal in self._done if removal.change is UninstallChange.REMOVED}
        left = [target.key for target in plan.goes if target.key not in done]
        return Finding(
            code="GK4503",
            message=f"uninstall stopped at {step}: {error.message}",
            notes=(
                ("unchanged", f"{listing(left, NAMED)}, and every workload with its pods"),
                _AGAIN,
            ),
        )


def _holder(lease: Obj | None) -> str:
    return str(get(lease, "spec", "holderIdentity", default=""))


def _duration(lease: Obj | None) -> float:
    return float(get(lease, "spec", "leaseDurationSeconds", default=0))


def _held(objects: Iterable[Obj]) -> str:
    names = dict.fromkeys(
        str(name) for obj in objects for name in obj["metadata"].get("finalizers") or ()
    )
    return f"finalizers hold them: {', '.join(names)}" if names else "the cluster still has them"


def _waiting(keys: Sequence[ObjectKey], why: str) -> Finding:
    return Finding(
        code="GK4504",
        message=f"uninstall waits in vain for the end of {listing(keys, NAMED)}",
        notes=(
            ("why", why),
            ("unchanged", "every workload with its pods"),
            _AGAIN,
        ),
        object=str(keys[0]),
    )


def _another(target: InstalledObject, holder: str = "") -> Finding:
    by = f": {holder} renews it" if holder else ""
    return Finding(
        code="GK4506",
        message=f"another gitkruise process still writes {target.key}{by}",
        notes=(
            ("why", "it would end deleted units by their deletion policies, and delete objects"),
            ("unchanged", "the units that are left, and every workload with its pods"),
            ("next", "stop that process, then gitkruise uninstall again"),
        ),
        object=str(target.key),
    )
