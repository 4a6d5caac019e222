"""Rows of Jobs and CronJobs, which have cells that depend on the present instant."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gitkruise.sandbox.tables.cells import Cell, age, human_duration, since
from gitkruise.sandbox.tables.printed_kinds import NONE, of_template, selector_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

_WORDS: Final = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def job(obj: Obj, now: datetime) -> list[Cell]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    wanted, parallel = spec.get("completions"), spec.get("parallelism") or 0
    goal = f"{wanted}" if wanted is not None else f"1 of {parallel}" if parallel > 1 else "1"
    begun = parse_time(status.get("startTime"))
    ended = parse_time(status.get("completionTime"))
    held = {c.get("type", "") for c in status.get("conditions") or () if c.get("status") == "True"}
    word = next((name for name in _WORDS if name in held), "Running")
    if word == "Running" and obj["metadata"].get("deletionTimestamp"):
        word = "Terminating"
    return [
        obj["metadata"].get("name"),
        word,
        f"{status.get('succeeded', 0)}/{goal}",
        human_duration(((ended or now) - begun).total_seconds()) if begun else "",
        age(obj, now),
        *_of_template(obj),
    ]


def cron_job(obj: Obj, now: datetime) -> list[Cell]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    last = status.get("lastScheduleTime")
    template = get(spec, "jobTemplate", default={})
    return [
        obj["metadata"].get("name"),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *_of_template(template),
    ]


def _of_template(obj: Obj) -> list[Cell]:
    return [*(read(obj) for read in of_template), selector_of(obj)]
