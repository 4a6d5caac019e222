"""The changed fields of one object: path, old and new value, line, and what the change means."""

from __future__ import annotations

from typing import Any, Final

from gitkruise import printable
from gitkruise.model.gitops.change import MISSING, FieldChange, ObjectChange, Redacted
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.report import FieldRow
from gitkruise.model.planning.canary import CANARIES
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET, DEPLOYMENT
from gitkruise.model.workloads.rollout_kinds import ROLLING_KINDS
from gitkruise.planner.report.diff_lines import lines_changed
from gitkruise.planner.report.redaction import covered
from gitkruise.planner.report.summary import shown, tag_of
from gitkruise.printable import many
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.secret_names import concealed

_LISTS_OF_NAMED: Final = frozenset({"containers", "initContainers", "env", "volumes"})
_PATH_MAX: Final = 160  # characters


def field_rows(change: ObjectChange, d: Desired | None, key: bytes) -> tuple[FieldRow, ...]:
    """A row a changed field, in the order of the manifest; what is secret has a fingerprint."""
    rows = [_row(change, field, d) for field in covered(change, key)]
    return tuple(sorted(rows, key=lambda row: row.line))


def _row(change: ObjectChange, field: FieldChange, d: Desired | None) -> FieldRow:
    remark, loud = _remark(change, field)
    return FieldRow(
        field=field.path,
        path=_path(change, field.path),
        before=field.before,
        after=field.after,
        words=_words(field),
        line=d.document.place(field.path, key=True).line if d else 0,
        remark=remark,
        loud=loud,
    )


def _path(change: ObjectChange, path: tuple[str | int, ...]) -> str:
    """`template.spec.containers[app].image`: without the leading spec, list items by their name."""
    out = ""
    shown_path = concealed(path)
    for index, part in enumerate(shown_path):
        if isinstance(part, int):
            side = change.after if get(change.after or {}, *path[: index + 1]) else change.before
            name = get(side or {}, *path[: index + 1], default={})
            named = isinstance(name, dict) and path[index - 1] in _LISTS_OF_NAMED
            out += f"[{name.get('name', part) if named else part}]"
        elif index or part != "spec":
            out += f".{part}" if out else part
    return printable.shown(out or ".".join(str(p) for p in shown_path), _PATH_MAX)


def _words(field: FieldChange) -> str:
    before, after = field.before, field.after
    if isinstance(before, Redacted) or isinstance(after, Redacted):
        return _veiled_words(before, after)
    if field.path[-1:] == ("image",):
        before, after = _image(before, after)
        return f"{before} → {after}"
    lines = lines_changed(before, after)
    if lines is not None:
        return f"{many(lines[0], 'line')} out, {lines[1]} in"
    return f"{shown(before)} → {shown(after)}"


def _veiled_words(before: Any, after: Any) -> str:
    """`••• changed (3f9a → c210)`: readers can tell "rotated" from "restored", and no more."""
    prints = [v.fingerprint if isinstance(v, Redacted) else shown(v) for v in (before, after)]
    if before is MISSING:
        return f"••• added ({prints[1]})"
    if after is MISSING:
        return f"••• removed ({prints[0]})"
    return f"••• changed ({prints[0]} → {prints[1]})"


def _image(before: Any, after: Any) -> tuple[str, str]:
    """Tags when only the tag changes, whole images otherwise."""
    if isinstance(before, str) and isinstance(after, str):
        old, new = tag_of(before), tag_of(after)
        if old != new and before.removesuffix(old) == after.removesuffix(new):
            return shown(old), shown(new)
    return shown(before), shown(after)


_IN_PLACE: Final = frozenset({CLONESET, ADVANCED_STATEFULSET})
_STRATEGY: Final = {"partition": "canary gate", "paused": "stops or resumes updates"}


def _remark(change: ObjectChange, field: FieldChange) -> tuple[str, bool]:
    """Effect of a change of this field on pods, and whether that is recreating."""
    path = tuple(str(part) for part in field.path)
    if change.key.group_kind == DEPLOYMENT:
        return _deployment_remark(path)
    if change.key.group_kind in ROLLING_KINDS and path[:2] == ("spec", "updateStrategy"):
        return _STRATEGY.get(path[-1], ""), False
    if change.key.group_kind in _IN_PLACE and path[:2] == ("spec", "template"):
        return _template_remark(change, path)
    if change.key.kind == "SidecarSet" and path[1:2] in {("containers",), ("initContainers",)}:
        live = path[1] == "containers" and path[-1] == "image"
        return ("can be done live" if live else "running pods cannot follow"), False
    return "", False


def _deployment_remark(path: tuple[str, ...]) -> tuple[str, bool]:
    if path in CANARIES:
        return _STRATEGY["partition"], False
    if path == ("spec", "paused"):
        return _STRATEGY["paused"], False
    if path[:2] == ("spec", "template"):
        return "replaces pods", False
    return "", False


def _template_remark(change: ObjectChange, path: tuple[str, ...]) -> tuple[str, bool]:
    if _policy(change) == "ReCreate":
        return "recreates pods: podUpdatePolicy is ReCreate", False
    match path[2:]:
        case ("metadata", *_) | ("spec", "containers", _, "image"):
            return "can be done in place", False
        case ("spec", "containers", _, "resources", *_):
            return "in place only with InPlaceWorkloadVerticalScaling", True
        case _:
            return "cannot be done in place", True


def _policy(change: ObjectChange) -> str:
    """podUpdatePolicy in either API version; ReCreate where none is written."""
    strategy = get(change.after or {}, "spec", "updateStrategy", default={})
    return str(
        get(strategy, "rollingUpdate", "podUpdatePolicy")
        or strategy.get("podUpdatePolicy")
        or strategy.get("type")
        or "ReCreate"
    )
