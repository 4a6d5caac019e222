"""Memory of gitkruise in the cluster: values by cluster name, in an annotation of a Lease.

Records of the status branch may be written by every user who may push it, and objects of a unit by
every client that may write there. The Lease is in kube-system, next to the one that lets us write:
only gitkruise and administrators of the cluster reach it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import AlreadyExists, Conflict, NotFound
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.requests import ApiRequest

_TRIES: Final = 20  # after each conflict another replica has had its turn


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAnnotation:
    """One annotation of one Lease; each cluster name has a JSON value of its own in it."""

    transport: Transport
    namespace: str
    name: str
    annotation: str
    cluster: str

    async def read(self) -> Any:
        """The value of this cluster name; None where there is none to read. Raises ApiError."""
        lease = await self._lease()
        return self._values(lease).get(self.cluster) if lease is not None else None

    async def change(self, change: Callable[[Any], Any]) -> Any:
        """Replace the value by what `change` makes of it, and return that. Raises ApiError.

        Values of other cluster names stay.
        """
        left = _TRIES
        while True:
            left -= 1
            lease = await self._lease()
            values = self._values(lease) if lease is not None else {}
            value = change(values.get(self.cluster))
            try:
                await self._store(lease, {**values, self.cluster: value})
            except (Conflict, AlreadyExists):
                if not left:
                    raise
            else:
                return value

    async def _lease(self) -> Obj | None:
        request = ApiRequest(verb="get", resource=LEASES, namespace=self.namespace, name=self.name)
        try:
            return (await self.transport.send(request)).body
        except NotFound:
            return None

    async def _store(self, lease: Obj | None, values: Mapping[str, Any]) -> None:
        text = json.dumps(values, separators=(",", ":"))
        new: Obj = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": {"holderIdentity": ""},
        }
        body = put(lease or new, ("metadata", "annotations", self.annotation), text)
        await self.transport.send(
            ApiRequest(
                verb="update" if lease is not None else "create",
                resource=LEASES,
                namespace=self.namespace,
                name=self.name if lease is not None else "",
                body=body,
            )
        )

    def _values(self, lease: Obj) -> dict[str, Any]:
        try:
            found = read_json(get(lease, "metadata", "annotations", self.annotation, default="{}"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
