"""Copies of pull secrets for node agents, which read Secrets of one namespace only.

A copy serves all jobs that name its source; it lists them, and goes with the last of them.

Source: IMG-21. OpenKruise draws the suffix of a name by lot; here it follows from the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gitkruise.model.node.node_image import SecretRef
from gitkruise.model.node.pull_job import PullJob
from gitkruise.model.planning.plan import Action, Create, Delete, Patch
from gitkruise.model.planning.view import ClusterView
from gitkruise.wire.kruise.hashes import fnv1a_32
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey

SECRET: Final = GroupKind("", "Secret")
NAMESPACE: Final = GroupKind("", "Namespace")
READABLE: Final = "type=kubernetes.io/dockerconfigjson"  # field selector: other secrets stay unread
CONFIG_NAMESPACE: Final = "kruise-daemon-config"
SOURCE: Final = "imagepulljobs.kruise.io/source-key"
REFERENCES: Final = "imagepulljobs.kruise.io/references"
MODE, BATCH = "imagepulljobs.kruise.io/mode", "batch"
_TRIES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSecrets:
    """Raw pull secrets of a job by name, raw copies of all jobs, and every name that is taken.

    `homeless`: the namespace of the copies does not exist.
    """

    sources: Mapping[str, Obj] = field(default_factory=dict)
    copies: tuple[Obj, ...] = ()
    taken: frozenset[str] = frozenset()
    homeless: bool = False


class SecretSync(NamedTuple):
    """Writes that bring copies up to date, references to those there are, names without source."""

    actions: tuple[Action, ...] = ()
    references: tuple[SecretRef, ...] = ()
    missing: tuple[str, ...] = ()


def observe_secrets(view: ClusterView, job: PullJob) -> KnownSecrets:
    """The secrets that matter to a job."""
    names, namespace = job.spec.pull_secrets, job.metadata.namespace
    if not names:
        return KnownSecrets()
    found = {name: view.get(ObjectKey(*SECRET, namespace, name)) for name in names}
    there = view.objects(SECRET, CONFIG_NAMESPACE)
    return KnownSecrets(
        sources={name: raw for name, raw in found.items() if raw is not None},
        copies=tuple(raw for raw in there if SOURCE in (raw["metadata"].get("annotations") or {})),
        taken=frozenset(raw["metadata"]["name"] for raw in there),
        homeless=view.get(ObjectKey(*NAMESPACE, "", CONFIG_NAMESPACE)) is None,
    )


def sync_secrets(job: PullJob, known: KnownSecrets) -> SecretSync:
    """Plan the copies for a job that runs."""
    if job.metadata.namespace == CONFIG_NAMESPACE:  # the agent reads the sources themselves
        own = (SecretRef(namespace=CONFIG_NAMESPACE, name=name) for name in job.spec.pull_secrets)
        return SecretSync(references=tuple(own))
    actions: list[Action] = []
    references = []
    for name in job.spec.pull_secrets:
        source = known.sources.get(name)
        if source is None:
            continue
        copy = _copy_for(job, name, known)
        if copy is None:
            actions += _creation(job, source, known)
            continue
        references.append(
            SecretRef(namespace=CONFIG_NAMESPACE, name=copy["metadata"]["name"], mode=BATCH)
        )
        actions += _refresh(job, source, copy)
    missing = (name for name in job.spec.pull_secrets if name not in known.sources)
    return SecretSync(tuple(actions), tuple(references), tuple(missing))


def release_secrets(job: PullJob, known: KnownSecrets) -> Iterator[Action]:
    """Take the job off its copies; one that serves no other job is deleted."""
    for copy in known.copies:
        users = _users(copy)
        if _key(job) not in users:
            continue
        left = sorted(users - {_key(job)})
        if left:
            yield Patch.of(copy, {"metadata": {"annotations": {REFERENCES: ",".join(left)}}})
        else:
            yield Delete.of(copy)


def _copy_for(job: PullJob, name: str, known: KnownSecrets) -> Obj | None:
    """The copy of a source: one that lists the job already, otherwise the first by name."""
    source = f"{job.metadata.namespace}/{name}"
    found = [c for c in known.copies if c["metadata"]["annotations"][SOURCE] == source]
    listing = (copy for copy in found if _key(job) in _users(copy))
    return next(listing, found[0] if found else None)


def _creation(job: PullJob, source: Obj, known: KnownSecrets) -> Iterator[Create]:
    """Create the copy of a source, and its namespace where there is none."""
    meta = source["metadata"]
    key = f"{job.metadata.namespace}/{meta['name']}"
    names = (f"{meta['name'][:240]}-{_suffix(key, turn)}" for turn in range(_TRIES))
    marks = {REFERENCES: _key(job), SOURCE: key, MODE: BATCH}
    if known.homeless:
        metadata = {"name": CONFIG_NAMESPACE}
        yield Create(obj={"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": metadata})
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": SECRET.kind,
        "metadata": {
            "name": next(name for name in names if name not in known.taken),
            "namespace": CONFIG_NAMESPACE,
            "labels": dict(meta.get("labels") or {}),
            "annotations": marks,
        },
        "type": source.get("type"),
        "data": dict(source.get("data") or {}),
    }
    yield Create(obj=body, wave=int(known.homeless))


def _suffix(key: str, turn: int) -> str:
    return f"{fnv1a_32(f'{key}/{turn}'.encode()) & 0xFFFFFF:06x}"


def _refresh(job: PullJob, source: Obj, copy: Obj) -> Iterator[Patch]:
    """Add the job to a copy, and give that the source's present data."""
    users, body = _users(copy), dict[str, Any]()
    if _key(job) not in users:
        listed = ",".join(sorted(users | {_key(job)}))
        body["metadata"] = {"annotations": {REFERENCES: listed}}
    new, old = source.get("data") or {}, copy.get("data") or {}
    if new != old:
        body["data"] = {**dict.fromkeys(old.keys() - new.keys()), **new}
    if body:
        yield Patch.of(copy, body)


def _users(copy: Obj) -> set[str]:
    """The jobs of a copy, as `namespace/name`."""
    return set(filter(None, copy["metadata"]["annotations"].get(REFERENCES, "").split(",")))


def _key(job: PullJob) -> str:
    return f"{job.metadata.namespace}/{job.metadata.name}"
