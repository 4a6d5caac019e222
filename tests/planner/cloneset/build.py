"""CloneSets, revisions and snapshots for planner tests, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gitkruise.model.planning.plan import Patch, Plan
from gitkruise.model.planning.snapshot import CloneSetSnapshot
from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import grouped
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.cloneset.diffs import PodSet, judge
from gitkruise.planner.cloneset.plan import plan_cloneset
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.kruise.revision_data import revision_data
from gitkruise.wire.primitives.names import Obj
from tests.pods import NOW, OWNER_UID

ROLLBACK: Final = Gates(clone_set_partition_rollback=True)


def template(image: str = "nginx:1.26", **spec: Any) -> dict[str, Any]:
    """A pod template of one container `main`; `metadata` replaces the template's."""
    metadata = spec.pop("metadata", {"labels": {"app": "web"}})
    container = {"name": "main", "image": image, "resources": {}, **spec.pop("container", {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def cloneset(
    *,
    replicas: int = 5,
    update: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A raw v1beta1 CloneSet `web`; `update` are fields of rollingUpdate."""
    meta = {
        "name": "web",
        "namespace": "shop",
        "uid": OWNER_UID,
        "resourceVersion": "100",
        "generation": 1,
        **spec.pop("metadata", {}),
    }
    body = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": dict(update or {})},
        **spec,
    }
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": meta,
        "spec": body,
        "status": dict(status or {}),
    }


def revision(made_from: Obj, number: int, **changes: Any) -> Revision:
    """The stored revision of a pod template, under its real name."""
    data = revision_data(made_from)
    digest = revision_hash(data, 0)
    fields = {
        "name": revision_name("web", digest),
        "number": number,
        "data": data,
        "hash_label": digest,
        "claims_hash": "",
        "uid": f"uid-{digest}",
        "resource_version": "5",
        **changes,
    }
    return Revision(**fields)


OLD, NEW = template("nginx:1.25"), template("nginx:1.26")
OLD_NAME, NEW_NAME = revision(OLD, 1).name, revision(NEW, 2).name


def snapshot(
    raw: Obj,
    pods: Sequence[PodFacts] = (),
    *,
    revisions: Sequence[Revision] | None = None,
    claims: Sequence[Obj] = (),
    now: datetime = NOW,
    **more: Any,
) -> CloneSetSnapshot:
    """A snapshot; by default with the revisions of OLD (1) and NEW (2)."""
    owner = cloneset_facts(raw)
    known = revisions if revisions is not None else (revision(OLD, 1), revision(NEW, 2))
    return CloneSetSnapshot(
        key=owner.key,
        owner=owner,
        pods=grouped(pods),
        claims=tuple(claims),
        revisions=tuple(known),
        now=now,
        seed=7,
        **more,
    )


def judged(pods: Sequence[PodFacts]) -> PodSet:
    """Those pods as a round judges them whose update revision is web-new."""
    return judge(grouped(pods).groups, update_revision="web-new", named=(), min_ready_s=0, now=NOW)


def plan(raw: Obj, pods: Sequence[PodFacts] = (), gates: Gates | None = None, **more: Any) -> Plan:
    return plan_cloneset(snapshot(raw, pods, **more), gates or Gates())


def patch_for(made: Plan, pod: str) -> Patch | None:
    """The plan's patch of a pod; None when it has none."""
    patches = [a for a in made.actions if isinstance(a, Patch) and a.key.name == pod]
    assert len(patches) <= 1
    return patches[0] if patches else None


def body_of(made: Plan, pod: str) -> dict[str, Any]:
    """Writes of the plan on a pod: the bodies of all steps, merged a level deep."""
    found = patch_for(made, pod)
    merged: dict[str, Any] = {}
    for step in found.steps if found else ():
        merged.update(step.body)
    return merged


def labels_of(made: Plan, pod: str) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = body_of(made, pod).get("metadata", {}).get("labels", {})
    return labels
