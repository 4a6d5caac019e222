"""Fields that the server sets after decoding, which no field manager owns.

Source: the create handler updates managedFields before admission plug-ins and the kinds' strategies
run, so that fields which those add belong to no manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import drop, get

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
    GroupKind("scheduling.k8s.io", "PriorityClass"): (("value",),),
    GroupKind("batch", "Job"): (
        ("spec", "selector"),
        *(("spec", "template", "metadata", "labels", name) for name in _JOB_LABELS),
        ("spec", "template", "metadata", "labels"),
        *(("metadata", "labels", name) for name in _JOB_LABELS),
        ("metadata", "labels"),
    ),
    # Of the admission plugin StorageObjectInUseProtection.
    GroupKind("", "PersistentVolume"): (("metadata", "finalizers"),),
    GroupKind("", "PersistentVolumeClaim"): (("metadata", "finalizers"),),
}
# A field whose default is another one counts as sent with it: the old name of an account, and the
# labels of a Job.
WITNESS: Final[Mapping[_Path, _Path]] = {
    ("spec", "serviceAccount"): ("spec", "serviceAccountName"),
    ("metadata", "labels"): ("spec", "template", "metadata", "labels"),
}


def as_requested(group_kind: GroupKind, sent: Obj, made: Obj) -> Obj:
    """`made` without what the server allotted; what the client sent stays."""
    for path in ALLOTTED.get(group_kind, ()):
        if get(sent, *path) is None and get(sent, *WITNESS.get(path, path)) is None:
            made = drop(made, path)
    return made
