"""Number of pods a change affects: forecast for CloneSets, by their own rules for other kinds.

A plan does not simulate DaemonSets: only the cluster knows how many pods there are, and which of
them have the newest template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.report import PodEffects, Sentence, Span, Tone
from gitkruise.model.planning.canary import CANARIES
from gitkruise.model.planning.forecast import (
    CREATE,
    DELETE,
    HOT,
    RECREATE,
    STUCK,
    ForecastStep,
    RolloutForecast,
)
from gitkruise.model.planning.trace import IN_PLACE
from gitkruise.model.workloads.labels import (
    ADVANCED_DAEMONSET,
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    REPLICASET,
    SIDECARSET,
    STATEFULSET,
)
from gitkruise.model.workloads.labels import RECREATE as REQUEST
from gitkruise.model.workloads.rollout_kinds import ROLLING_KINDS
from gitkruise.planner.health.tie_breaks import split
from gitkruise.planner.sync.prune import stays
from gitkruise.printable import many
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, Obj
from gitkruise.wire.primitives.paths import get

DAEMON_KINDS: Final = frozenset({DAEMONSET, ADVANCED_DAEMONSET})
_TEMPLATE: Final = ("spec", "template")
# Fields of a pod spec that choose its nodes: the controller moves pods for them with any strategy.
_PLACEMENT: Final = frozenset({"affinity", "nodeName", "nodeSelector", "tolerations"})
# Fields of OpenKruise's rollingUpdate with which some pods stay, or keep their node and address.
_SELECTIVE: Final = ("partition", "paused", "rollingUpdateType", "selector")
# Kinds with replicas whose pods follow their template (apps/v1 and OpenKruise's versions of them).
_SIZED: Final = frozenset(
    {
        CLONESET,
        DEPLOYMENT,
        STATEFULSET,
        ADVANCED_STATEFULSET,
        REPLICASET,
    }
)
_COUNTED: Final = _SIZED - {CLONESET, ADVANCED_STATEFULSET}  # what `footprint` counts
_NOTES: Final = ("metadata", "annotations")
_CANARIES: Final = CANARIES | {_NOTES}  # a map that comes or goes is one change
# Kinds outside of Kubernetes that replace no pod when they change; SidecarSets are played ahead.
_PODLESS: Final = frozenset(
    {
        SIDECARSET,
        GroupKind("apps.kruise.io", "ImageListPullJob"),
        GroupKind("apps.kruise.io", "ImagePullJob"),
        GroupKind("apps.kruise.io", "NodeImage"),
        GroupKind("apps.kruise.io", "PodProbeMarker"),
        GroupKind("apps.kruise.io", "ResourceDistribution"),
        GroupKind("apps.kruise.io", "WorkloadSpread"),
        GroupKind("policy.kruise.io", "PodUnavailableBudget"),
        *(GroupKind(OWN_GROUP, kind) for kind in ("GitSource", "Unit", "Sink", "Receiver")),
    }
)
_ONLY_NEW: Final = frozenset({REPLICASET})  # pods there are keep their template


def moved(p: RolloutForecast, *, created: bool) -> PodEffects:
    """Pods of one rollout that was played ahead. A SidecarSet creates none: its pods are counted
    where their workload is."""
    moves = Counter(move.how for step in p.steps for move in step.moves)
    if p.key.group_kind == DEPLOYMENT:
        rolled = min(moves[CREATE], moves[DELETE])
        return PodEffects(
            rolled=rolled, added=moves[CREATE] - rolled, removed=moves[DELETE] - rolled
        )
    creates = p.replicas if created and p.hold != STUCK else moves[CREATE]
    return PodEffects(
        in_place=moves[IN_PLACE] + moves[HOT] + (p.sidecars.emptied if p.sidecars else 0),
        recreated=moves[RECREATE],
        added=creates if p.sidecars is None else 0,
        removed=moves[DELETE],
    )


def played_ahead(change: ObjectChange) -> bool:
    """Return whether a plan simulates the rollout of a change.

    It does so for CloneSets, StatefulSets and SidecarSets that are created or configured, and for
    Deployments whose spec or canary is configured. Of those that are deleted and created again the
    rules of their kind say enough.
    """
    if change.key.group_kind not in ROLLING_KINDS:
        return False
    if change.replaced and change.key.group_kind in _COUNTED:
        return False
    if change.key.group_kind == DEPLOYMENT:
        paths = [field.path for field in change.fields]
        asks = any(path[:1] == ("spec",) or path[:3] in _CANARIES for path in paths)
        return change.kind is ChangeKind.CONFIGURE and asks
    return change.kind in {ChangeKind.CREATE, ChangeKind.CONFIGURE}


def pods_named(step: ForecastStep, short: Callable[[str], str], *, most: int) -> str:
    """The pods of a step, the first by name; where its engine leaves open which, all it may be."""
    certain, left_open = split(step)
    parts = [some([short(move.pod) for move in certain], most=most)] if certain else []
    for number, pods in left_open:
        parts.append(f"any {number} of {{{some([short(pod) for pod in pods], most=most)}}}")
    return " ".join(parts)


def some(names: Sequence[str], *, most: int) -> str:
    """The first of them, and how many more."""
    more = len(names) - most
    return " ".join(names[:most]) + (f" +{more}" if more > 0 else "")


def footprint(change: ObjectChange) -> PodEffects:
    """Pods that a change moves by the rules of its kind, when nothing was played ahead."""
    if change.kind is ChangeKind.PRUNE:
        assert change.before is not None
        return PodEffects() if stays(change) else _gone(change)
    if change.kind is ChangeKind.CREATE:
        sized = change.key.group_kind in _SIZED
        return PodEffects(added=(_replicas(change.after) or 0) if sized else 0)
    if change.key.group_kind in DAEMON_KINDS:
        return PodEffects(uncounted=int(_rolls(change)))
    if change.key.group_kind not in _COUNTED:
        return PodEffects()
    before, after = _replicas(change.before), _replicas(change.after)
    grown = 0 if before is None or after is None else after - before
    size = after if after is not None else before or 0
    return PodEffects(
        rolled=_replaced(change, min(size, size - grown)),
        added=max(grown, 0),
        removed=max(-grown, 0),
    )


def unforeseen(change: ObjectChange) -> str:
    """Return why only the cluster knows the effect of a change on pods; "" where rules say it."""
    key, removed = change.key, change.kind is ChangeKind.PRUNE
    if removed and (stays(change) or key.group_kind == REQUEST):
        return ""
    if key.group_kind in DAEMON_KINDS:
        return unforeseen_pods(change)
    builtin = "." not in key.group or key.group.endswith(".k8s.io")
    if builtin or key.group_kind in _PODLESS | _SIZED:
        return ""
    return f"the controller of {key.kind} decides"


def footprint_words(pods: PodEffects, change: ObjectChange) -> Sentence:
    """`footprint` in a sentence; () when no pod is affected."""
    if change.kind is ChangeKind.PRUNE:
        return (Span(f"its {many(pods.gone)} go with it", Tone.ALARM),) if pods.gone else ()
    if pods.uncounted:
        return (Span(everywhere(change), Tone.ALARM),)
    if pods.rolled:
        size = _replicas(change.after) or pods.rolled
        why = "their template changes" if _rolls(change) else "the partition lets them through"
        why = "they go with the object" if change.replaced else why
        kept = 0 if change.replaced else min(_held(change.after), size)
        stay = f"; {kept} stay as they are (partition {kept})" if kept else ""
        return (
            Span(f"{pods.rolled} of {many(size)} REPLACED", Tone.ALARM),
            Span(f" ({why}){stay}"),
        )
    if pods.added or pods.removed:
        word = f"{many(pods.added)} created" if pods.added else f"{many(pods.removed)} deleted"
        return (Span(word),)
    return ()


def _gone(change: ObjectChange) -> PodEffects:
    if change.key.group_kind in DAEMON_KINDS:
        return PodEffects(uncounted=1)
    sized = change.key.group_kind in _SIZED
    return PodEffects(gone=_present(change.before or {}) if sized else 0)


def _present(obj: Obj) -> int:
    """Return the pods of a live workload by its status: a surge has more than spec.replicas. By its
    spec where no controller has counted them."""
    status = obj.get("status") or {}
    seen = status.get("observedGeneration")
    if seen is not None and seen == get(obj, "metadata", "generation"):
        return int(status.get("replicas", 0))
    return _replicas(obj) or 0


def _replicas(obj: Obj | None) -> int | None:
    """As written; 1 where nothing is (apps/v1). None for what is no number."""
    size: Any = get(obj or {}, "spec", "replicas", default=1)
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def _rolls(change: ObjectChange) -> bool:
    """Return whether the controller of this kind replaces pods for the change by itself."""
    spec = get(change.after or {}, "spec", default={})
    strategy = spec.get("updateStrategy") or {}
    waits = spec.get("paused") is True or strategy.get("type") == "OnDelete"
    if waits or change.key.group_kind in _ONLY_NEW:
        return False
    return any(field.path[:2] == ("spec", "template") for field in change.fields)


def _replaced(change: ObjectChange, size: int) -> int:
    """Pods of `size` that are replaced; of a StatefulSet in a rollout those that a lower partition
    lets through, of an object that is made again all."""
    if change.replaced:
        return size
    if _rolls(change):
        return max(size - _held(change.after), 0)
    status = get(change.before or {}, "status", default={})
    waiting = status.get("currentRevision") != status.get("updateRevision")
    if change.key.group_kind != STATEFULSET or not waiting:
        return 0
    return max(min(_held(change.before), size) - min(_held(change.after), size), 0)


def _held(obj: Obj | None) -> int:
    partition = get(obj or {}, "spec", "updateStrategy", "rollingUpdate", "partition")
    return partition if isinstance(partition, int) else 0


def unforeseen_pods(change: ObjectChange) -> str:
    """Return why only the cluster knows what happens to the pods; "" where rules say it."""
    if change.kind is ChangeKind.CREATE:
        return "its pods are as many as the nodes that it selects"
    if change.kind is not ChangeKind.CONFIGURE or change.replaced:
        return ""
    before, after = change.before or {}, change.after or {}
    templated = any(field.path[:2] == _TEMPLATE for field in change.fields)
    if _on_delete(after):
        follow = "its pods follow the nodes that it selects, also with OnDelete"
        return follow if _moved(change) else ""
    held, holds = _selective(before), _selective(after)
    if held != holds or (templated and any(holds)):
        return f"the controller of {change.key.kind} decides"
    if _on_delete(before) and not templated and not _complete(before):
        return "pods of an older template, if there are any, are replaced"
    return ""


def everywhere(change: ObjectChange) -> str:
    """Return the fate of the pods of a DaemonSet whose controller replaces them all."""
    moved = " that it selects, and deleted on the others" if _moved(change) else ""
    return f"its pods are REPLACED on every node{moved}"


def _moved(change: ObjectChange) -> bool:
    paths = (field.path for field in change.fields)
    return any(path[:3] == (*_TEMPLATE, "spec") and {*path[3:4]} & _PLACEMENT for path in paths)


def _on_delete(obj: Obj) -> bool:
    return bool(get(obj, "spec", "updateStrategy", "type", default="") == "OnDelete")


def _selective(obj: Obj) -> tuple[Any, ...]:
    """The values of these fields; a default counts like one that is not written."""
    rolling = get(obj, "spec", "updateStrategy", "rollingUpdate", default={})
    return tuple(
        None if value in (0, "0%", "", "Standard") else value
        for value in map(rolling.get, _SELECTIVE)
    )


def _complete(obj: Obj) -> bool:
    """Return whether the object is a live one whose pods all have its newest template."""
    status = get(obj, "status", default={})
    wanted = status.get("desiredNumberScheduled")
    return wanted is not None and status.get("updatedNumberScheduled", 0) >= wanted
