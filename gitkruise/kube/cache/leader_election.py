"""Leader election with a Lease: at most one replica writes, judged by local clocks alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from math import ceil
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from gitkruise.errors import (
    AlreadyExists,
    ApiError,
    ClusterFailed,
    Conflict,
    Finding,
    Forbidden,
    LeaseRefused,
    NotFound,
    NotLeading,
    Unauthorized,
)
from gitkruise.kube.client.transport import SEND_CHECK, Transport
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.kube.system.lease_terms import RENEW_EVERY, RENEW_WITHIN, RETRY, LeaseName
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef, WatchEvent
from gitkruise.wire.primitives.times import format_micro_time

LEASES: Final = ResourceRef("coordination.k8s.io", "v1", "leases")
WANTED: Final = "gitkruise.io/wanted-by"  # annotation: the identity that a holder makes way for
RELEASE_WITHIN_S: Final = 2.0
_PAUSE_S: Final = 0.1
_READS: Final = frozenset({"get", "list", "watch"})
log = logging.getLogger(__name__)


def unique_identity(host: str, seed: Callable[[], int]) -> str:
    """`host_uuid`: another identity for every process, also in containers of one host name.

    `seed` returns 63 bits of entropy.
    """
    return f"{host}_{UUID(int=(seed() << 64) | seed(), version=4)}"


class Lease:
    """One replica's view of a Lease. Follows client-go's algorithm: whether the holder lives is
    judged by how long its record stayed the same here, never by the times written in it.

    An `urgent` replica asks the holder to make way for it, and makes way for no other itself.
    """

    def __init__(
        self, name: LeaseName, transport: Transport, clock: Clock, *, urgent: bool = False
    ) -> None:
        if not name.identity:
            raise ValueError("an empty identity means a free lease")
        self.name, self._urgent = name, urgent
        self._renew_within_s = name.lasts_s * RENEW_WITHIN
        self._renew_every_s = name.duration_s * RENEW_EVERY
        self._retry_s = name.duration_s * RETRY
        self._transport, self._clock = transport, clock
        self._record: Obj | None = None  # the spec last seen
        self._mine: Obj | None = None  # the whole Lease as we wrote it last
        self._changed_at = 0.0  # when its spec last changed, monotonic
        self._renewed_at = float("-inf")
        self._tried_at = float("-inf")  # when we last began to take or renew it
        self._looked_at = float("-inf")  # when the record last seen was asked for
        self._asked_at = float("-inf")  # the same, also without a reply
        self.annotations: Mapping[str, str] = {}  # as they were last seen
        self._wanted_by = ""
        self._renewals = 0  # of other holders, that we have seen
        self._draining = False
        self._notes: Mapping[str, str] = {}
        self._refused = ""  # why the server does not let us have it
        self._writing: dict[asyncio.Timeout, float] = {}  # with seconds of the loop in one of ours
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def holder(self) -> str:
        """Holder of the lease when it was last seen; "" for no holder."""
        return str(get(self._record, "holderIdentity", default=""))

    @property
    def others(self) -> bool:
        """Return whether the record last seen names another replica."""
        return self.holder not in {"", self.name.identity}

    @property
    def is_doubtful(self) -> bool:
        """Return whether it ran out, as while the process was stopped, and was not read since."""
        return self._asked_at < self._renewed_at + self._renew_within_s and not self.valid

    @property
    def valid(self) -> bool:
        """Return whether we may write now."""
        return self._left() > 0

    @property
    def is_held(self) -> bool:
        """Return whether this replica holds it, or another one did when it was last seen."""
        return self.valid or (self.others and not self._expired())

    @property
    def refusal(self) -> str:
        """The reason why the API server does not let us have it; "" while it does, or is silent."""
        return self._why() if self._refused else ""

    def check(self) -> None:
        """To be called before every write. Raises ClusterFailed GK4105 when we may not lead."""
        if not self.valid:
            raise self._lost()

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[None]:
        """One write, which does not outlive the lease. Raises NotLeading.

        A process that was stopped meanwhile finds the time over before it sends anything more.
        """
        left = self._left()
        if left <= 0 or self._draining:
            raise NotLeading(self._why())
        loop = asyncio.get_running_loop()
        limit = self._clock.timeout(left)
        checked = SEND_CHECK.set(self._check)
        try:
            async with limit:
                self._idle.clear()
                self._writing[limit] = ((limit.when() or 0.0) - loop.time()) / left
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise NotLeading(self._why()) from None
        finally:
            SEND_CHECK.reset(checked)
            self._writing.pop(limit, None)
            if not self._writing:
                self._idle.set()

    async def observe(self) -> None:
        """Look at the lease for ever without taking it.

        A process that will want it later then need not wait for a holder that is long dead.
        """
        while True:
            await self.look()
            await self._clock.sleep(self._retry_s)

    async def look(self) -> None:
        """Look at the lease once without taking it."""
        try:
            await self._read()
        except ApiError as error:
            log.info(log_line("lease-not-read", error=error))

    def learn(self, leases: Mapping[str, Obj] | None, asked_at: float) -> None:
        """Take from Leases by name, listed at `asked_at`, what `look` would have read; None: there
        was no reply. A list asked for before the last look at this one is older, and ignored."""
        if asked_at < self._looked_at:
            return
        self._asked_at = asked_at
        if leases is None:
            return
        if (lease := leases.get(self.name.name)) is not None:
            self._seen(lease, asked_at)
        else:
            self._record = None

    def note(self, annotation: str, text: str) -> None:
        """Set an annotation with the next renewal."""
        if self._notes.get(annotation) != text:
            self._notes = {**self._notes, annotation: text}

    async def drain(self) -> None:
        """Let no more writes begin, and wait for those on their way; the lease is kept."""
        self._draining = True
        await wait_for(self._idle, self._clock, timedelta(seconds=max(self._left(), 0)))

    @asynccontextmanager
    async def held(self, notes: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[None]:
        """Wait for leadership, keep it while the body runs, release it afterwards.

        `notes` are annotations of the lease that say what its holder can do.
        Losing it cancels the body and raises ClusterFailed GK4105 (inside an ExceptionGroup).
        Raises LeaseRefused while a rival holds it.
        """
        self._notes, logged = notes, ""
        self._draining = False
        while not await self._try() or self._left() < 2 * self._retry_s:
            self._refuse_rival()
            if self._why() != logged and (self.others or self._refused):
                logged = self._why()
                kept = self.others and self.holder == self.name.keeper
                level = logging.INFO if kept else logging.WARNING
                log.log(level, log_line("lease-not-held", reason=logged))
            await self._clock.sleep(self._retry_s)
        log.info(
            log_line(
                "lease-acquired",
                identity=self.name.identity,
                namespace=self.name.namespace,
                lease=self.name.name,
            )
        )
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                yield
                renewing.cancel()
        finally:
            if not self.name.joint:
                await self._release()

    def _refuse_rival(self) -> None:
        if self._renewals and self.others and (finding := self.name.rival(self.holder)):
            raise LeaseRefused(finding)

    async def _renew(self) -> None:
        while True:
            took_s = self._age()
            # A slow reply, or none, is no reason to wait.
            tried_s = self._clock.monotonic() - self._tried_at
            await self._clock.sleep(
                max(self._renew_every_s - took_s, self._retry_s - tried_s, _PAUSE_S)
            )
            left = self._left()
            try:
                # One connection that hangs leaves time for another, unless replies are slow.
                async with self._clock.timeout(min(left, max(left / 2, 2 * took_s))):
                    renewed = await self._try()
            except TimeoutError:
                renewed = False
            if not renewed and self.others:
                raise self._lost()
            self.check()
            if self._wanted_by and not (self._urgent or self.name.joint):
                await self._make_way(self._wanted_by)
                raise self._lost()

    def _check(self) -> None:
        if self._left() <= 0:
            raise NotLeading(self._why())

    def _left(self) -> float:
        return self._renew_within_s - self._age()

    def _age(self) -> float:
        """Return the seconds since a renewal that counts for us."""
        return self._clock.monotonic() - self._renewed_at

    async def _try(self) -> bool:
        """Take or renew the lease; False while another holds it or the server fails."""
        since: float | None
        self._tried_at = since = self._clock.monotonic()
        try:
            if self._mine is None or not await self._again(self._mine):
                since = await (self._join() if self.name.joint else self._take(await self._read()))
        except (Conflict, AlreadyExists):
            return False
        except ApiError as error:
            self._refused = _refusal(error)
            log.info(log_line("lease-not-renewed", error=error))
            return False
        self._refused = ""
        if since is not None:
            self._renewed(since)
        return since is not None

    async def _join(self) -> float | None:
        """Hold a joint lease, and return since when; None while others hold it. Raises ApiError.

        A renewal by another replica counts from the last look that did not show it: a rival waits
        at least as long as after a renewal of ours at that time. If all replicas wrote, most of
        their writes would conflict.
        """
        for _ in range(2):  # the second time another replica wrote a moment ago
            known, looked_at = self._record, self._looked_at
            current = await self._read()
            lasts = float(get(self._record, "leaseDurationSeconds", default=0))
            if self.holder == self.name.identity and lasts >= self.name.lasts_s:
                if known is not None and known != self._record:
                    return max(looked_at, self._renewed_at)
                unchanged_s = self._clock.monotonic() - self._changed_at
                every_s = self._renew_every_s
                early = self._age() < 2 * every_s or unchanged_s < every_s
                if self.valid and early:  # the replica that renewed it last does so again
                    return self._renewed_at
            with suppress(Conflict, AlreadyExists):
                return await self._take(current)
        return None

    async def _again(self, mine: Obj) -> bool:
        """Renew a lease that is unchanged since, by one request; False when it has to be read."""
        self._mine = None  # until it is written again
        try:
            await self._write("update", {**self._noted(mine), "spec": self._spec(mine["spec"])})
        except (Conflict, NotFound):
            return False
        return True

    async def _take(self, current: Obj | None) -> float | None:
        """Write the lease, and return since when it is ours; None while another holds it."""
        asked_at = self._clock.monotonic()
        if current is None:
            await self._write("create", {**self._noted({}), "spec": self._spec(None)})
        elif self._is_free(current):
            spec = self._spec(current.get("spec"))
            granted = self._unasked(current, self.name.identity)
            await self._write("update", {**self._noted(granted), "spec": spec})
        else:
            if self._urgent and self.name.rival(self.holder) is None:
                await self._ask(current)
            return None
        return asked_at

    def _renewed(self, asked_at: float) -> None:
        """From `asked_at` on we lead for a while; writes on their way may take longer, too."""
        for limit, scale in self._writing.items():
            when = limit.when()
            if when is not None:
                limit.reschedule(when + scale * (asked_at - self._renewed_at))
        self._renewed_at = asked_at

    # Making way -----------------------------------------------------------------------------

    async def _ask(self, current: Obj) -> None:
        """Have the holder make way for us."""
        meta = current["metadata"]
        notes = {**(meta.get("annotations") or {}), WANTED: self.name.identity}
        if notes != meta.get("annotations"):
            await self._write("update", {**current, "metadata": {**meta, "annotations": notes}})
            self._mine = None

    async def _make_way(self, other: str) -> None:
        """Hand the lease over, once the writes on their way have ended."""
        left, mine = self._left(), self._mine
        self._renewed_at = float("-inf")
        await wait_for(self._idle, self._clock, timedelta(seconds=left))
        if mine is None:
            return
        spec = self._spec(mine["spec"], of=other)
        try:
            async with self._clock.timeout(RELEASE_WITHIN_S):
                await self._write("update", {**self._unasked(mine, other), "spec": spec})
        except (ApiError, TimeoutError) as error:
            log.info(log_line("lease-not-handed-over", error=error))
        self._mine = None

    # Requests -------------------------------------------------------------------------------

    async def _read(self) -> Obj | None:
        asked_at = self._clock.monotonic()
        try:
            reply = await self._transport.send(self._request("get"))
        except NotFound:
            self._record = None
            return None
        finally:
            self._asked_at = asked_at
        self._seen(reply.body, asked_at)
        return reply.body

    def _seen(self, lease: Obj, asked_at: float) -> None:
        spec = lease.get("spec") or {}
        if spec != self._record:
            known = self._record is not None
            self._record, self._changed_at = spec, self._clock.monotonic()
            self._renewals += known and self.others
        self._looked_at = asked_at
        self.annotations = get(lease, "metadata", "annotations", default={})
        wanted = str(self.annotations.get(WANTED, ""))
        self._wanted_by = wanted if wanted != self.name.identity else ""

    def _is_free(self, lease: Obj) -> bool:
        holder = get(lease, "spec", "holderIdentity", default="")
        return holder in {"", self.name.identity, self.name.predecessor} or self._expired()

    def _expired(self) -> bool:
        """Return whether the record last seen did not change for as long as it lasts."""
        mine = self.name.lasts_s
        lasts = float(get(self._record, "leaseDurationSeconds", default=mine))
        return self._clock.monotonic() - self._changed_at > max(lasts, mine)

    async def _write(self, verb: str, lease: Obj) -> None:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        asked_at = self._clock.monotonic()
        reply = await self._transport.send(self._request(verb, body))
        self._seen(reply.body, asked_at)
        self._changed_at = self._clock.monotonic()
        self._mine = reply.body

    async def _release(self) -> None:
        """Let the next replica in; if that fails it waits out the duration."""
        if not self.valid:
            return
        self._renewed_at = float("-inf")
        try:
            async with self._clock.timeout(RELEASE_WITHIN_S):
                current = await self._read()
                if current and get(current, "spec", "holderIdentity") == self.name.identity:
                    spec = {**current["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._write("update", {**current, "spec": spec})
        except (ApiError, TimeoutError) as error:
            log.info(log_line("lease-not-released", error=error))
        self._mine = None

    def _spec(self, before: Obj | None, *, of: str = "") -> dict[str, Any]:
        now, holder = format_micro_time(self._clock.now()), of or self.name.identity
        old = before or {}
        kept = old.get("holderIdentity") == holder
        transitions = int(old.get("leaseTransitions") or 0)
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": ceil(self.name.lasts_s),
            "acquireTime": old.get("acquireTime") or now if kept else now,
            "renewTime": now,
            "leaseTransitions": transitions if kept or before is None else transitions + 1,
        }

    def _unasked(self, lease: Obj, who: str) -> Obj:
        """`lease` without the request of `who`, which is granted."""
        if get(lease, "metadata", "annotations", WANTED, default="") != who:
            return lease
        granted: Obj = drop(lease, ("metadata", "annotations", WANTED))
        return granted

    def _noted(self, lease: Obj) -> Obj:
        """`lease` with its name and our notes."""
        meta = {**(lease.get("metadata") or {}), **self._meta()}
        notes = {**(meta.get("annotations") or {}), **self._notes}
        return {**lease, "metadata": {**meta, **({"annotations": notes} if notes else {})}}

    def _meta(self) -> dict[str, str]:
        return {"namespace": self.name.namespace, "name": self.name.name}

    def _request(self, verb: str, body: Obj | None = None) -> ApiRequest:
        name = "" if verb == "create" else self.name.name
        return ApiRequest(
            verb=verb, resource=LEASES, namespace=self.name.namespace, name=name, body=body
        )

    # Words ----------------------------------------------------------------------------------

    def _why(self) -> str:
        where = f"lease {self.name.namespace}/{self.name.name}"
        if self._refused:
            return f"{where} cannot be written: {self._refused}"
        if self.others:
            return f"{where} is held by {self.holder}"
        return f"{where} was not renewed in time"

    def _lost(self) -> ClusterFailed:
        return ClusterFailed(
            Finding(
                code="GK4105",
                message=f"{self.name.identity} does not lead any more",
                notes=(("", self._why()), ("unchanged", "nothing is written from here on")),
            )
        )


def _refusal(error: ApiError) -> str:
    """Return why only a user can help; "" for an error that passes."""
    if isinstance(error, Unauthorized):
        return f"the API server does not accept the credentials: {error.message}"
    return error.message if isinstance(error, Forbidden) else ""


class FencedTransport:
    """Implements kube.transport.Transport over another: writes go out under a lease, or not at all.

    Reads and dry runs change nothing and need no lease.
    """

    def __init__(self, inner: Transport, lease: Lease) -> None:
        self._inner, self._lease = inner, lease

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.verb in _READS or request.params.get("dryRun"):
            return await self._inner.send(request)
        async with self._lease.writing():
            return await self._inner.send(request)

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        return self._inner.watch(request)

    async def close(self) -> None:
        await self._inner.close()
