"""Events at admission: those of core/v1 by the old rules, those of events.k8s.io/v1 by all.

Source: ValidateEventCreate and ValidateEventUpdate of Kubernetes 1.34, in whose words a field has
the name of core/v1 whatever the version of the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gitkruise.admission.conversion.events import CORE, EVENTS, event
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import IMMUTABLE, invalid, required
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

EVENT_KINDS: Final = frozenset({GroupKind("", "Event"), GroupKind("events.k8s.io", "Event")})
_LENGTHS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_NEEDED: Final = ("reportingInstance", "action", "reason")
_OLD: Final = ("firstTimestamp", "lastTimestamp", "count")  # what series and eventTime replaced
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", *_OLD, "type", "eventTime", "action",
    "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_ELSEWHERE: Final = "does not match event.namespace"
_LESS: Final = "should be at least 2"


def event_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Broken rules of an event; those of core/v1 may still be changed."""
    strict = request.new["apiVersion"] == EVENTS
    new, namespace = event(request.new, CORE), request.key.namespace
    if new.get("eventTime"):
        yield from _timed_problems(new, namespace, "" if strict else "reportingComponent")
    else:
        about = _text(new, "involvedObject", "namespace")
        if about != namespace and (about or namespace != "default"):
            yield invalid(("involvedObject", "namespace"), about, _ELSEWHERE)
    if not strict:
        return
    if request.old is None:
        yield from _strict_problems(new)
    else:
        yield from _update_problems(new, event(request.old, CORE))


def _timed_problems(new: Obj, namespace: str, reporter: str) -> Iterator[Problem]:
    """Rules of an event with a time: who reports it, what was done, and why."""
    about = _text(new, "involvedObject", "namespace")
    if not about and namespace not in ("default", "kube-system"):
        yield invalid(("involvedObject", "namespace"), about, _ELSEWHERE)
    name, at = _text(new, "reportingComponent"), (reporter or "reportingController",)
    if not name:
        yield required(at)
    yield from (invalid(at, name, text) for text in formats.qualified_name(name))
    for field, most in _LENGTHS.items():
        text = _text(new, field)
        if field in _NEEDED and not text:
            yield required((field,))
        if len(text.encode()) > most:
            yield invalid((field,), "", f"can have at most {most} characters")


def _strict_problems(new: Obj) -> Iterator[Problem]:
    yield from _series_problems(new)
    if not new.get("eventTime"):
        yield required(("eventTime",))
    if new.get("type") not in ("Normal", "Warning"):
        yield invalid(("type",), "", f"has invalid value: {_text(new, 'type')}")
    unset = [field for field in _OLD if new.get(field)]
    unset += ["source"] if any(get(new, "source", key) for key in ("component", "host")) else []
    yield from (invalid((field,), "", "needs to be unset") for field in unset)


def _update_problems(new: Obj, old: Obj) -> Iterator[Problem]:
    if new.get("series") != old.get("series"):
        yield from _series_problems(new)
    for field in _FIXED:
        if (new.get(field) or None) != (old.get(field) or None):
            name = "reportingController" if field == "reportingComponent" else field
            yield invalid((name,), new.get(field), IMMUTABLE)


def _series_problems(new: Obj) -> Iterator[Problem]:
    if new.get("series") is None:
        return
    if get(new, "series", "count", default=0) in (0, 1):
        yield invalid(("series", "count"), "", _LESS)
    if not get(new, "series", "lastObservedTime"):
        yield required(("series", "lastObservedTime"))


def _text(new: Obj, *path: str) -> str:
    """A text of an event; "" for anything else, which the schema refuses."""
    value = get(new, *path)
    return value if isinstance(value, str) else ""
