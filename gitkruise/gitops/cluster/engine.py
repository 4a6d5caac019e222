"""The engine that drives the pods: gitkruise's own controllers, or OpenKruise's manager."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ClusterFailed, Finding, Forbidden, Severity
from gitkruise.gitops.cluster.lease_renewals import renewed_meanwhile
from gitkruise.kube.cache.informer import Informer
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import wait_for
from gitkruise.kube.system.lease_terms import EMBEDDED_HOLDER, is_held_for_good
from gitkruise.kube.system.package_data import KRUISE_GROUPS
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET, SIDECARSET
from gitkruise.printable import listing
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, ObjectKey
from gitkruise.wire.primitives.paths import drop, get
from gitkruise.wire.primitives.requests import ApiRequest, apply_request
from gitkruise.wire.primitives.times import format_micro_time, format_time, parse_time

if TYPE_CHECKING:
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.config import Unit
    from gitkruise.wire.catalog.catalog import Catalog
    from gitkruise.wire.primitives.names import Obj

KRUISE_NAMESPACE: Final = "kruise-system"
KRUISE_LEASE: Final = "kruise-manager"
LEASE_NAMESPACE: Final = "kube-system"
WORKLOADS_LEASE: Final = "gitkruise-workloads"
HEEDS_CANARIES: Final = "gitkruise.io/heeds-canaries"  # on that lease: who pauses at canaries
BY_CONTROLLER, STEERED = "true", "steered"  # the Deployment controller itself; gitkruise next to it
OWN, KRUISE, AUTO = "own", "kruise", "auto"
DRIVEN_VERSION: Final = "v1beta1"  # of OpenKruise's workloads
_DRIVEN: Final = frozenset({CLONESET, SIDECARSET, ADVANCED_STATEFULSET})
_NAMED: Final = 10  # objects in one message
UPGRADE_KINDS: Final = (
    "start OpenKruise's manager; or let rollouts end, then gitkruise install --crds --take-over"
)
_LEASE: Final = GroupKind(LEASES.group, "Lease")
_MANAGER: Final = Feed(
    ref=LEASES, kind=_LEASE.kind, namespace=KRUISE_NAMESPACE,
    field_selector=f"metadata.name={KRUISE_LEASE}",
)  # fmt: skip
_SILENT: Final = timedelta(seconds=5)  # between looks at the time since the last renewal
log = logging.getLogger(__name__)


class Engine:
    """The engine that drives the pods of this process: once chosen, it changes in one direction.

    OpenKruise's manager looks at no Lease of ours. When it starts later it gets the pods, for a
    second engine would undo its work. `alive`: it was at work when the engine was chosen.
    """

    def __init__(self, name: str, *, alive: bool = False) -> None:
        self.name, self.alive = name, alive
        self.given_up = asyncio.Event()  # set when our own engine has to stop
        self.silence = ""  # why OpenKruise's manager drives nothing, if it should

    def problems(self, keys: Iterable[ObjectKey], asked: str) -> Iterator[Finding]:
        """Yield GK4402 for a unit that asked for our own engine and lost it, and GK4404 for those
        of `keys` that OpenKruise should drive while it is silent."""
        if (self.name, asked) == (KRUISE, OWN) and not self.silence:
            effect = ("effect", "commits are applied; OpenKruise drives the pods")
            yield replace(_manager_runs(effect), severity=Severity.WARNING)
        those = sorted(key for key in keys if key.group in KRUISE_GROUPS)
        if self.name == KRUISE and self.silence and those:
            yield Finding(
                code="GK4404",
                severity=Severity.WARNING,
                message=f"no engine drives {listing(those, _NAMED)}: {self.silence}",
                notes=(
                    ("unchanged", "the pods"),
                    ("next", f"kubectl get pods,leases -n {KRUISE_NAMESPACE}"),
                    ("or", "start gitkruise again: without engine kruise, it drives them itself"),
                ),
            )

    def give_up(self) -> None:
        """Leave the pods to OpenKruise."""
        if self.name == OWN:
            self.name = KRUISE
            self.given_up.set()
            log.warning(log_line("pods-given-up", engine=KRUISE, lease=KRUISE_LEASE))


class ManagerWatch:
    """Watch of the Lease of OpenKruise's manager, which decides over `engine`. While there is no
    such Lease it costs a request in five minutes."""

    def __init__(self, engine: Engine, transport: Transport, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        store = InformerCache()
        self._informer = Informer(_MANAGER, transport, store, clock)
        self._store, self._moved = store, asyncio.Event()
        store.subscribe(lambda _: self._moved.set())
        self._spec: Obj | None = None  # of the Lease, when it was last seen
        self._moved_at = clock.monotonic() if engine.alive else float("-inf")

    async def run(self, changed: Callable[[], None]) -> None:
        """Watch for ever, and call `changed` at news: the manager is at work, and gets the pods,
        or it is silent."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            await self._informer.synced.wait()
            while True:
                known = self._engine.name, self._engine.silence
                self._moved.clear()
                self._judge()
                if known != (self._engine.name, self._engine.silence):
                    changed()
                limit = _SILENT if self._engine.name == KRUISE else None
                await wait_for(self._moved, self._clock, limit)

    def _judge(self) -> None:
        lease = self._store.get(ObjectKey(*_LEASE, KRUISE_NAMESPACE, KRUISE_LEASE)) or {}
        now = self._clock.monotonic()
        spec = get(lease, "spec", default={})
        if self._spec is not None and self._spec != spec:
            self._moved_at = now
        self._spec = spec
        held = bool(spec.get("holderIdentity"))
        moves = now - self._moved_at <= _patience(lease).total_seconds()
        if held and (moves or is_renewed(lease, self._clock.now())):
            self._engine.silence = ""
            self._engine.give_up()
        else:
            self._engine.silence = silence(lease)


async def kruise_is_alive(transport: Transport, now: datetime) -> bool:
    """Return whether kruise-manager renewed its leader lease within twice the lease's duration."""
    lease = await _lease(transport, KRUISE_NAMESPACE, KRUISE_LEASE)
    if lease is None:
        return False
    holder = get(lease, "spec", "holderIdentity", default="")
    return bool(holder) and is_renewed(lease, now)


async def kruise_is_at_work(transport: Transport, clock: Clock) -> bool:
    """Return whether kruise-manager holds its leader lease, also where its clock is behind ours."""
    if await kruise_is_alive(transport, clock.now()):
        return True

    async def spec(name: str) -> Obj:
        found: Obj = get(await _lease(transport, KRUISE_NAMESPACE, name), "spec", default={})
        return found

    return bool(await renewed_meanwhile({KRUISE_LEASE: await spec(KRUISE_LEASE)}, spec, clock))


def silence(lease: Obj) -> str:
    """Return since when OpenKruise's manager has not renewed its `lease`."""
    renewed = parse_time(get(lease, "spec", "renewTime"))
    if renewed is None or not get(lease, "spec", "holderIdentity"):
        return "OpenKruise's manager holds no Lease"
    return f"OpenKruise's manager has not renewed its Lease since {format_time(renewed)}"


def is_renewed(lease: Obj, now: datetime) -> bool:
    """Return whether a lease was renewed within twice its duration."""
    renewed = parse_time(get(lease, "spec", "renewTime"))
    return renewed is not None and now < renewed + _patience(lease)


def _patience(lease: Obj) -> timedelta:
    return 2 * timedelta(seconds=int(get(lease, "spec", "leaseDurationSeconds", default=15)))


async def heeds_canaries(transport: Transport) -> bool:
    """Return whether rollouts of Deployments pause at their canaries. Raises ApiError.

    The Deployment controller of an embedded cluster pauses them; next to Kubernetes' own, gitkruise
    does where it drives the workloads.
    """
    return bool(await _canaries(transport))


async def steers_canaries(transport: Transport) -> bool:
    """Return whether gitkruise leads another Deployment controller to canaries. Raises ApiError."""
    return await _canaries(transport) == STEERED


async def _canaries(transport: Transport) -> str:
    lease = await _lease(transport, LEASE_NAMESPACE, WORKLOADS_LEASE)
    return str(get(lease, "metadata", "annotations", HEEDS_CANARIES, default=""))


async def withdraw_canaries(transport: Transport) -> None:
    """Remove the mark that gitkruise leads Deployments to canaries. Raises ApiError."""
    lease = await _lease(transport, LEASE_NAMESPACE, WORKLOADS_LEASE)
    path = ("metadata", "annotations", HEEDS_CANARIES)
    if lease is None or get(lease, *path) != STEERED:
        return
    await transport.send(
        ApiRequest(
            verb="update", resource=LEASES, namespace=LEASE_NAMESPACE, name=WORKLOADS_LEASE,
            body=drop(lease, path),
        )
    )  # fmt: skip


async def choose_engine(transport: Transport, engines: set[str], clock: Clock) -> Engine:
    """Return the one engine of this process; with OpenKruise, no Deployment is led to canaries.

    Raises ClusterFailed GK4401, GK4402 on a conflict.

    Two engines on one object corrupt it. Units must therefore not name different engines, and our
    own is refused while OpenKruise's manager is alive.
    """
    firm = engines - {AUTO}
    if len(firm) > 1:
        raise ClusterFailed(
            Finding(
                code="GK4401",
                message="units of one process ask for different engines",
                notes=(
                    ("why", "two engines on one CloneSet would undo each other's work"),
                    ("next", "set workloads.engine to the same word on all units"),
                ),
            )
        )
    alive = await kruise_is_at_work(transport, clock)
    if OWN in firm and alive:
        raise ClusterFailed(_manager_runs(("unchanged", "nothing was applied")))
    if not alive and KRUISE not in firm:
        return Engine(OWN)
    await withdraw_canaries(transport)
    return Engine(KRUISE, alive=alive)


def _manager_runs(effect: tuple[str, str]) -> Finding:
    return Finding(
        code="GK4402",
        message="OpenKruise's manager is running, and engine: own was asked for",
        notes=(
            ("why", "two engines on one CloneSet would undo each other's work"),
            effect,
            ("next", "set workloads.engine: kruise; or stop kruise-manager, and start gitkruise"),
        ),
    )


def undriven(keys: Iterable[ObjectKey], catalog: Catalog) -> Iterator[Finding]:
    """Yield GK4403 for each kind of `keys` that the cluster serves in versions only that our own
    engine does not drive."""
    by_kind: dict[GroupKind, list[ObjectKey]] = {}
    for key in sorted(key for key in keys if key[:2] in _DRIVEN):
        by_kind.setdefault(key.group_kind, []).append(key)
    for kind, those in by_kind.items():
        if served := _older_versions(kind, catalog):
            yield Finding(
                code="GK4403",
                message=f"no engine drives the pods of {listing(those, _NAMED)}: this cluster"
                f" serves {kind.kind} in {served}, and gitkruise drives {DRIVEN_VERSION}",
                notes=(("unchanged", "the pods"), ("next", UPGRADE_KINDS)),
            )


def _older_versions(kind: GroupKind, catalog: Catalog) -> str:
    """Return the versions in which a cluster serves a workload, if none is the one that we drive;
    otherwise ""."""
    served = [k.version for k in catalog.kinds() if k.group_kind == kind and k.verbs]
    return "" if DRIVEN_VERSION in served else ", ".join(served)


async def delegated_by(
    transport: Transport, units: Mapping[ObjectKey, Unit], now: datetime
) -> frozenset[ObjectKey]:
    """Return the objects of `units` whose pods OpenKruise drives; if its lease may not be read, it
    is assumed to be alive."""
    alive = any(unit.spec.workloads.engine == AUTO for unit in units.values())
    if alive:
        with suppress(Forbidden):
            alive = await kruise_is_alive(transport, now)
    driving = {KRUISE, AUTO} if alive else {KRUISE}
    return frozenset(key for key, u in units.items() if u.spec.workloads.engine in driving)


async def hold_workloads(transport: Transport, now: datetime, marks: Mapping[str, str]) -> None:
    """Hold the lease of the workload controllers for good, for an embedded cluster.

    `marks` say what its controllers can do. Raises ApiError.
    """
    instant = format_micro_time(now)
    spec = {
        "holderIdentity": EMBEDDED_HOLDER,
        "leaseDurationSeconds": 10 * 365 * 24 * 3600,
        "acquireTime": instant,
        "renewTime": instant,
    }
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "namespace": LEASE_NAMESPACE,
            "name": WORKLOADS_LEASE,
            "annotations": dict(marks),
        },
        "spec": spec,
    }
    await transport.send(
        apply_request(LEASES, body, "gitkruise-sandbox", namespace=LEASE_NAMESPACE, force=True)
    )


async def release_workloads(transport: Transport) -> None:
    """Undo what an earlier run with controllers inside left: the lease held for good."""
    lease = await _lease(transport, LEASE_NAMESPACE, WORKLOADS_LEASE)
    if lease is not None and is_held_for_good(lease):
        request = ApiRequest(
            verb="delete", resource=LEASES, namespace=LEASE_NAMESPACE, name=WORKLOADS_LEASE
        )
        await transport.send(request)


async def _lease(transport: Transport, namespace: str, name: str) -> Obj | None:
    """Return a Lease, None where there is none. Raises ApiError."""
    return await find_object(transport, LEASES, name, namespace)
