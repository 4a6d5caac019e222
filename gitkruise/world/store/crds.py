"""CustomResourceDefinitions: defaulted names and the status that says they are served."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.store.store import ObjectStore

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_CONDITIONS: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)


def accepted(state: ObjectStore, crd: Obj, now: datetime) -> Obj:
    """The definition with defaults and status; InvalidObject when it cannot be served."""
    crd = _defaulted(crd)
    state.catalog.with_crd(crd)
    names = crd["spec"]["names"]
    status = crd.get("status") or {}
    storage = [v["name"] for v in crd["spec"]["versions"] if v.get("storage")]
    kept = [name for name in status.get("storedVersions") or () if name not in storage]
    return {
        **crd,
        "status": {
            **status,
            "conditions": _conditions(status, format_time(now)),
            "acceptedNames": names,
            "storedVersions": [*kept, *storage],
        },
    }


def _defaulted(crd: Obj) -> Obj:
    names: Mapping[str, Any] = get(crd, "spec", "names", default={})
    kind = names.get("kind") or ""
    filled = {
        **names,
        "singular": names.get("singular") or kind.lower(),
        "listKind": names.get("listKind") or kind + "List",
    }
    spec = {**(crd.get("spec") or {}), "names": filled}
    spec.setdefault("conversion", {"strategy": "None"})
    return {**crd, "spec": spec}


def _conditions(status: Mapping[str, Any], now: str) -> list[Any]:
    known = {condition["type"]: condition for condition in status.get("conditions") or ()}
    for name, reason, message in _CONDITIONS:
        if known.get(name, {}).get("status") != "True":
            known[name] = {
                "type": name,
                "status": "True",
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            }
    return list(known.values())
