"""One look at what gitkruise manages in a cluster, without following it: for status and get."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.gitops.observe import STATE_OF
from gitkruise.kube.rawobject import thaw
from gitkruise.kube.transport import Transport
from gitkruise.model.pod import POD, PodFacts, pod_facts
from gitkruise.model.record import Rollout
from gitkruise.model.states import State
from gitkruise.planner.health import health
from gitkruise.planner.rollouts import observe_rollout
from gitkruise.planner.sync.marks import COMMIT, PATH, UNIT, UNIT_REF, annotation
from gitkruise.wire.catalog import Catalog, Kind
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.request import ApiRequest

CLONESET: Final = GroupKind("apps.kruise.io", "CloneSet")
REVISION: Final = GroupKind("apps", "ControllerRevision")
WORKLOADS: Final = (
    CLONESET,
    GroupKind("apps.kruise.io", "SidecarSet"),
    GroupKind("apps", "Deployment"),
    GroupKind("apps", "StatefulSet"),
    GroupKind("apps", "DaemonSet"),
    GroupKind("batch", "Job"),
    GroupKind("batch", "CronJob"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """One live object with the marks of git on it. `rollout` is set for CloneSets."""

    key: ObjectKey
    obj: Obj
    state: State
    message: str
    unit: str
    commit: str
    path: str
    rollout: Rollout | None = None
    pods: tuple[PodFacts, ...] = ()


async def survey(
    transport: Transport,
    catalog: Catalog,
    now: datetime,
    *,
    namespace: str = "",
    kinds: Sequence[GroupKind] = WORKLOADS,
    marked: bool = True,
) -> list[Managed]:
    """Objects of `kinds` in key order; only those of units when `marked`. Raises ApiError."""
    served = [k for gk in kinds if (k := catalog.stored(gk)) is not None]
    async with asyncio.TaskGroup() as tasks:
        lists = [
            tasks.create_task(_list(transport, k, namespace, UNIT if marked else ""))
            for k in served
        ]
    found = [(kind, obj) for kind, task in zip(served, lists, strict=True) for obj in task.result()]
    spaces = {o["metadata"]["namespace"] for k, o in found if k.group_kind == CLONESET}
    pods, revisions = await _surroundings(transport, catalog, sorted(spaces))
    out = [_managed(kind, obj, pods, revisions, now) for kind, obj in found]
    return sorted(out, key=lambda m: (m.key.namespace, m.key.kind, m.key.name))


async def _surroundings(
    transport: Transport, catalog: Catalog, namespaces: Sequence[str]
) -> tuple[list[PodFacts], list[Obj]]:
    pod_kind, revision_kind = catalog.stored(POD), catalog.stored(REVISION)
    assert pod_kind is not None
    assert revision_kind is not None
    async with asyncio.TaskGroup() as tasks:
        pods = [tasks.create_task(_list(transport, pod_kind, ns, "")) for ns in namespaces]
        revisions = [
            tasks.create_task(_list(transport, revision_kind, ns, "")) for ns in namespaces
        ]
    facts = [pod_facts(thaw(obj)) for task in pods for obj in task.result()]
    return facts, [obj for task in revisions for obj in task.result()]


async def _list(transport: Transport, kind: Kind, namespace: str, selector: str) -> list[Obj]:
    params = {"labelSelector": selector} if selector else {}
    request = ApiRequest(
        verb="list",
        resource=kind.ref,
        namespace=namespace if kind.namespaced else "",
        params=params,
    )
    body = (await transport.send(request)).body
    marks = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [{**marks, **thaw(obj)} for obj in body.get("items") or ()]


def _managed(
    kind: Kind, obj: Obj, pods: Sequence[PodFacts], revisions: Sequence[Obj], now: datetime
) -> Managed:
    meta = obj["metadata"]
    key = ObjectKey(kind.group, kind.kind, meta.get("namespace") or "", meta["name"])
    rollout: Rollout | None = None
    mine: tuple[PodFacts, ...] = ()
    if kind.group_kind == CLONESET:
        mine = tuple(p for p in pods if meta["uid"] in p.owner_uids)
        own = [r for r in revisions if _owned_by(r, meta["uid"])]
        rollout = observe_rollout(obj, mine, own, now)
        state, message = rollout.state, rollout.message
    else:
        verdict = health(obj)
        state = STATE_OF[verdict.phase]
        message = "" if state is State.DONE else verdict.message or verdict.reason
    return Managed(
        key=key,
        obj=obj,
        state=state,
        message=message,
        unit=annotation(obj, UNIT_REF),
        commit=annotation(obj, COMMIT),
        path=annotation(obj, PATH),
        rollout=rollout,
        pods=mine,
    )


def _owned_by(obj: Obj, uid: str) -> bool:
    return any(ref.get("uid") == uid for ref in obj["metadata"].get("ownerReferences") or ())
