"""The columns kube-apiserver prints for built-in kinds: definitions and one row function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from gitkruise.sandbox.tables import jobs, nodes, pods, printed_kinds
from gitkruise.sandbox.tables.cells import Cell, age, since
from gitkruise.wire.primitives.names import GroupKind, Obj
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


def _read(text: str, readers: Sequence[printed_kinds.Reader]) -> Row:
    """Rows of a kind of `printed_kinds`: every column of `text` that is not known here is read."""
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
    GroupKind("batch", "Job"): (
        _columns(f"Name | Status | Completions | Duration | Age | {printed_kinds.WORKLOAD}"),
        jobs.job,
    ),
    GroupKind("batch", "CronJob"): (
        _columns(
            "Name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age"
            f" | {printed_kinds.WORKLOAD}"
        ),
        jobs.cron_job,
    ),
    **{
        kind: (_columns(text), _read(text, readers))
        for kind, (text, readers) in printed_kinds.PRINTED.items()
    },
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
