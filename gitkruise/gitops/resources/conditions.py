"""Status of custom resources: conditions as kstatus and Flux read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

from gitkruise.errors import CRASHED, SHORT, Concern, Finding
from gitkruise.gitops.status.codecs import CHART, cut, object_id
from gitkruise.model.gitops.analysis import AnalysisPhase
from gitkruise.model.gitops.config import Suspend, Unit
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import APPROVAL, Rollout, UnitRecord, pod_counts
from gitkruise.model.gitops.unit_state import CHOSEN, State, worst
from gitkruise.model.planning.plan import Event
from gitkruise.model.workloads.conditions import find
from gitkruise.planner.analysis.schedule import blocks, progress_of
from gitkruise.printable import many, shown, visible
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time

INVENTORY_MAX: Final = 2_000  # objects listed; the count is always whole
HISTORY_MAX: Final = 5

# How a state answers Ready, and the reason it gives.
_READY: Final[Mapping[State, tuple[str, str]]] = {
    State.DONE: ("True", "Succeeded"),
    State.HELD: ("True", "Held"),
    State.PAUSED: ("Unknown", "Paused"),
    State.ROLLING: ("Unknown", "Progressing"),
    State.WAITING: ("Unknown", "Progressing"),
    State.STUCK: ("False", "HealthCheckFailed"),
    State.DRIFTED: ("False", "Drifted"),
    State.REJECTED: ("False", "BuildFailed"),
    State.UNKNOWN: ("Unknown", "Progressing"),
}
_HEALTHY: Final = {State.DONE: "True", State.HELD: "True", State.STUCK: "False"}
_MOVING: Final = frozenset({State.ROLLING, State.WAITING, State.UNKNOWN})

# The reason behind a finding, by the beginning of its code; the first that fits.
_REASONS: Final = (
    (CRASHED, "UnexpectedError"), (SHORT, "ResourcesExhausted"),
    ("GK2301", "PruneBlocked"), ("GK2302", "PruneBlocked"), ("GK2303", "PruneBlocked"),
    ("GK2304", "PruneBlocked"), ("GK2305", "PruneBlocked"), ("GK2308", "PruneBlocked"),
    ("GK2310", "PruneBlocked"), ("GK23", "PruneFailed"), ("GK2401", "ConflictDetected"),
    ("GK2402", "OwnershipConflict"), ("GK3503", "Succeeded"), ("GK3", "SourceFailed"),
    ("GK4", "ApplyFailed"), ("GK7007", "SourceFailed"), ("GK7025", "SourceFailed"),
    ("GK7030", "DependencyCycle"), ("GK7", "InvalidSpec"), ("GK", "BuildFailed"),
)  # fmt: skip
# What does not succeed before the object, a right or the program changes; "" for what may.
_STALLS: Final = (
    (CRASHED, "UnexpectedError"),
    ("GK2402", "OwnershipConflict"), ("GK4301", "AccessDenied"), ("GK4302", "AccessDenied"),
    ("GK7030", "DependencyCycle"), ("GK7007", ""), ("GK7025", ""), ("GK70", "InvalidSpec"),
)  # fmt: skip
_SOURCE_REASONS: Final = (
    (CRASHED, "UnexpectedError"), (SHORT, "ResourcesExhausted"),
    ("GK33", "InvalidSignature"), ("GK3102", "AuthenticationFailed"), ("GK3107", "RateLimited"),
    ("GK3201", "RefNotFound"), ("GK3207", "RefNotFound"), ("GK3204", "HistoryRewritten"),
    ("GK70", "InvalidSpec"), ("GK4301", "AuthenticationFailed"), ("GK", "GitOperationFailed"),
)  # fmt: skip
# Why a unit that corrects drift leaves some.
_DRIFTS: Final = (("GK2501", "Contested"),)
_LOOKED_AT: Final = ("pods", "rollouts", "inventory", "digest")
_WAITS: Final = (
    ("a window (", "WindowClosed"), (APPROVAL, "ApprovalRequired"), ("", "DependencyNotReady"),
)  # fmt: skip


class StatusCondition(NamedTuple):
    type: str
    status: str
    reason: str
    message: str


class ConditionContext(NamedTuple):
    """Inputs of a status: the object as last seen, the time, and the request to reconcile
    that was carried out since; "" for none."""

    obj: Obj
    now: datetime
    handled: str = ""


def reason_of(finding: Finding, table: Iterable[tuple[str, str]] = _REASONS) -> str:
    """The word for a finding in conditions."""
    return next((word for start, word in table if finding.code.startswith(start)), "")


def unit_status(
    unit: Unit, record: UnitRecord, unpublished: str | None, context: ConditionContext
) -> Obj:
    """The status of a unit that runs. `unpublished` says why its branch is behind; "" when it is
    not, None without a branch."""
    until = unit.spec.suspended(context.now)
    status: dict[str, Any] = {
        "phase": str(record.state),
        "pods": _pods(record.rollouts),
        "rollouts": [_rollout(rollout) for rollout in record.rollouts],
        "inventory": _inventory(record),
        "digest": _digest(record),
        **_revisions(record),
    }
    if not record.objects:  # nothing was looked at yet: what was last seen stays
        before: Mapping[str, Any] = context.obj.get("status") or {}
        status |= {key: before[key] for key in _LOOKED_AT if key in before}
    if record.chart is not None:
        status["chart"] = CHART.obj(record.chart)
    if record.bases:
        status["bases"] = [asdict(base) for base in record.bases]
    if record.attempted is not None and record.attempted.artifact:
        status["artifact"] = record.attempted.artifact
    applied = record.applied
    if applied is not None:
        status["appliedCommit"] = applied.short
        status["history"] = _history(applied, record, context)
    if isinstance(unit.spec.suspend, Suspend) and until is not None:
        status["suspendedBy"] = _suspension(unit.spec.suspend)
    conditions = [*unit_conditions(record, suspended=until is not None)]
    if unpublished is not None:
        conditions.append(_published(unpublished))
    return _finished(status, conditions, context)


def source_status(
    revision: str, commit: str, problem: Finding | None, context: ConditionContext
) -> Obj:
    """Return the status of a source: its commit, its revision (`main@sha1:…`), and its problem."""
    status: dict[str, Any] = {}
    if revision:
        status["revision"] = revision
        status["commit"] = commit[:7]
    if problem is not None:
        reason = reason_of(problem, _SOURCE_REASONS)
        return _finished(status, _failed(problem, reason), context)
    if not revision:
        moving = StatusCondition("Reconciling", "True", "Progressing", "not looked at yet")
        return _finished(status, [moving._replace(type="Ready", status="Unknown"), moving], context)
    return _finished(
        status, [StatusCondition("Ready", "True", "Succeeded", f"at {revision}")], context
    )


def sink_status(problem: Finding | None, unpublished: str, context: ConditionContext) -> Obj:
    """Return the status of a Sink. `unpublished` says why its branch is behind, "" when it is
    not."""
    if problem is None and unpublished:
        return _finished({}, [_published(unpublished)._replace(type="Ready")], context)
    return plain_status(problem, "what is known is written there", context)


def plain_status(
    problem: Finding | None, message: str, context: ConditionContext, **more: str
) -> Obj:
    """The status of a Sink that is written, or of a Receiver."""
    if problem is not None:
        return _finished(more, _failed(problem, reason_of(problem)), context)
    return _finished(more, [StatusCondition("Ready", "True", "Succeeded", message)], context)


def broken_unit(problem: Finding, context: ConditionContext) -> Obj:
    """The status of a unit that does not run; what it says of the time before stays."""
    before: Mapping[str, Any] = context.obj.get("status") or {}
    kept = {k: v for k, v in before.items() if k not in {"conditions", "observedGeneration"}}
    status = {**kept, "phase": str(broken_state(problem))}
    return _finished(status, _failed(problem, reason_of(problem)), context)


def broken_state(problem: Finding) -> State:
    """Return the state of a unit that does not run."""
    if problem.concern is Concern.REMOTE:
        return State.UNKNOWN  # its commit is as good as it was
    return State.STUCK if problem.concern is Concern.PROGRAM else State.REJECTED


def leaving_unit(message: str, context: ConditionContext) -> Obj:
    """The status of a unit that is being deleted and not gone yet."""
    before: Mapping[str, Any] = context.obj.get("status") or {}
    kept = {k: v for k, v in before.items() if k not in {"conditions", "observedGeneration"}}
    moving = StatusCondition("Reconciling", "True", "Terminating", message)
    return _finished(kept, [moving._replace(type="Ready", status="False"), moving], context)


def events_of(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the Events for a status that replaces another: of its readiness, and of its record that
    cannot be written, or can be again."""
    if (news := event_of(before, after)) is not None:
        yield news
    was, now = (_condition_in(status, "StatusPublished") for status in (before or {}, after))
    if now and now["status"] != was.get("status", "True"):
        kind = "Warning" if now["status"] == "False" else "Normal"
        yield Event(kind, now["reason"], now["message"] or "the record is in git again")


def event_of(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Event | None:
    """Return the Event for a status that replaces another; None where it is no news.

    News are readiness, its reason, and the commit that decides about it. Counts are none.
    """
    ready = _ready(after)
    if _news(before or {}) == _news(after) or (not before and ready.get("status") == "Unknown"):
        return None
    bad = ready["status"] == "False" and ready["reason"] not in CHOSEN
    commit = _deciding(after).rpartition(":")[2][:7]
    kind = "artifact" if after.get("artifact") else "commit"
    at = f" ({kind} {commit})" if commit and not after.get("revision") else ""
    return Event("Warning" if bad else "Normal", ready["reason"], ready["message"] + at)


def _news(status: Mapping[str, Any]) -> tuple[Any, ...]:
    ready = _ready(status)
    return ready.get("status"), ready.get("reason"), _deciding(status)


def _ready(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return _condition_in(status, "Ready")


def _condition_in(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    return find(status.get("conditions", ()), type_) or {}


def _deciding(status: Mapping[str, Any]) -> str:
    """Return the revision that decides: of a source its own, of a unit the last that changed it.

    A unit that is not ready may be so because of a commit that it could not apply.
    """
    ready = _ready(status).get("status") != "False"
    own = status.get("revision") or status.get(
        "causalRevision" if ready else "lastAttemptedRevision"
    )
    return str(own or "")


def revision_of(ref: str, commit: str, artifact: str = "") -> str:
    """`main@sha1:<hex>`, as Flux writes revisions; "" without a commit. Of an artifact it has the
    digest."""
    if artifact:
        digest = artifact.rpartition("@")[2]
        return digest if ref == digest else f"{ref}@{digest}"
    algorithm = "sha256" if len(commit) == 64 else "sha1"
    return f"{ref}@{algorithm}:{commit}" if commit else ""


# Units ------------------------------------------------------------------------------------------


def unit_conditions(record: UnitRecord, *, suspended: bool) -> Iterable[StatusCondition]:
    """Yield the conditions that follow from a unit's record."""
    message = cut(record.message)
    errors = [f for f in record.findings if f.is_error]
    status, reason = _READY[record.state]
    if errors and status != "True":
        status, reason = "False", reason_of(errors[0])
    elif record.state is State.WAITING and record.waits:
        found = (word for start, word in _WAITS if record.waits.startswith(start))
        status, reason = "False", next(found)
    yield StatusCondition("Ready", status, "Suspended" if suspended else reason, message)
    if record.objects:
        health = worst(o.state for o in record.objects)
        yield StatusCondition("Healthy", _HEALTHY.get(health, "Unknown"), _READY[health][1], "")
    if record.state in _MOVING and not suspended:
        retrying = "ProgressingWithRetry" if errors else "Progressing"
        rolling = record.state is State.ROLLING
        yield StatusCondition(
            "Reconciling", "True", "RolloutInProgress" if rolling else retrying, message
        )
    yield from _stalled(errors)
    yield from _held(record)
    yield from _measured(record)
    if record.drift:
        known = filter(None, (reason_of(f, _DRIFTS) for f in record.findings))
        why = "Suspended" if suspended else next(known, "DetectOnly")
        differ = "differs" if len(record.drift) == 1 else "differ"
        yield StatusCondition(
            "Drifted", "True", why, f"{many(len(record.drift), 'field')} {differ} from git"
        )


def _stalled(errors: Sequence[Finding]) -> Iterable[StatusCondition]:
    for finding in errors:
        reason = reason_of(finding, _STALLS)
        if reason:
            yield StatusCondition("Stalled", "True", reason, _text(finding))
            return


def _held(record: UnitRecord) -> Iterable[StatusCondition]:
    for state, reason in ((State.HELD, "PartitionReached"), (State.PAUSED, "Paused")):
        those = [r for r in record.rollouts if r.state is state]
        if those:
            message = "; ".join(f"{r.key.kind} {r.key.name}: {r.message}" for r in those)
            yield StatusCondition("RolloutHeld", "True", reason, cut(message))
            return


def _measured(record: UnitRecord) -> Iterable[StatusCondition]:
    """Yield the outcome of the newest measurements of the unit's promotion."""
    run = record.promotion.analysis if record.promotion is not None else None
    if run is not None:
        status = {
            AnalysisPhase.SUCCESSFUL: "True",
            AnalysisPhase.FAILED: "False",
            AnalysisPhase.ERROR: "False",
        }
        message = f"step {run.step}, revision {run.revision}: {blocks(run) or progress_of(run)}"
        yield StatusCondition(
            "AnalysisSuccessful", status.get(run.phase, "Unknown"), str(run.phase), cut(message)
        )


def _published(why: str) -> StatusCondition:
    if why:
        return StatusCondition("StatusPublished", "False", "PushRejected", cut(why))
    return StatusCondition("StatusPublished", "True", "Published", "")


def _pods(rollouts: Sequence[Rollout]) -> Obj:
    updated, ready, total = pod_counts(rollouts)
    counts = {"updated": updated, "total": total, "ready": ready}
    return {**counts, "summary": f"{updated}/{total}"} if rollouts else {}


def _rollout(r: Rollout) -> Obj:
    return {
        "kind": r.key.kind,
        "namespace": r.key.namespace,
        "name": r.key.name,
        "phase": str(r.state),
        "engine": r.engine,
        "partition": r.partition,
        "updated": r.updated,
        "asked": r.asked,
        "total": r.total,
        "ready": r.ready,
        "updateRevision": r.update_revision,
    }


def _digest(record: UnitRecord) -> str:
    """Of lines with the id and the digest of each object, in their order."""
    lines = sorted(f"{object_id(o.key)} {o.digest}\n" for o in record.objects)
    return f"sha256:{sha256(''.join(lines).encode()).hexdigest()}"


def _inventory(record: UnitRecord) -> Obj:
    ids = sorted(object_id(o.key) for o in record.objects)
    return {"count": len(ids), "entries": [{"id": one} for one in ids[:INVENTORY_MAX]]}


def _revisions(record: UnitRecord) -> dict[str, str]:
    named = {
        "lastAttemptedRevision": record.attempted,
        "lastAppliedRevision": record.applied,
        "causalRevision": record.causal,
    }
    return {
        key: revision_of(record.source, c.id, c.artifact)
        for key, c in named.items()
        if c is not None
    }


def _history(applied: GitCommit, record: UnitRecord, context: ConditionContext) -> list[Obj]:
    """The last applied revisions, newest first."""
    before: list[Obj] = get(context.obj, "status", "history", default=[])
    revision = revision_of(record.source, applied.id, applied.artifact)
    if before and before[0].get("revision") == revision:
        return before
    return [{"revision": revision, "applied": format_time(context.now)}, *before][:HISTORY_MAX]


def _suspension(suspend: Suspend) -> Obj:
    fields = {"by": suspend.by, "reason": suspend.reason, "until": suspend.until}
    return {key: shown(text, 200) for key, text in fields.items() if text}


# All kinds --------------------------------------------------------------------------------------


def _failed(problem: Finding, reason: str) -> list[StatusCondition]:
    conditions = [StatusCondition("Ready", "False", reason, _text(problem))]
    return [*conditions, *_stalled([problem])]


def _finished(
    status: Mapping[str, Any], conditions: Iterable[StatusCondition], context: ConditionContext
) -> Obj:
    generation = get(context.obj, "metadata", "generation", default=0)
    before = {c["type"]: c for c in get(context.obj, "status", "conditions", default=())}
    handled = context.handled or get(context.obj, "status", "lastHandledReconcileAt", default="")
    return {
        "observedGeneration": generation,
        **status,
        **({"lastHandledReconcileAt": handled} if handled else {}),
        "conditions": [_condition(c, before.get(c.type), generation, context) for c in conditions],
    }


def _condition(
    c: StatusCondition, before: Obj | None, generation: int, context: ConditionContext
) -> Obj:
    same = before is not None and before.get("status") == c.status
    since = before.get("lastTransitionTime") if before is not None and same else None
    return {
        "type": c.type,
        "status": c.status,
        "observedGeneration": generation,
        "lastTransitionTime": since or format_time(context.now),
        "reason": c.reason,
        "message": visible(c.message),
    }


def _text(finding: Finding) -> str:
    nexts = [text for label, text in finding.notes if label == "next"]
    return cut("; next: ".join([f"{finding.code}: {finding.message}", *nexts[:1]]))
