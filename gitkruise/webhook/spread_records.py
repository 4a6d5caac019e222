"""Records of WorkloadSpreads on a real cluster: choose or let go, record, then answer.

Source: WS-20 to WS-27, WS-40, WS-41.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from gitkruise.admission.rules.request import CREATE
from gitkruise.errors import ApiError, Conflict
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload_spread import (
    VERSION,
    SpreadFacts,
    choose_subset,
    recorded_deletion,
    replicas_of,
    spread_facts,
    spread_of_new_pod,
    subset_match,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET, DEPLOYMENT, REPLICASET, SPREAD
from gitkruise.model.workloads.pod import POD
from gitkruise.webhook.budget_guard import ATTEMPTS, is_dry_run, operation_of, pod_before
from gitkruise.webhook.review import Review
from gitkruise.webhook.view_with_read import WithRead
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef

log: Final = logging.getLogger(__name__)

SPREADS: Final = ResourceRef(SPREAD.group, VERSION, "workloadspreads")
_TARGETS: Final[Mapping[GroupKind, ResourceRef]] = {
    CLONESET: ResourceRef("apps.kruise.io", "v1beta1", "clonesets"),
    DEPLOYMENT: ResourceRef("apps", "v1", "deployments"),
    REPLICASET: ResourceRef("apps", "v1", "replicasets"),
}
_LEAVES: Final = frozenset({PodOperation.DELETE, PodOperation.EVICT})
Status = Callable[[SpreadFacts, ClusterView], Obj | None]


@dataclass(slots=True)
class SpreadRecords:
    """Records which pods a WorkloadSpread gains and loses before the API server is answered."""

    transport: Transport
    clock: Clock
    gates: Gates
    # Names come from pods: a lock goes with the last review that holds it.
    _locks: WeakValueDictionary[ObjectKey, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )

    async def view_for(self, review: Review, view: ClusterView) -> ClusterView:
        """Record the subset of a new pod, and return the view from which it was chosen.

        The admission chain chooses once more from that view, and comes to the same. Raises
        ApiError, Conflict where others were faster every time.
        """
        pod, namespace = review.obj, review.key.namespace
        if not self.gates.workload_spread or review.operation != CREATE:
            return view
        if review.key.group_kind != POD or review.subresource or pod is None:
            return view
        found = spread_of_new_pod(view, pod, namespace)
        if found is None:
            return view

        def chosen(spread: SpreadFacts, seen: ClusterView) -> Obj | None:
            replicas, now = replicas_of(seen, spread), self.clock.now()
            choice = choose_subset(spread, pod, uid=review.uid, replicas=replicas, now=now)
            return choice.status if choice is not None else None

        return await self._recorded(found.key, view, chosen, dry_run=is_dry_run(review))

    async def leaving(self, review: Review, view: ClusterView) -> None:
        """Record a pod that is deleted or evicted. What cannot be recorded is logged."""
        if not self.gates.workload_spread or operation_of(review) not in _LEAVES:
            return
        try:
            pod = await pod_before(review, self.transport)
            match = subset_match((pod or {"metadata": {}})["metadata"].get("annotations") or {})
            if pod is None or match is None:
                return

            def let_go(spread: SpreadFacts, seen: ClusterView) -> Obj | None:
                replicas, now = replicas_of(seen, spread), self.clock.now()
                return recorded_deletion(spread, pod, replicas=replicas, now=now)

            key = ObjectKey(*SPREAD, review.key.namespace, match.spread)
            await self._recorded(key, view, let_go, dry_run=is_dry_run(review))
        except ApiError as error:
            log.warning(log_line("spread-not-recorded", pod=review.key, error=error))

    async def _recorded(
        self, key: ObjectKey, view: ClusterView, status: Status, *, dry_run: bool
    ) -> ClusterView:
        """Write what `status` makes of the WorkloadSpread as it is now; the view before that."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            for _ in range(ATTEMPTS):
                try:
                    raw = await self._read(SPREADS, SPREAD, key)
                    seen = await self._seen(key, raw, view)
                    body = None if raw is None else status(spread_facts(raw), seen)
                    if body is not None and raw is not None and not dry_run:
                        await self._write(key, {**raw, "status": body})
                except Conflict:
                    continue
                return seen
        raise Conflict(f"couldn't update WorkloadSpread {key.name} due to conflicts")

    async def _seen(self, key: ObjectKey, raw: Obj | None, view: ClusterView) -> ClusterView:
        """The view with the WorkloadSpread as read, and its target where percentages need it."""
        others = (one for one in view.objects(SPREAD, key.namespace) if _name(one) != key.name)
        listed = sorted([*others, *([raw] if raw is not None else [])], key=_name)
        found: dict[ObjectKey, Obj] = {}
        spread = spread_facts(raw) if raw is not None else None
        if spread is not None and any(isinstance(one.limit, str) for one in spread.subsets):
            ref = _TARGETS.get(spread.target.group_kind)
            target = await self._read(ref, spread.target.group_kind, spread.target) if ref else None
            found |= {spread.target: target} if target is not None else {}
        return WithRead(view, found, {(SPREAD, key.namespace): listed})

    async def _read(self, ref: ResourceRef, kind: GroupKind, key: ObjectKey) -> Obj | None:
        raw = await find_object(self.transport, ref, key.name, key.namespace)
        if raw is None:
            return None
        return {"apiVersion": f"{ref.group}/{ref.version}", "kind": kind.kind, **raw}

    async def _write(self, key: ObjectKey, body: Obj) -> None:
        await self.transport.send(
            ApiRequest(
                verb="update",
                resource=SPREADS,
                namespace=key.namespace,
                name=key.name,
                subresource="status",
                body=body,
            )
        )


def _name(raw: Obj) -> str:
    return str(raw["metadata"]["name"])
