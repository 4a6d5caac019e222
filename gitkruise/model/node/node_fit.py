"""Fit of a pod and a node: node selectors, required node affinity, taints and tolerations.

Source: component-helpers of Kubernetes 1.34, which kube-scheduler and the DaemonSet controller
share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import gt, lt
from typing import Final

from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.selectors import label_selector

SIMULATED: Final = "gitkruise simulated node"  # osImage of the embedded cluster's nodes
HARD: Final = frozenset({"NoSchedule", "NoExecute"})
EVICTING: Final = frozenset({"NoExecute"})
_COMPARE: Final = {"Gt": gt, "Lt": lt}


def is_simulated(node: Obj) -> bool:
    """Return whether a node is one of the embedded cluster, whose kubelet is a model."""
    return bool(get(node, "status", "nodeInfo", "osImage") == SIMULATED)


def untolerated(node: Obj, spec: Obj, effects: frozenset[str] = HARD) -> Obj | None:
    """The first taint of the node with one of `effects` that such a pod does not tolerate."""
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") in effects and not _tolerated(taint, spec):
            found: Obj = taint
            return found
    return None


def tolerates_cordon(spec: Obj) -> bool:
    """Return whether such a pod is placed on a node marked unschedulable."""
    return _tolerated({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, spec)


def _tolerated(taint: Obj, spec: Obj) -> bool:
    for wanted in spec.get("tolerations") or ():
        effect, key = wanted.get("effect"), wanted.get("key")
        if effect and effect != taint.get("effect"):
            continue
        exists = wanted.get("operator") == "Exists"
        if (key == taint["key"] or (not key and exists)) and (
            exists or (wanted.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False


def selected(node: Obj, spec: Obj) -> bool:
    """nodeSelector and required node affinity, as the scheduler reads them."""
    labels = node["metadata"].get("labels") or {}
    wanted = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(meets_term(node, term) for term in required.get("nodeSelectorTerms") or ())


def meets_term(node: Obj, term: Obj) -> bool:
    """Return whether a node meets every part of a node selector term; an empty one fits no node."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    parts = (term.get("matchExpressions") or (), term.get("matchFields") or ())
    return any(parts) and _meets(parts[0], labels) and _meets(parts[1], fields)


def _meets(expressions: Iterable[Obj], labels: Mapping[str, str]) -> bool:
    for one in expressions:
        operator = one["operator"]
        if operator in _COMPARE:
            have, want = int_or_none(labels.get(one["key"])), int_or_none(one["values"][0])
            if have is None or want is None or not _COMPARE[operator](have, want):
                return False
        elif not label_selector({"matchExpressions": [one]}).matches(labels):
            return False
    return True
