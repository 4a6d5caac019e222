"""Preview of a commit: changed objects and simulated rollouts, offline or of live objects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from gitkruise.errors import ApiError, Finding
from gitkruise.gitops.preview.changes import changes_between, rollouts_started, with_live
from gitkruise.model.gitops.change import Desired, ObjectChange
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET, SIDECARSET
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import ObjectKey

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.simulate import Forecast
    from gitkruise.kube.client.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Object changes in key order, and what they do to pods.

    `live`: pods have their real names. `staged`: offline, and what was before the base was played.
    """

    changes: tuple[ObjectChange, ...]
    forecast: Forecast | None
    live: bool
    unplayed: tuple[Finding, ...] = field(default=())  # why some rollout could not be played
    staged: bool = False
    unknown: Mapping[ObjectKey, str] = field(default_factory=dict)  # objects, and why


def offline_preview(
    base: PlanSide | None,
    target: PlanSide,
    catalog: Catalog,
    gates: Gates,
    *,
    earlier: Sequence[Sequence[Desired]] = (),
) -> Preview:
    """Git to git: from the base at rest, after what was `earlier`, stage by stage.

    Without that the base counts as complete: no partition of it holds anybody.
    """
    from gitkruise.gitops.preview.ownership import owned_changes  # noqa: PLC0415  as PlanSide
    from gitkruise.kube.system.wall_clock import wall_time  # noqa: PLC0415

    before = base.objects if base else ()
    owned = owned_changes(
        changes_between(before, target.objects, catalog), base, target, {}, wall_time()
    )
    changes, told = owned.changes, owned.findings
    moved = rollouts_started(changes)
    if not moved:
        return Preview(changes=changes, forecast=None, live=False, unplayed=told)
    from gitkruise.gitops.preview.simulate import offline_world, play  # noqa: PLC0415  the model cluster

    world, rested = offline_world((*earlier, before), catalog, gates, wall_time(), moved=moved)
    played = play(world, changes, target.objects, catalog, rested, gates)
    return Preview(
        changes=changes, forecast=played.forecast, live=False,
        unplayed=(*told, *played.findings), staged=bool(earlier), unknown=played.unknown,
    )  # fmt: skip


async def live_preview(
    base: PlanSide | None,
    target: PlanSide,
    catalog: Catalog,
    gates: Gates,
    *,
    transport: Transport,
    now: datetime,
    tried_on: str = "",
) -> Preview:
    """From what the cluster has now, drift that would be put right included. Raises ApiError.

    With `tried_on`, the cluster's name, it is asked to try every change without keeping it.
    """
    try:
        return await _live_preview(
            base, target, catalog, gates, transport=transport, now=now, tried_on=tried_on
        )
    except ExceptionGroup as group:  # requests that failed together are one failure
        known, other = group.split(ApiError)
        if known is None or other is not None:
            raise
        raise _first(known) from group


def _first(group: ExceptionGroup[ApiError]) -> ApiError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


async def _live_preview(
    base: PlanSide | None,
    target: PlanSide,
    catalog: Catalog,
    gates: Gates,
    *,
    transport: Transport,
    now: datetime,
    tried_on: str,
) -> Preview:
    from gitkruise.gitops.cluster.engine import delegated_by  # noqa: PLC0415  not offline
    from gitkruise.gitops.preview.live_diff import DryRun, read_live  # noqa: PLC0415  not offline
    from gitkruise.gitops.preview.ownership import owned_changes  # noqa: PLC0415  as PlanSide
    from gitkruise.gitops.preview.simulate import live_world, loosened_by, play  # noqa: PLC0415  the model
    from gitkruise.kube.client.discovery import served_catalog  # noqa: PLC0415  not offline

    served = await served_catalog(transport, catalog)
    changes = changes_between(base.objects if base else (), target.objects, catalog)
    seen = await read_live(transport, served, [c.key for c in changes])
    changes = with_live(changes, target.objects, seen.objects, served, target.ignore)
    owned = owned_changes(changes, base, target, seen.objects, now)
    changes = owned.changes
    refused: tuple[Finding, ...] = ()
    if tried_on:
        trial = DryRun(
            transport=transport, catalog=served, cluster=tried_on, gates=gates, live=seen.objects
        )
        ours = tuple(d for d in target.objects if d.key not in owned.withheld)
        changes, refused = await trial.try_out(changes, replace(target, objects=ours))
    kinds = {d.key.group_kind for d in target.objects}
    spaces = {d.key.namespace for d in target.objects if d.key.group_kind == CLONESET}
    spaces |= {""} if SIDECARSET in kinds else set()  # their pods may be anywhere
    world = await live_world(transport, catalog, spaces, gates)
    played = await asyncio.to_thread(play, world, changes, target.objects, catalog, now, gates)
    delegated = await delegated_by(transport, target.units, now)
    forecast = loosened_by(played.forecast, world, target.objects, delegated)
    told = (*seen.findings, *owned.findings, *refused, *played.findings)
    return Preview(
        changes=changes, forecast=forecast, live=True, unplayed=told, unknown=played.unknown
    )
