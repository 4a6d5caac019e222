"""Built-in workloads at admission: Deployment, ReplicaSet, ReplicationController, StatefulSet,
DaemonSet, Job, CronJob."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.pods.defaults import fill_spec, fresh
from gitkruise.admission.pods.template import template_problems
from gitkruise.admission.rules.engine import (
    Table,
    at_most_all,
    count_or_percent,
    not_negative,
    one_of,
    present,
)
from gitkruise.admission.rules.field_errors import (
    IMMUTABLE,
    Path,
    forbidden,
    invalid,
    required,
    unsupported,
)
from gitkruise.admission.rules.labels import is_empty, selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.go_round_trip import settle
from gitkruise.wire.kruise.template_defaults import Default, Defaults, fill, round_up
from gitkruise.wire.primitives import paths
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.values.cron_schedule import load_zone, parse_schedule
from gitkruise.wire.values.selectors import label_selector

DEPLOYMENT: Final = GroupKind("apps", "Deployment")
REPLICA_SET: Final = GroupKind("apps", "ReplicaSet")
REPLICATION_CONTROLLER: Final = GroupKind("", "ReplicationController")
STATEFUL_SET: Final = GroupKind("apps", "StatefulSet")
DAEMON_SET: Final = GroupKind("apps", "DaemonSet")
JOB: Final = GroupKind("batch", "Job")
CRON_JOB: Final = GroupKind("batch", "CronJob")
KINDS: Final = frozenset(
    {DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB}
)

_SPEC: Final = ("spec",)
_OF_POD: Final = ("spec", "template")
_OF_JOB: Final = ("spec", "jobTemplate", "spec", "template")
_UID: Final = "batch.kubernetes.io/controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_CRON_NAME_LIMIT: Final = 52  # the job's name adds 11 characters
_FOREVER: Final = 2**31 - 1

# apps/v1 and batch/v1 SetDefaults_*
_ROWS: Final[Mapping[GroupKind, tuple[Default, ...]]] = {
    DEPLOYMENT: (
        (_SPEC, "replicas", 1),
        (_SPEC, "strategy", {}),
        (_SPEC, "revisionHistoryLimit", 10),
        (_SPEC, "progressDeadlineSeconds", 600),
    ),
    REPLICA_SET: ((_SPEC, "replicas", 1),),
    REPLICATION_CONTROLLER: ((_SPEC, "replicas", 1),),
    STATEFUL_SET: (
        (_SPEC, "replicas", 1),
        (_SPEC, "podManagementPolicy", "OrderedReady"),
        (_SPEC, "updateStrategy", {}),
        (_SPEC, "revisionHistoryLimit", 10),
        (_SPEC, "persistentVolumeClaimRetentionPolicy", {}),
        (("spec", "persistentVolumeClaimRetentionPolicy"), "whenDeleted", "Retain"),
        (("spec", "persistentVolumeClaimRetentionPolicy"), "whenScaled", "Retain"),
        (("spec", "volumeClaimTemplates", "*"), "apiVersion", "v1"),
        (("spec", "volumeClaimTemplates", "*"), "kind", "PersistentVolumeClaim"),
        (("spec", "volumeClaimTemplates", "*"), "status", {}),
        (("spec", "volumeClaimTemplates", "*", "spec"), "volumeMode", "Filesystem"),
        (("spec", "volumeClaimTemplates", "*", "status"), "phase", "Pending"),
    ),
    DAEMON_SET: ((_SPEC, "updateStrategy", {}), (_SPEC, "revisionHistoryLimit", 10)),
    JOB: (
        (_SPEC, "parallelism", 1),
        (_SPEC, "completionMode", "NonIndexed"),
        (_SPEC, "suspend", False),
        (_SPEC, "manualSelector", False),
        (_SPEC, "podReplacementPolicy", "TerminatingOrFailed"),
    ),
    CRON_JOB: (
        (_SPEC, "concurrencyPolicy", "Allow"),
        (_SPEC, "suspend", False),
        (_SPEC, "successfulJobsHistoryLimit", 3),
        (_SPEC, "failedJobsHistoryLimit", 1),
    ),
}
_DEFAULTS: Final = {kind: Defaults(rows) for kind, rows in _ROWS.items()}
# (field of the strategy, what a RollingUpdate starts with)
_STRATEGIES: Final[Mapping[GroupKind, tuple[str, Mapping[str, Any]]]] = {
    DEPLOYMENT: ("strategy", {"maxUnavailable": "25%", "maxSurge": "25%"}),
    STATEFUL_SET: ("updateStrategy", {"partition": 0}),
    DAEMON_SET: ("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),
}
_OTHER_TYPE: Final = {DEPLOYMENT: "Recreate", STATEFUL_SET: "OnDelete", DAEMON_SET: "OnDelete"}
_NUMBERS: Final = (
    "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds", "parallelism",
    "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
    "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit",
)  # fmt: skip
_RULES: Final = Table(
    ((_NUMBERS,), (not_negative,)),
    (("podManagementPolicy",), (one_of("OrderedReady", "Parallel"),)),
    (("ordinals", "start"), (not_negative,)),
    (
        ("persistentVolumeClaimRetentionPolicy", ("whenDeleted", "whenScaled")),
        (one_of("Retain", "Delete"),),
    ),
    (("completionMode",), (one_of("NonIndexed", "Indexed"),)),
    (("concurrencyPolicy",), (one_of("Allow", "Forbid", "Replace"),)),
)
_RESTARTS: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    JOB: ("Never", "OnFailure"),
    CRON_JOB: ("Never", "OnFailure"),
}
# fields an update may not change, and StatefulSet's that it may
_FROZEN: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    DEPLOYMENT: ("selector",),
    REPLICA_SET: ("selector",),
    DAEMON_SET: ("selector",),
    JOB: ("completions", "selector", "completionMode"),
}
_SET_MAY_CHANGE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def default_workload(request: AdmissionRequest, _gates: Gates) -> Obj:
    """The workload as a kube-apiserver keeps it. Raises Malformed on a bad amount."""
    kind = request.key.group_kind
    if request.old is not None and request.old.get("spec") == request.new.get("spec"):
        return _finish(request, request.new)
    out: dict[str, Any] = {**request.new, "spec": fresh(request.new.get("spec") or {})}
    _type_parts(kind, out)
    fill(out, _DEFAULTS[kind])
    _fill_strategy(kind, out["spec"])
    if kind == JOB:
        _fill_job(request, out["spec"])
    amounts = ("spec", "volumeClaimTemplates", "*", "spec", "resources", ("limits", "requests"))
    round_up(out, (amounts,))
    return _finish(request, out)


def _finish(request: AdmissionRequest, obj: Obj) -> Obj:
    """`obj` with the metadata that the server derives from its spec."""
    if request.key.group_kind == JOB:
        return _labelled(obj)
    if request.key.group_kind == REPLICATION_CONTROLLER:
        return _labelled(_selecting(obj))
    return _counted(request.old, obj) if request.key.group_kind == DAEMON_SET else obj


def _counted(old: Obj | None, obj: Obj) -> Obj:
    """A DaemonSet counts its templates in an annotation. Source: daemonSetStrategy."""
    at = ("metadata", "annotations", TEMPLATE_GENERATION)
    known = int_or_none(paths.get(obj if old is None else old, *at), 64) or 0
    changed = old is not None and paths.get(old, *_OF_POD) != paths.get(obj, *_OF_POD)
    number = str(known + 1 if changed else max(known, 1))
    counted: Obj = paths.put(obj, at, number)
    return obj if paths.get(obj, *at) == number else counted


def _labelled(obj: Obj) -> Obj:
    """A Job or ReplicationController without labels has those of its pods (SetDefaults_Job)."""
    labels = paths.get(obj, "spec", "template", "metadata", "labels")
    if not labels or obj["metadata"].get("labels"):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def _selecting(controller: Obj) -> Obj:
    """A ReplicationController without a selector selects the labels of its template."""
    labels = paths.get(controller, "spec", "template", "metadata", "labels")
    if not labels or paths.get(controller, "spec", "selector"):
        return controller
    found: Obj = paths.put(controller, ("spec", "selector"), labels)
    return found


def _type_parts(kind: GroupKind, out: dict[str, Any]) -> None:
    """Bring claim templates and the pod template into the server's form, in place."""
    claims = out["spec"].get("volumeClaimTemplates")
    if claims:
        out["spec"]["volumeClaimTemplates"] = [settle("PersistentVolumeClaim", c) for c in claims]
    *steps, last = _template_path(kind)
    holder = paths.get(out, *steps)
    if holder is not None and holder.get(last) is not None:
        holder[last] = settle("PodTemplateSpec", holder[last])
        fill_spec(holder[last]["spec"], is_pod=False)


def _template_path(kind: GroupKind) -> tuple[str, ...]:
    return _OF_JOB if kind == CRON_JOB else ("spec", "template")


def _fill_strategy(kind: GroupKind, spec: dict[str, Any]) -> None:
    if kind not in _STRATEGIES:
        return
    field, rolling = _STRATEGIES[kind]
    strategy = spec[field]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**rolling, **strategy.get("rollingUpdate", {})}


def _fill_job(request: AdmissionRequest, spec: dict[str, Any]) -> None:
    """Counts, and on create the selector and labels the server generates from the uid."""
    if "completions" not in spec and "parallelism" not in (request.obj or {}).get("spec", {}):
        spec["completions"] = 1
    spec.setdefault("backoffLimit", _FOREVER if "backoffLimitPerIndex" in spec else 6)
    uid = paths.get(request.obj, "metadata", "uid")
    if request.old is not None or spec["manualSelector"] or not uid:
        return
    generated = {
        _UID: uid,
        _NAME: request.key.name,
        "controller-uid": uid,
        "job-name": request.key.name,
    }
    meta = spec.setdefault("template", {}).setdefault("metadata", {})
    meta["labels"] = {**meta.get("labels", {}), **generated}
    spec.setdefault("selector", {"matchLabels": {_UID: uid}})


def workload_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Validate a workload as Kubernetes' apps and batch validation does, with its field paths."""
    kind = request.key.group_kind
    spec: Obj = request.new.get("spec") or {}
    before: Obj | None = (request.old.get("spec") or {}) if request.old is not None else None
    if before is not None and before == spec:
        return
    yield from _RULES.problems(spec, _SPEC)
    if kind == CRON_JOB:
        yield from _cron_problems(request, spec)
    else:
        yield from _selector_problems(kind, spec)
    yield from _template_problems(kind, request.new)
    yield from _strategy_problems(kind, spec)
    if before is not None:
        yield from _change_problems(kind, before, spec)


def _selector_problems(kind: GroupKind, spec: Obj) -> Iterator[Problem]:
    at: Path = ("spec", "selector")
    selector = spec.get("selector")
    if kind == REPLICATION_CONTROLLER:
        selector = {"matchLabels": selector} if selector else None
    at_labels = ("spec", "template", "metadata", "labels")
    labels = paths.get(spec, "template", "metadata", "labels", default=None)
    unmatched = invalid(at_labels, labels, "`selector` does not match template `labels`")
    if selector is None:
        yield from (required(at), unmatched)
        return
    found = list(selector_problems(selector, at))
    yield from found
    if found:
        return
    if is_empty(selector):
        yield invalid(at, selector, f"empty selector is invalid for {kind.kind.lower()}")
        return
    if not label_selector(selector).matches(labels or {}):
        yield unmatched


def _template_problems(kind: GroupKind, obj: Obj) -> Iterator[Problem]:
    at = _template_path(kind)
    template: Obj = paths.get(obj, *at, default={})
    claims = paths.get(obj, "spec", "volumeClaimTemplates", default=())
    names = [paths.get(claim, "metadata", "name", default="") for claim in claims]
    taken = {volume.get("name") for volume in paths.get(template, "spec", "volumes", default=())}
    added = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in names
        if name not in taken  # a claim hides the template's volume of its name
    ]
    if added:
        volumes = [*paths.get(template, "spec", "volumes", default=()), *added]
        template = paths.put(template, ("spec", "volumes"), volumes)
    yield from template_problems(template, at)
    allowed = _RESTARTS.get(kind, ("Always",))
    policy = paths.get(template, "spec", "restartPolicy")
    if policy and policy not in allowed:
        yield unsupported((*at, "spec", "restartPolicy"), policy, allowed)
    if kind not in _RESTARTS and paths.get(template, "spec", "activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind.kind} is not Supported"
        yield forbidden((*at, "spec", "activeDeadlineSeconds"), text)


def _strategy_problems(kind: GroupKind, spec: Obj) -> Iterator[Problem]:
    if kind not in _STRATEGIES:
        return
    field = _STRATEGIES[kind][0]
    at, strategy = (*_SPEC, field), spec.get(field) or {}
    rolling, chosen = strategy.get("rollingUpdate"), strategy.get("type")
    if chosen not in ("RollingUpdate", _OTHER_TYPE[kind]):
        yield unsupported((*at, "type"), chosen, ("RollingUpdate", _OTHER_TYPE[kind]))
    if chosen == _OTHER_TYPE[kind] and rolling is not None and kind != DAEMON_SET:
        text = f"may not be specified when strategy `type` is '{chosen}'"
        yield forbidden((*at, "rollingUpdate"), text)
    elif chosen == "RollingUpdate" and rolling:
        yield from _rolling_problems(kind, rolling, (*at, "rollingUpdate"))
    deadline, ready_s = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready_s and deadline != _FOREVER:
        text = "must be greater than minReadySeconds"
        yield invalid(("spec", "progressDeadlineSeconds"), deadline, text)


def _rolling_problems(kind: GroupKind, rolling: Obj, at: Path) -> Iterator[Problem]:
    zeros = 0
    for field in ("maxUnavailable", "maxSurge"):
        value = rolling.get(field)
        if value is None:
            continue
        zeros += value in (0, "0%")
        yield from count_or_percent(value, (*at, field))
    if kind == DAEMON_SET:
        yield from _daemon_problems(rolling, at, zeros)
    elif zeros == 2 and kind == DEPLOYMENT:
        text = "may not be 0 when `maxSurge` is 0"
        yield invalid((*at, "maxUnavailable"), rolling["maxUnavailable"], text)
    yield from at_most_all(rolling.get("maxUnavailable"), (*at, "maxUnavailable"))
    yield from not_negative(rolling.get("partition"), (*at, "partition"))


def _daemon_problems(rolling: Obj, at: Path, zeros: int) -> Iterator[Problem]:
    """ValidateRollingUpdateDaemonSet: pods surge or are unavailable, never both."""
    yield from at_most_all(rolling.get("maxSurge"), (*at, "maxSurge"))
    if zeros == 0:
        text = "may not be set when maxUnavailable is non-zero"
        yield invalid((*at, "maxSurge"), rolling.get("maxSurge"), text)
    elif zeros == 2:
        yield required((*at, "maxUnavailable"), "cannot be 0 when maxSurge is 0")


def _cron_problems(request: AdmissionRequest, spec: Obj) -> Iterator[Problem]:
    schedule = spec.get("schedule") or ""
    yield from present(schedule, ("spec", "schedule"))
    if schedule:
        yield from _schedule_problems(request, schedule, spec.get("timeZone"))
    yield from _zone_problems(spec.get("timeZone"), ("spec", "timeZone"))
    if request.old is None and len(request.key.name) > _CRON_NAME_LIMIT:
        text = f"must be no more than {_CRON_NAME_LIMIT} characters"
        yield invalid(("metadata", "name"), request.key.name, text)


def _schedule_problems(
    request: AdmissionRequest, schedule: str, zone: str | None
) -> Iterator[Problem]:
    """validateScheduleFormat: zones in schedules are kept where they were before."""
    at = ("spec", "schedule")
    try:
        parse_schedule(schedule)
    except ValueError as error:
        yield invalid(at, schedule, str(error))
    if "TZ" not in schedule:
        return
    if "TZ" not in (paths.get(request.old, *at) or ""):
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(at, schedule, text)
    elif zone is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid(at, schedule, text)


def _zone_problems(zone: str | None, at: Path) -> Iterator[Problem]:
    """validateTimeZone."""
    if zone is None:
        return
    if not zone:
        yield invalid(at, zone, "timeZone must be nil or non-empty string")
        return
    parts = zone.split("/")
    if not all(_ZONE_PART.fullmatch(p) and p not in (".", "..") and p[0] != "-" for p in parts):
        yield invalid(at, zone, f"unknown time zone {zone}")
        return
    if zone.lower() == "local":
        text = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        yield invalid(at, zone, text)
    try:
        load_zone(zone)
    except ValueError as error:
        yield invalid(at, zone, str(error))


def _change_problems(kind: GroupKind, before: Obj, after: Obj) -> Iterator[Problem]:
    for field in _FROZEN.get(kind, ()):
        if field == "completions" and _is_elastic(after):
            continue
        if before.get(field) != after.get(field):
            yield invalid(("spec", field), after.get(field), IMMUTABLE)
    if (
        kind == JOB
        and not before.get("suspend")
        and before.get("template") != after.get("template")
    ):
        yield invalid(("spec", "template"), after.get("template"), IMMUTABLE)
    if kind == STATEFUL_SET and _rest(before) != _rest(after):
        listed = ", ".join(f"'{name}'" for name in _SET_MAY_CHANGE[:-1])
        text = (
            "updates to statefulset spec for fields other than "
            f"{listed} and '{_SET_MAY_CHANGE[-1]}' are forbidden"
        )
        yield forbidden(_SPEC, text)


def _is_elastic(spec: Obj) -> bool:
    """An indexed job that grows and shrinks with its parallelism."""
    count = spec.get("completions")
    return spec.get("completionMode") == "Indexed" and count == spec.get("parallelism")


def _rest(spec: Obj) -> Obj:
    return {key: value for key, value in spec.items() if key not in _SET_MAY_CHANGE}
