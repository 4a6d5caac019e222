"""Requests of a user to a Unit or GitSource of a cluster: suspend, resume, reconcile.

Each one writes a single field of the object; the controller does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from gitkruise.errors import Finding, Forbidden, NotFound, TimedOut
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Reference, Suspend, UnitSpec
from gitkruise.planner.health.builtin import condition_of
from gitkruise.planner.sync.annotations import (
    IGNORE,
    MANAGER,
    PATH,
    RECONCILE_AT,
    UNIT_REF,
    annotation,
    reconcile_request,
    untouched,
)
from gitkruise.wire.primitives.names import OWN_GROUP, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef

FIELD_MANAGER: Final = "gitkruise-cli"
_PAUSE_S: Final = 0.3  # between two looks at the status


class Target(NamedTuple):
    """A Unit or GitSource of the cluster."""

    kind: str
    namespace: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"

    def request(self, verb: str, **more: Any) -> ApiRequest:
        resource = ResourceRef(OWN_GROUP, "v1alpha1", f"{self.kind.lower()}s")
        return ApiRequest(
            verb=verb, resource=resource, namespace=self.namespace, name=self.name, **more
        )


async def read(transport: Transport, target: Target) -> Obj:
    """Read the object. Raises NotFound, also where the kind is not served, and ApiError."""
    return thaw((await transport.send(target.request("get"))).body)


async def _patch(transport: Transport, target: Target, body: Obj) -> Obj:
    request = target.request(
        "patch", body=body, content_type=MERGE_PATCH, params={"fieldManager": FIELD_MANAGER}
    )
    return thaw((await transport.send(request)).body)


# Suspending -------------------------------------------------------------------------------------


def suspension_of(unit: Obj, now: datetime) -> Suspend | None:
    """Return the suspension of a Unit that is in force; None when it is not suspended."""
    asked = get(unit, "spec", "suspend", default=False)
    if isinstance(asked, Mapping):
        asked = Suspend(**{name: str(asked.get(name, "")) for name in ("by", "reason", "until")})
    try:
        until = UnitSpec(source_ref=Reference(""), suspend=asked).suspended(now)
    except ValueError:  # the controller does not run a Unit with such a time
        return asked if isinstance(asked, Suspend) else Suspend()
    return None if until is None else asked if isinstance(asked, Suspend) else Suspend()


async def suspend(transport: Transport, target: Target, asked: Suspend) -> Obj:
    """Set spec.suspend. Raises ApiError."""
    fields = {name: getattr(asked, name) or None for name in ("by", "reason", "until")}
    # A null takes the value of an earlier suspension out; `{}` would not suspend.
    value = fields if any(fields.values()) else True
    return await _patch(transport, target, {"spec": {"suspend": value}})


async def resume(transport: Transport, target: Target) -> Obj:
    """Take spec.suspend out. Raises ApiError."""
    return await _patch(transport, target, {"spec": {"suspend": None}})


class Undoing(NamedTuple):
    """A program that applies spec.suspend of a Unit from git, and so sets a change back."""

    by: str
    path: str  # of the manifest; "" when that is not known
    when: str  # it sets the field back; "" for in its next round


async def undoing(
    transport: Transport, unit: Obj, now: datetime, *, resumed: bool
) -> Undoing | None:
    """Return who sets spec.suspend back; None when git leaves the field to others. Raises ApiError.

    gitkruise and Flux correct the fields that their manifests have, and no others. A unit that
    contains itself corrects nothing once it is suspended.
    """
    managers = _appliers_of_suspend(unit)
    if MANAGER not in managers:
        others = ", ".join(managers)
        return Undoing(others, "", "if it applies the Unit again") if others else None
    owner = annotation(unit, UNIT_REF)
    namespace, _, name = owner.partition("/")
    target = Target("Unit", namespace, name)
    own = (namespace, name) == (unit["metadata"]["namespace"], unit["metadata"]["name"])
    if untouched(unit) or (own and not resumed):
        return None
    by, path = f"unit {owner}", annotation(unit, PATH)
    try:
        obj = await read(transport, target)
    except (NotFound, Forbidden):
        return Undoing(by, path, "unless its drift.mode is detect or off")
    mode = get(obj, "spec", "drift", "mode", default="correct")
    if suspension_of(obj, now) is not None and not own:
        return Undoing(by, path, "once that unit is resumed")
    if mode != "correct":
        return Undoing(by, path, f"when it applies the Unit again (its drift.mode is {mode})")
    ignoring = get(obj, "spec", "drift", "ignore", default=()) or annotation(unit, IGNORE)
    return Undoing(by, path, "unless its drift.ignore has the field" if ignoring else "")


def _appliers_of_suspend(unit: Obj) -> list[str]:
    """Return the managers that apply the field by themselves, unlike a user with kubectl."""
    return [
        entry["manager"]
        for entry in get(unit, "metadata", "managedFields", default=())
        if entry.get("operation") == "Apply"
        and not entry["manager"].startswith("kubectl")
        and "f:suspend" in get(entry, "fieldsV1", "f:spec", default={})
    ]


# Reconciling ------------------------------------------------------------------------------------


async def request_round(transport: Transport, target: Target, now: datetime) -> str:
    """Ask for a round; return the request's value, which the status will confirm.

    Raises ApiError.
    """
    value = now.isoformat()  # to the microsecond: another value is another request
    await _patch(transport, target, {"metadata": {"annotations": {RECONCILE_AT: value}}})
    return value


async def follow_round(
    transport: Transport, clock: Clock, target: Target, value: str, limit: tuple[str, float]
) -> Obj:
    """Return the object once the request is confirmed, or will not be for now.

    `limit` is the longest time, as written and in seconds. Raises TimedOut GK7019 and ApiError.
    """
    text, seconds = limit
    end = clock.monotonic() + seconds
    while True:
        obj = await read(transport, target)
        if confirmed(obj, value) or unanswered(obj, clock.now()):
            return obj
        if clock.monotonic() >= end:
            raise TimedOut(_late(target, text, obj))
        await clock.sleep(min(_PAUSE_S, max(end - clock.monotonic(), 0.0)))


def unanswered(obj: Obj, now: datetime) -> str:
    """Return why the controller does not run rounds of an object: "suspended", "being deleted"."""
    if get(obj, "metadata", "deletionTimestamp"):
        return "being deleted"
    return "suspended" if suspension_of(obj, now) is not None else ""


def confirmed(obj: Obj, value: str) -> bool:
    """Return whether a request was carried out, or a later one of another user."""
    handled = get(obj, "status", "lastHandledReconcileAt", default="")
    return bool(value and handled) and handled in {value, reconcile_request(obj)}


def ready_of(obj: Obj) -> Mapping[str, Any]:
    """Return the condition Ready; {} without one."""
    return condition_of(obj, "Ready") or {}


def _late(target: Target, timeout: str, obj: Obj) -> Finding:
    ready = ready_of(obj)
    seen = f"Ready is {ready['status']}: {ready['message']}" if ready else "it has no status"
    return Finding(
        code="GK7019",
        message=f"{target.kind.lower()} {target.id}: no controller confirmed the round after "
        f"{timeout}",
        notes=(
            ("seen", seen),
            ("unchanged", "the request stays on the object; a controller that runs carries it out"),
            ("next", "gitkruise doctor cluster: does a controller run? Or wait longer: --timeout"),
        ),
    )
