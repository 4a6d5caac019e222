"""Pods in shorthand: `pods("3o+ n-")` is three old ready pods and a new one that is not ready."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gitkruise.model.workloads.pod import PodFacts, pod_facts

NOW: Final = datetime(2026, 7, 2, 10, 0, 0, tzinfo=UTC)
OWNER_UID: Final = "cs-uid"
REVISIONS: Final = {"n": "web-new", "o": "web-old"}
_STATES: Final = {
    "PN": "PreparingNormal",
    "PU": "PreparingUpdate",
    "U": "Updating",
    "UD": "Updated",
    "PD": "PreparingDelete",
    "": "Normal",
}
_OWNER: Final = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "CloneSet",
    "name": "web",
    "uid": OWNER_UID,
    "controller": True,
}
_TOKEN: Final = re.compile(r"(\d*)×?([noNO])(?:\[(\w+)\])?([+-])(x?)")


def raw_pod(
    name: str,
    *,
    revision: str = "web-new",
    state: str = "Normal",
    ready: bool = True,
    labels: dict[str, str] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A raw pod of CloneSet `web`; `changes` replace metadata, spec or status entries by name
    (`annotations`, `finalizers`, `nodeName`, `phase`, …)."""
    conditions = [
        {"type": kind, "status": "True" if ready else "False", "lastTransitionTime": stamp(-3600)}
        for kind in ("ContainersReady", "Ready")
    ]
    conditions.append({"type": "InPlaceUpdateReady", "status": "True"})
    wire = {
        "app": "web",
        "controller-revision-hash": revision,
        "pod-template-hash": revision.rpartition("-")[2],
        "apps.kruise.io/cloneset-instance-id": name.rpartition("-")[2],
        **({"lifecycle.apps.kruise.io/state": state} if state else {}),
        **(labels or {}),
    }
    meta = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": wire,
        "ownerReferences": [_OWNER],
        "creationTimestamp": stamp(-7200),
    }
    container = {"name": "main", "image": "nginx:1.25"}
    spec = {
        "nodeName": "node-a",
        "containers": [container],
        "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
    }
    status = {
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": [
            {**container, "imageID": "img-1", "containerID": "c-1", "ready": ready}
        ],
    }
    parts: tuple[dict[str, Any], ...] = (meta, spec, status)
    for key, value in changes.items():
        home = next((part for part in parts if key in part), None)
        if key in {"annotations", "finalizers", "deletionTimestamp"}:
            home = meta
        if key in {"initContainers", "initContainerStatuses"}:
            home = spec if key == "initContainers" else status
        assert home is not None, key
        home[key] = value
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def stamp(seconds: float) -> str:
    """RFC 3339 text of an instant `seconds` after NOW."""
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pods(text: str, revisions: Mapping[str, str] = REVISIONS) -> tuple[PodFacts, ...]:
    """Facts of the pods `text` stands for, named web-000, web-001, … in order.

    A token is `[count]<n|o>[<state>]<+|-><x>`: revision, lifecycle state (PN PU U UD PD, none is
    Normal), ready or not, `x` for a specified delete.
    """
    made: list[PodFacts] = []
    for token in text.split():
        match = _TOKEN.fullmatch(token)
        assert match, token
        count, side, state, ready, doomed = match.groups()
        for _ in range(int(count or 1)):
            labels = {"apps.kruise.io/specified-delete": "true"} if doomed else None
            raw = raw_pod(
                f"web-{len(made):03}",
                revision=revisions[side.lower()],
                state=_STATES[state or ""],
                ready=ready == "+",
                labels=labels,
            )
            made.append(pod_facts(raw))
    return tuple(made)
