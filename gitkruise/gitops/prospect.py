"""What a commit would do: object changes, and what they do to pods, offline or on live ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from gitkruise.errors import ApiError, Finding
from gitkruise.gitops.changes import changes_between, rollouts_started, with_live
from gitkruise.model.change import Change, Desired
from gitkruise.model.labels import CLONESET, SIDECARSET
from gitkruise.model.settings import Gates
from gitkruise.wire.catalog import Catalog

if TYPE_CHECKING:
    from gitkruise.gitops.planning import Side
    from gitkruise.gitops.preview import Forecast
    from gitkruise.kube.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Object changes in key order, and what they do to pods.

    `live`: pods have their real names. `staged`: offline, and what was before the base was played.
    """

    changes: tuple[Change, ...]
    forecast: Forecast | None
    live: bool
    unplayed: tuple[Finding, ...] = field(default=())  # why some rollout could not be played
    staged: bool = False


def offline_preview(
    base: Side | None,
    target: Side,
    catalog: Catalog,
    gates: Gates,
    *,
    earlier: Sequence[Sequence[Desired]] = (),
) -> Preview:
    """Git to git: from the base at rest, after what was `earlier`, stage by stage.

    Without that the base counts as complete: no partition of it holds anybody.
    """
    before = base.objects if base else ()
    changes = changes_between(before, target.objects, catalog)
    moved = rollouts_started(changes)
    if not moved:
        return Preview(changes=changes, forecast=None, live=False)
    from gitkruise.gitops.preview import offline_world, play  # noqa: PLC0415  the model cluster
    from gitkruise.kube.wall import wall_time  # noqa: PLC0415

    world, rested = offline_world((*earlier, before), catalog, gates, wall_time(), moved=moved)
    forecast, unplayed = play(world, changes, target.objects, catalog, rested, gates)
    return Preview(
        changes=changes, forecast=forecast, live=False, unplayed=unplayed, staged=bool(earlier)
    )


async def live_preview(
    cluster: tuple[Transport, datetime],
    base: Side | None,
    target: Side,
    catalog: Catalog,
    gates: Gates,
    *,
    tried_on: str = "",
) -> Preview:
    """From what the cluster has now, drift that would be put right included. Raises ApiError.

    With `tried_on`, the cluster's name, it is asked to try every change without keeping it.
    """
    try:
        return await _live_preview(cluster, (base, target), catalog, gates, tried_on)
    except ExceptionGroup as group:  # requests that failed together are one failure
        known, other = group.split(ApiError)
        if known is None or other is not None:
            raise
        raise _first(known) from group


def _first(group: ExceptionGroup[ApiError]) -> ApiError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


async def _live_preview(
    cluster: tuple[Transport, datetime],
    sides: tuple[Side | None, Side],
    catalog: Catalog,
    gates: Gates,
    tried_on: str,
) -> Preview:
    from gitkruise.gitops.against_live import DryRun, read_live  # noqa: PLC0415  not offline
    from gitkruise.gitops.engine import delegated_by  # noqa: PLC0415  not offline
    from gitkruise.gitops.preview import live_world, loosened_by, play  # noqa: PLC0415  the model
    from gitkruise.kube.discovery import served_catalog  # noqa: PLC0415  not offline

    (transport, now), (base, target) = cluster, sides
    served = await served_catalog(transport, catalog)
    changes = changes_between(base.objects if base else (), target.objects, catalog)
    seen = await read_live(transport, served, [c.key for c in changes])
    changes = with_live(changes, target.objects, seen.objects, served, target.ignore)
    refused: tuple[Finding, ...] = ()
    if tried_on:
        trial = DryRun(
            transport=transport, catalog=served, cluster=tried_on, gates=gates, live=seen.objects
        )
        changes, refused = await trial.try_out(changes, target)
    kinds = {d.key.group_kind for d in target.objects}
    spaces = {d.key.namespace for d in target.objects if d.key.group_kind == CLONESET}
    spaces |= {""} if SIDECARSET in kinds else set()  # their pods may be anywhere
    world = await live_world(transport, catalog, spaces, gates)
    forecast, unplayed = play(world, changes, target.objects, catalog, now, gates)
    delegated = await delegated_by(transport, target.units, now)
    forecast = loosened_by(forecast, world, target.objects, delegated)
    told = (*seen.findings, *refused, *unplayed)
    return Preview(changes=changes, forecast=forecast, live=True, unplayed=told)
