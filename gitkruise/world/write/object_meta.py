"""Object metadata: fields that the server sets, immutable fields, validation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from gitkruise.errors import BadRequest, Problem, invalid_object
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.kruise.go_round_trip import go_name
from gitkruise.wire.primitives.names import GroupKind, Obj, kinds_of, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.store.api_errors import undecodable
from gitkruise.world.store.names import check_name, label_value, qualified_name, wrong
from gitkruise.world.write.decoding import check_metadata

ANNOTATIONS_MAX_BYTES: Final = 256 * 1024
_UTF8_MAX_BYTES: Final = 4  # of one character
SCHEME: Final = "pkg/runtime/scheme.go:110"  # where a kube-apiserver says it looked
OWNERS_MAX: Final = 1000
FINALIZERS_MAX: Final = 1000
STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_ASKED: Final = ("spec", "webhooks", "endpoints", "ports", "template")
# The part of the metadata that counts as asked for, too.
ASKED_FOR: Final = {
    GroupKind("apps", "Deployment"): "annotations",
    GroupKind("discovery.k8s.io", "EndpointSlice"): "labels",
}
# Built-in kinds whose generation the server counts (1.34); others have none.
COUNTED: Final = kinds_of(
    {
        "": ("Pod", "PodTemplate", "ReplicationController"),
        "apps": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
        "batch": ("CronJob", "Job"),
        "policy": ("PodDisruptionBudget",),
        "discovery.k8s.io": ("EndpointSlice",),
        "scheduling.k8s.io": ("PriorityClass",),  # one that never grows
        "networking.k8s.io": ("Ingress", "IngressClass", "NetworkPolicy"),
        "apiextensions.k8s.io": ("CustomResourceDefinition",),
        "admissionregistration.k8s.io": (
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ),
    }
)
# Built-in kinds of which an update must name the version it was made from (1.34), as every custom
# resource. Source: AllowUnconditionalUpdate of the registry.
CONDITIONAL: Final = kinds_of(
    {
        "admissionregistration.k8s.io": (
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ),
        "apiextensions.k8s.io": ("CustomResourceDefinition",),
        "coordination.k8s.io": ("Lease",),
        "node.k8s.io": ("RuntimeClass",),
        "policy": ("PodDisruptionBudget",),
        "storage.k8s.io": ("CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment"),
    }
)
# Set by the server alone: a client's value is replaced by what is stored.
SYSTEM: Final = (
    "uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
    "selfLink", "resourceVersion", "name", "namespace", "generateName",
)  # fmt: skip
# Kinds whose own validation leaves metadata to the generic one; all others check it once more, so
# that a problem has two causes.
_CHECKED_ONCE: Final = kinds_of(
    {
        "": ("LimitRange",),
        "admissionregistration.k8s.io": (
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ),
        "discovery.k8s.io": ("EndpointSlice",),
        "policy": ("PodDisruptionBudget",),
    }
)
_IMMUTABLE: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def init_metadata(kind: Kind, meta: Mapping[str, Any], uid: str, now: datetime) -> dict[str, Any]:
    """The metadata of a new object: what a client may not set is set or dropped."""
    out = {key: value for key, value in meta.items() if key not in SYSTEM and value is not None}
    out["name"] = meta["name"]
    if meta.get("generateName"):
        out["generateName"] = meta["generateName"]
    if kind.namespaced:
        out["namespace"] = meta["namespace"]
    out["uid"] = uid
    out["creationTimestamp"] = format_time(now)
    if counts_generation(kind):
        out["generation"] = 1
    return out


def counts_generation(kind: Kind) -> bool:
    return kind.crd or kind.group_kind in COUNTED


def keep_system_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an updated object: `new`, with what only the server sets from `old`."""
    out = {key: value for key, value in new.items() if key not in SYSTEM and value is not None}
    out.update({key: old[key] for key in SYSTEM if key in old})
    return out


def changed_system_fields(
    kind: Kind, old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[Problem]:
    """Attempts to change what never changes; an absent value leaves it alone."""
    found = [
        wrong(("metadata", name), _shown(new[name]), "field is immutable")
        for name in _IMMUTABLE
        if new.get(name) not in (None, "") and new[name] != old.get(name)
    ]
    return found * _times_checked(kind)


def _times_checked(kind: Kind) -> int:
    return 1 if kind.group_kind in _CHECKED_ONCE else 2


def next_generation(kind: Kind, old: Obj, new: Obj) -> int:
    """The generation after an update: counts changes of what is asked for, never of status."""
    generation = int(old["metadata"].get("generation") or 0)
    if not counts_generation(kind):
        return generation
    aside = (
        ("metadata", "status", "apiVersion")
        if "status" in kind.subresources
        else ("metadata", "apiVersion")
    )
    names = (old.keys() | new.keys()) if kind.crd else _ASKED
    asked = (name for name in names if name not in aside)
    grown = any(old.get(name) != new.get(name) for name in asked)
    if not grown and (part := ASKED_FOR.get(kind.group_kind)):
        before, after = (o["metadata"].get(part) or {} for o in (old, new))
        grown = before != after
    return generation + grown


def check_new(
    kind: Kind, meta: Mapping[str, Any], known: Mapping[str, Any] = MappingProxyType({})
) -> list[Problem]:
    """Problems of a new object's metadata; what a sound sibling has, too, is not looked at."""
    name = meta["name"]
    why = check_name(kind, name)
    problems = [wrong(("metadata", "name"), _shown(name), why)] if why else []
    prefix = meta.get("generateName")
    generated = known.get("generateName") == prefix
    if prefix and not generated and (why := check_name(kind, prefix, prefix=True)):
        problems.insert(0, wrong(("metadata", "generateName"), _shown(prefix), why))
    return problems + list(_check_parts(known, meta))


def check_update(kind: Kind, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Problem]:
    """Problems an update brings into metadata; what it leaves alone is not looked at again."""
    problems = list(_check_parts(old, new))
    if old.get("deletionTimestamp"):
        known = old.get("finalizers") or ()
        fresh = [name for name in new.get("finalizers") or () if name not in known]
        if fresh:
            listed = ", ".join(_shown(name) for name in fresh)
            why = (
                "Forbidden: no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{listed}}}"
            )
            problem = Problem(("metadata", "finalizers"), "FieldValueForbidden", why)
            problems += [problem] * _times_checked(kind)
    return problems


def are_sound(part: str, words: Mapping[str, Any]) -> bool:
    """Return whether these `labels` or `annotations` are valid; null removes one."""
    texts = {key: text for key, text in words.items() if text is not None}
    return all(isinstance(t, str) for t in texts.values()) and not any(_CHECKS[part](texts))


def has_room(annotations: Mapping[str, Any]) -> bool:
    """Return whether annotations are surely within the size limit."""
    size = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    return size * _UTF8_MAX_BYTES <= ANNOTATIONS_MAX_BYTES


def _check_parts(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    for part, check in _CHECKS.items():
        value = new.get(part)
        known = old.get(part)
        if not value or value is known or value == known:
            continue
        if known and check is _labels:
            value = {k: text for k, text in value.items() if known.get(k) != text}
        yield from check(value)


def _labels(labels: Mapping[str, Any]) -> Iterator[Problem]:
    path = ("metadata", "labels")
    for key, value in labels.items():
        if why := qualified_name(key):
            yield wrong(path, _shown(key), why)
        if why := label_value(value):
            yield wrong(path, _shown(value), why)


def _annotations(annotations: Mapping[str, Any]) -> Iterator[Problem]:
    path = ("metadata", "annotations")
    for key in annotations:
        if why := qualified_name(key.lower()):
            yield wrong(path, _shown(key), why)
    if has_room(annotations):
        return
    size = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if size > ANNOTATIONS_MAX_BYTES:
        why = f"Too long: may not be more than {ANNOTATIONS_MAX_BYTES} bytes"
        yield Problem(path, "FieldValueTooLong", why)


def _finalizers(finalizers: Sequence[str]) -> Iterator[Problem]:
    for index, name in enumerate(finalizers[:FINALIZERS_MAX]):
        path = ("metadata", "finalizers", index)
        if why := qualified_name(name):
            yield wrong(path, _shown(name), why)
        elif "/" not in name and name not in STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield wrong(path, _shown(name), why)
    if len(finalizers) > FINALIZERS_MAX:
        yield _too_many("finalizers", len(finalizers), FINALIZERS_MAX)


def _owners(owners: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    path = ("metadata", "ownerReferences")
    for owner in owners[:OWNERS_MAX]:
        group, version = split_api_version(owner.get("apiVersion") or "")
        if not version:
            yield wrong((*path, "apiVersion"), _shown(group), "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield wrong((*path, name), '""', "must not be empty")
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{o.get('kind')}/{o.get('name')}" for o in controllers[:2])
        why = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {first} and {second}'
        )
        yield wrong(path, "null", why)
    if len(owners) > OWNERS_MAX:
        yield _too_many("ownerReferences", len(owners), OWNERS_MAX)


def _too_many(part: str, size: int, most: int) -> Problem:
    why = f"Too many: {size}: must have at most {most} items"
    return Problem(("metadata", part), "FieldValueTooMany", why)


_CHECKS: Final[Mapping[str, Callable[[Any], Iterator[Problem]]]] = {
    "labels": _labels,
    "annotations": _annotations,
    "finalizers": _finalizers,
    "ownerReferences": _owners,
}


_HEAD: Final = ("apiVersion", "kind", "metadata")


def check_type(kind: Kind, obj: Any) -> Mapping[str, Any]:
    """`obj` with apiVersion and kind filled in. Raises BadRequest when it is something else."""
    if not isinstance(obj, dict | Mapping):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}):"
            " an object was expected"
        )
    version, name = obj.get("apiVersion"), obj.get("kind")
    for word, value in (("apiVersion", version), ("kind", name)):
        if not isinstance(value, str | None):
            why = f"cannot unmarshal {go_name(value)} into Go struct field .{word} of type string"
            raise BadRequest(f"couldn't get version/kind; json parse error: json: {why}")
    if kind.crd and not name:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is"
            " missing"
        )
    _check_words(kind, obj, version, name)
    if not isinstance(obj.get("metadata", {}), dict | Mapping | None):
        raise BadRequest("metadata must be an object")
    if meta := obj.get("metadata"):
        check_metadata(kind, meta)
    if version and name and obj.get("metadata") and tuple(islice(obj, 3)) == _HEAD:
        return obj
    rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": obj.get("metadata") or {},
        **rest,
    }


def _check_words(kind: Kind, obj: Obj, version: Any, name: Any) -> None:
    """apiVersion and kind of a body are those of the URL; custom kinds word it differently."""
    if not kind.crd and version not in (None, "", kind.api_version):
        given = name or kind.kind
        why = f'no kind "{given}" is registered for version "{version}" in scheme "{SCHEME}"'
        raise undecodable(kind, why, (given, split_api_version(version)[1]))
    if version not in (None, "", kind.api_version):
        raise BadRequest(
            f"the API version in the data ({version}) does not match the expected API version"
            f" ({kind.api_version})"
        )
    if name in (None, "", kind.kind):
        return
    if kind.crd:
        problem = wrong(("kind",), _shown(name), f"must be {kind.kind}")
        raise invalid_object(name, kind.group, get(obj, "metadata", "name", default=""), [problem])
    raise BadRequest(f'{name} in version "{version}" cannot be handled as a {kind.kind}')


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
