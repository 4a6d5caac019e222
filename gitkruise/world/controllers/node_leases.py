"""Leases of the simulated nodes: renewed together, as often as kubelets renew theirs.

Source: node lease controller of kubelet 1.34 (40 seconds, renewed every 10).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.times import format_micro_time
from gitkruise.world.controllers.client import ObjectWriter
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report, earliest

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

NODE: Final = GroupKind("", "Node")
LEASES: Final = "kube-node-lease"
DURATION_S: Final = 40
RENEW_EVERY: Final = timedelta(seconds=10)


class NodeLeases:
    """Renews the lease of every node; one for one World."""

    def __init__(self, report: Report | None = None) -> None:
        self._backoff = ObjectBackoff(report)
        self._due: datetime | None = None

    def run(self, world: World, now: datetime) -> datetime | None:
        """Renew all leases if they are due; the instant of the next renewal."""
        self._backoff.retry(now)
        if self._due is None or now >= self._due:
            self._due = now + RENEW_EVERY
            for node in world.objects(NODE):
                self._backoff.attempt(key_of(node), now, _renew, world, node)
        return earliest(self._due, self._backoff.next())


def _renew(world: World, node: Obj, now: datetime) -> None:
    """Renew the lease of a node, or create it; a node that is going away keeps its old one."""
    meta, stamp = node["metadata"], format_micro_time(now)
    space = world.get(ObjectKey("", "Namespace", "", LEASES))
    if meta.get("deletionTimestamp") or space is None or space["metadata"].get("deletionTimestamp"):
        return
    writer = ObjectWriter(f"system:node:{meta['name']}", "kubelet")
    held = {"holderIdentity": meta["name"], "renewTime": stamp}
    lease = world.get(ObjectKey("coordination.k8s.io", "Lease", LEASES, meta["name"]))
    if lease is not None:
        writer.patch(world, lease, {"spec": held}, now)
        return
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
    made = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": meta["name"], "namespace": LEASES, "ownerReferences": [owner]},
        "spec": {**held, "leaseDurationSeconds": DURATION_S},
    }
    writer.create(world, made, now)
