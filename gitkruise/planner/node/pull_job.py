"""Controller of ImagePullJobs: spread an image over NodeImages, and count the results.

A job writes a tag into the NodeImage of each selected node, at most `parallelism` at a time; node
agents report there. A tag that another job wants as well is shared, and a new version asks the
agent for it again.

Source: IMG-20 to IMG-25.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from gitkruise.model.node.node_image import (
    NODE_IMAGE,
    ImageTag,
    NodeImage,
    PullPhase,
    SecretRef,
    node_image,
)
from gitkruise.model.node.pull_job import PullJob, pull_job
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.model.planning.plan import Action, Event, Patch, Plan, expired
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.node.pull_secrets import (
    CONFIG_NAMESPACE,
    NAMESPACE,
    READABLE,
    SECRET,
    KnownSecrets,
    SecretSync,
    observe_secrets,
    release_secrets,
    sync_secrets,
)
from gitkruise.planner.node.writes import deleted, patched
from gitkruise.wire.kruise.hashes import fnv1a_32
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.images import familiar_parts
from gitkruise.wire.values.selectors import label_selector

DAY_S, DAY_SPREAD_S, TTL_SPREAD_S = 86_400, 1_200, 300
NEVER_DEADLINE_S: Final = 1_800
DONE: Final = "job has completed"
LATE: Final = "job exceeds activeDeadlineSeconds"
IDLE: Final = "job is running, no progress"
DEFAULT_POLICY: Final = "IfNotPresent"
FINALIZER: Final = "apps.kruise.io/deletion-protection"  # of jobs with pull secrets
SECRETS_WAIT: Final = timedelta(seconds=10)  # for a pull secret before the job does without
_RESULTS: Final[Mapping[str, str]] = {
    PullPhase.SUCCEEDED: "succeeded",
    PullPhase.FAILED: "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSnapshot:
    """A job and the NodeImages of the nodes that it selects, in its order.

    `secrets` are the copies that its tags need, as far as there are some; `known` is what they are
    copied from.
    """

    job: PullJob
    nodes: tuple[NodeImage, ...]
    secrets: tuple[SecretRef, ...] = ()
    known: KnownSecrets = field(default_factory=KnownSecrets)
    raw: Mapping[str, Obj] = field(default_factory=dict)  # the raw NodeImages by node
    status: Obj = field(default_factory=dict)  # the raw status of the job
    now: datetime


class PullProgress(NamedTuple):
    """Names of nodes by their result; one can be active and unassigned when a secret is missing."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    pulling: tuple[str, ...] = ()
    unassigned: tuple[str, ...] = ()


def observe_pull_job(view: ClusterView, key: ObjectKey, now: datetime) -> PullSnapshot | None:
    """None when the job is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    job = pull_job(raw)
    found = [] if job.over else list(_selected(view, job))
    known = observe_secrets(view, job)
    return PullSnapshot(
        job=job,
        nodes=tuple(map(node_image, found)),
        secrets=sync_secrets(job, known).references,
        known=known,
        raw={obj["metadata"]["name"]: obj for obj in found},
        status=raw.get("status") or {},
        now=now,
    )


def _selected(view: ClusterView, job: PullJob) -> Iterator[Obj]:
    """Raw NodeImages of the nodes that the job asks for (IMG-20), in name order."""
    spec, listed = job.spec, view.objects(NODE_IMAGE, "")
    if spec.pod_selector is not None:
        wanted = label_selector(spec.pod_selector)
        pods = view.pods(job.metadata.namespace)
        nodes = {p.node for p in pods if p.active and p.node and wanted.matches(p.labels)}
        yield from (obj for obj in listed if obj["metadata"]["name"] in nodes)
    elif spec.selector is None:
        yield from listed
    elif names := spec.selector.get("names"):
        yield from (obj for obj in listed if obj["metadata"]["name"] in names)
    else:
        chosen = label_selector(spec.selector)
        yield from (obj for obj in listed if chosen.matches(obj["metadata"].get("labels")))


def open_jobs(view: ClusterView, changed: ObjectKey) -> Iterator[ObjectKey]:
    """Jobs that a change of a NodeImage wakes: all that are not over."""
    del changed
    for raw in view.objects(PULL_JOB, ""):
        if not (raw.get("status") or {}).get("completionTime"):
            meta = raw["metadata"]
            yield ObjectKey(*PULL_JOB, meta["namespace"], meta["name"])


def jobs_by_pods(view: ClusterView, pod: ObjectKey) -> Iterator[ObjectKey]:
    """Jobs that a change of a pod wakes: those of its namespace that select nodes by pods."""
    for raw in view.objects(PULL_JOB, pod.namespace):
        if raw["spec"].get("podSelector") and not (raw.get("status") or {}).get("completionTime"):
            yield ObjectKey(*PULL_JOB, pod.namespace, raw["metadata"]["name"])


def jobs_by_secret(view: ClusterView, secret: ObjectKey) -> Iterator[ObjectKey]:
    """Jobs that a change of a pull secret, or of a copy, wakes."""
    namespace = "" if secret.namespace == CONFIG_NAMESPACE else secret.namespace
    for raw in view.objects(PULL_JOB, namespace):
        named = raw["spec"].get("pullSecrets") or ()
        if named and (not namespace or secret.name in named):
            meta = raw["metadata"]
            yield ObjectKey(*PULL_JOB, meta["namespace"], meta["name"])


def no_jobs(_view: ClusterView, _namespace: ObjectKey) -> Iterator[ObjectKey]:
    """Namespaces are read, and wake no job."""
    return iter(())


def plan_pull_job(s: PullSnapshot, gates: Gates) -> Plan:
    """Plan one round: count, end, or assign further nodes."""
    job = s.job
    if not gates.pulls_images:
        return Plan()
    if job.over:
        actions = tuple(_release(s))
        return Plan(actions=actions) if actions or job.metadata.deleting else _expire(job, s.now)
    copies = sync_secrets(job, s.known)
    if copies.actions and FINALIZER not in job.metadata.finalizers:
        return Plan(actions=(_finalized(job, (*job.metadata.finalizers, FINALIZER)),))
    began = job.status.started or s.now
    if copies.actions or (copies.missing and s.now < began + SECRETS_WAIT):
        return _waiting(s, copies)
    found = progress(s)
    status = job_status(s, found)
    over = "completionTime" in status
    policy = job.spec.completion_policy
    deadline = None
    if policy.ends and policy.active_deadline_s is not None and not over:
        deadline = began + timedelta(seconds=policy.active_deadline_s)
    return Plan(
        actions=() if over else tuple(assignments(s, found)),
        status=None if status == s.status else status,
        wake_at=deadline,
    )


def progress(s: PullSnapshot) -> PullProgress:
    """Count the nodes of a job by result (IMG-22)."""
    name, tag = familiar_parts(s.job.spec.image)
    groups: dict[str, list[str]] = {field: [] for field in PullProgress._fields}
    for node in s.nodes:
        who, entry = node.metadata.name, node.spec.images.get(name)
        wanted = entry.tag(tag) if entry is not None else None
        if entry is None or wanted is None or not wanted.owned_by(s.job.metadata.uid):
            groups["unassigned"].append(who)
            continue
        if _missing_secrets(s.secrets, entry.pull_secrets):
            groups["unassigned"].append(who)
        status = node.current_status(name, wanted)
        phase = status.phase if status is not None else PullPhase.PULLING
        groups[_RESULTS.get(phase, "pulling")].append(who)
    return PullProgress(**{field: tuple(names) for field, names in groups.items()})


def job_status(s: PullSnapshot, found: PullProgress) -> dict[str, Any]:
    """The whole status of a job; `completionTime` is set once it ends."""
    policy, began = s.job.spec.completion_policy, s.job.status.started or s.now
    desired, done = len(s.nodes), len(found.succeeded) + len(found.failed)
    status: dict[str, Any] = {"startTime": format_time(began), "desired": desired}
    failed: Sequence[str] = sorted(found.failed)
    late = policy.active_deadline_s is not None and s.now >= began + timedelta(
        seconds=policy.active_deadline_s
    )
    active = len(found.pulling)
    if policy.ends and late and done != desired:
        failed = sorted({*found.failed, *found.pulling, *found.unassigned})
        status |= {"message": LATE, "completionTime": format_time(s.now)}
        active = 0
    elif policy.ends and done == desired:
        status |= {"message": DONE, "completionTime": format_time(s.now)}
    else:
        share = f"job is running, progress {100 * done / desired:.1f}%" if desired else IDLE
        status["message"] = share
    status |= {"active": active, "succeeded": len(found.succeeded), "failed": len(failed)}
    return {**status, "failedNodes": failed} if failed else status


def assignments(s: PullSnapshot, found: PullProgress) -> Iterator[Patch]:
    """Writes that give the tag to further nodes, as many as are free (IMG-23)."""
    free = max(s.job.spec.slots - len(found.pulling), 0)
    nodes = {node.metadata.name: node for node in s.nodes}
    for name in sorted(found.unassigned)[:free]:
        entry = assigned(s.job, nodes[name], s.raw.get(name, {}), s.secrets, s.now)
        if entry is None:
            continue
        image, _ = familiar_parts(s.job.spec.image)
        yield patched(nodes[name], {"spec": {"images": {image: entry}}})


def assigned(
    job: PullJob, node: NodeImage, raw: Obj, secrets: Sequence[SecretRef], now: datetime
) -> Obj | None:
    """The raw entry of the job's image once `node` has its tag; None when nothing changes."""
    name, tag = familiar_parts(job.spec.image)
    entry = node.spec.images.get(name)
    old: Obj = ((raw.get("spec") or {}).get("images") or {}).get(name) or {}
    missing = _missing_secrets(secrets, entry.pull_secrets if entry is not None else ())
    known = entry.tag(tag) if entry is not None else None
    out = {**old}
    if missing:
        new = [_reference(secret) for secret in missing]
        out["pullSecrets"] = [*(old.get("pullSecrets") or ()), *new]
    if known is not None and known.owned_by(job.metadata.uid):
        return out if missing else None
    if sandbox := job.spec.sandbox_config:
        parts = {"labels": sandbox.labels, "annotations": sandbox.annotations}
        out["sandboxConfig"] = {field: value for field, value in parts.items() if value}
    others = [t for t in old.get("tags") or () if t["tag"] != tag]
    before = next((t for t in old.get("tags") or () if t["tag"] == tag), None)
    made = _shared_tag(job, known, before or {}, now) if known else _new_tag(job, node, now)
    out["tags"] = sorted([*others, made], key=lambda t: str(t["tag"]))
    return out


def _shared_tag(job: PullJob, known: ImageTag, before: Obj, now: datetime) -> Obj:
    """Another job's tag, asked for again; its limits stay."""
    return {
        **before,
        "version": known.version + 1,
        "createdAt": format_time(now),
        "imagePullPolicy": job.spec.image_pull_policy or DEFAULT_POLICY,
        "ownerReferences": [*(before.get("ownerReferences") or ()), job.reference],
    }


def _new_tag(job: PullJob, node: NodeImage, now: datetime) -> Obj:
    name, tag = familiar_parts(job.spec.image)
    last = node.status_of(name, tag)
    return {
        "tag": tag,
        "version": (last.version if last is not None else -1) + 1,
        "createdAt": format_time(now),
        "ownerReferences": [job.reference],
        "imagePullPolicy": job.spec.image_pull_policy or DEFAULT_POLICY,
        "pullPolicy": tag_policy(job, node.metadata.name),
    }


def tag_policy(job: PullJob, node: str) -> Obj:
    """Limits of a tag (IMG-25). Times to live are spread by node, so that not all end together."""
    timeout, limit = job.spec.pull_policy.effective
    policy = job.spec.completion_policy
    jitter = fnv1a_32(f"{job.metadata.uid}/{node}".encode())
    deadline = policy.active_deadline_s
    if policy.ends:
        chosen = (policy.ttl_s, deadline, timeout * limit)
        ttl = next(s for s in chosen if s is not None) + jitter % TTL_SPREAD_S
    else:
        ttl = DAY_S + jitter % DAY_SPREAD_S - DAY_SPREAD_S // 2
        deadline = max(NEVER_DEADLINE_S, timeout)
    made = {"timeoutSeconds": timeout, "backoffLimit": limit, "ttlSecondsAfterFinished": ttl}
    return made if deadline is None else {**made, "activeDeadlineSeconds": deadline}


def _missing_secrets(needed: Sequence[SecretRef], present: Sequence[SecretRef]) -> list[SecretRef]:
    known = {(secret.namespace, secret.name) for secret in present}
    return [secret for secret in needed if (secret.namespace, secret.name) not in known]


def _reference(secret: SecretRef) -> Obj:
    where = {"namespace": secret.namespace, "name": secret.name}
    return {**where, "mode": secret.mode} if secret.mode else where


def _waiting(s: PullSnapshot, copies: SecretSync) -> Plan:
    """Bring the copies up to date; wait for a secret that may still come before doing without."""
    began, names = s.job.status.started, ", ".join(copies.missing)
    if not names:
        return Plan(actions=copies.actions)
    status = {
        "startTime": format_time(began or s.now),
        "desired": len(s.nodes),
        "active": 0,
        "succeeded": 0,
        "failed": 0,
        "message": f"job waits for pull secret {names}",
    }
    text = f"pull secret {names} is not there or not of type kubernetes.io/dockerconfigjson"
    first = (Event("Warning", "PullSecretMissing", text),) if began is None else ()
    return Plan(
        actions=copies.actions,
        events=first,
        status=None if status == s.status else status,
        wake_at=(began or s.now) + SECRETS_WAIT,
    )


def _release(s: PullSnapshot) -> Iterator[Action]:
    """Give up the copies of secrets, then the finalizer."""
    if FINALIZER not in s.job.metadata.finalizers:
        return
    yield from release_secrets(s.job, s.known)
    left = tuple(name for name in s.job.metadata.finalizers if name != FINALIZER)
    yield _finalized(s.job, left)


def _finalized(job: PullJob, finalizers: Sequence[str]) -> Patch:
    return patched(job, {"metadata": {"finalizers": list(finalizers)}})


def _expire(job: PullJob, now: datetime) -> Plan:
    """Delete a job that has lived for its TTL after the end."""
    return expired(deleted(job), job.status.completed, job.spec.completion_policy.ttl_s, now)


PULL_JOBS: Final[Workload[PullSnapshot]] = Workload(
    kind=PULL_JOB,
    version=VERSION,
    owns=(),
    observe=observe_pull_job,
    decide=plan_pull_job,
    watches={NODE_IMAGE: open_jobs, POD: jobs_by_pods},
    also_watches={SECRET: jobs_by_secret, NAMESPACE: no_jobs},
    fields={SECRET: READABLE},
)
