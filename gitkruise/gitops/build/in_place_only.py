"""InPlaceOnly checks: a change that would recreate pods is reported at its line in git.

OpenKruise's webhook rejects it for v1alpha1 without naming a field, and accepts it for v1beta1,
where it fails on every pod at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitkruise.errors import Finding
from gitkruise.model.gitops.change import FieldChange
from gitkruise.model.gitops.document import Desired
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET
from gitkruise.planner.pods.json_diff import Operation, json_diff
from gitkruise.planner.report.summary import shown
from gitkruise.planner.sync.diff import all_differences
from gitkruise.wire.kruise.revision_data import Malformed, default_template
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

REFUSAL: Final = "InPlaceOnly update strategy type"  # the webhook's words, which ours replace
_TEMPLATE: Final = ("spec", "template")
UPDATED_IN_PLACE: Final = frozenset({CLONESET, ADVANCED_STATEFULSET})


def in_place_problems(desired: Desired, old: Obj, gates: Gates) -> Iterator[Finding]:
    """One finding for each changed field of the pod spec that needs new pods."""
    if desired.key.group_kind not in UPDATED_IN_PLACE or _policy(desired.obj) != "InPlaceOnly":
        return
    try:
        before, after = (_spec(obj) for obj in (old, desired.obj))
    except Malformed:
        return  # reported by the type checks
    if all(_possible(operation, gates) for operation in json_diff(before, after, ("spec",))):
        return
    changes = all_differences({"spec": before}, {"spec": after}, None)
    wrong = [c for c in changes if not _possible(Operation("replace", c.path, c.after), gates)]
    moved = FieldChange(path=("spec", "containers"), before=None, after=None)  # only their order
    yield from (_finding(desired, change) for change in wrong or [moved])


def leaves_place(desired: Desired, old: Obj, gates: Gates) -> bool:
    """Return whether this change of the template recreates pods that could be updated in place."""
    try:
        before, after = (_spec(obj) for obj in (old, desired.obj))
    except Malformed:
        return True
    moved = json_diff(before, after, ("spec",))
    return _policy(old) == "InPlaceIfPossible" and not all(_possible(m, gates) for m in moved)


def template_moved(desired: Desired, old: Obj) -> bool:
    """Return whether the change creates a new revision."""
    try:
        before, after = (default_template(get(obj, *_TEMPLATE)) for obj in (old, desired.obj))
    except Malformed:
        return True
    return bool(json_diff(before, after, ()))


def _policy(obj: Obj) -> str:
    strategy = get(obj, "spec", "updateStrategy", default={})
    policy: str = get(strategy, "rollingUpdate", "podUpdatePolicy") or strategy.get("type") or ""
    return policy


def _spec(obj: Obj) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = default_template(get(obj, *_TEMPLATE))["spec"]
    return spec


def _possible(operation: Operation, gates: Gates) -> bool:
    match operation.path:
        case ("spec", "containers", int(), "image"):
            return operation.op == "replace"
        case ("spec", "containers", int(), "resources", "limits" | "requests", "cpu" | "memory"):
            return gates.in_place_workload_vertical_scaling and operation.op == "replace"
        case _:
            return False


def _finding(desired: Desired, change: FieldChange) -> Finding:
    path = change.path
    what = ".".join(str(part) for part in path)
    if path[1] == "containers" and len(path) > 3:
        name = get(desired.obj, *_TEMPLATE, *path[:3], "name", default="?")
        what = f'{path[3]} of container "{name}"'
    plain = change.before is not None and not isinstance(change.before, Mapping | list)
    label = f"was {shown(change.before)}" if plain else ""
    return Finding(
        code="GK2104",
        message=f"InPlaceOnly forbids this change of {desired.key}: {what}",
        places=(desired.document.place((*_TEMPLATE, *path), label=label),),
        notes=(
            ("why", "InPlaceOnly allows container images, and labels and annotations of pods"),
            ("unchanged", "all pods stay on their revision"),
            ("next", "set InPlaceIfPossible (pods are recreated), or take the change out"),
        ),
        object=str(desired.key),
    )
