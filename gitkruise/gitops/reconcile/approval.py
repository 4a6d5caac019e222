"""Approval: changes of a unit that wait for a user's approval, and the hash that names them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.in_place_only import UPDATED_IN_PLACE, leaves_place, template_moved
from gitkruise.gitops.status.observer import Observation
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired, DesiredSet
from gitkruise.model.gitops.gate import RolloutGate, strategy_path
from gitkruise.model.gitops.sync_round import Live, PruneRules, SyncSnapshot
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import DIGEST, annotation
from gitkruise.planner.sync.plan import overtaken
from gitkruise.planner.sync.prune import TRAILER, leaving
from gitkruise.printable import listing
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

_APPROVAL: Final = re.compile(rf"^{TRAILER}:[ \t]*([0-9a-f]{{12}})[ \t]*$", re.MULTILINE)
_REVERT: Final = re.compile(r"^This reverts commit ([0-9a-f]{40,64})\b", re.MULTILINE)  # by git
_HISTORY: Final = 200  # commits that are searched for an approval
_REASONS_MAX: Final = 3


def approvals(repository: Repository, commit: str, since: str = "") -> frozenset[str]:
    """Return the hashes that commits in the history of `commit` approve by trailer, after `since`.

    Blocking. Raises SourceFailed.

    The line that `git revert` writes withdraws such a commit. A commit that was imported from an
    artifact has no words of a user. A repository that was made again lacks `since`: then all of
    its history counts.
    """
    if repository.is_imported:
        return frozenset()
    since = since if since and repository.has(since) else ""
    marks: set[str] = set()
    withdrawn: set[str] = set()
    for entry in repository.commits_between(since, commit, limit=_HISTORY):  # newest first
        if entry.id not in withdrawn:
            message = repository.message(entry.id)
            withdrawn.update(_REVERT.findall(message))
            marks.update(_APPROVAL.findall(message))
    return frozenset(marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of taking a commit.

    `changed` can be sent now, `taken_over` when other units let go of it; `leaving` is deleted, or
    goes to another unit.
    """

    changed: Sequence[Desired]
    taken_over: Sequence[Desired]
    leaving: frozenset[ObjectKey]
    seen: Observation

    def __bool__(self) -> bool:
        return bool(self.changed or self.taken_over or self.leaving or self.seen.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Changes that a user approved by the hash `mark`, after the live commit `since`."""

    since: str
    mark: str
    changes: frozenset[str]

    def covers(self, effect: Effect, given: Collection[str], since: str) -> bool:
        """Return whether it is still among the approvals `given`, and of all of `effect`: a part
        of the changes may have happened since, where another unit has taken an object over."""
        holds = self.since == since and self.mark in given
        return holds and changes_of(effect) <= self.changes


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """The approval rules of one unit. `label` is the value of the unit's label."""

    unit: Unit
    label: str
    gates: Gates

    @property
    def needed(self) -> bool:
        return self.unit.spec.approval != "never"

    def asks(self, effect: Effect, replaced: Collection[ObjectKey]) -> tuple[str, str]:
        """Return (hash, why) of what needs approval; two empty texts when nothing does.

        `replaced` are immutable, and would be deleted and created again. The hash covers the
        objects before and after: another commit with the same effect has the same hash, and an
        object that was recreated meanwhile has another.
        """
        if not (self.needed and effect):
            return "", ""
        gone, live = sorted(effect.leaving), effect.seen.live
        changed = (*effect.changed, *effect.taken_over)
        count = len(changed) + len(gone)
        everything = "1 object changes" if count == 1 else f"{count} objects change"
        reasons = [everything] if self.unit.spec.approval == "always" else [
            *self._risks(changed, live, replaced),
            *(f"{key} leaves the cluster" for key in gone if not key.namespace)
        ]  # fmt: skip
        if not reasons:
            return "", ""
        lines = [self.label, *sorted(changes_of(effect))]
        mark = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
        return mark, listing(reasons, _REASONS_MAX)

    def _risks(
        self,
        changed: Sequence[Desired],
        live: Mapping[ObjectKey, Live],
        replaced: Collection[ObjectKey],
    ) -> Iterator[str]:
        for d in changed:
            found = live.get(d.key)
            if d.key in replaced:
                yield f"{d.key} is deleted and created again"
            if found is None:
                continue
            if d.key.group_kind in UPDATED_IN_PLACE and leaves_place(d, found.obj, self.gates):
                yield f"pods of {d.key} are recreated, which went in place before"
            if self._promoted(d) and template_moved(d, found.obj):
                yield from _without_canary(d)

    def _promoted(self, d: Desired) -> bool:
        promotion = self.unit.spec.promotion
        if promotion is None:
            return False
        workload = promotion.workload
        return (workload.group_kind, workload.name) == (d.key.group_kind, d.key.name)


def foreseen(
    rule: ApprovalRule,
    desired: DesiredSet,
    live: Mapping[ObjectKey, Obj],
    prune: PruneRules,
    *,
    held: frozenset[ObjectKey],
    replaced: Collection[ObjectKey],
) -> tuple[str, str]:
    """Return (hash, why) of the approval that taking `desired` will ask for, if the `live` objects
    stay as they are; two empty texts for none. `held` are left alone by an annotation."""
    there = {key: Live(obj=obj, ready=True) for key, obj in live.items()}
    snapshot = SyncSnapshot(
        desired=desired, unit_label=rule.label, live=there, inventory=frozenset(there),
        inventory_complete=True, prune=prune, correct_drift=False, held=held,
    )  # fmt: skip
    effect = Effect(
        changed=[d for d in desired.objects if overtaken(d, snapshot)], taken_over=(),
        leaving=leaving(snapshot), seen=Observation(live=there, states={}, rollouts=()),
    )  # fmt: skip
    return rule.asks(effect, replaced)


def changes_of(effect: Effect) -> frozenset[str]:
    """Return each change of an effect: the object as it is, and as it would be."""
    live = effect.seen.live
    changed = (*effect.changed, *effect.taken_over)
    lines = {_line(d.key, d.digest, live.get(d.key)) for d in changed}
    return frozenset(lines | {_line(key, "", live[key]) for key in effect.leaving})


def _line(key: ObjectKey, digest: str, live: Live | None) -> str:
    uid = live.obj["metadata"].get("uid") or "" if live is not None else ""
    return f"{key} {uid} {annotation(live.obj, DIGEST) if live is not None else ''} {digest}"


def _without_canary(d: Desired) -> Iterator[str]:
    path = strategy_path(d.document, "partition")
    gate = RolloutGate(d.key.group_kind, get(d.obj, *path))
    try:
        kept = gate.kept(get(d.obj, "spec", "replicas", default=1))
    except ValueError as error:
        yield f"{d.key}: {'.'.join(map(str, path))}: {error}"
        return
    if kept == 0 and get(d.obj, "spec", "updateStrategy", "type") != "OnDelete":
        yield f"all pods of {d.key} change without a canary"
