"""ReplicaSets as a Deployment sees them: facts, annotations, names, and the patches it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.model.planning.canary import BOOKKEEPING
from gitkruise.model.planning.plan import Event, Patch
from gitkruise.planner.builtin.proportional_scaling import Size
from gitkruise.wire.kruise.hashes import fnv1a_32, safe_encode
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj, controller_reference
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.times import parse_time

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
TEMPLATE_HASH: Final = "pod-template-hash"
_OWN: Final = frozenset(
    {
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
        "deprecated.deployment.rollback.to",
        "kubectl.kubernetes.io/last-applied-configuration",
        *BOOKKEEPING,
    }
)
_HISTORY_MAX: Final = 2000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """One ReplicaSet. Counts are of its status unless they say spec."""

    raw: Obj
    name: str
    size: Size  # spec.replicas and the annotations
    ready: int
    revision: int
    observed: bool
    deleting: bool

    @property
    def template(self) -> Obj:
        return plain(self.raw["spec"].get("template") or {})

    @property
    def notes(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.raw["metadata"].get("annotations") or {}

    @property
    def hash(self) -> str:
        """The hash of its template, as its label says."""
        labels = self.raw["metadata"].get("labels") or {}
        return str(labels.get(TEMPLATE_HASH) or self.name.rpartition("-")[2])

    @property
    def order(self) -> tuple[str, str]:
        return str(self.raw["metadata"].get("creationTimestamp") or ""), self.name


def set_facts(raw: Obj) -> SetFacts:
    meta, status = raw["metadata"], raw.get("status") or {}
    notes = meta.get("annotations") or {}
    replicas = raw["spec"].get("replicas", 1)
    return SetFacts(
        raw=raw,
        name=meta["name"],
        size=Size(
            name=meta["name"],
            replicas=replicas,
            available=status.get("availableReplicas") or 0,
            observed=status.get("replicas") or 0,
            desired=int_or_none(notes.get(DESIRED)),
            most=int_or_none(notes.get(MOST)),
        ),
        ready=status.get("readyReplicas") or 0,
        revision=int_or_none(notes.get(REVISION)) or 0,
        observed=(status.get("observedGeneration") or 0) >= (meta.get("generation") or 0),
        deleting=bool(meta.get("deletionTimestamp")),
    )


def plain(template: Obj) -> Obj:
    """A template without the pod-template-hash label; empty maps left out."""
    meta = {k: v for k, v in (template.get("metadata") or {}).items() if v}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != TEMPLATE_HASH}
    meta.pop("creationTimestamp", None)
    return {**template, "metadata": {**meta, "labels": labels}}


def template_hash(template: Obj, collisions: int) -> str:
    """A deterministic hash in Kubernetes' alphabet (upstream hashes a Go dump of its structs)."""
    tail = collisions.to_bytes(8, "little") if collisions else b""
    return safe_encode(str(fnv1a_32(compact(plain(template)) + tail)))


def new_set(
    deployment: Obj, *, name: str, size: int, most: int, revision: int, marks: Mapping[str, str]
) -> Obj:
    """The ReplicaSet for the deployment's present template; `marks` are further annotations."""
    spec, hash_text = deployment["spec"], name.rpartition("-")[2]
    template = put(spec["template"], ("metadata", "labels", TEMPLATE_HASH), hash_text)
    selector = put(spec["selector"], ("matchLabels", TEMPLATE_HASH), hash_text)
    wanted = spec.get("replicas", 1)
    numbers = {REVISION: str(revision), DESIRED: str(wanted), MOST: str(most)}
    notes = {**copied(deployment), **marks, **numbers}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment["metadata"]["namespace"],
            "labels": dict(get(template, "metadata", "labels", default={})),
            "annotations": notes,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": selector,
            "template": template,
        },
    }


def copied(deployment: Obj) -> dict[str, str]:
    """The annotations a deployment hands on to its new ReplicaSet."""
    notes = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in notes.items() if key not in _OWN}


def scaled(one: SetFacts, size: int, *, wanted: int, most: int) -> Patch | None:
    """Give `one` that size and fresh annotations; None when both are as they should be."""
    fresh = {DESIRED: str(wanted), MOST: str(most)}
    if size == one.size.replicas and (one.size.desired, one.size.most) == (wanted, most):
        return None
    body: dict[str, Any] = {"metadata": {"annotations": fresh}, "spec": {"replicas": size}}
    moved = "up" if size > one.size.replicas else "down"
    message = f"Scaled {moved} replica set {one.name} from {one.size.replicas} to {size}"
    done = Event("Normal", "ScalingReplicaSet", message) if size != one.size.replicas else None
    return Patch.of(one.raw, body, done=done)


def renumbered(one: SetFacts, revision: int, deployment: Obj) -> Mapping[str, str | None]:
    """Annotations `one` needs as the new ReplicaSet with number `revision`; only what differs."""
    have = one.raw["metadata"].get("annotations") or {}
    want: dict[str, str] = copied(deployment)
    if one.revision < revision:
        want[REVISION] = str(revision)
        if one.revision:
            former = [*filter(None, (have.get(HISTORY) or "").split(",")), str(one.revision)]
            while len(",".join(former)) > _HISTORY_MAX:
                former = former[1:]
            want[HISTORY] = ",".join(former)
    return {key: value for key, value in want.items() if have.get(key) != value}


def oldest_first(sets: Sequence[SetFacts]) -> list[SetFacts]:
    return sorted(sets, key=lambda one: one.order)


def created_at(one: SetFacts) -> Any:
    return parse_time(one.raw["metadata"].get("creationTimestamp"))
