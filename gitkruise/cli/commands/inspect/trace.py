"""gitkruise trace: trace a pod to its commit, file and unit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.console.ages import ago
from gitkruise.cli.console.command import ExitCodesCommand, namespace_option, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.local_repository import (
    record_options,
    records_at_hand,
    repository_at_hand,
)
from gitkruise.wire.primitives.names import short_name

if TYPE_CHECKING:
    from gitkruise.cli.context.local_repository import Records
    from gitkruise.gitops.inspect.trace import Traced


@click.command(cls=ExitCodesCommand, exits=(4, 5))
@click.argument("pod_name", metavar="POD")
@namespace_option
@record_options
@output_option
@cluster_options
def trace(pod_name: str, namespace: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Trace a pod to git: its revision, and the commit, author and file of that revision.

    \b
    Examples:
      gitkruise trace checkout-4kq2x -n shop
      gitkruise trace pod/checkout-4kq2x -n shop --sandbox -o json

    Pods carry no annotation of gitkruise; the commit is found through the revision of the pod.
    """
    _, path = repository_at_hand(flags["config_path"], flags["repo"])
    name = pod_name.removeprefix("pods/").removeprefix("pod/").removeprefix("po/")
    found, records, now = result_of(_ask(cluster, namespace, name, path))
    style = Style.of(read_environment())
    if flags["output"] == "json":
        say_json(trace_obj(found, records), style)
    else:
        say(trace_lines(found, records, style, now), style)


async def _ask(
    choice: ClusterChoice, namespace: str, name: str, path: str
) -> tuple[Traced, Records, datetime]:
    from gitkruise.cli.commands.inspect.why import read_kinds  # noqa: PLC0415
    from gitkruise.gitops.inspect.trace import OWNERS, owner_of_pod, trace_pod  # noqa: PLC0415
    from gitkruise.model.workloads.feature_gates import Gates  # noqa: PLC0415

    async with connected(choice, read_environment()) as chosen:
        survey = await read_kinds(chosen, OWNERS, namespace or chosen.namespace)
        now = chosen.clock.now()
        owner, pod = owner_of_pod(survey, name, now)
        counts = owner.rollout.revisions if owner.rollout else ()
        commits = frozenset({owner.commit, *(c.commit for c in counts)})
        records = await asyncio.to_thread(records_at_hand, chosen.name, path, commits)
        plan = survey.plan(owner.key, now, Gates())
        return trace_pod(pod, owner, plan, records.steps), records, now


def trace_lines(t: Traced, records: Records, style: Style, now: datetime) -> Iterator[str]:
    """Yield a line for each step from the pod to git."""
    pod, owner = t.pod, t.owner
    condition = "terminating" if pod.deleting is not None else "ready" if pod.ready else "not ready"
    role = f" ({t.revision.role})" if t.revision else ""
    node = f" on {pod.node}" if pod.node else ""
    yield f"pod       {style.paint(pod.name, 'bold')}   {pod.phase}, {condition}{node}"
    yield f"owner     {short_name(owner.key)}   {style.state(owner.state)}"
    images = ", ".join(f"{c.name} {c.image}" for c in pod.containers)
    yield f"revision  {pod.short_revision or '-'}{role}   {images}"
    if t.subset is not None:
        yield f"subset    {t.subset.subset} of WorkloadSpread {t.subset.spread}"
    yield f"commit    {_commit(t.commit, records, now)}"
    if t.restored:
        yield f"again by  {_commit(t.restored, records, now)}"
    if t.step is not None:
        asked = "all" if t.step.asked == t.step.replicas else f"{t.step.asked}"
        glyph = style.glyph(t.step.state)
        yield f"step      {t.step.title}: {asked} of {t.step.replicas} asked {glyph}"
    if t.artifact:
        yield f"artifact  {t.artifact}"
    if owner.path:
        yield f"file      {owner.path}   unit {owner.unit}"
    if t.held is not None:
        detail = f": {t.held.detail}" if t.held.detail else ""
        yield f"held      {t.held.why}{detail}"


def _commit(name: str, records: Records, now: datetime) -> str:
    if not name:
        return "unknown: its revision has no annotation of gitkruise"
    found = records.commit(name)
    if found is None:
        return name[:7]
    return f'{name[:7]} "{found.subject}"  {found.author} · {ago(found.time, now)}'


def trace_obj(t: Traced, records: Records) -> dict[str, Any]:
    """Return the trace as a versioned document."""

    def commit(name: str) -> dict[str, str] | None:
        found = records.commit(name)
        known = {"subject": found.subject, "author": found.author} if found else {}
        return {"id": name, **known} if name else None

    return {
        "apiVersion": API_VERSION,
        "kind": "PodTrace",
        "pod": {"namespace": t.pod.namespace, "name": t.pod.name, "node": t.pod.node},
        "phase": "Terminating" if t.pod.deleting is not None else str(t.pod.phase),
        "ready": t.pod.ready,
        "images": {c.name: c.image for c in t.pod.containers},
        "owner": {
            "kind": t.owner.key.kind,
            "namespace": t.owner.key.namespace,
            "name": t.owner.key.name,
            "state": str(t.owner.state),
        },
        "revision": t.pod.short_revision,
        "role": t.revision.role if t.revision else "",
        **({"workloadSpread": t.subset.spread, "subset": t.subset.subset} if t.subset else {}),
        "commit": commit(t.commit),
        "restoredBy": commit(t.restored),
        "change": t.step.change if t.step else "",
        "path": t.owner.path,
        **({"artifact": t.artifact} if t.artifact else {}),
        "unit": t.owner.unit,
        "held": {"why": str(t.held.why), "detail": t.held.detail} if t.held else None,
    }
