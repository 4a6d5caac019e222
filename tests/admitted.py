"""Objects of all kinds, drawn at random, that an API server admits, with any status there may be.

Fields drawn by the schema alone are mostly refused. A refusal names them: they are dropped, or get
a value that it names, and the object is sent again. What is left at last is `BASES`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random  # noqa: TID251  drawn from a seed
from typing import Any, Final

from gitkruise.errors import ApiError
from gitkruise.wire.catalog.catalog import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, controller_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from gitkruise.wire.schema.nodes import Node
from gitkruise.world.api.cluster import World
from tests.objects import Drawing

SPACE: Final = "default"
REPAIRS_MAX: Final = 8
OFTEN: Final = 0.12  # how often an optional field is given
LACKING: Final = 0.05  # in a status: a field that its schema requires
KEPT_MAX: Final = 60  # objects at a time; then some go
NAMES: Final = ("a", "b", "c")
TEXTS: Final[Mapping[str, Sequence[Any]]] = {
    "image": ("web:1", "web:2", "broken:1", "crash:1", "unready:1"), "namespace": (SPACE,),
    "nodeName": ("node-0", "node-1", "node-none"), "name": NAMES, "claimName": NAMES,
    "restartPolicy": ("Always", "OnFailure", "Never"), "replicas": (0, 1, 3),
    "terminationGracePeriodSeconds": (0, 1, 30), "storageClassName": ("a", ""),
    "activeDeadlineSeconds": (1, 5), "ttlSecondsAfterFinished": (0, 3), "minReadySeconds": (0, 2),
    "conditionType": ("example.com/gate", "KruisePodReady"), "mountPath": ("/a", "/b"),
    "status": ("True", "False", "Unknown", "a"), "reason": ("a", "ProgressDeadlineExceeded"),
    "phase": ("Pending", "Running", "Succeeded", "Failed", "Bound", "a"),
    "restartCount": (0, 3), "observedGeneration": (0, 1, 9),
    "type": ("a", "Ready", "ContainersReady", "PodScheduled", "Progressing", "Complete", "Failed",
             "KruisePodReady", "InPlaceUpdateReady", "example.com/gate"),
}  # fmt: skip
POD_KIND: Final = GroupKind("", "Pod")
GROUP: Final = "example.com"
STEP: Final = re.compile(r"[^.\[\]]+|(?<=\[)[^\]]*(?=\])")
QUOTED: Final = re.compile(r'"([^"]*)"')
POD: Final[Obj] = {"containers": [{"name": "a", "image": "web:1"}]}
TEMPLATE: Final[Obj] = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
MATCHING: Final[Obj] = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
CLAIM: Final[Obj] = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
PULLED: Final[Obj] = {"completionPolicy": {"type": "Always"}}
ONCE: Final[Obj] = {"spec": {**POD, "restartPolicy": "Never"}}
VERSION: Final[Obj] = {
    "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
    "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}  # fmt: skip
# What an object of a kind has at least; the kinds that something in the cluster acts on are drawn
# more often than others.
BASES: Final[Mapping[str, Obj]] = {
    "Pod": {"spec": POD},
    "CloneSet": {"spec": {**MATCHING, "replicas": 2}},
    "Deployment": {"spec": MATCHING},
    "ReplicaSet": {"spec": MATCHING},
    "StatefulSet": {"spec": {**MATCHING, "serviceName": "a"}},
    "DaemonSet": {"spec": MATCHING},
    "Job": {"spec": {"template": ONCE}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}}},
    "SidecarSet": {"spec": {"selector": {"matchLabels": {"app": "a"}},
                            "containers": [{"name": "side", "image": "side:1"}]}},
    "PersistentVolumeClaim": {"spec": CLAIM},
    "PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"},
                                  "accessModes": ["ReadWriteOnce"]}},
    "Service": {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}},
    "Endpoints": {}, "EndpointSlice": {"addressType": "IPv4", "endpoints": []},
    "Node": {}, "ConfigMap": {}, "Secret": {}, "ControllerRevision": {"revision": 1, "data": {}},
    "PodDisruptionBudget": {"spec": {"selector": {"matchLabels": {"app": "a"}}}},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 3, "scaleTargetRef": {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}},
    "WorkloadSpread": {"spec": {"subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b"}],
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "a"}}},
    "Event": {"involvedObject": {"namespace": SPACE}},
    "ReplicationController": {"spec": {"selector": {"app": "a"}, "template": TEMPLATE}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "example.com/a"}},
    "ImagePullJob": {"spec": {"image": "web:1", **PULLED}},
    "ImageListPullJob": {"spec": {"images": ["web:1", "web:2"], **PULLED}},
}  # fmt: skip
# A budget, a request and a definition have names of other objects in them: see `_referring`.
REFERRING: Final = ("PodUnavailableBudget", "ContainerRecreateRequest", "CustomResourceDefinition")
WEIGHTS: Final[Mapping[str, int]] = {
    **dict.fromkeys((*BASES, *REFERRING), 6),
    "Pod": 60,
    "CloneSet": 20,
    "CustomResourceDefinition": 1,
}


@dataclass(slots=True)
class Admitting:
    """Draws objects and has `world` admit them; `admitted` counts them by kind."""

    world: World
    draw: Random
    admitted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    _kept: list[tuple[Kind, Obj]] = field(default_factory=list)

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of which objects are drawn."""
        return [k for k in self.world.catalog.kinds() if {"create", "get"} <= set(k.verbs)]

    def step(self, now: datetime) -> None:
        """Create an object and write some status for it or for another one; or take one away."""
        kinds = self.kinds
        weights = [WEIGHTS.get(kind.kind, 1) for kind in kinds]
        kind = self.draw.choices(kinds, weights)[0]
        made = self.create(kind, now)
        if made is not None:
            self.admitted[kind.kind] += 1
            self._kept.append((kind, made))
        if self._kept:
            self._status(*self.draw.choice(self._kept), now)
        if len(self._kept) > KEPT_MAX or (self._kept and self.draw.random() < OFTEN):
            self._remove(*self._kept.pop(self.draw.randrange(len(self._kept))), now)

    def create(self, kind: Kind, now: datetime) -> Obj | None:
        """Create an object of a kind; None when all that was drawn is refused."""
        name = self.draw.choice(NAMES) + "-" + str(self.world.version)
        base = BASES.get(kind.kind) or self._referring(kind.kind, name)
        if kind.kind == "CustomResourceDefinition":
            name += f".{GROUP}"
        obj: Obj = {**self._over(base, kind.strict, ""), "metadata": self._meta(name, kind)}
        least = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": obj["metadata"]}
        obj = {**obj, **least}
        for turn in range(REPAIRS_MAX + 1):
            if turn == REPAIRS_MAX:
                obj = {**base, **least}
            request = ApiRequest(
                verb="create", resource=kind.ref, body=obj,
                namespace=SPACE if kind.namespaced else "",
            )  # fmt: skip
            try:
                return self.world.handle(request, now).body
            except ApiError as error:
                obj = _repaired(obj, error, {**base, **least})
        self.refused[kind.kind] += 1
        return None

    def _referring(self, kind: str, name: str) -> Obj:
        """What an object that is about others has at least: names of those that are there."""
        pods = self.world.objects(POD_KIND, SPACE)
        owned = [pod for pod in pods if controller_of(pod) is not None]
        if kind == "PodUnavailableBudget":
            owner = controller_of(self.draw.choice(owned)) if owned else None
            target = {k: (owner or {}).get(k) or "a" for k in ("apiVersion", "kind", "name")}
            return {
                "spec": {"maxUnavailable": self.draw.choice((0, 1, "50%")), "targetRef": target}
            }
        running = [p for p in pods if get(p, "status", "phase") == "Running"]
        if kind == "ContainerRecreateRequest" and running:
            pod = self.draw.choice(running)
            first = pod["spec"]["containers"][0]["name"]
            return {"spec": {"podName": pod["metadata"]["name"], "containers": [{"name": first}]}}
        if kind == "CustomResourceDefinition":
            names = {"plural": name, "singular": name, "kind": "A" + name.replace("-", "")}
            return {"spec": {"group": GROUP, "scope": "Namespaced", "names": names,
                             "versions": [VERSION]}}  # fmt: skip
        return {}

    def _over(self, base: Any, node: Node, name: str) -> Any:
        """`base` with fields that its schema allows besides."""
        if isinstance(base, list) and node.items is not None:
            items = node.items
            return [self._over(item, items, name) for item in base]
        if not isinstance(base, Mapping):
            return base
        drawing, drawn = Drawing(self.draw, OFTEN, texts=TEXTS), dict(base)
        for key, child in node.children():
            if key in base:
                drawn[key] = self._over(base[key], child, key)
            elif key in node.required or self.draw.random() < OFTEN:
                drawn[key] = drawing.value(child, key)
        return drawn

    def _meta(self, name: str, kind: Kind) -> Obj:
        meta: dict[str, Any] = {"name": name}
        if self.draw.random() < 0.7:
            meta["labels"] = {"app": self.draw.choice("ab")}
        if self.draw.random() < 0.1:
            meta["finalizers"] = ["example.com/hold"]
        if self.draw.random() < 0.2 and self._kept:
            owner_kind, owner = self.draw.choice(self._kept)
            if kind.namespaced or not owner_kind.namespaced:
                meta["ownerReferences"] = [{
                    "apiVersion": owner_kind.api_version, "kind": owner_kind.kind,
                    "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
                    "controller": self.draw.random() < 0.5,
                }]  # fmt: skip
        return meta

    def _status(self, kind: Kind, obj: Obj, now: datetime) -> None:
        """Another controller writes a status, as incomplete as the schema lets it be."""
        node = kind.strict.child("status")
        if node is None or "status" not in kind.subresources:
            return
        status = Drawing(self.draw, self.draw.choice((0.1, 0.3, 0.6)), LACKING, TEXTS).value(node)
        for _ in range(REPAIRS_MAX):
            meta = obj["metadata"]
            request = ApiRequest(
                verb="patch", resource=kind.ref, namespace=meta.get("namespace", ""),
                name=meta["name"], subresource="status", body={"status": status},
                content_type=MERGE_PATCH,
            )  # fmt: skip
            try:
                self.world.handle(request, now)
            except ApiError as error:
                status = _repaired({"status": status}, error, {}).get("status", {})
            else:
                self.admitted[f"{kind.kind}/status"] += 1
                return
        self.refused[f"{kind.kind}/status"] += 1

    def _remove(self, kind: Kind, obj: Obj, now: datetime) -> None:
        meta = obj["metadata"]
        where = {"namespace": meta.get("namespace", ""), "name": meta["name"]}
        requests = [ApiRequest(verb="delete", resource=kind.ref, **where)]
        if self.draw.random() < 0.5:
            unhold = {"metadata": {"finalizers": None}}
            requests.append(
                ApiRequest(
                    verb="patch", resource=kind.ref, body=unhold, content_type=MERGE_PATCH, **where
                )
            )
        for request in requests:
            try:
                self.world.handle(request, now)
            except ApiError:  # it is gone, or protected
                self.refused["delete"] += 1


def _repaired(obj: Obj, error: ApiError, base: Obj) -> Obj:
    """The object with what a refusal says of its fields; fields of `base` stay."""
    fields = [(cause.field, cause.message) for cause in error.details.causes]
    if not fields:  # a decoding error names one in its text
        return _shorter(obj, base)
    for path, message in fields:
        steps = [int(s) if s.isdigit() else s for s in STEP.findall(path)]
        _, known, choices = message.partition("supported values: ")
        values = QUOTED.findall(choices)
        obj = _changed(obj, steps, values[0] if known and values else None, base)
    return obj


def _shorter(obj: Obj, base: Obj) -> Obj:
    """Without the first field that `base` does not have."""
    for name in ("spec", *obj):
        if name in {"apiVersion", "kind", "metadata"} or name not in obj:
            continue
        if name not in base:
            return {k: v for k, v in obj.items() if k != name}
        if obj[name] != base[name]:
            return {**obj, name: base[name]}
    return obj


def _changed(value: Any, steps: Sequence[Any], new: str | None, base: Any) -> Any:
    """`value` with `new` at the end of a path, or without it; what `base` has is put back."""
    if not steps:
        return base if base is not None else new
    step, *rest = steps
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        below = base[step] if isinstance(base, list) and step < len(base) else None
        changed = _changed(value[step], rest, new, below)
        return [changed if i == step else v for i, v in enumerate(value)]
    if not isinstance(value, Mapping) or step not in value:
        return base if base is not None else None
    below = base.get(step) if isinstance(base, Mapping) else None
    changed = _changed(value[step], rest, new, below)
    if changed is None:
        return {k: v for k, v in value.items() if k != step}
    return {**value, step: changed}
