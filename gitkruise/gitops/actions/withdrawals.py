"""Pull requests of steps, rollbacks and newer images that no unit asks for any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gitkruise.errors import ApiError, DiagnosticError
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.gitops.actions.actions import ActionVerb
from gitkruise.gitops.actions.image_automation import BRANCHES as IMAGES
from gitkruise.gitops.actions.image_update import UPDATE
from gitkruise.gitops.actions.loop import keep_looking
from gitkruise.gitops.actions.on_failure import BRANCHES as ROLLBACKS
from gitkruise.gitops.actions.promotion import BRANCHES as STEPS
from gitkruise.gitops.actions.pull_requests import is_of_action, withdraw
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.gitops.status.sinks import Writer
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.notifications import Pull
from gitkruise.planner.notify.comment import plain
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_FIRST_S: Final = 5.0
_ACTIONS: Final[Mapping[str, str]] = {
    STEPS: ActionVerb.PROMOTE, ROLLBACKS: ActionVerb.ROLLBACK, IMAGES: UPDATE,
}  # fmt: skip
_FIELDS: Final = {STEPS: "promotion", ROLLBACKS: "onFailure", IMAGES: "images"}
OpenForge = Callable[[], AbstractAsyncContextManager[ForgeRepository]]


@dataclass(frozen=True, slots=True)
class ProposedPull:
    """An open pull request with a branch of ours: its unit, and the kind of what it proposes."""

    pull: Pull
    unit: str
    kind: str


def proposed_by(unit: Unit) -> frozenset[str]:
    """Return the kinds of pull requests that a unit asks for."""
    spec = unit.spec
    asked = {
        STEPS: spec.promotion is not None and spec.promotion.via == "pull-request",
        ROLLBACKS: spec.on_failure == "revert-pr",
        IMAGES: any(image.write == "pullRequest" for image in spec.images),
    }
    return frozenset(kind for kind, wanted in asked.items() if wanted)


class Withdrawals:
    """Withdraws pull requests of one cluster on the forge of one Sink.

    Nothing is remembered: the name of a branch says which unit proposed what. A unit that this
    program never had may be one of another configuration, and keeps its pull requests.
    """

    def __init__(
        self,
        name: str,
        forge: OpenForge,
        writer: Writer,
        cluster: str,
        clock: Clock,
        *,
        left: Collection[str],
        containment: Containment = UNREPORTED,
    ) -> None:
        """`name` is that of the Sink; `left` has the units that left the configuration."""
        self._name, self._forge, self._writer = name, forge, writer
        self._cluster, self._clock, self._containment = cluster, clock, containment
        self._asked: Mapping[str, frozenset[str]] = {}
        self._left = left
        self._wake = asyncio.Event()

    def expect(self, asked: Mapping[str, frozenset[str]]) -> None:
        """Set the kinds that each unit of the configuration asks for on this forge."""
        if asked != self._asked:
            self._asked = asked
            self._wake.set()

    def look_again(self) -> None:
        """One more unit left."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        await keep_looking(
            self.look, self._failed, self._wake, self._clock,
            seed=self._name, containment=self._containment, part="obsolete pull requests",
            kind="Sink",
        )  # fmt: skip

    def _failed(self, error: RefMoved | DiagnosticError | ApiError) -> float:
        log.warning(log_line("pull-requests-not-withdrawn", sink=self._name, error=error))
        return _FIRST_S

    async def look(self) -> timedelta | None:
        """Withdraw what is open and not asked for; nothing is to be done without news."""
        if not self._asked and not self._left:
            return None
        failed: list[DiagnosticError | ApiError] = []
        async with self._forge() as forge:
            for one in filter(None, map(self._obsolete, await forge.open_pulls())):
                try:
                    await self._withdraw(forge, one)
                except (DiagnosticError, ApiError) as error:
                    failed.append(error)  # it keeps no other open
        if failed:
            raise failed[0]
        return None

    def _obsolete(self, pull: Pull) -> ProposedPull | None:
        """Return what an open pull request proposes if its unit does not ask for it."""
        kind = next((k for k in _ACTIONS if pull.branch.startswith(self._prefix(k))), None)
        if kind is None or pull.foreign:
            return None
        unit = "/".join(pull.branch.removeprefix(self._prefix(kind)).split("/")[:2])
        asked = self._asked.get(unit)
        obsolete = unit in self._left if asked is None else kind not in asked
        return ProposedPull(pull, unit, kind) if obsolete else None

    def _prefix(self, kind: str) -> str:
        return f"gitkruise/{kind}/{self._cluster}/"

    async def _withdraw(self, forge: ForgeRepository, one: ProposedPull) -> None:
        await self._writer.renew()
        repository = self._writer.repository
        verb, url = _ACTIONS[one.kind], one.pull.url
        if not await asyncio.to_thread(is_of_action, repository, one.pull, verb, None):
            why = "a user pushed to its branch"
            log.warning(log_line("pull-request-left-open", unit=one.unit, where=url, why=why))
            return
        why = f"{plain(one.unit)} opens no pull requests for its `{_FIELDS[one.kind]}` now."
        if one.unit not in self._asked:
            why = f"{plain(one.unit)} left the configuration of {plain(self._cluster)}."
        await withdraw(forge, one.pull, why)
        log.info(log_line("pull-request-withdrawn", unit=one.unit, where=url))
