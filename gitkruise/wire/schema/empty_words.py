"""Empty texts that Go cannot tell from a field that is not given, and for which it has a default.

Templates of charts write them where their values have none. Sent as they are, each would differ
from the default that the server stores for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gitkruise.wire.schema.nodes import Node

_API: Final = "io.k8s.api."
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apps.v1.DaemonSetUpdateStrategy": ("type",),
    "apps.v1.DeploymentStrategy": ("type",),
    "apps.v1.StatefulSetSpec": ("podManagementPolicy",),
    "apps.v1.StatefulSetUpdateStrategy": ("type",),
    "batch.v1.CronJobSpec": ("concurrencyPolicy",),
    "core.v1.Container": (
        "imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy",
    ),
    "core.v1.ContainerPort": ("protocol",),
    "core.v1.HTTPGetAction": ("scheme",),
    "core.v1.PersistentVolumeSpec": ("persistentVolumeReclaimPolicy",),
    "core.v1.PodSpec": ("dnsPolicy", "restartPolicy", "schedulerName"),
    "core.v1.Secret": ("type",),
    "core.v1.ServicePort": ("protocol",),
    "core.v1.ServiceSpec": ("externalTrafficPolicy", "sessionAffinity", "type"),
    "core.v1.Toleration": ("operator",),
    "rbac.v1.RoleRef": ("apiGroup",),
    "rbac.v1.Subject": ("apiGroup",),
}  # fmt: skip
_WORDS: Final = frozenset((_API + of, name) for of, names in _FIELDS.items() for name in names)


def without_empty_words(node: Node, value: Any) -> Any:
    """Return `value` without such fields; the same value where there are none."""
    return _without(node, value) if _has_empty(value) else value


def _has_empty(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(item == "" or _has_empty(item) for item in value.values())
    return isinstance(value, list) and any(map(_has_empty, value))


def _without(node: Node | None, value: Any) -> Any:
    if node is None:
        return value
    if isinstance(value, list):
        return [_without(node.items, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: _without(node.child(key), item)
        for key, item in value.items()
        if item != "" or (node.component, key) not in _WORDS
    }
