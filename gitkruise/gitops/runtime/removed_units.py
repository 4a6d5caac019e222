"""Units that are to end at a start: known to the cluster, gone from the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.gitops.runtime.finalizer import RemovedUnit, UnitFinalizer
from gitkruise.gitops.runtime.removals import Removals, recalled
from gitkruise.gitops.runtime.restore import left_alone_by, removed_record
from gitkruise.gitops.runtime.supervisor import Supervisor
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.record import Removal, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.sync.annotations import unit_label


async def end_removed(
    units: Mapping[str, Unit],
    supervisor: Supervisor,
    context: UnitContext,
    removals: Removals,
    finalizer: UnitFinalizer,
) -> None:
    """End the units that the cluster knows and the configuration, whose `units` these are, does
    not. Those without a Sink are not remembered, and leave their objects. Raises ApiError."""
    recorded = {name: unit for name, unit in units.items() if unit.spec.sink_ref}
    ends = await recalled(removals, recorded, supervisor.config.units)
    for name, end in ends.items():
        finalizer.add(_departed(name, end, supervisor, removals, context))
    for name in removals.left_in_other_shards(supervisor.whole.units):
        context.claims.end(name, unit_label(context.cluster, name))


def _departed(
    name: str, removal: Removal, supervisor: Supervisor, removals: Removals, context: UnitContext
) -> RemovedUnit:
    """A unit that left, with the branches that name it."""
    found = {
        sink: record
        for sink, branch in supervisor.branch_files.items()
        if (record := removed_record(branch, name, removal, supervisor.cluster)) is not None
    }
    unknown = UnitRecord(
        unit=name, cluster=supervisor.cluster, source="", state=State.UNKNOWN, message="",
        since=context.clock.now(), removal=removal,
    )  # fmt: skip
    outboxes = [supervisor.outboxes[sink] for sink in found]

    def offer(record: UnitRecord) -> None:
        for outbox in outboxes:
            outbox.offer(record)

    async def forget(record: UnitRecord, why: str) -> None:
        for outbox in outboxes:
            await outbox.forget(record, why)

    async def gone() -> None:
        if name not in supervisor.config.units:  # it may be back
            await removals.forget(name)

    record = next(iter(found.values()), unknown)
    spared = left_alone_by(supervisor.branch_files.values(), name)
    return RemovedUnit(record=record, offer=offer, forget=forget, gone=gone, spared=spared)
