"""Effects of a change on the pods of a DaemonSet, of Kubernetes or of OpenKruise.

A plan does not simulate them. How many pods there are, and which of them have the newest template,
only the cluster knows; the rules of the kind tell what happens to them.
"""

from __future__ import annotations

from typing import Any, Final

from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.workloads.labels import DAEMONSET
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

DAEMON_KINDS: Final = frozenset({DAEMONSET, GroupKind("apps.kruise.io", "DaemonSet")})
_TEMPLATE: Final = ("spec", "template")
# Fields of a pod spec that choose its nodes: the controller moves pods for them with any strategy.
_PLACEMENT: Final = frozenset({"affinity", "nodeName", "nodeSelector", "tolerations"})
# Fields of OpenKruise's rollingUpdate with which some pods stay, or keep their node and address.
_SELECTIVE: Final = ("partition", "paused", "rollingUpdateType", "selector")


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
