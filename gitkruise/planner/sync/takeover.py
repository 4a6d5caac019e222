"""Fields that an object loses when it is taken over from a tool that is no longer used.

Server-side apply deletes a field only when it has no owner left. A tool that is no longer used owns
its fields for ever, so what it applied becomes ours once, and fields that git does not have go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitkruise.planner.sync.annotations import MANAGER
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put

# Those that apply whole manifests. What a person edited by hand stays that person's.
APPLIERS: Final = frozenset(
    {
        "kubectl", "kubectl-client-side-apply", "kubectl-create", "kubectl-replace",
        "before-first-apply", "helm", "Helm", "helm-controller", "kustomize-controller",
        "argocd-controller", "argocd-application-controller", "configsync.gke.io", "kluctl",
    }
)  # fmt: skip


def joined(managed: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """Return managedFields with other appliers' fields in ours; None when there are none."""
    theirs = [entry for entry in managed if _is_applier(entry)]
    mine = next((entry for entry in managed if _is_ours(entry)), None)
    if not theirs or mine is None:
        return None
    fields: Mapping[str, Any] = mine.get("fieldsV1", {})
    for entry in theirs:
        fields = _union(fields, entry.get("fieldsV1", {}))
    rest = [entry for entry in managed if entry is not mine and entry not in theirs]
    return [*rest, {**mine, "fieldsV1": fields}]


def _is_applier(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") in APPLIERS and not entry.get("subresource")


def _is_ours(entry: Mapping[str, Any]) -> bool:
    mine = entry.get("manager") == MANAGER and entry.get("operation") == "Apply"
    return mine and not entry.get("subresource")


def _union(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two FieldsV1 sets; a member without children is an empty map."""
    out: dict[str, Any] = dict(left)
    for element, below in right.items():
        if element not in out:
            out[element] = below
        elif bool(out[element]) is bool(below):
            out[element] = _union(out[element], below)
        else:  # one names the field as a whole, the other what is in it: both are kept
            out[element] = {".": {}, **(out[element] or below)}
    return out


def applied_by_others(live: Obj) -> bool:
    """Return whether a tool whose fields become ours applied an object."""
    return any(map(_is_applier, get(live, "metadata", "managedFields", default=())))


def handed_over(live: Obj) -> Obj:
    """Return an object that other tools applied, with their fields as ours.

    An apply of ours removes from it what it will remove from the real one, in two steps. An object
    that no such tool applied, or not any more, is returned as it is.
    """
    managed: Sequence[Mapping[str, Any]] = get(live, "metadata", "managedFields", default=())
    theirs = [entry for entry in managed if _is_applier(entry)]
    if not theirs:
        return live
    mine = {**theirs[0], "manager": MANAGER, "operation": "Apply", "fieldsV1": {}}
    given: Obj = put(live, ("metadata", "managedFields"), joined([*managed, mine]))
    return given
