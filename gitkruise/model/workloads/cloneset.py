"""CloneSet facts: one meaning for the v1alpha1 and v1beta1 spellings of a CloneSet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.model.workloads.priority import Weight, order_terms, scatter_terms, weight_terms
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj, ObjectKey, controlled_by, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time
from gitkruise.wire.values.intstr import Partition
from gitkruise.wire.values.selectors import Selector, label_selector

OWNER_VERSION: Final = "apps.kruise.io/v1beta1"  # what owner references say, whatever is served
IntOrPercent: TypeAlias = int | str | None


class Policy(StrEnum):
    """The way one pod is brought to another revision."""

    RECREATE = "ReCreate"
    IN_PLACE_IF_POSSIBLE = "InPlaceIfPossible"
    IN_PLACE_ONLY = "InPlaceOnly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A lifecycle hook: while any of its handlers is on a pod, the pod waits."""

    labels: Mapping[str, str]
    finalizers: tuple[str, ...] = ()
    mark_not_ready: bool = False

    @property
    def handlers(self) -> tuple[str, ...]:
        """Return the finalizers, then `label=value`."""
        return (*self.finalizers, *(f"{k}={v}" for k, v in sorted(self.labels.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    pre_delete: Hook | None = None
    in_place_update: Hook | None = None
    pre_normal: Hook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStrategy:
    """`rolling` is False when v1beta1 has no rollingUpdate (OnDelete): partition, surge and the
    rest are then the reference's built-in values. Amounts are as written, unresolved."""

    policy: Policy = Policy.RECREATE
    on_delete: bool = False
    rolling: bool = True
    partition: Partition = field(default_factory=Partition)
    max_unavailable: IntOrPercent = None
    max_surge: IntOrPercent = None
    paused: bool = False
    order_priority: tuple[str, ...] = ()
    weight_priority: tuple[Weight, ...] = ()
    scatter: tuple[tuple[str, str], ...] = ()
    grace_s: int = 0
    predownload_parallelism: IntOrPercent = None
    predownload_timeout_s: int | None = None
    predownload_min_ready: IntOrPercent = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleStrategy:
    pods_to_delete: tuple[str, ...] = ()
    max_unavailable: IntOrPercent = None
    reuse_claims: bool = True
    exclude_preparing_delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSetFacts:
    """One observed version of a CloneSet. `served` is the API version the raw object speaks."""

    key: ObjectKey
    served: str
    uid: str
    resource_version: str
    generation: int
    deleting: datetime | None
    annotations: Mapping[str, str]
    replicas: int
    selector: Selector
    selector_raw: Obj
    template: Obj
    claim_templates: tuple[Obj, ...]
    scale: ScaleStrategy
    update: UpdateStrategy
    lifecycle: Lifecycle | None
    min_ready_s: int
    history_limit: int
    progress_deadline_s: int | None  # None: off
    status: Obj

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def pairs(self) -> Mapping[str, str]:
        """The label pairs that are all the selector asks for; {} when it asks for other things."""
        plain = not self.selector_raw.get("matchExpressions")
        return (self.selector_raw.get("matchLabels") or {}) if plain else {}

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector matches; plain label pairs are compared here because they are
        common."""
        pairs = self.pairs
        return pairs.items() <= labels.items() if pairs else self.selector.matches(labels)

    @property
    def owner_reference(self) -> dict[str, Any]:
        """The controller reference on everything made for this CloneSet."""
        return controlled_by(OWNER_VERSION, CLONESET.kind, self.name, self.uid)


def cloneset_facts(raw: Obj) -> CloneSetFacts:
    """Facts of a v1alpha1 or v1beta1 CloneSet as stored (defaults of admission are not assumed).

    Raises ValueError on a selector or time no API server stores.
    """
    spec: Obj = raw.get("spec") or {}
    meta: Obj = raw.get("metadata") or {}
    _, version = split_api_version(raw["apiVersion"])
    alpha = version == "v1alpha1"
    deadline = spec.get("progressDeadlineSeconds")
    limit = spec.get("revisionHistoryLimit")
    replicas = spec.get("replicas")
    return CloneSetFacts(
        key=ObjectKey(*CLONESET, meta.get("namespace") or "", meta["name"]),
        served=version,
        uid=meta.get("uid") or "",
        resource_version=meta.get("resourceVersion") or "",
        generation=int(meta.get("generation") or 0),
        deleting=parse_time(meta.get("deletionTimestamp")),
        annotations=meta.get("annotations") or {},
        replicas=1 if replicas is None else int(replicas),
        selector=label_selector(spec.get("selector")),
        selector_raw=spec.get("selector") or {},
        template=spec.get("template") or {},
        claim_templates=tuple(spec.get("volumeClaimTemplates") or ()),
        scale=_scale(spec.get("scaleStrategy") or {}, meta.get("labels") or {}, alpha=alpha),
        update=_update_alpha(spec, meta) if alpha else _update_beta(spec),
        lifecycle=lifecycle_of(spec.get("lifecycle")),
        min_ready_s=int(spec.get("minReadySeconds") or 0),
        history_limit=10 if limit is None else int(limit),
        progress_deadline_s=None if deadline in {None, 2**31 - 1} else int(deadline),
        status=raw.get("status") or {},
    )


def _scale(raw: Obj, labels: Obj, *, alpha: bool) -> ScaleStrategy:
    """v1beta1 inverted disablePVCReuse and made a field of a label."""
    return ScaleStrategy(
        pods_to_delete=tuple(raw.get("podsToDelete") or ()),
        max_unavailable=raw.get("maxUnavailable"),
        reuse_claims=not raw.get("disablePVCReuse") if alpha else bool(raw.get("enablePVCReuse")),
        exclude_preparing_delete=labels.get(wire.EXCLUDE_PREPARING_DELETE) == "true"
        if alpha
        else bool(raw.get("excludePreparingDelete")),
    )


def _update_alpha(spec: Obj, meta: Obj) -> UpdateStrategy:
    raw = spec.get("updateStrategy") or {}
    if raw.get("type") == "OnDelete":
        return UpdateStrategy(on_delete=True, rolling=False)
    in_place = {
        "gracePeriodSeconds": get(raw, "inPlaceUpdateStrategy", "gracePeriodSeconds"),
        **predownload_settings(meta.get("annotations") or {}),
    }
    return rolling_update({**raw, "inPlaceUpdateStrategy": in_place}, raw.get("type"))


def predownload_settings(notes: Mapping[str, str]) -> dict[str, IntOrPercent]:
    """Image pre-download settings in annotations, by their fields in inPlaceUpdateStrategy."""
    return {
        "imagePreDownloadParallelism": _int_or_text(notes.get(wire.PREDOWNLOAD_PARALLELISM)),
        "imagePreDownloadTimeoutSeconds": int_or_none(notes.get(wire.PREDOWNLOAD_TIMEOUT), 32),
        "imagePreDownloadMinUpdatedReadyPods": _int_or_text(notes.get(wire.PREDOWNLOAD_MIN_READY)),
    }


def _update_beta(spec: Obj) -> UpdateStrategy:
    raw = spec.get("updateStrategy") or {}
    rolling = raw.get("rollingUpdate")
    on_delete = raw.get("type") == "OnDelete"
    if rolling is None:
        return UpdateStrategy(on_delete=on_delete, rolling=not on_delete)
    return replace(rolling_update(rolling, rolling.get("podUpdatePolicy")), on_delete=on_delete)


def rolling_update(raw: Obj, policy: str | None) -> UpdateStrategy:
    """Facts of the fields of a rolling update, which an Advanced StatefulSet spells alike."""
    priority = raw.get("priorityStrategy")
    in_place = raw.get("inPlaceUpdateStrategy") or {}
    return UpdateStrategy(
        policy=Policy(policy) if policy in set(Policy) else Policy.RECREATE,
        partition=Partition(raw.get("partition")),
        max_unavailable=raw.get("maxUnavailable"),
        max_surge=raw.get("maxSurge"),
        paused=bool(raw.get("paused")),
        order_priority=order_terms(priority),
        weight_priority=weight_terms(priority),
        scatter=scatter_terms(raw.get("scatterStrategy")),
        grace_s=int(in_place.get("gracePeriodSeconds") or 0),
        predownload_parallelism=in_place.get("imagePreDownloadParallelism"),
        predownload_timeout_s=in_place.get("imagePreDownloadTimeoutSeconds"),
        predownload_min_ready=in_place.get("imagePreDownloadMinUpdatedReadyPods"),
    )


def lifecycle_of(raw: Obj | None) -> Lifecycle | None:
    """Facts of `spec.lifecycle`."""
    if raw is None:
        return None
    return Lifecycle(
        pre_delete=_hook(raw.get("preDelete")),
        in_place_update=_hook(raw.get("inPlaceUpdate")),
        pre_normal=_hook(raw.get("preNormal")),
    )


def _hook(raw: Obj | None) -> Hook | None:
    if raw is None:
        return None
    return Hook(
        labels=raw.get("labelsHandler") or {},
        finalizers=tuple(raw.get("finalizersHandler") or ()),
        mark_not_ready=bool(raw.get("markPodNotReady")),
    )


def _int_or_text(text: str | None) -> IntOrPercent:
    value = int_or_none(text, 32)
    return value if value is not None else text or None
