"""Messages: which news are worth one, to whom, and in what form."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import Finding
from gitkruise.model.gitops.config import Notify, Reference
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.messages import (
    AGAIN_AFTER,
    Notice,
    concerns,
    event_obj,
    notice_of,
    slack_obj,
)
from tests.gitops.notify.test_commit_statuses import ONE, TWO, record
from tests.worlds import START

SECRET: Final = Reference(name="chat")


def rule(severity: Any = "error", *units: str) -> Notify:
    return Notify(type="slack", secret_ref=SECRET, severity=severity, units=units)


def heard(*records: UnitRecord, gap: timedelta = AGAIN_AFTER) -> list[str]:
    """What is told of these records, one after another: `state@commit severity`."""
    out: list[str] = []
    times: dict[str, datetime] = {}
    newest, now = "", START
    for one in records:
        now += gap
        notice = notice_of(times, newest, one, now)
        if notice is not None:
            newest = notice.key
            times[newest] = now
            mark = " resolves" if notice.resolves else ""
            out.append(f"{one.state}@{notice.key[-1:]} {notice.severity}{mark}")
    return out


def test_each_state_of_each_commit_is_told_once_and_waiting_not_at_all() -> None:
    words = [State.ROLLING, State.WAITING, State.ROLLING, State.HELD, State.HELD]
    first = [record("shop/web", state) for state in words]
    then = [record("shop/web", state, TWO) for state in (State.ROLLING, State.STUCK, State.DONE)]
    assert heard(record("shop/web", State.UNKNOWN, None), *first, *then) == [
        "Rolling@1 info", "Held@1 info",
        "Rolling@2 info", "Stuck@2 error", "Done@2 info resolves",
    ]  # fmt: skip


def test_flapping_is_told_once_in_five_minutes() -> None:
    flaps = [record("shop/web", s) for s in (State.STUCK, State.ROLLING) * 10]
    assert heard(*flaps, gap=timedelta(seconds=10)) == ["Stuck@1 error", "Rolling@1 info resolves"]
    assert len(heard(*flaps, gap=AGAIN_AFTER)) == 20


@pytest.mark.parametrize(
    ("severity", "units", "state", "resolves", "wanted"),
    [
        ("error", (), State.STUCK, False, True),
        ("error", (), State.DONE, False, False),
        ("error", (), State.DONE, True, True),
        ("info", (), State.DONE, False, True),
        ("info", ("shop/*",), State.DONE, False, True),
        ("info", ("mesh/*", "shop/db"), State.STUCK, False, False),
    ],
)
def test_who_hears_what(
    severity: str, units: tuple[str, ...], state: State, wanted: bool, resolves: bool
) -> None:
    loud = state is State.STUCK
    notice = Notice(
        record=record("shop/web", state), severity="error" if loud else "info",
        resolves=resolves, at=START,
    )  # fmt: skip
    assert concerns(rule(severity, *units), notice) is wanted


def test_many_stars_end() -> None:
    """In Python's `re` this takes years."""
    notice = Notice(
        record=record(f"shop/{'a' * 250}", State.STUCK), severity="error", resolves=False, at=START,
    )  # fmt: skip
    assert concerns(rule("info", "*a" * 60), notice)
    assert not concerns(rule("info", "*a" * 60 + "*b"), notice)


@given(st.text("ab/", max_size=12), st.text("ab/*", max_size=8))
def test_stars_match_anything(unit: str, pattern: str) -> None:
    notice = Notice(
        record=record(unit, State.STUCK), severity="error", resolves=False, at=START,
    )  # fmt: skip
    meant = re.fullmatch(pattern.replace("*", ".*"), unit) is not None
    assert concerns(rule("info", pattern), notice) is meant


def notice(message: str = "no image") -> Notice:
    finding = Finding(code="GK4201", message="why & <b>")
    one = record("shop/web", State.STUCK, message=message, findings=(finding,))
    return Notice(record=one, severity="error", resolves=False, at=START)


def test_a_web_hook_gets_a_versioned_document() -> None:
    told = event_obj(notice())
    assert json.loads(json.dumps(told)) == told
    assert {k: told[k] for k in ("apiVersion", "kind", "type", "state", "unit", "cluster")} == {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "Event", "type": "Warning",
        "state": "Stuck", "unit": "shop/web", "cluster": "prod",
    }  # fmt: skip
    assert told["commit"]["id"] == ONE.id
    assert told["id"] == f"prod/shop/web/Stuck@{ONE.id}/{told['time']}"


def test_slack_gets_escaped_text_within_its_limits() -> None:
    told = slack_obj(notice("<!channel> & " + "x" * 5000))
    (attachment,) = told["attachments"]
    text = attachment["blocks"][0]["text"]["text"]
    assert text.startswith("✗ *shop/web* on prod: Stuck\n&lt;!channel&gt; &amp; xxx")
    assert "GK4201: why &amp; &lt;b&gt;" in text
    assert len(text) <= 3000
    assert "<" not in text + told["text"]
