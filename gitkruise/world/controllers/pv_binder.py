"""The model cluster's volumes: binds every claim immediately.

Replaces the provisioner and binder of a real cluster; creates no PersistentVolume objects.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
_CLAIMS: Final = ResourceRef("", "v1", "persistentvolumeclaims")


class ClaimBinder:
    """Binds claims. `run` does what is due at `now` and says when claims that rest are due."""

    def __init__(self, report: Report | None = None) -> None:
        self._backoff = ObjectBackoff(report)
        self._seen: int | None = None

    def run(self, world: World, now: datetime) -> datetime | None:
        """Give every new claim the phase Bound and the capacity it asked for."""
        self._backoff.retry(now)
        for claim in self._fresh(world):
            if not get(claim, "status", "phase") or get(claim, "status", "phase") == "Pending":
                key = key_of(claim)
                self._backoff.attempt(key, now, partial(_bind, world, key))
        self._seen = world.version
        return self._backoff.next()

    def _fresh(self, world: World) -> list[Obj]:
        if self._seen is not None and not world.state.changed(CLAIM, self._seen):
            return []
        records = world.changes_since(self._seen)
        if records is None:
            return world.objects(CLAIM)
        keys = {r.key: None for r in records if r.key.group_kind == CLAIM and r.after is not None}
        return [claim for claim in map(world.get, keys) if claim is not None]


def _bind(world: World, key: ObjectKey, now: datetime) -> None:
    claim = world.get(key)
    if claim is None:
        return
    status = {
        "phase": "Bound",
        "accessModes": get(claim, "spec", "accessModes", default=[]),
        "capacity": {
            "storage": get(claim, "spec", "resources", "requests", "storage", default="0")
        },
    }
    request = ApiRequest(
        verb="update",
        resource=_CLAIMS,
        namespace=key.namespace,
        name=key.name,
        subresource="status",
        body={**claim, "status": status},
    )
    world.handle(request, now, user="system:volume-binder")
