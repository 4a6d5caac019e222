"""One unit's deletions: when they must wait, who agreed to them, how they go and how they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from gitkruise.errors import ApiError, Finding, Retry, SourceFailed
from gitkruise.git.repo import Repository
from gitkruise.gitops.apply import delete
from gitkruise.gitops.approval import approvals
from gitkruise.gitops.claims import Claims
from gitkruise.gitops.holders import held_by_others
from gitkruise.gitops.intake import Intake
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.standing import newest_applied
from gitkruise.kube.store import Store
from gitkruise.kube.transport import Transport
from gitkruise.model.change import DesiredSet, Live, PruneRules
from gitkruise.model.config import Unit, duration, resolve_reference
from gitkruise.model.document import Commit
from gitkruise.planner.sync.marks import COMMIT, UNIT, annotation
from gitkruise.planner.sync.prune import lingering
from gitkruise.wire.names import ObjectKey
from gitkruise.wire.paths import get

log = logging.getLogger(__name__)
_UNKNOWN: Final = frozenset({"GK3104", "GK3108"})  # the commit is not here, whoever is asked


class Pruning:
    """Remembers what a person agreed to and what keeps git's word from being the last one."""

    def __init__(
        self, unit: Unit, repository: Repository, claims: Claims, wake: Callable[[], None]
    ) -> None:
        self._unit, self._repository, self._claims, self._wake = unit, repository, claims, wake
        self.rules = prune_rules(unit)
        self.source = resolve_reference(unit.spec.source_ref, unit.namespace)
        claims.join(unit.id, self.source, wake)
        self._source_problem: Finding | None = None
        self._searched, self._taken = "", False
        self._wanted: frozenset[ObjectKey] = frozenset()
        self.inventory: set[ObjectKey] = set()
        self.complete = False  # the cluster was searched for all of it
        self.approved = frozenset(filter(None, [unit.approved]))
        self.agreed: frozenset[str] = frozenset()  # uids of what was to go since the last change
        self._from, self._at = "", ""  # the commits taken last, and before that
        self._jump: str | None = None  # why nothing goes by this commit; None: not looked at

    def source_problem(self, finding: Finding | None) -> None:
        """The source cannot be read, or can be again."""
        self._source_problem = finding

    # The inventory --------------------------------------------------------------------------

    async def find(self, live: LiveView, label: str) -> None:
        """Once a start: make the inventory complete, with all that carries `label`.

        That includes kinds git names no more. Raises ApiError or ClusterFailed.
        """
        if self.complete:
            return
        found = await live.scan(label)
        await live.ready(live.want({key.group_kind: "" for key in found}))
        self.inventory |= set(found)
        self.complete = True
        self._wake()

    def inherit(self, before: Pruning) -> None:
        """Know what the unit's own `before` knew, whose settings were others."""
        self.inventory |= before.inventory
        self.complete = before.complete

    def gone(self, wanted: Collection[ObjectKey], store: Store) -> list[ObjectKey]:
        """What the inventory has beyond `wanted` and still lives, in order."""
        beyond = self.inventory.difference(wanted)
        self.inventory -= {key for key in beyond if not store.seen(key)}
        return sorted(beyond & self.inventory)

    async def stood_on(self, store: Store, recorded: Commit | None) -> str:
        """The newest commit taken before this start, by what lives and what is recorded."""
        known = recorded.id if recorded else ""
        return await newest_applied(self._repository, store, self.inventory, known)

    # What git says --------------------------------------------------------------------------

    def taken(self, desired: DesiredSet) -> None:
        """The unit wants exactly `desired` from now on; what was agreed to before holds no more."""
        keys = frozenset(d.key for d in desired.objects)
        if keys != self._wanted:
            self._wanted, self.agreed = keys, frozenset()
        self._claims.set(self._unit.id, keys)

    def read(self, intake: Intake) -> None:
        """A commit was looked at, and taken or not."""
        self._taken = intake.desired is not None
        if self._taken and intake.commit.id != self._at:
            self._from, self._at, self._jump = self._at, intake.commit.id, None
        if intake.wanted is not None:
            self._claims.set(self._unit.id, self._wanted | intake.wanted)
        if intake.wanted is not None:
            self._claims.read(self._unit.id, intake.commit.id)

    @property
    def blind(self) -> bool:
        """Whether the source cannot be followed."""
        return self._source_problem is not None

    @property
    def sure(self) -> bool:
        """Whether the newest commit of a source that can be followed was taken."""
        return self._taken and not self.blind

    def held(self, intake: Intake | None, newest: str) -> str:
        """Why nothing may be deleted for `intake` now; `newest` was looked at or waits for it.

        Only a commit that is the source's newest, read whole, by every unit that shares the
        source, says that an object is wanted no more: it may have moved to another unit.
        """
        if intake is None or self.inventory <= self._wanted:
            return ""  # there is nothing to delete
        commit = intake.commit.id
        if self._source_problem is not None:
            return f"the source cannot be followed ({self._source_problem.code})"
        if newest != commit:
            return f"the newest commit {newest[:7]} was not taken"
        if self._jump:
            return self._jump
        behind = self._claims.behind(self._unit.id, commit)
        return f"unit {behind} shares the source and has not read this commit" if behind else ""

    # Deletions ------------------------------------------------------------------------------

    async def asked(self, commit: str, asks: frozenset[str]) -> bool:
        """Look in the history of `commit` for approvals; whether one of `asks` is among them."""
        if self._searched != commit:
            found = await asyncio.to_thread(approvals, self._repository, commit)
            self.approved |= found
            self._searched = commit
        return not self.approved.isdisjoint(asks)

    async def delete(
        self,
        keys: Sequence[ObjectKey],
        seen: Mapping[ObjectKey, Live],
        live: LiveView,
        transport: Transport,
    ) -> tuple[Finding, ...]:
        """Delete `keys` as they are seen; what the cluster refuses for good keeps no other.

        A commit of another history than the one before deletes nothing: the next one may. Raises
        ApiError when the cluster does not answer.
        """
        if self._jump is None:
            stood = {self._from} if self._from else {annotation(seen[k].obj, COMMIT) for k in keys}
            self._jump = await asyncio.to_thread(self._jumped, stood - {""}, self._at)
        if self._jump:
            self._wake()
            return ()
        self.agreed |= {get(seen[key].obj, "metadata", "uid", default="") for key in keys}
        propagation = self._unit.spec.prune.propagation
        return await delete_all(keys, seen, live, transport, propagation)

    def _jumped(self, stood: Iterable[str], commit: str) -> str:
        """Which commit is in no history of `commit`. Blocking. Raises SourceFailed."""
        for old in sorted(stood) if commit else ():
            try:
                kept = self._repository.is_ancestor(old, commit)
            except SourceFailed as error:
                if error.findings[0].code not in _UNKNOWN:
                    raise
                kept = False
            if not kept:
                return f"{old[:7]}, which was live before, is not in the history of {commit[:7]}"
        return ""

    def overdue(
        self, seen: Mapping[ObjectKey, Live], now: datetime
    ) -> tuple[Finding | None, datetime | None]:
        """(what does not go away, when to look again)."""
        return lingering(seen, self._wanted, now, duration(self._unit.spec.prune.timeout))


def prune_rules(unit: Unit) -> PruneRules:
    spec = unit.spec.prune
    return PruneRules(
        enabled=spec.enabled,
        max_delete=spec.max_delete,
        max_delete_percent=spec.max_delete_percent,
        allow_empty=spec.allow_empty,
    )


async def delete_all(
    keys: Sequence[ObjectKey],
    seen: Mapping[ObjectKey, Live],
    live: LiveView,
    transport: Transport,
    propagation: str,
) -> tuple[Finding, ...]:
    """Delete `keys` in order as they are seen, by `transport`; refusals for good are told.

    What holds objects that the unit did not make stays. Raises ApiError when the cluster does not
    answer.
    """
    findings = []
    for key in keys:
        label = get(seen[key].obj, "metadata", "labels", UNIT, default="")
        held = await held_by_others(live, key, seen[key].obj, label)
        if held is not None:
            findings.append(held)
            continue
        try:
            await delete(transport, key, seen[key].obj, live.catalog, propagation)
        except ApiError as error:
            if error.retry is not Retry.NEVER:
                raise
            findings.append(_refused(key, error))
    return tuple(findings)


def _refused(key: ObjectKey, error: ApiError) -> Finding:
    return Finding(
        code="GK2307",
        message=f"{key} left git and cannot be deleted: {error.message}",
        notes=(
            ("unchanged", f"the live {key}"),
            (
                "next",
                "let gitkruise delete it; deploy/ lists the rights it uses. It is tried again",
            ),
        ),
        object=str(key),
    )
