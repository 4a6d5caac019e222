"""Parser of records on the status branch: steps after a restart, histories for users."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gitkruise.git.parsing.documents import parse_file
from gitkruise.model.gitops.analysis import AnalysisPhase, AnalysisRun, Measurement, MetricResult
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.gitops.record import BaseRecord, ChartRecord, Intervention, RolloutStep
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import parse_time


def key_of_id(text: str) -> ObjectKey:
    """Return the key of `<namespace>_<name>_<group>_<kind>`; names contain no underscore."""
    namespace, name, group, kind = text.split("_")
    return ObjectKey(group, kind, namespace, name)


def read_yaml(data: bytes, file: str = "record") -> Mapping[str, Any]:
    """Parse one of our files, which anyone may have written. Raises ValueError on anything else."""
    parsed = parse_file(data, file)
    if not parsed.ok or len(parsed.documents) != 1:
        raise ValueError(f"{file} is not one YAML document")
    return _mapping(parsed.documents[0].obj)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("not a record of gitkruise")  # noqa: TRY004  a wrong file, not a wrong call
    return value


def read_rollout(data: bytes) -> tuple[ObjectKey, tuple[RolloutStep, ...]]:
    """Return (object, its steps) of a rollouts/*.yaml file. Raises ValueError on a foreign file."""
    raw = read_yaml(data)
    try:
        key = key_of_id(str(raw["object"]))
        return key, tuple(_step(_mapping(step)) for step in raw.get("steps") or ())
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a rollout record: {error}") from error


def _step(raw: Mapping[str, Any]) -> RolloutStep:
    started = parse_time(str(raw["started"]))
    if started is None:
        raise ValueError("a step without a start")
    return RolloutStep(
        commit=read_commit(
            {k: raw.get(k, "") for k in ("subject", "author", "time")} | {"id": raw["commit"]}
        ),
        change=str(raw.get("change", "")),
        revision=str(raw.get("revision", "")),
        partition=str(raw.get("partition", "0")),
        asked=int(raw.get("asked", 0)),
        replicas=int(raw.get("replicas", 0)),
        started=started,
        state=State(raw["state"]),
        updated=int(raw.get("updated", 0)),
        done=parse_time(str(raw.get("done", ""))),
        message=str(raw.get("message", "")),
    )


def read_interventions(data: bytes) -> tuple[Intervention, ...]:
    """Parse an interventions.yaml file. Raises ValueError on a foreign file."""
    try:
        return tuple(map(_intervention, read_yaml(data).get("interventions") or ()))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a record of interventions: {error}") from error


def _intervention(raw: Mapping[str, Any]) -> Intervention:
    at = parse_time(str(raw["time"]))
    if at is None:
        raise ValueError("an intervention without a time")
    key, reason = key_of_id(str(raw["object"])), str(raw["reason"])
    return Intervention(at=at, key=key, reason=reason, text=str(raw.get("message", "")))


def read_commit(raw: Mapping[str, Any]) -> GitCommit:
    """Parse a commit of a record file."""
    return GitCommit(
        id=str(raw["id"]),
        subject=str(raw.get("subject", "")),
        author=str(raw.get("author", "")),
        time=parse_time(str(raw.get("time", ""))),
        artifact=str(raw.get("artifact", "")),
    )


def read_chart(raw: Mapping[str, Any]) -> ChartRecord:
    """Parse a chart of status.yaml. Raises KeyError."""
    return ChartRecord(
        repository=str(raw["repository"]),
        name=str(raw["name"]),
        version=str(raw["version"]),
        digest=str(raw["digest"]).removeprefix("sha256:"),
    )


def read_base(raw: Mapping[str, Any]) -> BaseRecord:
    """Parse a remote base of status.yaml. Raises KeyError."""
    return BaseRecord(url=str(raw["url"]), ref=str(raw["ref"]), commit=str(raw["commit"]))


def read_promotion(raw: Mapping[str, Any]) -> PromotionRecord:
    """Parse a promotion of status.yaml. Raises KeyError, ValueError or TypeError."""
    return PromotionRecord(
        key=key_of_id(str(raw["object"])),
        step=int(raw["step"]),
        steps=int(raw["steps"]),
        next=str(raw.get("next", "")),
        due=parse_time(str(raw.get("due", ""))),
        why=str(raw.get("why", "")),
        offered=str(raw.get("offered", "")),
        note=str(raw.get("note", "")),
        analysis=read_analysis(raw["analysis"]) if raw.get("analysis") else None,
    )


def read_analysis(raw: Mapping[str, Any]) -> AnalysisRun:
    """Parse a run of measurements, for users only: its mark, which decides, is not in the file.

    Raises KeyError, ValueError or TypeError.
    """
    return AnalysisRun(
        mark="",
        revision=str(raw["revision"]),
        step=int(raw["step"]),
        phase=AnalysisPhase(raw["phase"]),
        pods=int(raw.get("pods", 0)),
        message=str(raw.get("message", "")),
        started=_instant(raw["started"]),
        finished=parse_time(str(raw.get("finished", ""))),
        note=str(raw.get("note", "")),
        metrics=tuple(_metric(_mapping(one)) for one in raw.get("metrics") or ()),
    )


def _metric(raw: Mapping[str, Any]) -> MetricResult:
    return MetricResult(
        name=str(raw["name"]),
        phase=AnalysisPhase(raw["phase"]),
        successful=int(raw.get("successful", 0)),
        failed=int(raw.get("failed", 0)),
        inconclusive=int(raw.get("inconclusive", 0)),
        error=int(raw.get("error", 0)),
        consecutive_error=int(raw.get("consecutiveError", 0)),
        message=str(raw.get("message", "")),
        measurements=tuple(_measurement(_mapping(m)) for m in raw.get("measurements") or ()),
    )


def _measurement(raw: Mapping[str, Any]) -> Measurement:
    return Measurement(
        at=_instant(raw["time"]),
        phase=AnalysisPhase(raw["phase"]),
        value=str(raw.get("value", "")),
        message=str(raw.get("message", "")),
    )


def _instant(value: Any) -> datetime:
    found = parse_time(str(value))
    if found is None:
        raise ValueError("a measurement without a time")
    return found
