"""Records of a WorkloadSpread about pods that come and go: what OpenKruise's pod webhook writes.

Source: WS-24, WS-40.
"""

from __future__ import annotations

from gitkruise.model.planning.workload_spread import (
    recorded_creation,
    recorded_deletion,
    replicas_of,
    spread_facts,
    subset_match,
)
from gitkruise.model.workloads.labels import SPREAD
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.world.store.commit import store
from gitkruise.world.store.request_context import RequestContext


def record_creation(call: RequestContext, pod: Obj) -> None:
    """Record a pod that was created, in the WorkloadSpread that its annotation names."""
    _record(call, pod, created=True, dry_run=call.options.dry_run)


def record_deletion(call: RequestContext, pod: Obj, *, dry_run: bool) -> None:
    """Record a pod that is about to go."""
    _record(call, pod, created=False, dry_run=dry_run)


def _record(call: RequestContext, pod: Obj, *, created: bool, dry_run: bool) -> None:
    namespace = pod["metadata"].get("namespace") or ""
    if call.kind.group_kind != POD or dry_run or not call.state.divides_pods(namespace):
        return
    match = subset_match(pod["metadata"].get("annotations") or {})
    raw = call.state.get(ObjectKey(*SPREAD, namespace, match.spread)) if match else None
    kind = call.state.catalog.stored(SPREAD)
    if raw is None or kind is None:
        return
    spread = spread_facts(raw)
    record = recorded_creation if created else recorded_deletion
    status = record(spread, pod, replicas=replicas_of(call.state, spread), now=call.now)
    if status is not None:
        store(call.state, kind, {**raw, "status": status})
