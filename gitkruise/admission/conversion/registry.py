"""Registry of version conversions: pure functions, looked up by kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from gitkruise.admission.conversion.events import event
from gitkruise.admission.conversion.hpa import autoscaler
from gitkruise.model.workloads.labels import (
    BUDGET,
    EXCLUDE_PREPARING_DELETE,
    PROTECT_OPERATIONS,
    SPREAD,
    TOTAL_REPLICAS,
)
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import GroupKind, Obj, join_api_version, split_api_version
from gitkruise.wire.primitives.paths import drop, get, put

Conversion: TypeAlias = Callable[[Obj, str, str], Obj]  # (object, version it has, version wanted)

VERSION_LABEL: Final = "apps.kruise.io/sidecarset-custom-version"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
POLICIES: Final = ("ReCreate", "InPlaceIfPossible", "InPlaceOnly")
_MOVED: Final = (
    "partition", "maxUnavailable", "maxSurge", "paused", "priorityStrategy", "scatterStrategy",
)  # fmt: skip
_BETA: Final = "v1beta1"
_EVENT_GROUPS: Final = ("", "events.k8s.io")
_INT32: Final = range(-(2**31), 2**31)
# annotation of v1alpha1 -> field of v1beta1's inPlaceUpdateStrategy
_PRE_DOWNLOAD: Final = {
    "apps.kruise.io/image-predownload-parallelism": "imagePreDownloadParallelism",
    "apps.kruise.io/image-predownload-timeout-seconds": "imagePreDownloadTimeoutSeconds",
    "apps.kruise.io/image-predownload-min-updated-ready-pods": (
        "imagePreDownloadMinUpdatedReadyPods"
    ),
}
_INT_OR_TEXT: Final = "imagePreDownloadParallelism"


def convert(obj: Obj, to_version: str) -> Obj:
    """`obj` in `to_version` of its group ("v1beta1"); shared and unchanged where nothing differs.

    Kinds without an entry in CONVERSIONS differ in `apiVersion` alone.
    """
    group, version = split_api_version(obj["apiVersion"])
    if version == to_version:
        return obj
    change = CONVERSIONS.get(GroupKind(group, obj["kind"]))
    changed = change(obj, version, to_version) if change else obj
    return {**changed, "apiVersion": join_api_version(group, to_version)}


def lost_fields(obj: Obj, catalog: Catalog) -> frozenset[tuple[str, ...]]:
    """Return the fields of an object of v1alpha1 that v1beta1 has in another form for good.

    A cluster that serves v1beta1 never reports them again: `spec.namespace` of a SidecarSet.
    """
    group, version = split_api_version(obj["apiVersion"])
    older = convertible(GroupKind(group, obj["kind"]), version, _BETA)
    if not older or catalog.by_kind(group, _BETA, obj["kind"]) is None:
        return frozenset()
    return frozenset(_absent(obj, convert(convert(obj, _BETA), version), ()))


def _absent(node: Obj, other: Obj, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, value in node.items():
        if name not in other:
            yield (*path, name)
        elif isinstance(value, Mapping) and isinstance(other[name], Mapping):
            yield from _absent(value, other[name], (*path, name))


def convert_into(obj: Obj, group: str, version: str) -> Obj:
    """As `convert`, also between groups that share their objects."""
    if obj["kind"] == "Event" and split_api_version(obj["apiVersion"])[0] in _EVENT_GROUPS:
        return event(obj, join_api_version(group, version))
    return convert(obj, version)


def convertible(kind: GroupKind, version: str, to_version: str) -> bool:
    """Return whether `convert` handles these two versions of `kind`."""
    return kind in CONVERSIONS and {version, to_version} == {"v1alpha1", "v1beta1"}


def _cloneset(obj: Obj, version: str, to_version: str) -> Obj:
    """OpenKruise's conversion webhook for CloneSet, its losses included.

    v1alpha1 to v1beta1 loses everything under `updateStrategy` of an OnDelete; v1beta1 to v1alpha1
    forgets excludePreparingDelete and writes pre-download settings into annotations.
    """
    change = {("v1alpha1", "v1beta1"): _to_beta, ("v1beta1", "v1alpha1"): _to_alpha}
    return change[version, to_version](obj)


def _to_beta(obj: Obj) -> Obj:
    spec: Obj = obj.get("spec") or {}
    meta: Obj = obj.get("metadata") or {}
    scale = {**(spec.get("scaleStrategy") or {})}
    scale["enablePVCReuse"] = not scale.pop("disablePVCReuse", False)
    if (meta.get("labels") or {}).get(EXCLUDE_PREPARING_DELETE) == "true":
        scale["excludePreparingDelete"] = True
    update = spec.get("updateStrategy") or {}
    strategy = _beta_strategy(update, meta.get("annotations") or {})
    return {**obj, "spec": {**spec, "scaleStrategy": scale, "updateStrategy": strategy}}


def _beta_strategy(update: Obj, annotations: Obj) -> Obj:
    kind = update.get("type")
    if kind == "OnDelete":
        return {"type": "OnDelete"}
    rolling = {"podUpdatePolicy": kind if kind in POLICIES else POLICIES[0]}
    rolling |= _taken(update)
    given = update.get("inPlaceUpdateStrategy")
    noted = {
        field: annotations[key] for key, field in _PRE_DOWNLOAD.items() if annotations.get(key)
    }
    if given is not None or noted:
        grace = (given or {}).get("gracePeriodSeconds")
        in_place: dict[str, Any] = {"gracePeriodSeconds": grace} if grace else {}
        for field, text in noted.items():
            value = _read_annotation(field, text)
            if value is not None:
                in_place[field] = value
        rolling["inPlaceUpdateStrategy"] = in_place
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


def _read_annotation(field: str, text: str) -> int | str | None:
    """An int32, or for parallelism also any text; None for what cannot be read."""
    if re.fullmatch(r"[+-]?[0-9]{1,20}", text) and int(text) in _INT32:
        return int(text)
    return text if field == _INT_OR_TEXT else None


def _to_alpha(obj: Obj) -> Obj:
    spec: Obj = obj.get("spec") or {}
    scale = {**(spec.get("scaleStrategy") or {})}
    scale.pop("excludePreparingDelete", None)
    if not scale.pop("enablePVCReuse", False):
        scale["disablePVCReuse"] = True
    update = spec.get("updateStrategy") or {}
    rolling = update.get("rollingUpdate") or {}
    policy = rolling.get("podUpdatePolicy")
    strategy: dict[str, Any] = {"type": policy if policy in POLICIES else POLICIES[0]}
    if update.get("type") == "OnDelete":
        strategy["type"] = "OnDelete"
    strategy |= _taken(rolling)
    out = {**obj, "spec": {**spec, "scaleStrategy": scale, "updateStrategy": strategy}}
    in_place = {
        k: v for k, v in (rolling.get("inPlaceUpdateStrategy") or {}).items() if v is not None
    }
    grace = in_place.pop("gracePeriodSeconds", 0)
    if grace or in_place:
        strategy["inPlaceUpdateStrategy"] = {"gracePeriodSeconds": grace} if grace else {}
    return _noted(out, in_place)


def _noted(obj: Obj, in_place: Obj) -> Obj:
    """`obj` with the pre-download settings as annotations."""
    for key, field in _PRE_DOWNLOAD.items():
        if field in in_place:
            obj = put(obj, ("metadata", "annotations", key), str(in_place[field]))
    return obj


def _sidecarset(obj: Obj, version: str, to_version: str) -> Obj:
    """OpenKruise's conversion webhook for SidecarSet.

    v1alpha1's namespace takes the place of any namespaceSelector, and its version label becomes
    customVersion; on the way back the selector stays and the version becomes the label again.
    """
    change = {("v1alpha1", "v1beta1"): _sidecars_to_beta, ("v1beta1", "v1alpha1"): _sidecars_back}
    return change[version, to_version](obj)


def _sidecars_to_beta(obj: Obj) -> Obj:
    spec = {**(obj.get("spec") or {})}
    namespace = spec.pop("namespace", "")
    if namespace:
        spec["namespaceSelector"] = {"matchLabels": {NAMESPACE_LABEL: namespace}}
    custom = get(obj, "metadata", "labels", VERSION_LABEL)
    if custom:
        spec["customVersion"] = custom
    out: Obj = {**obj, "spec": spec}
    return out if custom is None else drop(out, ("metadata", "labels", VERSION_LABEL))


def _sidecars_back(obj: Obj) -> Obj:
    spec = {**(obj.get("spec") or {})}
    custom = spec.pop("customVersion", "")
    out: Obj = {**obj, "spec": spec}
    return put(out, ("metadata", "labels", VERSION_LABEL), custom) if custom else out


def _budget(obj: Obj, version: str, to_version: str) -> Obj:
    """OpenKruise's conversion webhook for PodUnavailableBudget (PUB-10, PUB-11).

    v1alpha1's annotations become fields of v1beta1 and stay; on the way back they say what the
    fields say, and ignoredPodSelector is lost.
    """
    change = {("v1alpha1", "v1beta1"): _budget_to_beta, ("v1beta1", "v1alpha1"): _budget_back}
    return change[version, to_version](obj)


def _budget_to_beta(obj: Obj) -> Obj:
    notes = get(obj, "metadata", "annotations", default={})
    named = [word for word in notes.get(PROTECT_OPERATIONS, "").split(",") if word.strip()]
    total = int_or_none(notes.get(TOTAL_REPLICAS), 32)
    spec = {**(obj.get("spec") or {})}
    if named:
        spec["protectOperations"] = [word.strip() for word in named]
    if total is not None and total >= 1:
        spec["protectTotalReplicas"] = total
    return {**obj, "spec": spec}


def _budget_back(obj: Obj) -> Obj:
    spec = {**(obj.get("spec") or {})}
    spec.pop("ignoredPodSelector", None)
    named, total = spec.pop("protectOperations", None), spec.pop("protectTotalReplicas", None)
    out: Obj = {**obj, "spec": spec}
    for key, text in (
        (PROTECT_OPERATIONS, ",".join(named or ())),
        (TOTAL_REPLICAS, "" if total is None else str(total)),
    ):
        path = ("metadata", "annotations", key)
        if text:
            out = put(out, path, text)
        elif get(out, *path) is not None:
            out = drop(out, path)
    return out


def _unchanged(obj: Obj, _version: str, _to_version: str) -> Obj:
    """Versions that differ in their name alone, as those of Advanced StatefulSets (ASTS-1)."""
    return obj


_SPREAD_NAMES: Final = (
    ("requiredNodeSelectorTerm", "requiredNodeSelector"),
    ("preferredNodeSelectorTerms", "preferredNodeSelector"),
)
_NO_TIME: Final = "1970-01-01T00:00:00Z"  # of a condition that v1alpha1 lets go without one


def _spread(obj: Obj, version: str, to_version: str) -> Obj:
    """OpenKruise's conversion webhook for WorkloadSpread (WS-13)."""
    newer = {("v1alpha1", "v1beta1"): True, ("v1beta1", "v1alpha1"): False}[version, to_version]
    names = dict(_SPREAD_NAMES if newer else (pair[::-1] for pair in _SPREAD_NAMES))
    out: dict[str, Any] = {**obj}
    spec, status = obj.get("spec"), obj.get("status")
    if isinstance(spec, Mapping) and spec.get("subsets"):
        subsets = [{names.get(k, k): v for k, v in one.items()} for one in spec["subsets"]]
        out["spec"] = {**spec, "subsets": subsets}
    if isinstance(status, Mapping):
        convert = partial(_subset_status, newer=newer)
        changed: dict[str, Any] = {}
        if status.get("subsetStatuses"):
            changed["subsetStatuses"] = [convert(one) for one in status["subsetStatuses"]]
        if versions := status.get("versionedSubsetStatuses"):
            changed["versionedSubsetStatuses"] = {
                name: [convert(one) for one in found or ()] for name, found in versions.items()
            }
        out["status"] = {**status, **changed}
    return out


def _subset_status(raw: Obj, *, newer: bool) -> Obj:
    if not raw.get("conditions"):
        return raw
    if not newer:
        lost = ("observedGeneration",)
        kept = [{k: v for k, v in one.items() if k not in lost} for one in raw["conditions"]]
        return {**raw, "conditions": kept}
    needed = {"lastTransitionTime": _NO_TIME, "message": "", "reason": "Unknown"}
    filled = [{**needed, **{k: v for k, v in one.items() if v}} for one in raw["conditions"]]
    return {**raw, "conditions": filled}


def _taken(fields: Obj) -> dict[str, Any]:
    """The settings that only moved."""
    return {name: fields[name] for name in _MOVED if fields.get(name) is not None}


CONVERSIONS: Final[Mapping[GroupKind, Conversion]] = {
    GroupKind("apps.kruise.io", "CloneSet"): _cloneset,
    GroupKind("apps.kruise.io", "SidecarSet"): _sidecarset,
    GroupKind("apps.kruise.io", "StatefulSet"): _unchanged,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): autoscaler,
    BUDGET: _budget,
    SPREAD: _spread,
}
