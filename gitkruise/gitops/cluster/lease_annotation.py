"""Memory of gitkruise in the cluster: values by cluster name, in an annotation of a Lease.

Records of the status branch may be written by every user who may push it, and objects of a unit by
every client that may write there. The Lease is in kube-system, next to the one that lets us write:
only gitkruise and administrators of the cluster reach it.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from gitkruise.errors import AlreadyExists, Conflict, Forbidden
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.requests import ApiRequest

V = TypeVar("V")
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
        return await find_object(self.transport, LEASES, self.name, self.namespace)

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


class LeaseMemory(ABC, Generic[V]):
    """A value of each unit in an annotation, shared by the units of a process.

    The Lease is read in each term, because another process may have led before. Without the right
    to it the memory lasts as long as the process.
    """

    kind: type[Any]  # of values; others in the annotation are not known

    def __init__(self, lease: LeaseAnnotation, authority: WriteAuthority) -> None:
        self._lease, self._authority = lease, authority
        self._term = -1
        self._known: dict[str, V] = {}
        self._turn = asyncio.Lock()

    async def forget(self, unit: str) -> None:
        """Forget the value of a unit that has ended. Raises ApiError."""
        async with self._turn:
            await self._read()
            if unit in self._known:
                await self._change(lambda known: {n: v for n, v in known.items() if n != unit})

    async def _read(self) -> None:
        term = self._authority.term
        if self._term == term:
            return
        error = None
        try:
            self._known = self._parsed(await self._lease.read())
        except Forbidden as forbidden:
            error = forbidden
        self._answered(error)
        self._term = term

    async def _change(self, change: Callable[[dict[str, V]], dict[str, V]]) -> None:
        error = None
        try:
            self._known = await self._lease.change(lambda value: change(self._parsed(value)))
        except Forbidden as forbidden:
            error = forbidden
            self._known = change(self._known)
        self._answered(error)

    def _parsed(self, value: Any) -> dict[str, V]:
        values = value if isinstance(value, dict) else {}
        return {unit: one for unit, one in values.items() if isinstance(one, self.kind)}

    @abstractmethod
    def _answered(self, error: Forbidden | None) -> None:
        """Take note of an answer of the API server: the right to the Lease, or its refusal."""
