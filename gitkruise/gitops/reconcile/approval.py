"""Approval: changes of a unit that wait for a user's consent, and the hash that names them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.in_place_only import leaves_place, template_moved
from gitkruise.model.gitops.change import Desired, DesiredSet, Live
from gitkruise.model.gitops.config import Unit
from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.planner.sync.annotations import DIGEST, UNIT, annotation
from gitkruise.planner.sync.prune import TRAILER
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

_APPROVAL: Final = re.compile(rf"^{TRAILER}:[ \t]*([0-9a-f]{{12}})[ \t]*$", re.MULTILINE)
_HISTORY: Final = 200  # commits that are searched for an approval
_REASONS_MAX: Final = 3


def approvals(repository: Repository, commit: str, since: str = "") -> frozenset[str]:
    """Return the hashes that commits in the history of `commit` approve by trailer, after `since`.

    Blocking. Raises SourceFailed.
    """
    recent = repository.commits_between(since, commit, limit=_HISTORY)
    return frozenset(
        mark for entry in recent for mark in _APPROVAL.findall(repository.message(entry.id))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The effect of taking a commit: objects that change, and the live objects of the unit.

    `replaced` are immutable, and would be deleted and created again.
    """

    desired: DesiredSet
    changed: Sequence[Desired]
    live: Mapping[ObjectKey, Live]
    replaced: Collection[ObjectKey] = ()


@dataclass(frozen=True, slots=True)
class Consent:
    """The approval rules of one unit. `label` is the value of the unit's label."""

    unit: Unit
    label: str
    gates: Gates

    @property
    def needed(self) -> bool:
        return self.unit.spec.approval != "never"

    def asks(self, move: Move) -> tuple[str, str]:
        """Return (hash, why) of what needs approval; two empty texts when nothing does.

        The hash covers the objects before and after: another commit with the same effect has the
        same hash, and an object that was recreated meanwhile has another.
        """
        gone = sorted(key for key in move.live if self._leaves(move, key))
        if not (self.needed and (move.changed or gone)):
            return "", ""
        count = len(move.changed) + len(gone)
        everything = "1 object changes" if count == 1 else f"{count} objects change"
        said = [everything] if self.unit.spec.approval == "always" else [
            *self._risks(move), *(f"{key} leaves the cluster" for key in gone if not key.namespace)
        ]  # fmt: skip
        if not said:
            return "", ""
        lines = [_line(d.key, d.digest, move.live.get(d.key)) for d in move.changed]
        lines += [_line(key, "", move.live[key]) for key in gone]
        mark = hashlib.sha256("\n".join([self.label, *sorted(lines)]).encode()).hexdigest()[:12]
        more = len(said) - _REASONS_MAX
        return mark, ", ".join(said[:_REASONS_MAX]) + (f" and {more} more" if more > 0 else "")

    def _leaves(self, move: Move, key: ObjectKey) -> bool:
        meta: Obj = move.live[key].obj["metadata"]
        ours = get(meta, "labels", UNIT) == self.label and not meta.get("deletionTimestamp")
        return self.unit.spec.prune.enabled and ours and key not in move.desired.by_key()

    def _risks(self, move: Move) -> Iterator[str]:
        for d in move.changed:
            live = move.live.get(d.key)
            if d.key in move.replaced:
                yield f"{d.key} is deleted and created again"
            if live is None or d.key.group_kind != CLONESET:
                continue
            if leaves_place(d, live.obj, self.gates):
                yield f"pods of {d.key} are recreated, which went in place before"
            if self._promoted(d) and template_moved(d, live.obj):
                yield from _without_canary(d)

    def _promoted(self, d: Desired) -> bool:
        promotion = self.unit.spec.promotion
        return promotion is not None and promotion.workload.name == d.key.name


def request(mark: str, why: str) -> str:
    """Return what a unit waits for, and how to approve it."""
    return f'consent ({why}; git commit --allow-empty -m Agreed --trailer "{TRAILER}: {mark}")'


def _line(key: ObjectKey, digest: str, live: Live | None) -> str:
    uid = live.obj["metadata"].get("uid") or "" if live is not None else ""
    return f"{key} {uid} {annotation(live.obj, DIGEST) if live is not None else ''} {digest}"


def _without_canary(d: Desired) -> Iterator[str]:
    amounts = resolve_amounts(cloneset_facts(d.obj))
    for problem in amounts.problem_texts:
        yield f"{d.key}: {problem}"
    if amounts.asked(0) == amounts.replicas:
        yield f"all pods of {d.key} change without a canary"
