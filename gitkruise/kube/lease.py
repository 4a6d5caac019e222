"""Leader election with a Lease: at most one replica writes, judged by local clocks alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import AlreadyExists, ApiError, ClusterFailed, Conflict, Finding, NotFound
from gitkruise.kube.clock import Clock
from gitkruise.kube.transport import Transport
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import get
from gitkruise.wire.request import ApiRequest, ResourceRef
from gitkruise.wire.times import format_micro_time

LEASES: Final = ResourceRef("coordination.k8s.io", "v1", "leases")
DURATION_S: Final = 15.0  # how long others must see no change before they take over
RENEW_WITHIN_S: Final = 10.0  # without a renewal for so long we stop writing
RETRY_S: Final = 2.0
RELEASE_WITHIN_S: Final = 2.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseName:
    namespace: str
    name: str
    identity: str  # of this replica; must differ between replicas


class Lease:
    """One replica's view of a Lease. Follows client-go's algorithm: whether the holder lives is
    judged by how long its record stayed the same here, never by the times written in it.
    """

    def __init__(self, name: LeaseName, transport: Transport, clock: Clock) -> None:
        assert name.identity, "an empty identity means a free lease"
        self.name = name
        self._transport, self._clock = transport, clock
        self._record: Obj | None = None  # the spec last seen
        self._changed_at = 0.0  # when it last changed, monotonic
        self._renewed_at = float("-inf")

    def check(self) -> None:
        """To be called before every write. Raises ClusterFailed GK4105 when we may not lead."""
        if self._clock.monotonic() - self._renewed_at >= RENEW_WITHIN_S:
            raise self._lost()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for leadership, keep it while the body runs, release it afterwards.

        Losing it cancels the body and raises ClusterFailed GK4105 (inside an ExceptionGroup).
        """
        while not await self._try():
            await self._clock.sleep(RETRY_S)
        log.info("%s leads (lease %s/%s)", self.name.identity, self.name.namespace, self.name.name)
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                yield
                renewing.cancel()
        finally:
            await self._release()

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(RETRY_S)
            left = RENEW_WITHIN_S - (self._clock.monotonic() - self._renewed_at)
            try:
                async with self._clock.timeout(left):
                    renewed = await self._try()
            except TimeoutError:
                renewed = False
            if not renewed and self._others():
                raise self._lost()
            self.check()

    async def _try(self) -> bool:
        """Take or renew the lease; False while somebody else holds it or the server fails."""
        asked_at = self._clock.monotonic()
        try:
            current = await self._read()
            if current is None:
                await self._write("create", {"metadata": self._meta(), "spec": self._spec(None)})
            elif self._is_free(current):
                spec = self._spec(current.get("spec"))
                await self._write("update", {**current, "spec": spec})
            else:
                return False
        except (Conflict, AlreadyExists):
            return False
        except ApiError as error:
            log.info("cannot renew the lease: %s", error)
            return False
        self._renewed_at = asked_at
        return True

    def _others(self) -> bool:
        """The record last seen names somebody else."""
        return get(self._record, "holderIdentity", default="") not in {"", self.name.identity}

    async def _read(self) -> Obj | None:
        try:
            reply = await self._transport.send(self._request("get"))
        except NotFound:
            return None
        spec = reply.body.get("spec") or {}
        if spec != self._record:
            self._record, self._changed_at = spec, self._clock.monotonic()
        return reply.body

    def _is_free(self, lease: Obj) -> bool:
        holder = get(lease, "spec", "holderIdentity", default="")
        if holder in {"", self.name.identity}:
            return True
        lasts = float(get(lease, "spec", "leaseDurationSeconds", default=DURATION_S))
        return self._clock.monotonic() - self._changed_at > max(lasts, DURATION_S)

    async def _write(self, verb: str, lease: Obj) -> None:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        reply = await self._transport.send(self._request(verb, body))
        self._record, self._changed_at = reply.body.get("spec"), self._clock.monotonic()

    async def _release(self) -> None:
        """Let the next replica in at once; if that fails it waits out the duration."""
        if self._clock.monotonic() - self._renewed_at >= RENEW_WITHIN_S:
            return
        self._renewed_at = float("-inf")
        try:
            async with self._clock.timeout(RELEASE_WITHIN_S):
                current = await self._read()
                if current and get(current, "spec", "holderIdentity") == self.name.identity:
                    spec = {**current["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._write("update", {**current, "spec": spec})
        except (ApiError, TimeoutError) as error:
            log.info("the lease was not released: %s", error)

    def _spec(self, before: Obj | None) -> dict[str, Any]:
        now, mine = format_micro_time(self._clock.now()), self.name.identity
        old = before or {}
        kept = old.get("holderIdentity") == mine
        transitions = int(old.get("leaseTransitions") or 0)
        return {
            "holderIdentity": mine,
            "leaseDurationSeconds": int(DURATION_S),
            "acquireTime": old.get("acquireTime") or now if kept else now,
            "renewTime": now,
            "leaseTransitions": transitions if kept or before is None else transitions + 1,
        }

    def _meta(self) -> dict[str, str]:
        return {"namespace": self.name.namespace, "name": self.name.name}

    def _request(self, verb: str, body: Obj | None = None) -> ApiRequest:
        name = "" if verb == "create" else self.name.name
        return ApiRequest(
            verb=verb, resource=LEASES, namespace=self.name.namespace, name=name, body=body
        )

    def _lost(self) -> ClusterFailed:
        return ClusterFailed(
            Finding(
                code="GK4105",
                message=f"{self.name.identity} does not lead any more",
                notes=(
                    ("", f"lease {self.name.namespace}/{self.name.name} was not renewed in time"),
                    ("unchanged", "nothing is written from here on"),
                ),
            )
        )
