"""The model cluster's volumes: every claim is bound at once, by a volume nobody has to see.

Stands for the provisioner and binder of a real cluster; no PersistentVolume objects are made.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.wire.names import GroupKind, Obj, key_of
from gitkruise.wire.paths import get
from gitkruise.wire.request import ApiRequest, ResourceRef

if TYPE_CHECKING:
    from gitkruise.world.cluster import World

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
_CLAIMS: Final = ResourceRef("", "v1", "persistentvolumeclaims")


class ClaimBinder:
    """Binds claims. `run` does what is due at `now` and never asks to be called at an instant."""

    def __init__(self) -> None:
        self._seen: int | None = None

    def run(self, world: World, now: datetime) -> datetime | None:
        """Give every new claim the phase Bound and the capacity it asked for."""
        for claim in self._fresh(world):
            if not get(claim, "status", "phase") or get(claim, "status", "phase") == "Pending":
                _bind(world, claim, now)
        self._seen = world.version
        return None

    def _fresh(self, world: World) -> list[Obj]:
        if self._seen is not None and not world.state.changed(CLAIM, self._seen):
            return []
        records = world.news_since(self._seen)
        if records is None:
            return world.objects(CLAIM)
        keys = {r.key: None for r in records if r.key.group_kind == CLAIM and r.after is not None}
        return [claim for claim in map(world.get, keys) if claim is not None]


def _bind(world: World, claim: Obj, now: datetime) -> None:
    status = {
        "phase": "Bound",
        "accessModes": get(claim, "spec", "accessModes", default=[]),
        "capacity": {
            "storage": get(claim, "spec", "resources", "requests", "storage", default="0")
        },
    }
    key = key_of(claim)
    request = ApiRequest(
        verb="update",
        resource=_CLAIMS,
        namespace=key.namespace,
        name=key.name,
        subresource="status",
        body={**claim, "status": status},
    )
    world.handle(request, now, user="system:volume-binder")
