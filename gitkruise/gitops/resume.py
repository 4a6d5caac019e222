"""Picking up where an earlier run stopped: its records, read back from the status branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitkruise.gitops.record_read import read_commit, read_rollout, read_yaml
from gitkruise.model.document import Commit
from gitkruise.model.record import RolloutStep, UnitRecord
from gitkruise.model.states import State
from gitkruise.wire.names import ObjectKey
from gitkruise.wire.times import parse_time


def resumed(
    files: Mapping[str, bytes], unit: str, cluster: str
) -> tuple[UnitRecord | None, dict[ObjectKey, tuple[RolloutStep, ...]]]:
    """(record, steps) of a unit as the branch's files tell; (None, {}) when they tell nothing.

    The branch is an answer, not an input: what is unreadable there is begun anew.
    """
    root = f"units/{unit}"
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


def _record(raw: Mapping[str, Any], unit: str, cluster: str) -> UnitRecord:
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
    )


def _commit(raw: Any) -> Commit | None:
    return read_commit(raw) if isinstance(raw, Mapping) else None
