"""May a pod be updated in place, and with what: the difference of two revisions, judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gitkruise.model.node.qos import qos_class
from gitkruise.model.workloads.cloneset import Policy
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.pods.json_diff import Operation, json_diff
from gitkruise.planner.revisions.revisions import template_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.quantity import parse_quantity

METADATA_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
NOT_OURS: Final = frozenset({"SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"})

RefMetadata = Mapping[str, Mapping[str, str]]  # "labels" and "annotations" → key → value


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSpec:
    """Changes of an in-place update, by container name where containers restart.

    `metadata_patch` is a strategic merge patch of a pod, or None. `revision` is the new
    revision's full name.
    """

    revision: str
    images: Mapping[str, str] = field(default_factory=dict)
    ref_metadata: Mapping[str, RefMetadata] = field(default_factory=dict)
    resources: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    metadata_patch: Obj | None = None
    env_from_metadata: bool = False
    grace_s: int = 0

    @property
    def containers(self) -> frozenset[str]:
        return frozenset({*self.images, *self.ref_metadata, *self.resources})


@dataclass(frozen=True, slots=True)
class Impossible:
    """Reason why a change needs a new pod."""

    why: str


class _NeedsNewPodError(Exception):
    """Inside this module only: carries the reason out of the walk over operations."""


def in_place_spec(
    old: Revision | None, new: Revision, *, policy: Policy, gates: Gates, grace_s: int = 0
) -> UpdateSpec | Impossible:
    """The in-place update from `old` to `new`, or why there is none.

    Source: CloneSet's in-place calculation: images and metadata, and resources behind their
    gate; every other difference in the pod's spec needs a new pod.
    """
    if old is None:
        return Impossible("the pod's revision is not in history any more")
    if _claims_differ(old, new, policy, gates):
        return Impossible("volumeClaimTemplates changed")
    try:
        before, after = template_of(old.data), template_of(new.data)
    except ValueError as error:
        return Impossible(str(error))
    try:
        return _spec(before, after, revision=new.name, gates=gates, grace_s=grace_s)
    except _NeedsNewPodError as needs:
        return Impossible(str(needs))


def _claims_differ(old: Revision, new: Revision, policy: Policy, gates: Gates) -> bool:
    if not gates.recreate_pod_when_change_vct_in_clone_set_gate or policy is Policy.IN_PLACE_ONLY:
        return False
    known = old.claims_hash is not None and new.claims_hash is not None
    return known and old.claims_hash != new.claims_hash


def _spec(
    before: Obj, after: Obj, *, revision: str, gates: Gates, grace_s: int
) -> UpdateSpec | Impossible:
    metadata: list[Operation] = []
    images: dict[str, str] = {}
    resources: dict[str, dict[str, dict[str, str]]] = {}
    for operation in json_diff(before, after):
        match operation.path:
            case ("metadata", *_):
                metadata.append(operation)
            case ("spec", "containers", int(at), "image") if operation.op == "replace":
                images[before["spec"]["containers"][at]["name"]] = operation.value
            case ("spec", "containers", int(at), "resources", str(kind), str(name)) if (
                gates.in_place_workload_vertical_scaling
            ):
                container = before["spec"]["containers"][at]["name"]
                amount = _resize(operation, kind, name)
                resources.setdefault(container, {}).setdefault(kind, {})[name] = amount
            case _:
                raise _NeedsNewPodError(f"{operation.pointer} changed")
    if resources and qos_class(before["spec"]) != qos_class(after["spec"]):
        return Impossible("the pod's quality of service class would change")
    referenced, old_meta, new_meta = _referenced(before, after, metadata, gates)
    return UpdateSpec(
        revision=revision,
        images=images,
        ref_metadata=referenced,
        resources=resources,
        metadata_patch=_metadata_patch(old_meta, new_meta) if metadata else None,
        env_from_metadata=bool(referenced),
        grace_s=grace_s,
    )


def _resize(operation: Operation, kind: str, name: str) -> str:
    if operation.op != "replace" or kind not in {"limits", "requests"}:
        raise _NeedsNewPodError(f"{operation.pointer}: only amounts can change in place")
    if name not in {"cpu", "memory"}:
        raise _NeedsNewPodError(f"{operation.pointer}: only cpu and memory change in place")
    try:
        parse_quantity(operation.value)
    except (ValueError, TypeError) as error:
        raise _NeedsNewPodError(f"{operation.pointer}: {error}") from error
    return str(operation.value)


def _referenced(
    before: Obj, after: Obj, metadata: list[Operation], gates: Gates
) -> tuple[dict[str, RefMetadata], Obj, Obj]:
    """(metadata that containers read as environment, what is left of both templates' metadata).

    Only a key added to or replaced in an existing map counts, as in OpenKruise.
    """
    old_meta: dict[str, Any] = dict(get(before, "metadata", default={}))
    new_meta: dict[str, Any] = dict(get(after, "metadata", default={}))
    found: dict[str, dict[str, dict[str, str]]] = {}
    for operation in metadata if gates.in_place_update_env_from_metadata else ():
        match operation.path:
            case ("metadata", "labels" | "annotations" as kind, str(key)) if (
                operation.op != "remove"
            ):
                readers = [c["name"] for c in after["spec"]["containers"] if reads(c, kind, key)]
                for name in readers:
                    entry = found.setdefault(name, {}).setdefault(kind, {})
                    entry[key] = operation.value
                if readers:
                    for meta in (old_meta, new_meta):
                        meta[kind] = {k: v for k, v in (meta.get(kind) or {}).items() if k != key}
            case _:
                pass
    return dict(found), old_meta, new_meta


def reads(container: Obj, kind: str, key: str) -> bool:
    """Return whether an env of `container` takes its value from this label or annotation."""
    return any(ref == (kind, key) for _, ref in env_references(container))


def env_references(container: Obj) -> list[tuple[str, tuple[str, str]]]:
    """(env name, (labels|annotations, key)) of the envs that read pod metadata."""
    found = []
    for env in container.get("env") or ():
        path = get(env, "valueFrom", "fieldRef", "fieldPath")
        match_ = METADATA_FIELD.fullmatch(path) if isinstance(path, str) else None
        if match_ and not env.get("value") and env.get("name") not in NOT_OURS:
            found.append((env["name"], (match_[1], match_[2])))
    return found


def _metadata_patch(old: Obj, new: Obj) -> Obj:
    """Two-way strategic merge patch of pod metadata; {} when nothing is left to change."""
    meta: dict[str, Any] = {}
    for kind in ("annotations", "labels"):
        before, after = old.get(kind) or {}, new.get(kind) or {}
        changed = {k: v for k, v in after.items() if before.get(k) != v}
        changed |= {k: None for k in before if k not in after}
        if changed:
            meta[kind] = dict(sorted(changed.items()))
    before_f, after_f = old.get("finalizers") or [], new.get("finalizers") or []
    if before_f != after_f:
        gone = [f for f in before_f if f not in after_f]
        added = [f for f in after_f if f not in before_f]
        if gone:
            meta["$deleteFromPrimitiveList/finalizers"] = gone
        if after_f:
            meta["$setElementOrder/finalizers"] = list(after_f)
        if added:
            meta["finalizers"] = added
    return {"metadata": dict(sorted(meta.items()))} if meta else {}
