"""Times of built-in kinds that Go writes as null when they are not set.

`omitempty` does not leave out a struct, and metav1.Time is one: a condition without a time of its
last probe says `lastProbeTime: null`. Source: the fields of k8s.io/api that are no pointers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitkruise.wire.primitives.names import GroupKind, Obj, kinds_of

_MOVED: Final = ("lastTransitionTime",)
_PROBED: Final = ("lastProbeTime", "lastTransitionTime")
_CONDITIONS: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    GroupKind("", "Pod"): _PROBED,
    GroupKind("", "PersistentVolumeClaim"): _PROBED,
    GroupKind("batch", "Job"): _PROBED,
    GroupKind("", "Node"): ("lastHeartbeatTime", "lastTransitionTime"),
    GroupKind("apps", "Deployment"): ("lastUpdateTime", "lastTransitionTime"),
    **dict.fromkeys(
        kinds_of(
            {
                "": ("Namespace", "ReplicationController"),
                "apps": ("DaemonSet", "ReplicaSet", "StatefulSet"),
                "autoscaling": ("HorizontalPodAutoscaler",),
            }
        ),
        _MOVED,
    ),
}
EVENT_TIMES: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    GroupKind("", "Event"): ("eventTime", "firstTimestamp", "lastTimestamp"),
    GroupKind("events.k8s.io", "Event"): (
        *("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"),
    ),
}
_POD: Final = GroupKind("", "Pod")
_CONTAINERS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_STATES: Final = {"running": ("startedAt",), "terminated": ("startedAt", "finishedAt")}


def with_unset_times(group_kind: GroupKind, obj: Obj, old: Obj) -> Obj:
    """`obj` with a null for every such time; parts shared with `old` are as they should be."""
    if group_kind in EVENT_TIMES:
        return _nulled(obj, EVENT_TIMES[group_kind])
    status, names = obj.get("status"), _CONDITIONS.get(group_kind)
    if names is None or status is old.get("status") or not isinstance(status, Mapping):
        return obj
    known = old.get("status") or {}
    changed: dict[str, Any] = {}
    listed = status.get("conditions")
    if listed and listed is not known.get("conditions"):
        changed["conditions"] = _each(listed, names)
    for part in _CONTAINERS if group_kind == _POD else ():
        if status.get(part) and status[part] is not known.get(part):
            changed[part] = [_container(entry) for entry in status[part]]
    if all(status[part] is value for part, value in changed.items()):
        return obj
    return {**obj, "status": {**status, **changed}}


def _each(items: Sequence[Obj], names: tuple[str, ...]) -> Sequence[Obj]:
    nulled = [_nulled(item, names) for item in items]
    same = all(a is b for a, b in zip(items, nulled, strict=True))
    return items if same else nulled


def _nulled(item: Obj, names: tuple[str, ...]) -> Obj:
    """`item` with a null for each of the fields that it lacks."""
    missing = [name for name in names if name not in item]
    return {**item, **dict.fromkeys(missing)} if missing else item


def _container(entry: Obj) -> Obj:
    """A container's status; both of its states have times."""
    out = entry
    for part in ("state", "lastState"):
        state = entry.get(part) or {}
        for name, times in _STATES.items():
            if state.get(name) is not None:
                full = _nulled(state[name], times)
                if full is not state[name]:
                    out = {**out, part: {**state, name: full}}
    return out
