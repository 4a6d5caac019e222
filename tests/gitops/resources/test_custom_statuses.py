"""What a unit's record says in conditions: rows of states and of findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.errors import Finding, Severity
from gitkruise.gitops.resources.conditions import (
    ConditionContext,
    broken_unit,
    source_status,
    unit_status,
)
from gitkruise.model.gitops.config import Reference, Suspend, Unit, UnitSpec
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import DriftRecord, ObjectRecord, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from tests.worlds import START

OBJ: dict[str, Any] = {"kind": "Unit", "metadata": {"name": "web", "generation": 7}}
CONTEXT = ConditionContext(OBJ, START)
KEY = ObjectKey("", "ConfigMap", "shop", "a")
SPEC = UnitSpec(source_ref=Reference("src"))
RECORD = UnitRecord(
    unit="shop/web", cluster="test", source="main", state=State.DONE, message="", since=START
)


def conditions(status: Any) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


STATES: list[tuple[State, str, dict[str, tuple[str, str]]]] = [
    (State.DONE, "", {"Ready": ("True", "Succeeded")}),
    (State.HELD, "", {"Ready": ("True", "Held")}),
    (State.PAUSED, "", {"Ready": ("Unknown", "Paused")}),
    (State.ROLLING, "", {"Ready": ("Unknown", "Progressing"),
                         "Reconciling": ("True", "RolloutInProgress")}),
    (State.WAITING, "a grace period", {"Ready": ("Unknown", "Progressing"),
                                       "Reconciling": ("True", "Progressing")}),
    (State.WAITING, "waits for shop/db", {"Ready": ("False", "DependencyNotReady"),
                                          "Reconciling": ("True", "Progressing")}),
    (State.WAITING, "waits for a window (it opens at 2026-11-23T08:00:00Z)", {
        "Ready": ("False", "WindowClosed"), "Reconciling": ("True", "Progressing")}),
    (State.WAITING, "waits for approval (2 objects change; git commit", {
        "Ready": ("False", "ApprovalRequired"), "Reconciling": ("True", "Progressing")}),
    (State.STUCK, "", {"Ready": ("False", "HealthCheckFailed")}),
    (State.DRIFTED, "", {"Ready": ("False", "Drifted")}),
    (State.REJECTED, "", {"Ready": ("False", "BuildFailed")}),
    (State.UNKNOWN, "", {"Ready": ("Unknown", "Progressing"),
                         "Reconciling": ("True", "Progressing")}),
]  # fmt: skip


@pytest.mark.parametrize("row", STATES, ids=[f"{row[0]} {row[1]}" for row in STATES])
def test_states(row: tuple[State, str, dict[str, tuple[str, str]]]) -> None:
    state, message, wanted = row
    waits = message.removeprefix("waits for ") if message.startswith("waits for ") else ""
    record = replace(RECORD, state=state, message=message, waits=waits)
    status = unit_status(Unit("shop", "web", SPEC), record, None, CONTEXT)
    assert conditions(status) == wanted
    assert (status["phase"], status["observedGeneration"]) == (str(state), 7)


FINDINGS: list[tuple[str, State, str, str]] = [
    ("GK1102", State.REJECTED, "BuildFailed", ""),
    ("GK2102", State.REJECTED, "BuildFailed", ""),
    ("GK2301", State.STUCK, "PruneBlocked", ""),
    ("GK2307", State.STUCK, "PruneFailed", ""),
    ("GK2401", State.REJECTED, "ConflictDetected", ""),
    ("GK2402", State.STUCK, "OwnershipConflict", "OwnershipConflict"),
    ("GK3301", State.REJECTED, "SourceFailed", ""),
    ("GK4102", State.UNKNOWN, "ApplyFailed", ""),
    ("GK4301", State.REJECTED, "ApplyFailed", "AccessDenied"),
    ("GK4302", State.UNKNOWN, "ApplyFailed", "AccessDenied"),
]


@pytest.mark.parametrize("row", FINDINGS, ids=[row[0] for row in FINDINGS])
def test_findings(row: tuple[str, State, str, str]) -> None:
    code, state, ready, stalled = row
    record = replace(RECORD, state=state, findings=(Finding(code=code, message="why"),))
    found = conditions(unit_status(Unit("shop", "web", SPEC), record, None, CONTEXT))
    assert found["Ready"] == ("False", ready)
    assert found.get("Stalled", ("True", ""))[1] == stalled


def test_what_goes_well_is_ready_whatever_a_warning_says() -> None:
    warning = Finding(code="GK3503", message="news do not arrive", severity=Severity.WARNING)
    record = replace(
        RECORD, findings=(warning,), objects=(ObjectRecord(key=KEY, state=State.HELD),)
    )
    found = conditions(unit_status(Unit("shop", "web", SPEC), record, "no answer", CONTEXT))
    assert found == {
        "Ready": ("True", "Succeeded"),
        "Healthy": ("True", "Held"),
        "StatusPublished": ("False", "PushRejected"),
    }


def test_a_suspended_unit_with_drift() -> None:
    spec = UnitSpec(source_ref=Reference("src"), suspend=Suspend(by="dana", reason="freeze"))
    drift = DriftRecord(key=KEY, field="data.x", git="1", live="2")
    record = replace(RECORD, state=State.DRIFTED, drift=(drift,))
    status = unit_status(Unit("shop", "web", spec), record, None, CONTEXT)
    assert conditions(status) == {
        "Ready": ("False", "Suspended"),
        "Drifted": ("True", "Suspended"),
    }
    assert status["suspendedBy"] == {"by": "dana", "reason": "freeze"}


def test_a_unit_that_gave_up_a_correction() -> None:
    fight = Finding(code="GK2501", message="hpa changes it again", severity=Severity.WARNING)
    drift = DriftRecord(key=KEY, field="data.x", git="1", live="2")
    record = replace(RECORD, state=State.DRIFTED, drift=(drift,), findings=(fight,))
    found = unit_status(Unit("shop", "web", SPEC), record, None, CONTEXT)["conditions"]
    (drifted,) = (c for c in found if c["type"] == "Drifted")
    assert (drifted["reason"], drifted["message"]) == ("Contested", "1 field differs from git")


def test_the_digest_is_of_all_that_is_asked_for_and_of_no_secret() -> None:
    def digest(*found: tuple[str, str]) -> str:
        objects = tuple(
            ObjectRecord(key=KEY._replace(name=name), state=State.DONE, digest=own)
            for name, own in found
        )
        record = replace(RECORD, objects=objects)
        return str(unit_status(Unit("shop", "web", SPEC), record, None, CONTEXT)["digest"])

    one = digest(("a", "sha256:1"), ("b", ""))
    assert one.startswith("sha256:")
    assert one == digest(("b", ""), ("a", "sha256:1"))
    assert len({one, digest(("a", "sha256:2"), ("b", "")), digest(("a", "sha256:1"))}) == 3


def test_what_was_known_before_stays_while_nothing_is_known() -> None:
    record = replace(RECORD, applied=GitCommit(id="a" * 40), objects=(
        ObjectRecord(key=KEY, state=State.DONE),
    ))  # fmt: skip
    unit = Unit("shop", "web", SPEC)
    first = unit_status(unit, record, None, CONTEXT)
    later = ConditionContext({**OBJ, "status": first}, START.replace(hour=23))
    lost = unit_status(unit, replace(record, objects=(), state=State.UNKNOWN), None, later)
    assert lost["inventory"] == first["inventory"]
    assert lost["history"] == first["history"]
    assert lost["digest"] == first["digest"]
    assert len(lost["history"]) == 1
    broken = broken_unit(Finding(code="GK7007", message="no such source"), later)
    assert broken["lastAppliedRevision"] == f"main@sha1:{'a' * 40}"
    assert conditions(broken) == {"Ready": ("False", "SourceFailed")}
    assert unit_status(unit, record, None, later) == first  # nothing new, nothing to write


@pytest.mark.parametrize(
    ("code", "phase"), [("GK3101", "Unknown"), ("GK7007", "Rejected"), ("GK9000", "Stuck")]
)
def test_a_remote_that_is_away_rejects_no_commit(code: str, phase: str) -> None:
    """As for a unit of a file: its Sink cannot be opened, and nothing was read."""
    assert broken_unit(Finding(code=code, message="no answer"), CONTEXT)["phase"] == phase


SOURCES: list[tuple[str, str, tuple[str, str]]] = [
    ("GK3101", "", ("False", "GitOperationFailed")),
    ("GK3102", "", ("False", "AuthenticationFailed")),
    ("GK3201", "", ("False", "RefNotFound")),
    ("GK3204", "main@sha1:00", ("False", "HistoryRewritten")),
    ("GK3301", "main@sha1:00", ("False", "InvalidSignature")),
    ("", "main@sha1:00", ("True", "Succeeded")),
    ("", "", ("Unknown", "Progressing")),
]


@pytest.mark.parametrize("row", SOURCES, ids=[row[0] + row[1] for row in SOURCES])
def test_sources(row: tuple[str, str, tuple[str, str]]) -> None:
    code, revision, ready = row
    problem = Finding(code=code, message="why") if code else None
    assert (
        conditions(source_status(revision, revision.rpartition(":")[2], problem, CONTEXT))["Ready"]
        == ready
    )
