"""Units of every cluster as the status branches have them, for `status --all-clusters`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.console.ages import ago
from gitkruise.cli.console.output import list_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.cli.views.status import WORST_FIRST, unit_obj
from gitkruise.model.gitops.unit_state import State
from gitkruise.printable import many
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.cli.context.local_repository import ClusterRecord
    from gitkruise.gitops.status.reader import RecordedUnit

_HEADS: Final = (
    Column(name="CLUSTER", least=8),
    Column(name="UNIT", least=10),
    Column(name="COMMIT", drop=2),
    Column(name="STATE"),
    Column(name="SINCE", drop=1),
    Column(name="MESSAGE", least=14, prose=True),
    Column(name="WRITTEN"),  # stays in a narrow window: states are as old as their records
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClustersView:
    """Records of clusters, and the states and the namespace to show; all if those are empty.

    `unread` branches could not be read.
    """

    records: Sequence[ClusterRecord]
    now: datetime
    states: Collection[State] = ()
    namespace: str = ""
    unread: int = 0

    def rows(self) -> Iterator[tuple[ClusterRecord, RecordedUnit]]:
        """Yield each chosen unit with the record that it is in."""
        for record in self.records:
            for unit in record.units:
                here = unit.unit.partition("/")[0] == self.namespace or not self.namespace
                if here and (unit.state in self.states or not self.states):
                    yield record, unit

    def in_state(self, states: Collection[State]) -> bool:
        """Return whether any unit, chosen or not, is in one of `states`."""
        return any(unit.state in states for record in self.records for unit in record.units)


def clusters_lines(view: ClustersView, style: Style, *, wide: bool) -> Iterator[str]:
    """Yield the table, totals, and the source of all this."""
    rows = [_row(record, unit, style, view.now) for record, unit in view.rows()]
    if rows:
        yield from fit_table(_HEADS, rows, 10_000 if wide else style.width)
        yield ""
    counts = Counter(unit.state for _, unit in view.rows())
    totals = " · ".join(f"{counts[s]} {s.lower()}" for s in WORST_FIRST if counts[s])
    clusters = many(len(view.records), "cluster")
    yield f"{clusters}, {many(len(rows), 'unit')}" + (f": {totals}" if totals else "")
    if view.unread:
        yield f"not read: the status branches of {many(view.unread, 'cluster')}"
    for record in view.records:
        if not record.units:
            yield f"cluster {record.cluster} has no unit"
    if rows:
        yield "States are those of the status branches, as of the times under WRITTEN."


def _row(record: ClusterRecord, unit: RecordedUnit, style: Style, now: datetime) -> tuple[str, ...]:
    commit, state = unit.about, style.state(unit.state)
    short = commit.short if commit else ""
    message = f"waits for {unit.waits}" if unit.waits else unit.message
    since, written = ago(unit.since, now), ago(record.written, now)
    return (record.cluster, unit.unit, short, state, since, message, written)


def clusters_obj(view: ClustersView) -> dict[str, Any]:
    """Return a list of units, each with its cluster and the time of the record."""
    items = [
        {
            "cluster": record.cluster,
            "written": format_time(record.written) if record.written else "",
            "since": format_time(unit.since) if unit.since else "",
            **unit_obj(unit),
        }
        for record, unit in view.rows()
    ]
    clusters = [record.cluster for record in view.records]
    return {**list_of("ClusterUnitList", items), "clusters": clusters}
