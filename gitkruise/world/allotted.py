"""Fields the server fills in after decoding: whoever creates an object has not set them.

Source: the create handler tells managers apart before admission plug-ins and the kinds' strategies
run, so what those add is in nobody's managedFields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gitkruise.wire.names import GroupKind, Obj
from gitkruise.wire.paths import drop, get

_Path = tuple[str, ...]
_JOB_LABELS: Final = (
    "controller-uid", "job-name", "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)  # fmt: skip
ALLOTTED: Final[Mapping[GroupKind, tuple[_Path, ...]]] = {
    GroupKind("", "Pod"): (
        ("spec", "serviceAccountName"),
        ("spec", "serviceAccount"),
        ("spec", "tolerations"),
        ("spec", "priority"),
        ("spec", "preemptionPolicy"),
    ),
    GroupKind("", "Service"): (
        ("spec", "clusterIP"),
        ("spec", "clusterIPs"),
        ("spec", "ipFamilies"),
        ("spec", "ipFamilyPolicy"),
    ),
    **{GroupKind("rbac.authorization.k8s.io", k): (("rules",),) for k in ("Role", "ClusterRole")},
    GroupKind("batch", "Job"): (
        ("spec", "selector"),
        *(("spec", "template", "metadata", "labels", name) for name in _JOB_LABELS),
        ("spec", "template", "metadata", "labels"),
    ),
}
# The old name of a field is a default of the new one, and so counts as sent with it.
WITNESS: Final[Mapping[_Path, _Path]] = {("spec", "serviceAccount"): ("spec", "serviceAccountName")}


def as_asked(group_kind: GroupKind, sent: Obj, made: Obj) -> Obj:
    """`made` without what the server allotted; what the client sent stays."""
    for path in ALLOTTED.get(group_kind, ()):
        if get(sent, *WITNESS.get(path, path)) is None:
            made = drop(made, path)
    return made
