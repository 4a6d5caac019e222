"""Writes as admission sees them, over a handful of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.chain import admit
from gitkruise.admission.conversion.registry import convert
from gitkruise.admission.rules.request import CREATE, UPDATE, AdmissionRequest
from gitkruise.errors import ApiError
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.model.workloads.pod_groups import PodGroups, grouped
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.schema.nodes import Components, Node

NO_GATES: Final = Gates()


@dataclass(frozen=True)
class RevisionOwner:
    """A View over a fixed set of objects."""

    content: tuple[Obj, ...] = ()

    def get(self, key: ObjectKey) -> Obj | None:
        return next((obj for obj in self.content if key_of(obj) == key), None)

    def objects(self, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        keys = [(key_of(obj), obj) for obj in self.content]
        return [
            obj
            for key, obj in keys
            if key.group_kind == group_kind and namespace in ("", key.namespace)
        ]

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        return [
            obj
            for obj in self.objects(group_kind, namespace)
            if any(ref["uid"] == uid for ref in obj["metadata"].get("ownerReferences", ()))
        ]

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        return grouped(pod_facts(obj) for obj in self.owned(uid, GroupKind("", "Pod"), namespace))

    def pod(self, key: ObjectKey) -> PodFacts | None:
        obj = self.get(key)
        return pod_facts(obj) if obj else None

    def pods(self, namespace: str) -> Sequence[PodFacts]:
        return [pod_facts(obj) for obj in self.objects(GroupKind("", "Pod"), namespace)]


def _opaque() -> Node:
    nothing: dict[str, Obj] = {}
    return Node({}, Components(nothing.__getitem__))


def write(
    obj: Obj,
    old: Obj | None = None,
    *,
    operation: str = "",
    subresource: str = "",
    around: tuple[Obj, ...] = (),
) -> AdmissionRequest:
    """A create of `obj`, or an update of `old` to it, in namespace "shop" unless it names one."""
    group, version = split_api_version(obj["apiVersion"])
    key = key_of(obj)
    word = key.kind.lower()
    kind = Kind(
        group=group, version=version, kind=key.kind, plural=f"{word}s", singular=word,
        list_kind=f"{key.kind}List", namespaced=True, storage_version=version,
        load_schema=_opaque, load_strict=_opaque,
    )  # fmt: skip
    return AdmissionRequest(
        operation=operation or (UPDATE if old else CREATE),
        kind=kind,
        key=key if key.namespace else key._replace(namespace="shop"),
        obj=obj,
        old=old,
        subresource=subresource,
        view=RevisionOwner(around),
    )


def admitted(obj: Obj, old: Obj | None = None, *, gates: Gates = NO_GATES, **more: Any) -> Any:
    """The object as stored. Raises what admission raises."""
    return admit(write(obj, old, **more), gates)


def stored(obj: Obj, old: Obj | None = None) -> Any:
    """A v1alpha1 CloneSet as a client reads it back: admitted, kept as v1beta1, converted again."""
    return convert(convert(admitted(obj, old), "v1beta1"), "v1alpha1")


def refusal(obj: Obj, old: Obj | None = None, **more: Any) -> ApiError | None:
    """The refusal, or None when the write is admitted."""
    try:
        admitted(obj, old, **more)
    except ApiError as error:
        return error
    return None


def fields(error: ApiError | None) -> set[str]:
    return {cause.field for cause in error.details.causes} if error else set()
