"""Pods of a SidecarSet as they are drawn: its revision in each, and the slots of its sidecars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gitkruise.dashboard.pod_rows import CellShape, cell_shape
from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset import Sidecar, sidecarset_facts
from gitkruise.planner.sidecarset.hot_upgrade import roles
from gitkruise.planner.sidecarset.pod_view import MatchCriteria, PodState
from gitkruise.wire.primitives.names import Obj

_SLOTS: Final = ("A", "B")  # the first and the second container of a hot sidecar
_CALM: Final = frozenset({CellShape.READY, CellShape.STARTING})


def sidecar_rows(raw: Obj, rollout: Rollout, pods: Iterable[PodFacts]) -> dict[str, Any]:
    """Return the rows of the matched pods of the SidecarSet `raw`, by namespace and name.

    `revision` and `role` are those of the SidecarSet, not of the workload that owns the pod.
    """
    owner = sidecarset_facts(raw)
    criteria = MatchCriteria(owner)
    failing = {**dict(rollout.hindered), **dict(rollout.failing)}
    rows = {}
    for pod in pods:
        judged = criteria.judge(pod)
        state = cell_shape(pod, failing)
        if state in _CALM and judged.updated and not (judged.consistent and judged.rested):
            state = CellShape.UPDATING
        chosen = owner.update.selects(pod.labels)
        carried = owner.latest_revision if judged.updated else criteria.mark(pod).revision
        rows[f"{pod.namespace}/{pod.name}"] = {
            "namespace": pod.namespace,
            "state": str(state),
            "why": failing.get(pod.name) or _held(judged, chosen=chosen),
            "role": "update" if judged.updated else "current",
            "revision": carried.rpartition("-")[2],
            "node": pod.node,
            "restarts": pod.restarts,
            "sidecars": [_sidecar(one, criteria, pod) for one in owner.containers],
        }
    return rows


def _held(judged: PodState, *, chosen: bool) -> str:
    """Return why a pod does not get the newest revision, apart from the partition."""
    if judged.updated:
        return ""
    if not chosen:
        return "the update selector leaves it out"
    return "" if judged.fits else "differs in more than images until replaced"


def _sidecar(sidecar: Sidecar, criteria: MatchCriteria, pod: PodFacts) -> dict[str, Any]:
    """Return one sidecar with its container, or with both slots of a hot one."""
    working = roles(sidecar, pod.annotations)[0] if sidecar.hot else sidecar.name
    slots = []
    for slot, name in zip(_SLOTS, sidecar.names, strict=False):
        found = criteria.side(pod, name)
        slots.append({
            "slot": slot if sidecar.hot else "",
            "image": found.image,
            "working": name == working,
            "placeholder": sidecar.hot and found.image == sidecar.empty_image,
            "up": found.up,
        })  # fmt: skip
    return {"name": sidecar.name, "hot": sidecar.hot, "slots": slots}
