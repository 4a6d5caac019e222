"""SidecarSets, pods they were injected into, and rounds, one line each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from gitkruise.model.planning.plan import Patch, Plan
from gitkruise.model.planning.snapshot import SidecarSetSnapshot
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.model.workloads.revision import Revision
from gitkruise.model.workloads.sidecarset import SidecarSetFacts, sidecarset_facts
from gitkruise.model.workloads.sidecarset_annotations import (
    WORKING,
    injected_notes,
    version_alt_key,
    version_key,
    working_text,
)
from gitkruise.model.workloads.sidecarset_hash import (
    HASH,
    HASH_WITHOUT_IMAGE,
    hash_without_image,
    sidecarset_hash,
)
from gitkruise.model.workloads.sidecarset_revision import new_revision
from gitkruise.planner.sidecarset.matching import matched
from gitkruise.planner.sidecarset.plan import plan_sidecarset
from gitkruise.wire.primitives.names import Obj
from tests.pods import NOW, stamp

EMPTY: Final = "e:0"
COLD: Final = {"name": "side", "image": "side:1"}


def hot(image: str = "side:1", *, name: str = "side", empty: str = EMPTY) -> dict[str, Any]:
    strategy = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": empty}
    return {"name": name, "image": image, "upgradeStrategy": strategy}


def sidecarset(
    *containers: Obj,
    update: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    name: str = "ss",
    version: str = "1000",
    **spec: Any,
) -> dict[str, Any]:
    """A stored v1beta1 SidecarSet with its hashes; `update` are fields of updateStrategy."""
    body = {
        "selector": {"matchLabels": {"app": "web"}},
        "containers": list(containers) or [COLD],
        "updateStrategy": {"type": "RollingUpdate", **(update or {})},
        **spec,
    }
    raw = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "spec": body}
    meta = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": version,
        "generation": 1,
        "annotations": {HASH: sidecarset_hash(raw), HASH_WITHOUT_IMAGE: hash_without_image(raw)},
    }
    return {**raw, "metadata": meta, "status": dict(status or {})}


def injected(
    raw: Obj,
    name: str = "p",
    *,
    ready: bool = True,
    age_s: float = 7200,
    labels: Mapping[str, str] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A raw pod with one container `main` that was born under a SidecarSet and runs it.

    `changes` replace metadata, spec or status entries by name.
    """
    containers, notes = _born(json.dumps(raw))
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": {"app": "web", **(labels or {})},
        "annotations": {**notes, **changes.pop("annotations", {})},
        "creationTimestamp": stamp(-age_s),
    }
    spec = {
        "nodeName": "node-a",
        "containers": changes.pop("containers", [dict(c) for c in containers]),
    }
    status = {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(-3600)},
        ],
        "containerStatuses": [running(c, ready=ready) for c in spec["containers"]],
    }
    for key, value in changes.items():
        home = next(part for part in (meta, spec, status) if key in part or part is meta)
        home = status if key in {"phase", "conditions", "containerStatuses"} else home
        home[key] = value
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


@lru_cache(maxsize=64)
def _born(text: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """(containers, annotations) of a pod that is made under the SidecarSet `text`."""
    raw = json.loads(text)
    facts = sidecarset_facts({**raw, "status": {"latestRevision": revision(raw).name}})
    containers = [{"name": "main", "image": "nginx:1.25"}]
    notes: dict[str, str] = {}
    working: dict[str, str] = {}
    for sidecar in facts.containers:
        if not sidecar.hot:
            containers.append({"name": sidecar.name, "image": sidecar.image})
            continue
        first, second = sidecar.pair
        working[sidecar.name] = first
        containers.append({"name": first, "image": sidecar.image})
        containers.append({"name": second, "image": sidecar.empty_image})
        notes |= {version_key(first): "1", version_alt_key(first): "0"}
        notes |= {version_key(second): "0", version_alt_key(second): "1"}
    if working:
        notes[WORKING] = working_text(working)
    notes |= injected_notes({}, [(facts, True)], NOW)
    return containers, notes


def running(container: Obj, *, ready: bool = True, image_id: str = "") -> dict[str, Any]:
    """The status of a container that runs what its spec says."""
    image = container["image"]
    shown = image_id or f"docker://{image}-id"
    return {"name": container["name"], "image": image, "imageID": shown, "ready": ready}


def revision(raw: Obj, number: int = 1) -> Revision:
    """The stored revision of a SidecarSet's spec."""
    made = new_revision(sidecarset_facts(raw), number)
    fields = {name: getattr(made, name) for name in made.__slots__}
    return Revision(**{**fields, "uid": f"uid-{made.name}", "resource_version": "5"})


def snapshot(
    raw: Obj, pods: Sequence[Obj], *, now: datetime = NOW, old: Sequence[Obj] = ()
) -> SidecarSetSnapshot:
    """`old` are SidecarSets whose specs came before, oldest first; the present one is on record."""
    owner: SidecarSetFacts = sidecarset_facts(raw)
    facts: list[PodFacts] = [pod_facts(pod) for pod in pods]
    return SidecarSetSnapshot(
        key=owner.key,
        owner=owner,
        pods=matched(owner, facts),
        revisions=tuple(revision(each, at + 1) for at, each in enumerate((*old, raw))),
        now=now,
    )


def plan(raw: Obj, pods: Sequence[Obj], **more: Any) -> Plan:
    return plan_sidecarset(snapshot(raw, pods, **more), Gates())


def moved(made: Plan) -> list[str]:
    """Pods whose containers change, in order."""
    return [
        a.key.name
        for a in made.actions
        if isinstance(a, Patch) and a.key.kind == "Pod" and "spec" in a.steps[0].body
    ]


def reasons(made: Plan) -> dict[str, str]:
    return {h.pod.removeprefix("shop/"): h.why for h in made.held}
