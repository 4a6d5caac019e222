"""Conditions after the writes: what the server refused, and that it is taken back."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import Conflict, Forbidden
from gitkruise.model.planning.plan import Applied, Create, Outcome, Plan, Refused, Stale
from tests.planner.cloneset.build import NEW_NAME, OLD_NAME, cloneset, plan
from tests.pods import pods

NO: Final = Forbidden("exceeded quota")
MARKS: Final = {"n": NEW_NAME, "o": OLD_NAME}


def scaling(**status: Any) -> Plan:
    return plan(cloneset(replicas=2, status=status), pods("n+", MARKS))


def updating(**status: Any) -> Plan:
    status.setdefault("currentRevision", OLD_NAME)
    return plan(cloneset(replicas=2, status=status), pods("2o+", MARKS))


def conditions(made: Plan, *outcomes: Outcome) -> dict[str, tuple[str, str]]:
    status = made.status_after(outcomes)
    listed = (status or {}).get("conditions", [])
    return {c["type"]: (c["status"], c.get("message", "")) for c in listed}


def test_a_refused_creation() -> None:
    made = scaling()
    found = conditions(made, Refused(action=made.actions[0], error=NO))
    assert found["FailedScale"][0] == "True"
    assert found["FailedScale"][1].endswith(": exceeded quota")


def test_a_refusal_before_the_first_status_is_left_to_the_next_round() -> None:
    made = plan(cloneset(replicas=2), revisions=())
    pod = next(a for a in made.actions if isinstance(a, Create) and a.obj["kind"] == "Pod")
    assert made.status_after([Refused(action=pod, error=NO)]) is None


def test_a_refused_update() -> None:
    made = updating()
    found = conditions(made, Refused(action=made.actions[0], error=NO))
    assert found["FailedUpdate"][0] == "True"


def test_a_newer_object_is_no_failure() -> None:
    made = scaling()
    assert conditions(made, Stale(action=made.actions[0], error=Conflict("moved"))) == {}


@pytest.mark.parametrize("type_", ["FailedScale", "FailedUpdate"])
def test_quirk_a_failure_that_is_over_is_taken_back(type_: str) -> None:
    """OpenKruise leaves it True for ever."""
    failed = {"type": type_, "status": "True", "message": "no"}
    made = (scaling if type_ == "FailedScale" else updating)(conditions=[failed])
    found = conditions(made, Applied(action=made.actions[0]))
    assert found == {type_: ("False", "")}


def test_a_failure_that_lasts_is_written_once() -> None:
    first = scaling().status_after([Refused(action=scaling().actions[0], error=NO)])
    assert first is not None
    again = scaling(**first)
    assert again.status_after([Refused(action=again.actions[0], error=NO)]) is None


def test_a_changed_reason_is_written() -> None:
    first = scaling().status_after([Refused(action=scaling().actions[0], error=NO)])
    assert first is not None
    again = scaling(**first)
    other = Refused(action=again.actions[0], error=Forbidden("no such class"))
    assert conditions(again, other)["FailedScale"][1].endswith("no such class")
