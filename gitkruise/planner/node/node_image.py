"""Controllers of NodeImages: one for each node, without tags that are done with.

Two workloads share the kind: one creates the NodeImage of a node, the other one cleans it up, gives
up on silent agents, and deletes it with its node.

Source: IMG-30, IMG-32, IMG-33. Without the gate ImagePullJobGate gitkruise creates none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.node.node_image import (
    FAKE,
    NODE_IMAGE,
    ImageTag,
    NodeImage,
    PullPhase,
    TagStatus,
    counted_status,
    node_image,
)
from gitkruise.model.node.wire_shapes import API_VERSION, VERSION
from gitkruise.model.planning.plan import Create, Event, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.planner.node.pull_agent import DEADLINE, status_on_wire
from gitkruise.planner.node.writes import deleted, patched
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

NODE: Final = GroupKind("", "Node")
CREATION_DELAY, RESPONSE = timedelta(seconds=30), timedelta(minutes=10)
SILENT: Final = "node has not responded for a long time"
_VIRTUAL: Final = "virtual-kubelet"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """A node, and whether its NodeImage exists."""

    node: Obj
    exists: bool
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImageSnapshot:
    """A NodeImage with its node (None when that is gone) and the uids of the pull jobs by
    namespace and name."""

    image: NodeImage
    raw: Obj
    node: Obj | None
    jobs: Mapping[tuple[str, str], str]
    now: datetime


def observe_node(view: ClusterView, key: ObjectKey, now: datetime) -> NodeSnapshot | None:
    """None when the node is gone."""
    node = view.get(key)
    if node is None:
        return None
    exists = view.get(ObjectKey(*NODE_IMAGE, "", key.name)) is not None
    return NodeSnapshot(node=node, exists=exists, now=now)


def observe_node_image(
    view: ClusterView, key: ObjectKey, now: datetime
) -> NodeImageSnapshot | None:
    """None when the NodeImage is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    jobs = [job["metadata"] for job in view.objects(PULL_JOB, "")]
    return NodeImageSnapshot(
        image=node_image(raw),
        raw=raw,
        node=view.get(ObjectKey(*NODE, "", key.name)),
        jobs={(meta["namespace"], meta["name"]): meta["uid"] for meta in jobs},
        now=now,
    )


def plan_node(s: NodeSnapshot, gates: Gates) -> Plan:
    """Create the NodeImage of a node that has been Ready for CREATION_DELAY (IMG-30)."""
    meta = s.node["metadata"]
    labels = meta.get("labels") or {}
    if not gates.pulls_images or s.exists or meta.get("deletionTimestamp"):
        return Plan()
    conditions = get(s.node, "status", "conditions", default=())
    ready = next((c for c in conditions if c["type"] == "Ready" and c["status"] == "True"), None)
    if ready is None or labels.get("type") == _VIRTUAL:
        return Plan()
    since = parse_time(ready.get("lastTransitionTime")) or s.now
    if s.now < since + CREATION_DELAY:
        return Plan(wake_at=since + CREATION_DELAY)
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": NODE_IMAGE.kind,
        "metadata": {"name": meta["name"], "labels": dict(labels)},
        "spec": {},
    }
    return Plan(actions=(Create(obj=body),))


def plan_node_image(s: NodeImageSnapshot, gates: Gates) -> Plan:
    """Clean up the spec; once that is clean, the status."""
    meta = s.image.metadata
    if not gates.pulls_images or meta.deleting is not None:
        return Plan()
    if s.node is None or s.node["metadata"].get("deletionTimestamp"):
        if FAKE in meta.labels:
            return Plan()
        return Plan(actions=(deleted(s.image),))
    images, wake_at = _kept_images(s)
    before = (s.raw.get("spec") or {}).get("images") or {}
    labels = dict(s.node["metadata"].get("labels") or {})
    if images != before or labels != meta.labels:
        dropped: dict[str, Any] = dict.fromkeys(before.keys() - images.keys())
        old: dict[str, Any] = dict.fromkeys(meta.labels.keys() - labels.keys())
        body = {
            "metadata": {"labels": {**old, **labels}},
            "spec": {"images": {**dropped, **images}},
        }
        return Plan(actions=(patched(s.image, body),))
    return _judge_agent(s, wake_at)


def _kept_images(s: NodeImageSnapshot) -> tuple[dict[str, Obj], datetime | None]:
    """Raw entries without tags that are done with (IMG-32), and the next instant of one."""
    kept: dict[str, Obj] = {}
    times = []
    for name, entry in ((s.raw.get("spec") or {}).get("images") or {}).items():
        tags = []
        for raw, tag in zip(entry.get("tags") or (), s.image.spec.images[name].tags, strict=True):
            owners = [o for o in raw.get("ownerReferences") or () if _is_alive(s, o)]
            ends = _expires(s.image.current_status(name, tag), tag)
            if tag.created is None or not owners or (ends is not None and s.now >= ends):
                continue
            times.append(ends)
            same = owners == (raw.get("ownerReferences") or [])
            tags.append(raw if same else {**raw, "ownerReferences": owners})
        if tags:
            kept[name] = {**entry, "tags": tags}
    return kept, min(filter(None, times), default=None)


def _is_alive(s: NodeImageSnapshot, owner: Obj) -> bool:
    """Owners of other kinds than pull jobs are taken for alive."""
    if owner.get("kind") != PULL_JOB.kind:
        return True
    return s.jobs.get((owner.get("namespace", ""), owner.get("name", ""))) == owner.get("uid")


def _expires(status: TagStatus | None, tag: ImageTag) -> datetime | None:
    ttl = tag.pull_policy.ttl_s
    if status is None or status.completed is None or ttl is None:
        return None
    return status.completed + timedelta(seconds=ttl)


def _judge_agent(s: NodeImageSnapshot, wake_at: datetime | None) -> Plan:
    """Fail tags that the agent did not report in time (IMG-33)."""
    statuses: dict[str, dict[str, Obj]] = {}
    events, times = [], [wake_at]
    for name, tag in s.image.tags():
        status = s.image.current_status(name, tag)
        found = status_on_wire(status) if status is not None else None
        for at, message in _limits(tag, status):
            if s.now < at:
                times.append(at)
                continue
            failed = TagStatus(
                tag=tag.tag,
                phase=PullPhase.FAILED,
                version=tag.version,
                completed=s.now,
                message=message,
            )
            found = status_on_wire(failed)
            text = f"Failed to pull image {name}:{tag.tag} on node {s.image.metadata.name}"
            events.append(Event("Warning", "PullImageFailed", f"{text} for {message}"))
            break
        if found is not None:
            statuses.setdefault(name, {})[tag.tag] = found
    due = min(filter(None, times), default=None)
    status_ = counted_status(statuses) if events else None
    return Plan(status=status_, events=tuple(events), wake_at=due)


def _limits(tag: ImageTag, status: TagStatus | None) -> Iterator[tuple[datetime, str]]:
    """Instants at which a tag counts as failed, with the message."""
    if tag.created is None or (status is not None and status.completed is not None):
        return
    deadline = tag.pull_policy.active_deadline_s
    if deadline is not None:
        yield tag.created + timedelta(seconds=deadline) + RESPONSE, DEADLINE
    if status is None:
        yield tag.created + RESPONSE, SILENT


def _same_name(kind: GroupKind, key: ObjectKey) -> Iterator[ObjectKey]:
    yield ObjectKey(*kind, "", key.name)


def image_of_node(view: ClusterView, node: ObjectKey) -> Iterator[ObjectKey]:
    """The NodeImage that a change of its node wakes."""
    del view
    return _same_name(NODE_IMAGE, node)


def node_of_image(view: ClusterView, image: ObjectKey) -> Iterator[ObjectKey]:
    """The node that a change of its NodeImage wakes: one that was deleted comes back."""
    del view
    return _same_name(NODE, image)


def every_image(view: ClusterView, job: ObjectKey) -> Iterator[ObjectKey]:
    """NodeImages that a job which is gone wakes; others change them themselves."""
    if view.get(job) is None:
        for raw in view.objects(NODE_IMAGE, ""):
            yield ObjectKey(*NODE_IMAGE, "", raw["metadata"]["name"])


NODES: Final[Workload[NodeSnapshot]] = Workload(
    kind=NODE,
    version="v1",
    owns=(),
    observe=observe_node,
    decide=plan_node,
    watches={NODE_IMAGE: node_of_image},
    speaker="nodeimage-controller",
)
NODE_IMAGES: Final[Workload[NodeImageSnapshot]] = Workload(
    kind=NODE_IMAGE,
    version=VERSION,
    owns=(),
    observe=observe_node_image,
    decide=plan_node_image,
    watches={NODE: image_of_node, PULL_JOB: every_image},
)
