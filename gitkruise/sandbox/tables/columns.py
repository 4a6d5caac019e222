"""The columns kube-apiserver prints for built-in kinds: definitions and one row function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from gitkruise.sandbox.tables import nodes, others, pods, workloads
from gitkruise.sandbox.tables.cells import Cell, age, since
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get

__all__ = ["NAME", "Cell", "TableColumn", "printer_of"]

Row: TypeAlias = Callable[[Obj, datetime], list[Cell]]
Printer: TypeAlias = "tuple[Sequence[TableColumn], Row]"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column definition of a meta/v1 Table; priority 1 shows under `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def as_obj(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


NAME: Final = TableColumn(
    "Name", format="name", description="Name must be unique within a namespace."
)


def printer_of(group: str, kind: str) -> Printer | None:
    """Columns and row function of a built-in kind, or None for those without any of their own."""
    return _PRINTERS.get(GroupKind(group, kind))


def _columns(text: str) -> tuple[TableColumn, ...]:
    """Columns from their names; `Name:integer` gives a type, `*` makes one a name.

    A leading `+` makes one wide-only.
    """
    out: list[TableColumn] = []
    for word in text.split("|"):
        name, _, kind = word.strip().lstrip("+").partition(":")
        wide = int(word.strip().startswith("+"))
        if name == "Name" or name.endswith("*"):
            out.append(replace(NAME, name=name.rstrip("*"), priority=wide))
        else:
            out.append(TableColumn(name, kind or "string", wide))
    return tuple(out)


def _read(text: str, readers: Sequence[others.Reader]) -> Row:
    """Rows of a kind of resource_cells: every column of `text` that is not known here is read."""
    words = [word.strip().lstrip("+").partition(":")[0] for word in text.split("|")]

    def row(obj: Obj, now: datetime) -> list[Cell]:
        known: Mapping[str, Cell] = {
            "Name": _name(obj),
            "Age": age(obj, now),
            "Created At": obj["metadata"].get("creationTimestamp"),
        }
        rest = iter(readers)
        return [known[word] if word in known else next(rest)(obj) for word in words]

    return row


def _name(obj: Obj) -> Cell:
    name: Cell = obj["metadata"].get("name")
    return name


def _namespace(obj: Obj, now: datetime) -> list[Cell]:
    return [_name(obj), get(obj, "status", "phase", default=""), age(obj, now)]


def _config_map(obj: Obj, now: datetime) -> list[Cell]:
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [_name(obj), count, age(obj, now)]


def _secret(obj: Obj, now: datetime) -> list[Cell]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def _service_account(obj: Obj, now: datetime) -> list[Cell]:
    return [_name(obj), len(obj.get("secrets") or ()), age(obj, now)]


_ROLES: Final = tuple(
    GroupKind("rbac.authorization.k8s.io", kind) for kind in ("Role", "ClusterRole")
)


def _role(obj: Obj, _now: datetime) -> list[Cell]:
    return [_name(obj), obj["metadata"].get("creationTimestamp", "")]


def _event(obj: Obj, now: datetime) -> list[Cell]:
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = get(obj, "series", "lastObservedTime") or obj.get("lastTimestamp") or first
    count = get(obj, "series", "count") or obj.get("count") or 1
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or {}
    shown = ", ".join(filter(None, (source.get("component"), source.get("host"))))
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        shown or obj.get("reportingComponent", ""),
        (obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        count,
        _name(obj),
    ]


def _claim(obj: Obj, now: datetime) -> list[Cell]:
    phase = get(obj, "status", "phase", default="")
    if obj["metadata"].get("deletionTimestamp"):
        phase = "Terminating"
    bound = bool(get(obj, "spec", "volumeName"))
    modes = get(obj, "status", "accessModes", default=()) if bound else ()
    return [
        _name(obj),
        phase,
        get(obj, "spec", "volumeName", default=""),
        get(obj, "status", "capacity", "storage", default="") if bound else "",
        others.access_modes(modes),
        get(obj, "spec", "storageClassName", default=""),
        get(obj, "spec", "volumeAttributesClassName", default="<unset>"),
        age(obj, now),
        get(obj, "spec", "volumeMode", default="<unset>"),
    ]


def _controller_revision(obj: Obj, now: datetime) -> list[Cell]:
    refs = obj["metadata"].get("ownerReferences") or ()
    owner = next((ref for ref in refs if ref.get("controller")), None)
    shown = "<none>"
    if owner is not None:
        group_kind = GroupKind(
            split_api_version(owner.get("apiVersion", ""))[0], owner.get("kind", "")
        )
        shown = f"{str(group_kind).lower()}/{owner.get('name', '')}"
    return [_name(obj), shown, obj.get("revision", 0), age(obj, now)]


def _definition(obj: Obj, _: datetime) -> list[Cell]:
    return [_name(obj), obj["metadata"].get("creationTimestamp")]


def _budget(obj: Obj, now: datetime) -> list[Cell]:
    spec = obj.get("spec") or {}
    shown = [str(spec[key]) if key in spec else "N/A" for key in ("minAvailable", "maxUnavailable")]
    return [
        _name(obj),
        *shown,
        get(obj, "status", "disruptionsAllowed", default=0),
        age(obj, now),
    ]


def _lease(obj: Obj, now: datetime) -> list[Cell]:
    return [_name(obj), get(obj, "spec", "holderIdentity", default=""), age(obj, now)]


_WORKLOAD: Final = "+Containers | +Images | +Selector"
_PRINTERS: Final[Mapping[GroupKind, Printer]] = {
    GroupKind("", "Pod"): (
        _columns(
            "Name | Ready | Status | Restarts | Age | +IP | +Node | +Nominated Node"
            " | +Readiness Gates"
        ),
        pods.pod,
    ),
    GroupKind("", "Node"): (
        _columns(
            "Name | Status | Roles | Age | Version | +Internal-IP | +External-IP | +OS-Image"
            " | +Kernel-Version | +Container-Runtime"
        ),
        nodes.node,
    ),
    GroupKind("", "Service"): (
        _columns("Name | Type | Cluster-IP | External-IP | Port(s) | Age | +Selector"),
        nodes.service,
    ),
    **dict.fromkeys(_ROLES, (_columns("Name | Created At:date"), _role)),
    GroupKind("apps", "Deployment"): (
        _columns(f"Name | Ready | Up-to-date | Available | Age | {_WORKLOAD}"),
        workloads.deployment,
    ),
    GroupKind("apps", "ReplicaSet"): (
        _columns(f"Name | Desired:integer | Current:integer | Ready:integer | Age | {_WORKLOAD}"),
        workloads.replica_set,
    ),
    GroupKind("apps", "StatefulSet"): (
        _columns("Name | Ready | Age | +Containers | +Images"),
        workloads.stateful_set,
    ),
    GroupKind("apps", "DaemonSet"): (
        _columns(
            "Name | Desired:integer | Current:integer | Ready:integer | Up-to-date:integer"
            f" | Available:integer | Node Selector | Age | {_WORKLOAD}"
        ),
        workloads.daemon_set,
    ),
    GroupKind("batch", "Job"): (
        _columns(f"Name | Status | Completions | Duration | Age | {_WORKLOAD}"),
        workloads.job,
    ),
    GroupKind("batch", "CronJob"): (
        _columns(
            "Name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age"
            f" | {_WORKLOAD}"
        ),
        workloads.cron_job,
    ),
    GroupKind("", "Namespace"): (_columns("Name | Status | Age"), _namespace),
    GroupKind("", "ConfigMap"): (_columns("Name | Data | Age"), _config_map),
    GroupKind("", "Secret"): (_columns("Name | Type | Data | Age"), _secret),
    GroupKind("", "ServiceAccount"): (_columns("Name | Secrets | Age"), _service_account),
    GroupKind("", "PersistentVolumeClaim"): (
        _columns(
            "Name | Status | Volume | Capacity | Access Modes | StorageClass"
            " | VolumeAttributesClass | Age | +VolumeMode"
        ),
        _claim,
    ),
    GroupKind("apps", "ControllerRevision"): (
        _columns("Name | Controller | Revision | Age"),
        _controller_revision,
    ),
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): (
        _columns("Name | Created At:date"),
        _definition,
    ),
    GroupKind("policy", "PodDisruptionBudget"): (
        _columns("Name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age"),
        _budget,
    ),
    **{
        kind: (_columns(text), _read(text, readers))
        for kind, (text, readers) in others.PRINTED.items()
    },
    GroupKind("coordination.k8s.io", "Lease"): (_columns("Name | Holder | Age"), _lease),
    **{
        GroupKind(group, "Event"): (
            _columns(
                "Last Seen | Type | Reason | Object | +Subobject | +Source | Message | +First Seen"
                " | +Count | +Name"
            ),
            _event,
        )
        for group in ("", "events.k8s.io")
    },
}
