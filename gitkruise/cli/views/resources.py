"""JSON items and table rows of `get`, noun by noun, from the same facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.console.ages import age
from gitkruise.cli.console.environment import BOUNDLESS
from gitkruise.cli.console.style import Style
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.gitops.inspect.explain import left_git
from gitkruise.gitops.inspect.shard_holders import WITHOUT_SHARDS, ShardHolders
from gitkruise.gitops.inspect.unit_objects import UNRECORDED
from gitkruise.kube.client.events import last_seen
from gitkruise.model.gitops.record import Rollout, pod_counts
from gitkruise.model.gitops.unit_state import SETTLED, State, worst
from gitkruise.wire.primitives.names import GroupKind, noun
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

if TYPE_CHECKING:
    from gitkruise.gitops.inspect.cluster_view import Managed
    from gitkruise.gitops.status.reader import RecordedUnit
    from gitkruise.model.workloads.pod import PodFacts
    from gitkruise.wire.primitives.names import Obj

Item = dict[str, Any]
_KNOWN_BY_GIT: Final = frozenset({State.REJECTED, State.STUCK, State.DRIFTED, State.UNKNOWN})


def rollout_obj(r: Rollout) -> Item:
    """Return one rollout; amounts are numbers, the partition is as written."""
    return {
        "state": str(r.state),
        "message": r.message,
        "replicas": r.replicas,
        "partition": r.partition,
        "canary": r.canary,
        "kept": r.kept,
        "asked": r.asked,
        "updated": r.updated,
        "updatedReady": r.updated_ready,
        "ready": r.ready,
        "available": r.available,
        "total": r.total,
        "maxUnavailable": r.budget,
        "inPlace": r.in_place,
        "updateRevision": r.update_revision,
        "currentRevision": r.current_revision,
        "revisions": [
            {
                "hash": c.hash,
                "role": c.role,
                "commit": c.commit,
                "pods": c.pods,
                "available": c.available,
                "images": dict(c.images),
            }
            for c in r.revisions
        ],
        "failing": [{"pod": pod, "why": why} for pod, why in r.failing],
    }


def rollouts(found: Sequence[Managed]) -> list[Item]:
    return [
        {
            "kind": m.key.kind,
            "group": m.key.group,
            "namespace": m.key.namespace,
            "name": m.key.name,
            "unit": m.unit,
            "commit": m.commit,
            "path": m.path,
            **({"artifact": m.artifact} if m.artifact else {}),
            **(rollout_obj(m.rollout) if m.rollout else {"state": m.state, "message": m.message}),
        }
        for m in found
    ]


def pods(found: Sequence[Managed]) -> list[Item]:
    return [_pod(pod, m) for m in found for pod in m.pods]


def _pod(pod: PodFacts, m: Managed) -> Item:
    counts = {c.hash: c for c in (m.rollout.revisions if m.rollout else ())}
    known = counts.get(pod.short_revision)
    state = "Terminating" if pod.deleting is not None else str(pod.phase)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "owner": m.key.name,
        "phase": state,
        "ready": pod.ready,
        "revision": pod.short_revision,
        "commit": known.commit if known else "",
        "restarts": pod.restarts,
        "node": pod.node,
        "images": {c.name: c.image for c in pod.containers},
    }


def revisions(found: Sequence[Managed]) -> list[Item]:
    return [
        {
            "namespace": m.key.namespace,
            "owner": m.key.name,
            "name": f"{m.key.name}-{r['hash']}",
            **r,
        }
        for m in found
        if m.rollout
        for r in rollout_obj(m.rollout)["revisions"]
    ]


def units(
    found: Sequence[Managed], recorded: Sequence[RecordedUnit], scope: str,
    shards: ShardHolders = WITHOUT_SHARDS, *, partial: bool = False,
) -> list[Item]:  # fmt: skip
    """Return units from the annotations of live objects, and from the status branch.

    The state of a unit that no replica reconciles is not known. `found` are the workloads of all
    namespaces; of a `partial` list nothing is counted, and only the record gives the state of a
    unit. With a `scope` only units of that namespace are returned, and those with a workload there.
    """
    news = {unit.unit: unit for unit in recorded}
    by_unit: dict[str, list[Managed]] = {name: [] for name in news}
    for m in found:
        if m.unit:
            by_unit.setdefault(m.unit, []).append(m)
    return [
        {
            "namespace": unit.partition("/")[0],
            "name": unit.partition("/")[2],
            **_unit_state(() if partial else mine, news.get(unit), shards.problem_of(unit)),
            **shard_obj(shards, unit),
            "workloads": None if partial else len(mine),
            "updated": None if partial else counts.updated,
            "total": None if partial else counts.total,
        }
        for unit, mine in sorted(by_unit.items())
        if scope in {"", unit.partition("/")[0], *(m.key.namespace for m in mine)}
        for counts in (pod_counts(m.rollout for m in mine if m.rollout),)
    ]


def shard_obj(shards: ShardHolders, unit: str) -> dict[str, str]:
    """Return the shard of a unit and the replica that holds it; both "" without shards."""
    held = shards.of(unit)
    if held is None:
        return {"shard": "", "replica": ""}
    return {"shard": str(held.shard), "replica": held.replica}


def _unit_state(mine: Sequence[Managed], recorded: RecordedUnit | None, lost: str) -> Item:
    """Return the state of live workloads, or what only the record knows of a unit: a problem of its
    commit, and what moves while they are at rest. Workloads that left git are no longer the unit's
    concern."""
    if lost:
        return {"state": str(State.UNKNOWN), "message": lost}
    mine = [m for m in mine if not left_git(m, recorded)]
    state = worst(m.state for m in mine)
    message = next((m.message for m in mine if m.state is state and state not in SETTLED), "")
    if recorded is None:  # what git asks for now is known by nobody
        rests = not mine or state in SETTLED
        return {"state": str(State.UNKNOWN if rests else state), "message": message or UNRECORDED}
    by_git = recorded.state is State.REJECTED or (
        recorded.state is State.STUCK and recorded.problems
    )
    if state in SETTLED or by_git:
        if recorded.waits or not mine or recorded.state in _KNOWN_BY_GIT:
            found = recorded.problems if recorded.by_finding else ()  # a warning hides no object
            state, message = recorded.state, next(iter(found), recorded.message)
            message = f"waits for {recorded.waits}" if recorded.waits else message
        elif _goes_on(recorded, mine):
            state, message = recorded.state, recorded.message
    if recorded.suspended and not (by_git and recorded.problems):
        message = recorded.message
    return {"state": str(state), "message": message}


def _goes_on(recorded: RecordedUnit, mine: Sequence[Managed]) -> bool:
    """Return whether a unit whose workloads are at rest is not: a commit is not sent to all of
    its objects, or one that is no workload is not healthy, or paused."""
    seen = {m.key for m in mine}
    others = {o.state for key, o in recorded.objects.items() if key not in seen}
    if recorded.state is State.PAUSED:
        return State.PAUSED in others
    return recorded.state not in SETTLED and (recorded.pending or bool(others - SETTLED))


def events(found: Sequence[Obj], about: frozenset[str]) -> list[Item]:
    """Return the events of the objects in `about` (`pod/x`, or a name alone), or of all, oldest
    first."""
    items = [_event(obj) for obj in found]
    wanted = [i for i in items if not about or about & {i["object"], i["object"].partition("/")[2]}]
    return sorted(wanted, key=lambda i: (i["last"], i["name"]))


def _event(obj: Obj) -> Item:
    about = obj.get("involvedObject") or {}
    return {
        "namespace": obj["metadata"].get("namespace", ""),
        "name": obj["metadata"]["name"],
        "last": last_seen(obj),
        "type": obj.get("type", ""),
        "reason": obj.get("reason", ""),
        "object": f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        "count": obj.get("count") or get(obj, "series", "count") or 1,
        "message": obj.get("message", ""),
    }


# Tables ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableView:
    """Columns of a noun, and the cells of one item."""

    list_kind: str
    heads: tuple[Column, ...]
    cells: Callable[[Item, Style, datetime], tuple[str, ...]]
    wide: tuple[tuple[str, str], ...] = ()  # (head, field) of the columns -o wide adds


def _rollout_cells(i: Item, style: Style, _: datetime) -> tuple[str, ...]:
    new = ready = bar = ""
    if "replicas" in i:
        gate = f" c={i['canary']}" if i["canary"] else f" p={i['partition']}"
        kept = gate if i["kept"] else ""
        bar = style.bar(i["updatedReady"], max(i["replicas"], 1)) + kept
        new, ready = f"{i['updated']}/{i['replicas']}", f"{i['ready']}/{i['replicas']}"
    revision = i.get("updateRevision", "").rpartition("-")[2]
    return (i["namespace"], i["name"], bar, new, ready, revision, i["commit"][:7],
            style.state(_state(i)))  # fmt: skip


def _mixed_cells(i: Item, style: Style, now: datetime) -> tuple[str, ...]:
    """Cells of rollouts of several kinds: others than CloneSets are named with their kind."""
    kind = "" if i["kind"] == "CloneSet" else f"{noun(GroupKind(i['group'], i['kind']))}/"
    namespace, name, *rest = _rollout_cells(i, style, now)
    return (namespace, f"{kind}{name}", *rest)


def _state(i: Item) -> State:
    return State(i["state"])


def _pod_cells(i: Item, style: Style, _: datetime) -> tuple[str, ...]:
    images = ", ".join(image.rpartition("/")[2] for image in i["images"].values())
    phase = i["phase"] if i["phase"] == "Running" else style.paint(i["phase"], "yellow")
    return (i["namespace"], i["name"], phase, "yes" if i["ready"] else "no", i["revision"],
            i["commit"][:7], str(i["restarts"]), i["node"], images)  # fmt: skip


def _revision_cells(i: Item, _: Style, __: datetime) -> tuple[str, ...]:
    images = ", ".join(f"{name}:{image.rpartition('/')[2]}" for name, image in i["images"].items())
    return (i["namespace"], i["owner"], i["hash"], i["role"], i["commit"][:7], str(i["pods"]),
            str(i["available"]), images)  # fmt: skip


def _event_cells(i: Item, style: Style, now: datetime) -> tuple[str, ...]:
    kind = i["type"] if i["type"] == "Normal" else style.paint(i["type"], "yellow")
    return (i["namespace"], age(parse_time(i["last"]), now), kind, i["reason"], i["object"],
            str(i["count"]), i["message"])  # fmt: skip


def _unit_cells(i: Item, style: Style, _: datetime) -> tuple[str, ...]:
    moved = f"{i['updated']}/{i['total']}" if i["total"] else ""
    state = style.state(_state(i))
    count = "?" if i["workloads"] is None else str(i["workloads"])
    return (i["namespace"], i["name"], count, moved, state, i["message"])


def _heads(*columns: str | Column) -> tuple[Column, ...]:
    return tuple(c if isinstance(c, Column) else Column(name=c) for c in columns)


_NAME: Final = Column(name="NAME", least=16)
_COMMIT: Final = Column(name="COMMIT", drop=2)
_ROLLOUTS: Final = TableView(
    "RolloutList",
    _heads("NAMESPACE", _NAME, Column(name="ROLLOUT", drop=3), "NEW", "READY",
           Column(name="REVISION", drop=1), _COMMIT, "STATE"),
    _rollout_cells,
    (("MESSAGE", "message"), ("UNIT", "unit"), ("SOURCE", "path")),
)  # fmt: skip
VIEWS: Final = {
    "rollouts": replace(_ROLLOUTS, cells=_mixed_cells),
    "clonesets": _ROLLOUTS,
    "deployments": _ROLLOUTS,
    "statefulsets": _ROLLOUTS,
    "advancedstatefulsets": _ROLLOUTS,
    "daemonsets": _ROLLOUTS,
    "sidecarsets": _ROLLOUTS,
    "pods": TableView(
        "PodList",
        _heads("NAMESPACE", _NAME, "PHASE", "READY", Column(name="REVISION", drop=4),
               Column(name="COMMIT", drop=3), Column(name="RESTARTS", drop=5),
               Column(name="NODE", drop=1), Column(name="IMAGES", drop=2)),
        _pod_cells,
    ),
    "revisions": TableView(
        "RevisionList",
        _heads("NAMESPACE", Column(name="OWNER", least=16), "REVISION", "ROLE", "COMMIT", "PODS",
               "AVAILABLE", Column(name="IMAGES", drop=1)),
        _revision_cells,
    ),
    "events": TableView(
        "EventList",
        _heads(Column(name="NAMESPACE", drop=2), "LAST", Column(name="TYPE", drop=1),
               "REASON", Column(name="OBJECT", least=16), "COUNT",
               Column(name="MESSAGE", least=20, prose=True)),
        _event_cells,
        (("TIME", "last"),),
    ),
    "units": TableView(
        "UnitList",
        _heads("NAMESPACE", _NAME, Column(name="WORKLOADS", drop=1), Column(name="NEW", drop=2),
               "STATE", Column(name="MESSAGE", least=20, prose=True)),
        _unit_cells,
        (("SHARD", "shard"), ("REPLICA", "replica")),
    ),
}  # fmt: skip


def table_of(
    noun: str,
    items: Sequence[Item],
    style: Style,
    now: datetime,
    *,
    headers: bool = True,
    wide: bool = False,
) -> list[str]:
    """Return the table of a noun, fitted to the window; a `wide` one is complete."""
    view = VIEWS[noun]
    if not items:
        return [f"no {noun} here"]
    rows = [view.cells(item, style, now) for item in items]
    heads = view.heads
    if wide:
        heads = (*heads, *(Column(name=name) for name, _ in view.wide))
        more = [tuple(str(item[field]) for _, field in view.wide) for item in items]
        rows = [(*row, *cells) for row, cells in zip(rows, more, strict=True)]
    lines = fit_table(heads, rows, BOUNDLESS if wide else style.width)
    return lines if headers else lines[1:]
