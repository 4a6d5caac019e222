"""Immutable fields: their rejections recognised, and the object replaced or reported."""

from __future__ import annotations

import re
from typing import Final

from gitkruise.errors import ApiError, Finding, InvalidObject
from gitkruise.gitops.build.redacted_findings import parse_field, unquoted
from gitkruise.model.gitops.change import Desired, Path
from gitkruise.model.gitops.config import Unit
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET
from gitkruise.planner.sync.annotations import replace_asked
from gitkruise.planner.sync.diff import owned_differences
from gitkruise.planner.sync.prune import holds_data
from gitkruise.wire.primitives.names import Obj

# Kubernetes has several sentences for one rule; all of them speak of a change, never of a value.
_IMMUTABLE: Final = re.compile(
    r"\bimmutable\b|may not change once set|updates to \w+ spec for fields other than"
    r"|updates may not change fields other than"
)
# Kinds whose update rules we know as well as the server does, which may have no webhook for them:
# a commit is rejected for these before anything is sent. Others are left to the dry run.
JUDGED_HERE: Final = frozenset({CLONESET, ADVANCED_STATEFULSET})
_FREE: Final = re.compile(r"'(\w+)'")  # fields that such a rule lets change
_VALUE: Final = "Invalid value: "


def immutable(error: ApiError) -> bool:
    """Return whether every cause of a rejection is an immutable field: a new object would pass."""
    causes = error.details.causes
    return (
        isinstance(error, InvalidObject)
        and bool(causes)
        and all(_IMMUTABLE.search(cause.message) for cause in causes)
    )


def replaceable(d: Desired, unit: Unit) -> bool:
    """Return whether the object is to be deleted and created again instead of staying as it is."""
    wished = unit.spec.apply.replace == "onImmutable" or replace_asked(d.obj) or bool(d.hook)
    return wished and d.key.group_kind not in JUDGED_HERE and not holds_data(d.key, d.obj)


def _rule(message: str) -> str:
    """Return the rule at the end of a message, without the value before it."""
    return message.rpartition(": ")[2][:300] if message.startswith(_VALUE) else message[:300]


def _fixed(d: Desired, error: ApiError, live: Obj | None) -> dict[str, Path]:
    """Return the fields that cannot change: of a rule about all of the spec those that do."""
    found: dict[str, Path] = {}
    for cause in error.details.causes:
        free = _FREE.findall(cause.message) if cause.field == "spec" and live is not None else ()
        changed = (c.path[:2] for c in owned_differences(d.obj, live or {}, None))
        fixed = [path for path in changed if path[0] == "spec" and path[-1] not in free]
        if free and fixed:
            found |= {".".join(map(str, path)): path for path in fixed}
        else:
            found[cause.field] = parse_field(cause.field)
    return found


def cannot_change(d: Desired, error: ApiError, live: Obj | None = None) -> Finding:
    """Return the finding for a change of the `live` object that needs a new one."""
    fields = _fixed(d, error, live)
    never = bool(holds_data(d.key, d.obj))
    return Finding(
        code="GK2203",
        message=f"{', '.join([*fields][:5])} of {d.key} cannot change after creation",
        places=(d.document.place(next(iter(fields.values()))),),
        notes=(
            ("why", _rule(unquoted(error, d).details.causes[0].message)),
            ("unchanged", f"the live {d.key}"),
            (
                "next",
                "put the old value back, or create a second object and move what this one holds"
                if never
                else "put the old value back, or let it be deleted and created again: "
                "gitkruise.io/replace: Enabled on the object, or apply.replace: onImmutable",
            ),
        ),
        object=str(d.key),
    )
