"""Fields of the records on the status branch: one table each for writing and for reading back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from gitkruise.model.gitops.analysis import AnalysisPhase, AnalysisRun, Measurement, MetricResult
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.gitops.record import (
    BaseRecord,
    ChartRecord,
    DriftRecord,
    Intervention,
    RolloutStep,
)
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import format_time, parse_time

MESSAGE_MAX: Final = 1024
_REQUIRED: Final = object()
_Record = TypeVar("_Record")


class Form(NamedTuple):
    """Form of a value in a file. `read` raises ValueError, KeyError or TypeError."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class RecordField(NamedTuple):
    """A field that every file has, also an empty one; or, with a default, none that is empty."""

    name: str
    form: Form
    default: Any = _REQUIRED  # the value of a missing field
    attr: str = ""  # of the record, where it differs from `name`


class Codec(Generic[_Record]):
    """Writer and reader of one kind of record."""

    def __init__(self, record: Callable[..., _Record], *fields: RecordField) -> None:
        self._record, self._fields = record, fields

    def obj(self, record: _Record) -> dict[str, Any]:
        """Return a record as it is in the file."""
        pairs = ((f, f.form.write(getattr(record, f.attr or f.name))) for f in self._fields)
        return {f.name: v for f, v in pairs if f.default is _REQUIRED or not _empty(v)}

    def read(self, raw: Mapping[str, Any], **given: Any) -> _Record:
        """Return the record of a file, with `given`, the fields that the file lacks.

        Raises KeyError, ValueError or TypeError: anyone may have written the file.
        """
        for name, form, default, attr in self._fields:
            missing = default is not _REQUIRED and name not in raw
            given[attr or name] = default if missing else form.read(raw[name])
        return self._record(**given)


def lean(pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty values: null, "", [] and {}."""
    return {name: value for name, value in pairs.items() if not _empty(value)}


def _empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def cut(text: str) -> str:
    """Return a text within the length of a message."""
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1] + "…"


def object_id(key: ObjectKey) -> str:
    """Return `<namespace>_<name>_<group>_<kind>`, the inventory id that other tools can parse."""
    return f"{key.namespace}_{key.name}_{key.group}_{key.kind}"


def key_of_id(text: str) -> ObjectKey:
    """Return the key of `<namespace>_<name>_<group>_<kind>`; names contain no underscore."""
    namespace, name, group, kind = text.split("_")
    return ObjectKey(group, kind, namespace, name)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a file. Raises ValueError where it is no mapping."""
    if not isinstance(value, Mapping):
        raise ValueError("not a record of gitkruise")  # noqa: TRY004  a wrong file, not a wrong call
    return value


def _instant(value: Any) -> datetime:
    found = parse_time(str(value))
    if found is None:
        raise ValueError("a time is missing")
    return found


def _nested(codec: Codec[Any], **given: Any) -> Form:
    return Form(
        lambda record: codec.obj(record) if record else None,
        lambda raw: codec.read(raw, **given) if raw else None,
    )


def _listed(codec: Codec[Any]) -> Form:
    return Form(
        lambda records: [codec.obj(record) for record in records],
        lambda raw: tuple(codec.read(as_mapping(one)) for one in raw or ()),
    )


_TEXT: Final = Form(str, str)
_MESSAGE: Final = Form(cut, str)
_COUNT: Final = Form(int, int)
_INSTANT: Final = Form(format_time, _instant)
_TIME: Final = Form(lambda at: format_time(at) if at else "", lambda raw: parse_time(str(raw)))
_KEY: Final = Form(object_id, lambda raw: key_of_id(str(raw)))
_STATE: Final = Form(str, State)
_PHASE: Final = Form(str, AnalysisPhase)
_DIGEST: Final = Form("sha256:{}".format, lambda raw: str(raw).removeprefix("sha256:"))

COMMIT: Final = Codec(
    GitCommit, RecordField("id", _TEXT), RecordField("subject", _TEXT, ""),
    RecordField("author", _TEXT, ""), RecordField("time", _TIME, None),
    RecordField("artifact", _TEXT, ""),
)  # fmt: skip
CHART: Final = Codec(
    ChartRecord, RecordField("repository", _TEXT), RecordField("name", _TEXT),
    RecordField("version", _TEXT), RecordField("digest", _DIGEST),
)  # fmt: skip
BASE: Final = Codec(
    BaseRecord, RecordField("url", _TEXT), RecordField("ref", _TEXT), RecordField("commit", _TEXT),
)  # fmt: skip
# Without its object, which the file names in words.
DRIFT: Final = Codec(
    DriftRecord, RecordField("field", _TEXT), RecordField("git", _TEXT, ""),
    RecordField("live", _TEXT, ""), RecordField("manager", _TEXT, ""),
    RecordField("written", _TEXT, ""),
)  # fmt: skip
INTERVENTION: Final = Codec(
    Intervention, RecordField("time", _INSTANT, attr="at"), RecordField("object", _KEY, attr="key"),
    RecordField("reason", _TEXT), RecordField("message", _MESSAGE, "", attr="text"),
)  # fmt: skip
_STEP: Final = Codec(
    RolloutStep, RecordField("change", _TEXT, ""), RecordField("revision", _TEXT, ""),
    RecordField("partition", _TEXT, "0"), RecordField("asked", _COUNT, 0),
    RecordField("replicas", _COUNT, 0), RecordField("updated", _COUNT, 0),
    RecordField("state", _STATE), RecordField("started", _INSTANT),
    RecordField("done", _TIME, None), RecordField("message", _MESSAGE, ""),
)  # fmt: skip
_MEASUREMENT: Final = Codec(
    Measurement, RecordField("time", _INSTANT, attr="at"), RecordField("phase", _PHASE),
    RecordField("value", _MESSAGE, ""), RecordField("message", _MESSAGE, ""),
)  # fmt: skip
_METRIC: Final = Codec(
    MetricResult, RecordField("name", _TEXT), RecordField("phase", _PHASE),
    RecordField("successful", _COUNT, 0), RecordField("failed", _COUNT, 0),
    RecordField("inconclusive", _COUNT, 0), RecordField("error", _COUNT, 0),
    RecordField("consecutiveError", _COUNT, 0, attr="consecutive_error"),
    RecordField("message", _MESSAGE, ""), RecordField("measurements", _listed(_MEASUREMENT), ()),
)  # fmt: skip
# For users only: its mark, which decides, is not in the file.
ANALYSIS: Final = Codec(
    AnalysisRun, RecordField("revision", _TEXT), RecordField("step", _COUNT),
    RecordField("phase", _PHASE), RecordField("pods", _COUNT, 0),
    RecordField("message", _MESSAGE, ""), RecordField("started", _INSTANT),
    RecordField("finished", _TIME, None), RecordField("note", _MESSAGE, ""),
    RecordField("metrics", _listed(_METRIC), ()),
)  # fmt: skip
PROMOTION: Final = Codec(
    PromotionRecord, RecordField("object", _KEY, attr="key"), RecordField("step", _COUNT),
    RecordField("steps", _COUNT), RecordField("next", _TEXT, ""), RecordField("due", _TIME, None),
    RecordField("why", _MESSAGE, ""), RecordField("offered", _TEXT, ""),
    RecordField("note", _MESSAGE, ""), RecordField("analysis", _nested(ANALYSIS, mark=""), None),
)  # fmt: skip


def step_obj(step: RolloutStep) -> dict[str, Any]:
    """Return one step as it is in the file, next to its commit; `read_step` reads it back."""
    commit = COMMIT.obj(step.commit)
    commit.pop("artifact", None)
    return {"commit": commit.pop("id"), **commit, **_STEP.obj(step)}


def read_step(raw: Mapping[str, Any]) -> RolloutStep:
    """Parse one step. Raises KeyError, ValueError or TypeError."""
    commit = {name: raw.get(name, "") for name in ("subject", "author", "time")}
    return _STEP.read(raw, commit=COMMIT.read(commit | {"id": raw["commit"]}))
