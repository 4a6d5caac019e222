"""Picking up where an earlier run stopped: its records, read back from the status branch."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gitkruise.gitops.pruning import Pruning
from gitkruise.gitops.record_files import UNITS, files_by_unit
from gitkruise.gitops.record_read import read_commit, read_rollout, read_yaml
from gitkruise.model.document import Commit
from gitkruise.model.record import Removal, RolloutStep, UnitRecord
from gitkruise.model.states import State
from gitkruise.wire.names import ObjectKey
from gitkruise.wire.times import parse_duration, parse_time

POLICIES: Final = frozenset({"MirrorPrune", "Delete", "WaitForTermination", "Orphan"})
ACCOUNT: Final = re.compile(r"([a-z0-9-]+/[a-z0-9.-]+)?")
PROPAGATIONS: Final = frozenset({"Foreground", "Background", "Orphan"})


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of a unit from before its settings changed: its record as a branch would
    tell it, its steps, and what it has to delete."""

    record: UnitRecord
    steps: dict[ObjectKey, tuple[RolloutStep, ...]]
    pruning: Pruning

    @classmethod
    def of(cls, record: UnitRecord, pruning: Pruning) -> Past:
        """Of a unit that stops now. Objects are looked at anew."""
        lean = replace(
            record, objects=(), rollouts=(), steps=(), drift=(), findings=(), superseded=()
        )
        return cls(lean, dict(record.steps), pruning)


def by_unit(files: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """What of a branch's files is each unit's, by path."""
    return {
        unit: {path: files[path] for path in paths} for unit, paths in files_by_unit(files).items()
    }


def resumed(
    files: Mapping[str, bytes], unit: str, cluster: str
) -> tuple[UnitRecord | None, dict[ObjectKey, tuple[RolloutStep, ...]]]:
    """(record, steps) of a unit as the branch's files tell; (None, {}) when they tell nothing.

    The branch is an answer, not an input: what is unreadable there is begun anew.
    """
    root = f"{UNITS}/{unit}"
    steps: dict[ObjectKey, tuple[RolloutStep, ...]] = {}
    for path, data in files.items():
        if path.startswith(f"{root}/rollouts/"):
            try:
                key, found = read_rollout(data)
            except ValueError:
                continue
            steps[key] = found
    try:
        raw = read_yaml(files[f"{root}/status.yaml"])
        record = _record(raw, unit, cluster)
    except (KeyError, ValueError):
        return None, steps
    return record, steps


def departed(
    told: Mapping[str, Mapping[str, bytes]], units: Collection[str], cluster: str
) -> list[UnitRecord]:
    """Records of units of `cluster` that a branch tells of (files by unit), not among `units`."""
    found = [resumed(mine, unit, cluster)[0] for unit, mine in told.items() if unit not in units]
    return [r for r in found if r is not None and r.removal is not None]


def _record(raw: Mapping[str, Any], unit: str, cluster: str) -> UnitRecord:
    if raw.get("cluster", cluster) != cluster:
        raise ValueError("a record of another cluster")
    since = parse_time(str(raw["since"]))
    if since is None:
        raise ValueError("no time in the record")
    return UnitRecord(
        unit=unit,
        cluster=cluster,
        source=str(raw.get("source", "")),
        state=State(raw["state"]),
        message=str(raw.get("message", "")),
        since=since,
        attempted=_commit(raw.get("attempted")),
        applied=_commit(raw.get("applied")),
        causal=_commit(raw.get("causal")),
        removal=_removal(raw.get("removal")),
    )


def _removal(raw: Any) -> Removal | None:
    """What is not known for certain is not known: nothing is deleted on a guess."""
    try:
        policy, propagation = str(raw["policy"]), str(raw["propagation"])
        limit, timeout = int(raw["limit"]), parse_duration(str(raw["timeout"]))
        account = str(raw.get("account", ""))
    except (KeyError, TypeError, ValueError):
        return None
    known = policy in POLICIES and propagation in PROPAGATIONS
    return (
        Removal(
            policy=policy, propagation=propagation, timeout=timeout, limit=limit, account=account
        )
        if known and ACCOUNT.fullmatch(account)
        else None
    )


def _commit(raw: Any) -> Commit | None:
    return read_commit(raw) if isinstance(raw, Mapping) else None
