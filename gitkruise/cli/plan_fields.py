"""The changed fields of one object: path, old and new value, line, and what the change means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.change import Change, FieldChange
from gitkruise.planner.sync.summary import shown, tag_of
from gitkruise.wire.names import GroupKind
from gitkruise.wire.paths import get

if TYPE_CHECKING:
    from gitkruise.model.change import Desired

CLONESET: Final = GroupKind("apps.kruise.io", "CloneSet")
_LISTS_OF_NAMED: Final = frozenset({"containers", "initContainers", "env", "volumes"})


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a plan. `loud`: this is the field that makes pods be recreated."""

    path: str
    values: str
    line: int
    remark: str
    loud: bool = False


def field_rows(change: Change, d: Desired | None) -> list[Row]:
    """A row a changed field, in the order of the manifest; values of Secrets are not shown."""
    rows = [_row(change, field, d) for field in change.fields]
    return sorted(rows, key=lambda row: row.line)


def _row(change: Change, field: FieldChange, d: Desired | None) -> Row:
    line = d.document.place(field.path, key=True).line if d else 0
    remark, loud = _remark(change, field)
    return Row(_path(change, field.path), _values(change, field), line, remark, loud)


def _path(change: Change, path: tuple[str | int, ...]) -> str:
    """`template.spec.containers[app].image`: without the leading spec, list items by their name."""
    out = ""
    for index, part in enumerate(path):
        if isinstance(part, int):
            side = change.after if get(change.after or {}, *path[: index + 1]) else change.before
            name = get(side or {}, *path[: index + 1], default={})
            named = isinstance(name, dict) and path[index - 1] in _LISTS_OF_NAMED
            out += f"[{name.get('name', part) if named else part}]"
        elif index or part != "spec":
            out += f".{part}" if out else part
    return out or ".".join(str(p) for p in path)


def _values(change: Change, field: FieldChange) -> str:
    if change.key.kind == "Secret" and not change.key.group:
        return "••• changed"
    if field.path[-1:] == ("image",):
        before, after = _image(field.before, field.after)
        return f"{before} → {after}"
    return f"{shown(field.before)} → {shown(field.after)}"


def _image(before: Any, after: Any) -> tuple[str, str]:
    """Tags when only the tag changes, whole images otherwise."""
    if isinstance(before, str) and isinstance(after, str):
        old, new = tag_of(before), tag_of(after)
        if old != new and before.removesuffix(old) == after.removesuffix(new):
            return old, new
    return shown(before), shown(after)


_STRATEGY: Final = {"partition": "canary gate", "paused": "stops or resumes updates"}


def _remark(change: Change, field: FieldChange) -> tuple[str, bool]:
    """What a change of this field of a CloneSet does to pods, and whether that is recreating."""
    path = tuple(str(part) for part in field.path)
    if change.key.group_kind == CLONESET and path[:2] == ("spec", "updateStrategy"):
        return _STRATEGY.get(path[-1], ""), False
    if change.key.group_kind == CLONESET and path[:2] == ("spec", "template"):
        return _template_remark(change, path)
    return "", False


def _template_remark(change: Change, path: tuple[str, ...]) -> tuple[str, bool]:
    if _policy(change) == "ReCreate":
        return "recreates pods: podUpdatePolicy is ReCreate", False
    if path[-1] == "image" or path[2:3] == ("metadata",):
        return "can be done in place", False
    if "resources" in path:
        return "in place only with InPlaceWorkloadVerticalScaling", True
    return "cannot be done in place", True


def _policy(change: Change) -> str:
    """podUpdatePolicy in either API version; ReCreate where none is written."""
    strategy = get(change.after or {}, "spec", "updateStrategy", default={})
    return str(
        get(strategy, "rollingUpdate", "podUpdatePolicy")
        or strategy.get("podUpdatePolicy")
        or strategy.get("type")
        or "ReCreate"
    )
