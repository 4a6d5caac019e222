"""A webhook service that is up: it listens, the cluster knows it, and its certificates are kept."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitkruise.errors import ClusterFailed, Finding, GitkruiseError
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.certificates import server_context, show
from gitkruise.kube.serve.http_server import serving
from gitkruise.kube.system.clock import Clock
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.sidecarset_revision import REVISION_NAMESPACE
from gitkruise.webhook.budget_guard import BudgetGuard
from gitkruise.webhook.certificates import (
    CertificateStore,
    FolderVault,
    SecretVault,
    ServingCertificates,
    current,
)
from gitkruise.webhook.cluster_context import ClusterContext
from gitkruise.webhook.handler import AdmissionHandler
from gitkruise.webhook.registration import Address, Registrar
from gitkruise.webhook.server import TERMS, ReviewHandler
from gitkruise.webhook.spread_records import SpreadRecords
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)

CHECK_S: Final = 30.0  # the time for which a changed configuration stays so
OBSERVED_WITHIN_S: Final = 30.0
# Between registering a new authority and serving what it signed: API servers hear of
# configurations by watching.
TRUST_PAUSE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """`folder` keeps certificates outside a cluster; without one a Secret does, in the namespace
    of `address`. `home` is where revisions of SidecarSets live."""

    address: Address
    listen: Listen = field(default_factory=lambda: Listen("0.0.0.0", 9443))  # noqa: S104  called from elsewhere
    gates: Gates = field(default_factory=Gates)
    folder: Path | None = None
    home: str = REVISION_NAMESPACE


@dataclass(frozen=True, slots=True)
class Serving:
    """A service that answers. `written` names the objects that were registered at the start."""

    port: int
    handler: ReviewHandler
    context: ssl.SSLContext
    written: tuple[str, ...]


@asynccontextmanager
async def serve_webhooks(
    options: WebhookOptions, transport: Transport, catalog: Catalog, clock: Clock
) -> AsyncIterator[Serving]:
    """Serve while the body runs; the registration stays when it ends.

    Raises UsageProblem GK5110 where it cannot listen, ClusterFailed GK5111 next to OpenKruise,
    GK5112 for unreadable certificates, in an ExceptionGroup GK5113 when it cannot see what it
    needs; ApiError.
    """
    registrar = Registrar(transport, options.address, options.gates)
    await registrar.refuse_beside_openkruise()
    vault: CertificateStore
    if options.folder is not None:
        vault = FolderVault(options.folder)
    else:
        vault = SecretVault(transport, options.address.namespace)
    credentials = await current(vault, options.address.hosts, clock.now())
    context = server_context(credentials.server)
    around = ClusterContext(transport, clock, home=options.home, gates=options.gates)
    admission = AdmissionHandler(catalog=catalog, gates=options.gates)
    guard = BudgetGuard(transport, clock, options.gates)
    handler = ReviewHandler(
        admission, around, guard, SpreadRecords(transport, clock, options.gates), clock
    )
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(around.run())
        try:
            await _observed(around, clock)
            async with serving(handler.handle, TERMS, options.listen, context) as port:
                written = await registrar.publish(credentials.bundle)
                manager = CertificateManager(
                    registrar, vault, context, options.address.hosts, clock
                )
                keeping = tasks.create_task(manager.run(credentials))
                try:
                    yield Serving(port, handler, context, tuple(written))
                finally:
                    keeping.cancel()
        finally:
            following.cancel()


async def _observed(context: ClusterContext, clock: Clock) -> None:
    try:
        async with clock.timeout(OBSERVED_WITHIN_S):
            await context.observed()
    except TimeoutError:
        raise ClusterFailed(
            Finding(
                code="GK5113",
                message="the webhook cannot see what it needs to judge by",
                notes=(
                    ("why", context.problem or "no complete list came within 30 s"),
                    ("next", "gitkruise install --webhooks"),
                ),
            )
        ) from None


class CertificateManager:
    """Check certificates and registration every CHECK_S, and repair both."""

    def __init__(
        self,
        registrar: Registrar,
        store: CertificateStore,
        context: ssl.SSLContext,
        hosts: tuple[str, ...],
        clock: Clock,
    ) -> None:
        self._registrar, self._store, self._context = registrar, store, context
        self._hosts, self._clock = hosts, clock

    async def run(self, shown: ServingCertificates) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(CHECK_S)
            try:
                shown = await self.check(shown)
            except GitkruiseError as error:
                log.warning(log_line("webhook-check-failed", error=error))

    async def check(self, shown: ServingCertificates) -> ServingCertificates:
        """One look; what is shown after it. Raises ApiError, ClusterFailed."""
        fresh = await current(self._store, self._hosts, self._clock.now())
        for name in await self._registrar.publish(fresh.bundle):
            log.warning(log_line("webhook-restored", configuration=name))
        if fresh.server != shown.server:
            if fresh.bundle != shown.bundle:
                await self._clock.sleep(TRUST_PAUSE_S)
            show(self._context, fresh.server)
        return fresh
