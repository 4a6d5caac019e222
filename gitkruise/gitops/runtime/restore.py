"""Picking up where an earlier run stopped: its records, read back from the status branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from gitkruise.gitops.config.fingerprints import sink_of, status_place
from gitkruise.gitops.reconcile.pruner import UnitPruner
from gitkruise.gitops.status.codecs import COMMIT
from gitkruise.gitops.status.parser import read_interventions, read_rollout, read_yaml
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.reader import read_objects
from gitkruise.gitops.status.serializer import UNITS, files_by_unit
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import Removal, RolloutStep, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.sync.annotations import left_alone
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import parse_time


@dataclass(frozen=True, slots=True)
class RestoredState:
    """State of a unit from before its settings changed: its record as on a status branch, its
    steps, and the objects that it has to delete."""

    record: UnitRecord
    steps: dict[ObjectKey, tuple[RolloutStep, ...]]
    pruning: UnitPruner

    @classmethod
    def of(cls, record: UnitRecord, pruner: UnitPruner) -> RestoredState:
        """Return the state of a unit that stops now. Its objects are observed again."""
        lean = replace(
            record, objects=(), rollouts=(), steps=(), drift=(), findings=(), superseded=()
        )
        return cls(lean, dict(record.steps), pruner)


def by_unit(files: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Return the files of a status branch by unit and path."""
    return {
        unit: {path: files[path] for path in paths} for unit, paths in files_by_unit(files).items()
    }


Restored: TypeAlias = tuple[
    UnitRecord | None, dict[ObjectKey, tuple[RolloutStep, ...]], frozenset[ObjectKey]
]


@dataclass(frozen=True, slots=True)
class BranchRecords:
    """The files of a status branch by unit, as they were when it was opened, and the records of
    units that have not started yet."""

    cluster: str
    files: Mapping[str, Mapping[str, bytes]]
    _parsed: dict[str, Restored]

    @classmethod
    def read(
        cls, files: Callable[[], Mapping[str, bytes]], units: Iterable[str], cluster: str
    ) -> BranchRecords:
        """Read a branch and the records of `units`.

        Blocking: thousands of records take seconds, in which a lease is to be renewed.
        """
        found, parsed = by_unit(files()), {}
        for unit in units:
            with suppress(Exception):  # `take` raises it again, and it stops that unit alone
                parsed[unit] = restored(found.get(unit, {}), unit, cluster)
        return cls(cluster, found, parsed)

    def take(self, unit: str) -> Restored:
        """Return what is `restored` of a unit that starts."""
        known = self._parsed.pop(unit, None)
        return known or restored(self.files.get(unit, {}), unit, self.cluster)


def restored(files: Mapping[str, bytes], unit: str, cluster: str) -> Restored:
    """(record, steps, live objects) of a unit as the branch's files state; (None, {}, empty) when
    they state nothing.

    The branch is an answer, not an input: what is unreadable there is begun again, and nothing in
    it commands (removals come from the cluster: gitops.removals).
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
        return None, steps, frozenset()
    try:
        interventions = read_interventions(files.get(f"{root}/interventions.yaml", b"{}\n"))
        news = read_objects(files.get(f"{root}/objects.tsv", b""))
    except ValueError:
        interventions, news = (), {}
    had = frozenset(key for key, one in news.items() if one.commit)
    return replace(record, interventions=interventions), steps, had


def removed_record(
    branch: Mapping[str, Mapping[str, bytes]], unit: str, removal: Removal, cluster: str
) -> UnitRecord | None:
    """Return the record of a removed unit from a status branch; None without one.

    The branch is trusted with texts only: the deletion policy is `removal`, from the cluster.
    """
    record = restored(branch.get(unit, {}), unit, cluster)[0]
    return replace(record, removal=removal) if record is not None else None


def hand_over(
    config: Config,
    outboxes: Mapping[str, Outbox],
    branches: Mapping[str, Mapping[str, Mapping[str, bytes]]],
    cluster: str,
) -> None:
    """Let status branches forget the units that report to another branch now.

    `branches` has the files of each branch as they were found: a Sink may change between two runs.
    """
    places = {sink: status_place(config, sink) for sink in config.sinks}
    for sink, outbox in outboxes.items():
        for name in (outbox.reported.keys() | branches[sink].keys()) & config.units.keys():
            now = sink_of(config.units[name])
            if places.get(now) == places[sink]:
                continue
            record = outbox.reported.get(name)
            record = record or restored(branches[sink].get(name, {}), name, cluster)[0]
            if record is not None:
                outbox.hand_over(record, f"its Sink is {now} now" if now else "it has no Sink now")


def left_alone_by(
    branches: Iterable[Mapping[str, Mapping[str, bytes]]], unit: str
) -> dict[ObjectKey, str]:
    """Return the objects that a unit left alone by its status branches, with the reason.

    A branch may be forged: that can keep objects, and delete none.
    """
    found: dict[ObjectKey, str] = {}
    for branch in branches:
        with suppress(ValueError):
            news = read_objects(branch.get(unit, {}).get(f"{UNITS}/{unit}/objects.tsv", b""))
            found |= {key: why for key, one in news.items() if (why := left_alone(one.message))}
    return found


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
    )


def _commit(raw: Any) -> GitCommit | None:
    return COMMIT.read(raw) if isinstance(raw, Mapping) else None
