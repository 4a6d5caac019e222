"""The engine that drives the pods: gitkruise's own controllers, or OpenKruise's manager."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ClusterFailed, Finding, Forbidden, NotFound
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest
from gitkruise.wire.primitives.times import parse_time

if TYPE_CHECKING:
    from gitkruise.model.gitops.config import Unit
    from gitkruise.wire.primitives.names import ObjectKey

KRUISE_NAMESPACE: Final = "kruise-system"
KRUISE_LEASE: Final = "kruise-manager"
OWN, KRUISE, AUTO = "own", "kruise", "auto"


async def kruise_is_alive(transport: Transport, now: datetime) -> bool:
    """Return whether kruise-manager renewed its leader lease within twice the lease's duration."""
    request = ApiRequest(verb="get", resource=LEASES, namespace=KRUISE_NAMESPACE, name=KRUISE_LEASE)
    try:
        lease = (await transport.send(request)).body
    except NotFound:
        return False
    holder = get(lease, "spec", "holderIdentity", default="")
    renewed = parse_time(get(lease, "spec", "renewTime"))
    lasts = timedelta(seconds=int(get(lease, "spec", "leaseDurationSeconds", default=15)))
    return bool(holder) and renewed is not None and now < renewed + 2 * lasts


async def choose_engine(transport: Transport, wishes: set[str], now: datetime) -> str:
    """Return the one engine of this process. Raises ClusterFailed GK4401, GK4402 on a conflict.

    Two engines on one object corrupt it. Units must therefore not name different engines, and our
    own is refused while OpenKruise's manager is alive.
    """
    firm = wishes - {AUTO}
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
    alive = await kruise_is_alive(transport, now)
    if OWN in firm and alive:
        raise ClusterFailed(
            Finding(
                code="GK4402",
                message="OpenKruise's manager is running, and engine: own was asked for",
                notes=(
                    ("why", "two engines on one CloneSet would undo each other's work"),
                    ("unchanged", "nothing was applied"),
                    ("next", "set workloads.engine: kruise, or stop kruise-manager first"),
                ),
            )
        )
    return KRUISE if KRUISE in firm or alive else OWN


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
