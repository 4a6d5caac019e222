"""The doctor's look at the versions in which a cluster serves workloads."""

from __future__ import annotations

import pytest

from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE, WORKLOADS_LEASE
from gitkruise.gitops.inspect.doctor_cluster import Check, cluster_checks
from tests.clock import ManualClock
from tests.gitops.cluster.test_engine import ALIVE, DEAD, wire_to
from tests.worlds import START, create, installable_crds

NEEDED = {"clonesets.apps.kruise.io", "sidecarsets.apps.kruise.io"}
SILENT = "OpenKruise's manager has not renewed its Lease since 2026-11-21T09:59:29Z"
OLD = "clonesets v1alpha1; sidecarsets v1alpha1, v1beta1"
BOTH = "clonesets v1alpha1, v1beta1; sidecarsets v1alpha1, v1beta1"


@pytest.mark.parametrize(
    ("served", "lease", "verdict", "message"),
    [
        ({"v1alpha1"}, DEAD, "bad", f"{OLD}; gitkruise drives v1beta1"),
        ({"v1alpha1"}, ALIVE, "good", OLD),
        ({"v1alpha1", "v1beta1"}, DEAD, "good", BOTH),
    ],
    ids=["gitkruise drives", "OpenKruise drives", "both versions"],
)
def test_a_version_that_no_engine_drives_is_bad(
    served: set[str], lease: dict[str, object], verdict: str, message: str
) -> None:
    wire = wire_to(lease)
    for crd in installable_crds():
        if crd["metadata"]["name"] not in NEEDED:
            continue
        of_clonesets = crd["metadata"]["name"].startswith("clonesets")
        versions = [
            {**v, "served": v["name"] in served or not of_clonesets}
            for v in crd["spec"]["versions"]
        ]
        changed = {**crd, "spec": {**crd["spec"], "versions": versions}}
        wire.cluster.world.handle(create(wire.cluster.world, changed), START)

    async def look() -> list[Check]:
        return await cluster_checks(
            wire, ManualClock(START), LEASE_NAMESPACE, driving=WORKLOADS_LEASE, applying="sync"
        )

    kinds = next(c for c in ManualClock(START).run(look()) if c.name == "kinds")
    assert (kinds.verdict, kinds.message) == (verdict, message)
    assert bool(kinds.next) == (verdict == "bad")
    if kinds.next:  # otherwise the command leaves OpenKruise's definitions alone
        assert kinds.next.endswith("gitkruise install --crds --take-over")


@pytest.mark.parametrize(
    ("lease", "verdict", "message"),
    [
        (None, "good", "gitkruise's own"),
        (ALIVE, "good", "OpenKruise drives the pods"),
        (
            DEAD,
            "warning",
            f"no engine drives the pods: {SILENT}",
        ),
    ],
    ids=["no OpenKruise", "OpenKruise drives", "its manager is gone"],
)
def test_the_engine_is_named_that_drives(
    lease: dict[str, object] | None, verdict: str, message: str
) -> None:
    wire, clock = wire_to(lease), ManualClock(START)

    async def look() -> list[Check]:
        return await cluster_checks(
            wire, clock, LEASE_NAMESPACE, driving=WORKLOADS_LEASE, applying="sync"
        )

    engine = next(c for c in clock.run(look()) if c.name == "engine")
    assert (engine.verdict, engine.message) == (verdict, message)
