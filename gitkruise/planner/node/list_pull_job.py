"""Controller of ImageListPullJobs: one ImagePullJob per image, replaced when the template changes.

Source: docs/behaviour/image-pulls.md (IMG-10, IMG-26 to IMG-29). OpenKruise names children by lot
and keeps the hash of the template on the list, too; here names follow from image and template, so
that a repeated creation meets the first one, and only children carry the hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gitkruise.model.node.pull_job import PullJob, pull_job
from gitkruise.model.node.wire_shapes import API_VERSION, VERSION
from gitkruise.model.planning.plan import Action, Create, Delete, Event, Plan, expired
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import LIST_PULL_JOB, PULL_JOB, REVISION_HASH
from gitkruise.wire.kruise.hashes import fnv1a_32, safe_encode
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_reference
from gitkruise.wire.primitives.times import format_time

_NAME_MAX: Final = 220  # of the list's part in the name of a child
_FAILED: Final = "Please check for details which nodes failed by 'kubectl get ImagePullJob {name}'."


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSnapshot:
    """A list job with its children; `template` is the raw spec of a child without its image."""

    job: PullJob
    template: Obj
    children: tuple[Obj, ...]
    status: Obj = field(default_factory=dict)
    now: datetime

    @property
    def hash(self) -> str:
        return safe_encode(str(fnv1a_32(_dump(self.template).encode())))


def observe_list_job(view: ClusterView, key: ObjectKey, now: datetime) -> ListSnapshot | None:
    """None when the list job is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    meta = raw["metadata"]
    return ListSnapshot(
        job=pull_job(raw),
        template={field: value for field, value in raw["spec"].items() if field != "images"},
        children=tuple(view.owned(meta["uid"], PULL_JOB, key.namespace)),
        status=raw.get("status") or {},
        now=now,
    )


def plan_list_job(s: ListSnapshot, gates: Gates) -> Plan:
    """Plan one round: replace children, count them, end."""
    job = s.job
    if not gates.pulls_images or job.metadata.deleting is not None:
        return Plan()
    if job.status.completed is not None:
        meta, ttl_s = job.metadata, job.spec.completion_policy.ttl_s
        key = ObjectKey(*LIST_PULL_JOB, meta.namespace, meta.name)
        end = Delete(key=key, version=VERSION, uid=meta.uid, resource_version="")
        return expired(end, job.status.completed, ttl_s, s.now)
    kept, dropped = _sorted_children(s)
    made = list(_creations(s, kept))
    gone = [Delete.of(child, resource_version="") for child in dropped]
    status = list_status(s, tuple(kept.values()))
    actions: tuple[Action, ...] = (*gone, *made)
    return Plan(
        actions=actions,
        events=tuple(_events(len(made), len(gone))),
        status=None if status == s.status else status,
    )


def _sorted_children(s: ListSnapshot) -> tuple[dict[str, Obj], list[Obj]]:
    """Children to keep by image, and those to delete."""
    kept: dict[str, Obj] = {}
    dropped: list[Obj] = []
    for child in s.children:
        if child["metadata"].get("deletionTimestamp"):
            continue
        image = child["spec"].get("image", "")
        if image in s.job.spec.images and image not in kept and _is_current(s, child):
            kept[image] = child
        else:
            dropped.append(child)
    return kept, dropped


def _is_current(s: ListSnapshot, child: Obj) -> bool:
    """Return whether a child was made from the present template."""
    hash_ = (child["metadata"].get("labels") or {}).get(REVISION_HASH)
    if hash_ is not None:
        return bool(hash_ == s.hash)
    return {f: v for f, v in child["spec"].items() if f != "image"} == s.template


def _creations(s: ListSnapshot, kept: Mapping[str, Obj]) -> Iterator[Create]:
    """Create missing children in batches of 1, 2, 4, …"""
    missing = [image for image in s.job.spec.images if image not in kept]
    ending = {c["metadata"]["name"] for c in s.children if c["metadata"].get("deletionTimestamp")}
    meta = s.job.metadata
    named = {"name": meta.name, "uid": meta.uid}
    owner = controller_reference(
        {"apiVersion": API_VERSION, "kind": LIST_PULL_JOB.kind, "metadata": named}
    )
    for number, image in enumerate(missing):
        name = f"{meta.name[:_NAME_MAX]}-{s.hash}-{fnv1a_32(image.encode()):08x}"
        if name in ending:
            continue  # its end wakes the list job
        obj = {
            "apiVersion": API_VERSION,
            "kind": PULL_JOB.kind,
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": {REVISION_HASH: s.hash},
                "ownerReferences": [owner],
            },
            "spec": {**s.template, "image": image},
        }
        yield Create(obj=obj, wave=(number + 1).bit_length() - 1)


def _events(created: int, deleted: int) -> Iterator[Event]:
    """Events in OpenKruise's words; their reasons contain spaces."""
    if created:
        yield Event("Normal", "Successful create ImagePullJob", f"Create {created} ImagePullJob")
    if deleted:
        yield Event("Normal", "Successful delete ImagePullJob", f"Delete {deleted} ImagePullJob")


def list_status(s: ListSnapshot, children: Sequence[Obj]) -> dict[str, Any]:
    """The whole status of a list job; `completionTime` is set once it ends (IMG-28)."""
    jobs = [job for job in map(pull_job, children) if job.status.started is not None]
    began, desired = s.job.status.started or s.now, len(s.job.spec.images)
    over = [job for job in jobs if job.status.desired == job.status.succeeded + job.status.failed]
    status: dict[str, Any] = {
        "startTime": format_time(began),
        "desired": desired,
        "active": sum(job.status.active > 0 for job in jobs),
        "completed": len(over),
        "succeeded": sum(job.status.desired == job.status.succeeded for job in jobs),
    }
    failed = [
        {
            "imagePullJob": job.metadata.name,
            "name": job.spec.image,
            "message": _FAILED.format(name=job.metadata.name),
        }
        for job in sorted(jobs, key=lambda job: job.spec.image)
        if job.status.failed
    ]
    if failed:
        status["failedImageStatuses"] = failed
    if s.job.spec.completion_policy.ends and len(over) == desired:
        status["completionTime"] = format_time(s.now)
    return status


def _dump(value: object) -> str:
    """A text that is equal for equal values, whatever the order of their fields."""
    if isinstance(value, Mapping):
        inner = (f"{key!r}:{_dump(value[key])}" for key in sorted(value))
        return f"{{{','.join(inner)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_dump, value))}]"
    return repr(value)


LIST_PULL_JOBS: Final[Workload[ListSnapshot]] = Workload(
    kind=LIST_PULL_JOB,
    version=VERSION,
    owns=(PULL_JOB,),
    observe=observe_list_job,
    decide=plan_list_job,
)
