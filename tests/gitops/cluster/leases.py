"""The Lease of OpenKruise's manager, as its leader election writes it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_micro_time
from tests.gitops.stage import Stage
from tests.worlds import START, create

LASTS: Final = 15
RENEWS_S: Final = 2
_LEASES: Final = ResourceRef("coordination.k8s.io", "v1", "leases")


def lease(holder: str, renewed_s_ago: float | None, *, now: datetime = START) -> dict[str, Any]:
    spec: dict[str, Any] = {"holderIdentity": holder, "leaseDurationSeconds": LASTS}
    if renewed_s_ago is not None:
        spec["renewTime"] = format_micro_time(now - timedelta(seconds=renewed_s_ago))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "kruise-system", "name": "kruise-manager"},
        "spec": spec,
    }


def renewal(spec: dict[str, Any]) -> ApiRequest:
    """A request that renews the Lease."""
    return ApiRequest(
        verb="patch", resource=_LEASES, namespace="kruise-system", name="kruise-manager",
        body={"spec": spec}, content_type=MERGE_PATCH,
    )  # fmt: skip


def install_lease(stage: Stage, renewed_s_ago: float) -> None:
    """Create the Lease and its namespace."""
    now = stage.clock.now()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-system"}}
    for obj in (space, lease("manager-1", renewed_s_ago, now=now)):
        stage.world.handle(create(stage.world, obj), now)


async def renew_lease(stage: Stage) -> None:
    """Renew the Lease until cancelled, as a manager at work does."""
    while True:
        now = stage.clock.now()
        stage.world.handle(renewal(lease("manager-1", 0, now=now)["spec"]), now)
        await stage.clock.sleep(RENEWS_S)
