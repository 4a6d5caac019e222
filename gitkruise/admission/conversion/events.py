"""Conversion of Events between core/v1, in which they are stored, and events.k8s.io/v1."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.wire.primitives.names import Obj

CORE, EVENTS = "v1", "events.k8s.io/v1"
# Field of core/v1 -> field of events.k8s.io/v1; all others have the same name.
_RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_BACK: Final = {there: here for here, there in _RENAMED.items()}
# Written empty in core/v1 and left out in events.k8s.io/v1.
_REPORTED: Final = ("reportingComponent", "reportingInstance")


def event(obj: Obj, api_version: str) -> Obj:
    """`obj`, an Event of either group, in the group of `api_version`."""
    if obj["apiVersion"] == api_version:
        return obj
    if api_version == EVENTS:
        kept = {k: v for k, v in obj.items() if k not in _REPORTED or v}
        return _renamed(kept, _RENAMED, api_version)
    made = _renamed(obj, _BACK, api_version)
    return {**dict.fromkeys(_REPORTED, ""), **made}


def _renamed(obj: Obj, names: dict[str, str], api_version: str) -> dict[str, Any]:
    return {**{names.get(k, k): v for k, v in obj.items()}, "apiVersion": api_version}
