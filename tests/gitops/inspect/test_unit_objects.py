"""Units of the cluster as commands read them: their status says what their record says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gitkruise.errors import Finding, Forbidden, NotFound
from gitkruise.gitops.inspect.cluster_view import Managed
from gitkruise.gitops.inspect.explain import explain, left_git
from gitkruise.gitops.inspect.unit_objects import (
    UnitObjects,
    read_unit_objects,
    recorded_unit,
    unrecorded_in,
)
from gitkruise.gitops.resources.conditions import ConditionContext, broken_unit, unit_status
from gitkruise.gitops.status import reader
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.worlds import START

OBJ: dict[str, Any] = {
    "kind": "Unit", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"path": "apps/web"},
}  # fmt: skip
SPEC = UnitSpec(source_ref=Reference("src"))
WRONG = Finding(code="GK1203", message='unknown field "partiton"')
RECORD = UnitRecord(
    unit="shop/web", cluster="prod", source="main", state=State.DONE, message="all is live",
    since=START, attempted=GitCommit(id="3" * 40), applied=GitCommit(id="2" * 40),
    causal=GitCommit(id="1" * 40), path="apps/web",
)  # fmt: skip
LIVE = Managed(
    key=ObjectKey("apps.kruise.io", "CloneSet", "shop", "web"), obj={}, state=State.DONE,
    message="", unit="shop/web", commit="2" * 40, path="",
)  # fmt: skip
RECORDS = [replace(RECORD, state=state) for state in State] + [
    replace(RECORD, state=State.WAITING, message="waits for approval (x)", waits="approval (x)"),
    replace(RECORD, state=State.REJECTED, message=str(WRONG), findings=(WRONG,)),
    replace(RECORD, state=State.STUCK, attempted=None, applied=None, causal=None),
]


def declared(record: UnitRecord) -> dict[str, Any]:
    status = unit_status(Unit("shop", "web", SPEC), record, None, ConditionContext(OBJ, START))
    return {**OBJ, "status": status}


@pytest.mark.parametrize("record", RECORDS, ids=[f"{r.state} {r.waits}" for r in RECORDS])
def test_a_status_says_what_the_record_says(record: UnitRecord) -> None:
    unit, wanted = recorded_unit(declared(record), "prod"), reader.recorded_unit(record)
    fields = ("unit", "cluster", "state", "message", "since", "attempted", "applied", "waits",
              "path")  # fmt: skip
    for field in fields:
        assert getattr(unit, field) == getattr(wanted, field), field
    if record.findings:
        assert unit.problems == (record.message,)


def test_a_unit_without_a_status_is_unknown() -> None:
    unit = recorded_unit(OBJ, "prod")
    assert (unit.state, unit.attempted) == (State.UNKNOWN, None)
    assert "no controller has looked at it yet" in unit.message


def test_a_record_that_is_not_in_git_gives_way_to_the_status_of_the_unit() -> None:
    context = ConditionContext(OBJ, START)
    status = unit_status(Unit("shop", "web", SPEC), RECORD, "GK3106: protected branch", context)
    older = replace(reader.recorded_unit(RECORD), state=State.STUCK, message="as of yesterday")
    (unit,) = UnitObjects((recorded_unit({**OBJ, "status": status}, "prod"),)).beside([older])
    assert (unit.state, unit.message) == (State.DONE, "all is live")
    assert unit.shown_problems == ("its record is not in git: GK3106: protected branch",)
    answer = explain(LIVE, None, unit)
    assert answer.reasons == ("unit shop/web: its record is not in git: GK3106: protected branch",)


def test_a_healthy_unit_whose_source_cannot_be_read_says_so() -> None:
    away = Finding(code="GK3102", message="git refuses our credentials")
    record = replace(RECORD, message=str(away), findings=(away,))
    unit = recorded_unit(declared(record), "prod")
    assert (unit.state, unit.problems) == (State.DONE, (str(away),))
    for news in (unit, replace(reader.recorded_unit(record), objects_known=False)):
        answer = explain(LIVE, None, news)
        assert answer.reasons == (f"newer commits may wait: unit shop/web: {away}",)
    assert explain(LIVE, None, recorded_unit(declared(RECORD), "prod")).reasons == ()


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("GK2102", "a commit that corrects what 3333333 asks for"),
        ("GK1203", "gitkruise plan 3333333"),
        ("GK3204", "gitkruise explain GK3204"),
    ],
)
def test_a_plan_is_no_next_step_where_the_api_server_rejects(code: str, step: str) -> None:
    wrong = Finding(code=code, message="no")
    record = replace(RECORD, state=State.REJECTED, message=str(wrong), findings=(wrong,))
    assert recorded_unit(declared(record), "prod").correction == step
    assert reader.recorded_unit(record).correction == step


def test_no_object_is_reported_to_have_left_git_by_a_status_that_lists_none() -> None:
    assert left_git(LIVE, reader.recorded_unit(RECORD))
    assert not left_git(LIVE, recorded_unit(declared(RECORD), "prod"))


def test_a_unit_that_does_not_run_is_rejected_with_the_reason() -> None:
    broken = {**OBJ, "status": broken_unit(WRONG, ConditionContext(OBJ, START))}
    unit = recorded_unit(broken, "prod")
    assert unit.state is State.REJECTED
    assert 'unknown field "partiton"' in unit.problems[0]


def test_a_repository_has_the_last_word() -> None:
    recorded = replace(reader.recorded_unit(RECORD), message="of the repository")
    found = UnitObjects((recorded_unit(declared(RECORD), "prod"), recorded_unit(OBJ | {
        "metadata": {"name": "db", "namespace": "shop"}}, "prod")))  # fmt: skip
    messages = {news.unit: news.message for news in found.beside([recorded])}
    assert messages["shop/web"] == "of the repository"
    assert set(messages) == {"shop/web", "shop/db"}
    assert unrecorded_in(["shop/web", "", "shop/x", "shop/x"], found.units) == ("shop/x",)


@pytest.mark.parametrize("sink", [True, False])
def test_an_earlier_record_of_a_unit_without_a_sink_is_not_the_newest(sink: bool) -> None:
    older = replace(reader.recorded_unit(RECORD), state=State.STUCK, message="as of yesterday")
    unit = declared(RECORD)
    unit["spec"] = {**unit["spec"], **({"sinkRef": {"name": "git"}} if sink else {})}
    found = asyncio.run(read_unit_objects(Answering([unit]), "prod"))  # type: ignore[arg-type]  # it only sends
    (newest,) = found.beside([older])
    assert newest.message == ("as of yesterday" if sink else "all is live")


class Answering:
    """An API server that answers each request alike."""

    def __init__(self, answer: Exception | list[dict[str, Any]]) -> None:
        self.answer = answer

    async def send(self, request: ApiRequest) -> ApiReply:
        if isinstance(self.answer, Exception):
            raise self.answer
        return ApiReply(200, {"items": self.answer, "metadata": {}})


def test_what_may_not_be_read_is_not_taken_for_none() -> None:
    def read(answer: Exception | list[dict[str, Any]]) -> UnitObjects:
        return asyncio.run(read_unit_objects(Answering(answer), "prod"))  # type: ignore[arg-type]  # it only sends

    assert read(NotFound("no such kind")) == UnitObjects()
    assert read(Forbidden("no units for you")) == UnitObjects(unread="no units for you")
    assert [news.unit for news in read([declared(RECORD)]).units] == ["shop/web"]


class OfOneNamespace:
    """An API server that lists the Units of one namespace only."""

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.namespace != "shop":
            raise Forbidden("no units for you")
        return ApiReply(200, {"items": [declared(RECORD)], "metadata": {}})


def test_units_of_the_namespace_are_read_where_no_others_may_be() -> None:
    read = read_unit_objects(OfOneNamespace(), "prod", "shop")  # type: ignore[arg-type]  # it only sends
    found = asyncio.run(read)
    assert ([n.unit for n in found.units], found.unread) == (["shop/web"], "no units for you")


def test_what_the_unit_reports_of_the_object_by_name_is_a_reason() -> None:
    key = str(LIVE.key)
    mine = Finding(code="GK4403", message=f"no engine drives the pods of {key}: it is old")
    other = Finding(code="GK4403", message=f"no engine drives the pods of {key}-2: it is old")
    record = replace(RECORD, findings=(other, mine))
    news = replace(reader.recorded_unit(record), objects_known=False)
    assert explain(LIVE, None, news).reasons == (f"{mine.code} {mine.message}",)
