"""Plan of one round: actions, held pods with reasons, status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from gitkruise.errors import GitkruiseError, Retry
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.primitives.requests import MERGE_PATCH


class Event(msgspec.Struct, frozen=True, gc=False):
    """A Kubernetes event to record about `Plan.subject` (reasons are OpenKruise's)."""

    type: str  # Normal | Warning
    reason: str
    message: str


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Create `obj` (apiVersion, kind, metadata and all). `claims` are created before it."""

    obj: Obj
    claims: tuple[Obj, ...] = ()
    wave: int = 0  # slow start: wave n is sent when wave n-1 succeeded
    done: Event | None = None
    failed: Event | None = None  # the executor appends the server's words


class PatchStep(msgspec.Struct, frozen=True, kw_only=True):
    """One write of a Patch: `body` is a patch of the flavour `content_type`."""

    body: Mapping[str, Any]
    content_type: str = MERGE_PATCH
    subresource: str = ""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Change one object in ordered steps, each valid only while its preconditions hold.

    Of a pod, `seen` is what the decision rested on (`model.preconditions`): a write that meets a
    newer object is repeated while that holds. Without `seen` the steps are bound to uid and
    resourceVersion. What does not hold any more ends the action and wakes the key: we plan again
    rather than retry on a stale decision. `spends`: the pod leaves service by it.
    `version` is the API version the steps speak.
    """

    key: ObjectKey
    version: str
    uid: str
    resource_version: str
    steps: tuple[PatchStep, ...]
    seen: PodFacts | None = None
    spends: bool = False
    done: Event | None = None
    failed: Event | None = None

    @classmethod
    def of(
        cls,
        raw: Obj,
        body: Mapping[str, Any],
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
        done: Event | None = None,
        failed: Event | None = None,
    ) -> Patch:
        """Change a raw object as it was observed, in one step."""
        step = PatchStep(body=body, subresource=subresource, content_type=content_type)
        return cls(**_observed(raw), steps=(step,), done=done, failed=failed)


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete one object; uid and resourceVersion ("": any) go along as preconditions.

    With `seen` a deletion that meets a newer version of the pod is repeated while what the
    decision rested on holds.
    """

    key: ObjectKey
    version: str
    uid: str
    resource_version: str
    seen: PodFacts | None = None
    propagation: str = ""  # "" is the server's default
    then: tuple[Delete, ...] = ()  # deleted after it, for example its claims
    done: Event | None = None
    failed: Event | None = None

    @classmethod
    def of(cls, raw: Obj, **rest: Any) -> Delete:
        """Delete a raw object as it was observed; `rest` are further fields, or replace some."""
        return cls(**{**_observed(raw), **rest})


def _observed(raw: Obj) -> dict[str, Any]:
    """The fields by which an action names one version of a raw object."""
    meta, (_, version) = raw["metadata"], split_api_version(raw["apiVersion"])
    return {
        "key": key_of(raw),
        "version": version,
        "uid": meta.get("uid") or "",
        "resource_version": meta.get("resourceVersion") or "",
    }


Action: TypeAlias = Create | Patch | Delete


class Hold(StrEnum):
    """A reason why a round leaves a pod unchanged, in words that users see."""

    PARTITION = "PartitionReached"  # git asks for no more
    PAUSED = "Paused"
    ON_DELETE = "OnDelete"  # updated when it is deleted
    BUDGET = "MaxUnavailable"  # enough pods are down already
    NEW_NOT_READY = "UpdatedPodsNotReady"  # pods already updated must become available first
    GRACE = "GracePeriod"  # waiting between not-ready and the new image
    HOOK = "LifecycleHook"  # a handler label or finalizer still blocks
    UPDATING = "UpdateInProgress"  # its containers are being replaced
    TERMINATING = "Terminating"
    DELETE_BUDGET = "DeleteWaitsForAvailability"
    UNAVAILABLE_BUDGET = "PodUnavailableBudget"  # one that lets no more pods go now
    SCALE_FIRST = "ScalingFirst"  # scale and update never share a round
    CANNOT_UPDATE = "CannotUpdateInPlace"  # InPlaceOnly and the change needs a new pod
    SURGE = "WaitsForSurgePod"
    INJECT_ONLY = "NotUpdate"  # a SidecarSet that never changes running pods
    NOT_SELECTED = "NotSelected"  # updateStrategy.selector does not match


class HeldPod(msgspec.Struct, frozen=True, gc=False):
    """One pod left alone; `detail` completes the sentence (a hook's name, a remaining time)."""

    pod: str
    why: Hold
    detail: str = ""


Reason: TypeAlias = tuple[Hold, str]  # why, and the detail
Holds: TypeAlias = Mapping[Reason, frozenset[str]]  # pods left alone, by why


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a round. Actions are independent of each other and run in this order.

    `holds` are the pods left alone, by their reason: one is shared by nearly all of them.
    `status` is the whole new status, or None when nothing worth writing changed; it is written
    after the actions, from what was observed and never from what was intended.
    `wake_at` is when to look again without a change; None: wait for a change.
    `problem` is an error to retry with back-off after the actions ran.
    `conclude`, where there is one, makes the status from the actions' outcomes; the executor
    writes what `status_after` says.
    """

    actions: tuple[Action, ...] = ()
    holds: Holds = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    status: Mapping[str, Any] | None = None
    wake_at: datetime | None = None
    problem: GitkruiseError | None = None
    conclude: Callable[[Sequence[Outcome]], Mapping[str, Any] | None] | None = None

    @property
    def held(self) -> tuple[HeldPod, ...]:
        """Pods left alone, in name order."""
        found = [HeldPod(pod, *reason) for reason, pods in self.holds.items() for pod in pods]
        return tuple(sorted(found, key=attrgetter("pod")))

    def status_after(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any] | None:
        """The whole status to write once the actions ended in `outcomes`; None: nothing new."""
        return self.conclude(outcomes) if self.conclude else self.status


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The action (or all its steps) went through; `replies` are the objects as stored."""

    action: Action
    replies: tuple[Obj, ...] = ()


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The server said no and would again; `error` carries its words."""

    action: Action
    error: GitkruiseError

    @property
    def text(self) -> str:
        """The action's sentence for a failure, and the server's words."""
        failed = self.action.failed
        return f"{failed.message if failed else ''}{self.error}"


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """The object moved since we looked, or is gone: plan again."""

    action: Action
    error: GitkruiseError


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Not tried, because an earlier wave failed."""

    action: Action
    why: str = "an earlier wave failed"


Outcome: TypeAlias = Applied | Refused | Stale | Skipped


def expired(gone: Delete, ended: datetime | None, ttl_s: int | None, now: datetime) -> Plan:
    """Plan the deletion of what has lived for its TTL after its end; nothing without either."""
    if ended is None or ttl_s is None:
        return Plan()
    at = ended + timedelta(seconds=ttl_s)
    return Plan(wake_at=at) if now < at else Plan(actions=(gone,))


def _what(action: Action) -> str:
    key = key_of(action.obj) if isinstance(action, Create) else action.key
    return f"{key.kind} {key.name}"


def event_for(outcome: Outcome) -> Event | None:
    """The event to record: success, or rejection with the server's message; none if stale.

    A rejection that would come again is recorded of every action: without its words a user sees an
    object that does not move, and no cause.
    """
    match outcome:
        case Applied(action=action):
            return action.done
        case Refused(action=action) if action.failed is not None:
            return Event(action.failed.type, action.failed.reason, outcome.text)
        case Refused(action=action, error=error) if error.retry is Retry.NEVER:
            verb = type(action).__name__
            return Event(
                "Warning", f"Failed{verb}", f"could not {verb.lower()} {_what(action)}: {error}"
            )
        case _:
            return None
