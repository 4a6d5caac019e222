"""SidecarSet facts: one meaning for the v1alpha1 and v1beta1 spellings, and which pods it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

from gitkruise.errors import BadRequest
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.priority import Weight, order_terms, scatter_terms, weight_terms
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE, is_native
from gitkruise.wire.primitives.names import Obj, ObjectKey, controlled_by, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time
from gitkruise.wire.values.intstr import Partition
from gitkruise.wire.values.selectors import NOTHING, Selector, label_selector

OWNER_VERSION: Final = "apps.kruise.io/v1beta1"  # what owner references say, whatever is served
CANARY: Final = "apps.kruise.io/sidecarset-canary"
BASE: Final = "apps.kruise.io/sidecarset-base"
VERSION_LABEL: Final = "apps.kruise.io/sidecarset-custom-version"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
NOT_UPDATE, ROLLING_UPDATE = "NotUpdate", "RollingUpdate"
HOT_UPGRADE: Final = "HotUpgrade"
ALWAYS, PARTIAL = "Always", "Partial"
_HISTORY: Final = 10
IntOrPercent: TypeAlias = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """One entry of `containers` or `initContainers`; `raw` is the whole of it, Kruise's fields too.

    `native`: an init container that keeps running. `hot`: two containers take turns in the pod.
    """

    name: str
    image: str
    empty_image: str  # of the one of a hot pair that does not serve
    hot: bool
    native: bool
    raw: Obj

    @property
    def pair(self) -> tuple[str, str]:
        """The names a hot sidecar's two containers have in a pod."""
        return f"{self.name}-1", f"{self.name}-2"

    @property
    def names(self) -> tuple[str, ...]:
        """The names it has in a pod."""
        return self.pair if self.hot else (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarUpdate:
    """`updateStrategy`, amounts as written. `selector` None: all pods.

    A selector that makes no sense matches nothing, and `selector_problem` says why.
    """

    type: str = ""
    paused: bool = False
    selector: Selector | None = None
    selector_problem: str = ""
    partition: Partition = field(default_factory=Partition)
    max_unavailable: IntOrPercent = None
    order_priority: tuple[str, ...] = ()
    weight_priority: tuple[Weight, ...] = ()
    scatter: tuple[tuple[str, str], ...] = ()

    @property
    def inject_only(self) -> bool:
        return self.type == NOT_UPDATE

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels is updated at all."""
        return self.selector is None or self.selector.matches(labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """`injectionStrategy.revision`: the revision new pods get. None: not set (unlike "")."""

    revision_name: str | None = None
    custom_version: str | None = None
    policy: str = ALWAYS

    @property
    def named(self) -> bool:
        return self.revision_name is not None or self.custom_version is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSetFacts:
    """One observed version of a SidecarSet. `served` is the API version the raw object speaks.

    The hashes are those admission left in its annotations, "" without.
    """

    name: str
    served: str
    uid: str
    resource_version: str
    generation: int
    deleting: datetime | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    selector: Selector  # NOTHING when empty or senseless
    selector_problem: str
    namespace_selector: Selector | None  # None: all namespaces; NOTHING when senseless
    containers: tuple[Sidecar, ...]
    init_containers: tuple[Sidecar, ...]
    volumes: tuple[Obj, ...]
    pull_secrets: tuple[str, ...]
    pod_metadata: tuple[Obj, ...]  # patchPodMetadata, as written
    update: SidecarUpdate
    injection_paused: bool
    pin: Pin | None
    history_limit: int
    custom_version: str
    status: Obj
    raw: Obj

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(*SIDECARSET, "", self.name)

    @property
    def hash(self) -> str:
        return self.annotations.get(HASH, "")

    @property
    def hash_without_image(self) -> str:
        return self.annotations.get(HASH_WITHOUT_IMAGE, "")

    @property
    def latest_revision(self) -> str:
        return self.status.get("latestRevision") or ""

    @property
    def collision_count(self) -> int:
        return int(self.status.get("collisionCount") or 0)

    @property
    def canary_of(self) -> str:
        """The base SidecarSet this is a canary of, "" when it is none."""
        return canary_base(self.annotations)

    @property
    def sidecar_list(self) -> tuple[str, ...]:
        """`sidecarList` of a pod's records: native init and ordinary sidecars, under base names."""
        native = {sidecar.name for sidecar in self.init_containers if sidecar.native}
        return tuple(sorted(native | {sidecar.name for sidecar in self.containers}))

    @property
    def owner_reference(self) -> dict[str, Any]:
        """The controller reference on everything made for this SidecarSet."""
        return controlled_by(OWNER_VERSION, SIDECARSET.kind, self.name, self.uid)

    def in_namespace(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether the set selects pods of a namespace with these labels; None: it does not
        exist."""
        if self.namespace_selector is None:
            return True
        return labels is not None and self.namespace_selector.matches(labels)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether the pod selector matches; an empty one matches nothing."""
        return self.selector.matches(labels)


def canary_base(annotations: Mapping[str, str]) -> str:
    """The base of a canary SidecarSet with these annotations, "" when it is none."""
    return annotations.get(BASE, "") if annotations.get(CANARY) == "true" else ""


def sidecarset_facts(raw: Obj) -> SidecarSetFacts:
    """Facts of a v1alpha1 or v1beta1 SidecarSet as stored (defaults of admission are not assumed).

    A selector without sense matches nothing, as in OpenKruise, and never keeps a set from being
    read: one bad set must not stop the pods of all the others.
    """
    spec: Obj = raw.get("spec") or {}
    meta: Obj = raw.get("metadata") or {}
    labels = meta.get("labels") or {}
    _, version = split_api_version(raw["apiVersion"])
    limit = spec.get("revisionHistoryLimit")
    selector, problem = _selector(spec.get("selector"))
    return SidecarSetFacts(
        name=meta.get("name", ""),
        served=version,
        uid=meta.get("uid") or "",
        resource_version=meta.get("resourceVersion") or "",
        generation=int(meta.get("generation") or 0),
        deleting=parse_time(meta.get("deletionTimestamp")),
        labels=labels,
        annotations=meta.get("annotations") or {},
        selector=selector or NOTHING,
        selector_problem=problem,
        namespace_selector=_namespaces(spec),
        containers=_sidecars(spec.get("containers")),
        init_containers=_sidecars(spec.get("initContainers")),
        volumes=tuple(spec.get("volumes") or ()),
        pull_secrets=tuple(ref.get("name") or "" for ref in spec.get("imagePullSecrets") or ()),
        pod_metadata=tuple(spec.get("patchPodMetadata") or ()),
        update=_update(spec.get("updateStrategy") or {}),
        injection_paused=bool(get(spec, "injectionStrategy", "paused", default=False)),
        pin=_pin(get(spec, "injectionStrategy", "revision")),
        history_limit=max(1, _HISTORY if limit is None else int(limit)),
        custom_version=labels.get(VERSION_LABEL, "")
        if version == "v1alpha1"
        else spec.get("customVersion") or "",
        status=raw.get("status") or {},
        raw=raw,
    )


def _selector(raw: Obj | None) -> tuple[Selector, str]:
    """The selector, and what is wrong with it."""
    try:
        return label_selector(raw), ""
    except BadRequest as error:
        return NOTHING, str(error)


def _namespaces(spec: Obj) -> Selector | None:
    """v1alpha1's single namespace takes the place of any selector."""
    if name := spec.get("namespace"):
        return _selector({"matchLabels": {NAMESPACE_LABEL: name}})[0]
    raw = spec.get("namespaceSelector")
    return None if raw is None else _selector(raw)[0]


def _sidecars(raw: list[Obj] | None) -> tuple[Sidecar, ...]:
    return tuple(
        Sidecar(
            name=container.get("name") or "",
            image=container.get("image") or "",
            empty_image=get(container, "upgradeStrategy", "hotUpgradeEmptyImage", default=""),
            hot=get(container, "upgradeStrategy", "upgradeType") == HOT_UPGRADE,
            native=is_native(container),
            raw=container,
        )
        for container in raw or ()
    )


def _update(raw: Obj) -> SidecarUpdate:
    priority = raw.get("priorityStrategy")
    given = raw.get("selector")
    selector, problem = (None, "") if given is None else _selector(given)
    return SidecarUpdate(
        type=raw.get("type") or "",
        paused=bool(raw.get("paused")),
        selector=selector,
        selector_problem=problem,
        partition=Partition(raw.get("partition")),
        max_unavailable=raw.get("maxUnavailable"),
        order_priority=order_terms(priority),
        weight_priority=_weights(priority),
        scatter=scatter_terms(raw.get("scatterStrategy")),
    )


def _weights(priority: Obj | None) -> tuple[Weight, ...]:
    try:
        return weight_terms(priority)
    except BadRequest:
        return ()


def _pin(raw: Obj | None) -> Pin | None:
    if raw is None:
        return None
    return Pin(
        revision_name=raw.get("revisionName"),
        custom_version=raw.get("customVersion"),
        policy=raw.get("policy") or ALWAYS,
    )
