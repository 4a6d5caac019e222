"""Pods of both kinds of StatefulSet: their names, hosts, claims, and the events about them.

Source: statefulset controllers of Kubernetes 1.34 and OpenKruise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gitkruise.model.planning.plan import Create, Delete, Event
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.statefulset.facts import named_claims, ordinal_of
from gitkruise.wire.primitives.names import GroupKind, Obj, controller_reference
from gitkruise.wire.primitives.paths import get

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


def pods_by_ordinal(pods: Iterable[PodFacts], owner: str) -> dict[int, PodFacts]:
    """`pods` by their ordinals; those with other names are left out."""
    numbered = ((ordinal_of(pod.name, owner), pod) for pod in pods)
    return {at: pod for at, pod in numbered if at is not None}


def create_pod(
    owner: Obj,
    template: Obj,
    ordinal: int,
    *,
    revision: str,
    labels: Mapping[str, str],
    claims: Sequence[Obj],
) -> Create:
    """Create the pod of an ordinal from a revision's template, and before it `claims`.

    `labels` come on top of those of the template, the revision and the pod's name.
    """
    meta = owner["metadata"]
    name = f"{meta['name']}-{ordinal}"
    pod: dict[str, Any] = {k: v for k, v in (template.get("metadata") or {}).items() if v}
    pod.pop("creationTimestamp", None)
    marks = {wire.REVISION_HASH: revision, POD_NAME: name, **labels}
    pod |= {
        "name": name,
        "generateName": f"{meta['name']}-",
        "namespace": meta["namespace"],
        "labels": {**(pod.get("labels") or {}), **marks},
        "ownerReferences": [controller_reference(owner)],
    }
    subject = f"Pod {name} in StatefulSet {meta['name']}"
    return Create(
        obj={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": pod,
            "spec": _pod_spec(owner, template["spec"], name),
        },
        claims=tuple(claims),
        done=Event("Normal", "SuccessfulCreate", f"create {subject} successful"),
        failed=Event("Warning", "FailedCreate", f"create {subject} failed error: "),
    )


def _pod_spec(owner: Obj, template: Obj, pod: str) -> Obj:
    """Host names, and the volumes of its claims in the place of the template's of their names."""
    spec: dict[str, Any] = {k: v for k, v in template.items() if v is not None}
    spec["hostname"] = pod
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    mine = [t["metadata"]["name"] for t in named_claims(owner)]
    if mine:
        claimed = [
            {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod}"}} for name in mine
        ]
        others = [v for v in spec.get("volumes") or () if v["name"] not in mine]
        spec["volumes"] = [*claimed, *others]
    return spec


def claims_of(owner: Obj, pod: str) -> tuple[Obj, ...]:
    """The claims of a pod, as they are created without an owner."""
    return tuple(_claim(owner, template, pod) for template in named_claims(owner))


def _claim(owner: Obj, template: Obj, pod: str) -> Obj:
    meta = template["metadata"]
    matched = get(owner, "spec", "selector", "matchLabels", default={})
    made: dict[str, Any] = {
        "name": f"{meta['name']}-{pod}",
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(meta.get("labels") or {}), **matched},
    }
    if meta.get("annotations"):
        made["annotations"] = dict(meta["annotations"])
    kind = {"apiVersion": "v1", "kind": CLAIM.kind}
    return {**kind, "metadata": made, "spec": template.get("spec") or {}}


def delete_pod(owner: Obj, pod: PodFacts) -> Delete:
    """Delete a pod of the StatefulSet `owner`."""
    subject = f"Pod {pod.name} in StatefulSet {owner['metadata']['name']}"
    return Delete(
        key=pod.key,
        version="v1",
        uid=pod.uid,
        resource_version="",
        done=Event("Normal", "SuccessfulDelete", f"delete {subject} successful"),
        failed=Event("Warning", "FailedDelete", f"delete {subject} failed error: "),
    )
