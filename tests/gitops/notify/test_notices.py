"""Messages: which news are worth one, to whom, and in what form."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import Finding
from gitkruise.model.gitops.config import Notify, Reference
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.commit_statuses import describe
from gitkruise.planner.notify.message_formats import (
    discord_obj,
    event_obj,
    message_body,
    slack_obj,
    teams_obj,
    template_problem,
)
from gitkruise.planner.notify.messages import (
    AGAIN_AFTER,
    Notice,
    concerns,
    notice_of,
)
from gitkruise.printable import visible
from tests.gitops.notify.test_commit_statuses import ONE, TWO, record
from tests.worlds import START

ROOT: Final = Path(__file__).parents[3]
SECRET: Final = Reference(name="chat")


def rule(severity: Any = "error", *units: str) -> Notify:
    return Notify(type="slack", secret_ref=SECRET, severity=severity, units=units)


def notices_of(*records: UnitRecord, gap: timedelta = AGAIN_AFTER) -> list[str]:
    """What is told of these records, one after another: `state@commit severity`."""
    out: list[str] = []
    times: dict[str, datetime] = {}
    newest, now, failing = "", START, False
    for one in records:
        now += gap
        notice = notice_of(times, newest, one, now, failing=failing)
        if notice is not None:
            newest, failing = notice.key, notice.failing
            times[newest] = now
            mark = " resolves" if notice.resolves else ""
            out.append(f"{one.state}@{notice.key[-1:]} {notice.severity}{mark}")
    return out


def test_each_state_of_each_commit_is_reported_once_and_waiting_not_at_all() -> None:
    words = [State.ROLLING, State.WAITING, State.ROLLING, State.HELD, State.HELD]
    first = [record("shop/web", state) for state in words]
    then = [record("shop/web", state, TWO) for state in (State.ROLLING, State.STUCK, State.DONE)]
    assert notices_of(record("shop/web", State.UNKNOWN, None), *first, *then) == [
        "Rolling@1 info", "Held@1 info",
        "Rolling@2 info", "Stuck@2 error", "Done@2 info resolves",
    ]  # fmt: skip


def test_flapping_is_reported_once_in_five_minutes() -> None:
    flaps = [record("shop/web", s) for s in (State.STUCK, State.ROLLING) * 10]
    assert notices_of(*flaps, gap=timedelta(seconds=10)) == ["Stuck@1 error", "Rolling@1 info"]
    assert len(notices_of(*flaps, gap=AGAIN_AFTER)) == 20


def test_a_failure_is_over_when_all_is_as_git_asks_and_not_when_a_commit_begins() -> None:
    steps = [(State.STUCK, ONE), (State.ROLLING, TWO), (State.STUCK, TWO), (State.ROLLING, ONE),
             (State.HELD, ONE), (State.DONE, TWO)]  # fmt: skip
    assert notices_of(*(record("shop/web", *step) for step in steps)) == [
        "Stuck@1 error", "Rolling@2 info", "Stuck@2 error", "Rolling@1 info",
        "Held@1 info resolves", "Done@2 info",
    ]  # fmt: skip


def test_who_may_approve_is_notified_that_a_unit_waits_for_it() -> None:
    one = record("shop/web", State.WAITING, attempted=ONE, waits="approval (5 deletions; how)")
    other = record("shop/web", State.WAITING, attempted=TWO, waits="unit shop/db")
    assert notices_of(one, one, other) == ["Waiting@1 info"]


def test_a_finding_that_is_the_message_is_stated_once() -> None:
    finding = Finding(code="GK1204", message="no")
    one = record("shop/web", State.REJECTED, message="GK1204: no", findings=(finding,))
    notice = Notice(record=one, severity="error", resolves=False, at=START)
    assert message_body(rule(), notice).count("GK1204: no") == 2  # the notification, and the text


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
    document = event_obj(notice())
    assert json.loads(json.dumps(document)) == document
    assert {k: document[k] for k in ("apiVersion", "kind", "type", "state", "unit", "cluster")} == {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "Event", "type": "Warning",
        "state": "Stuck", "unit": "shop/web", "cluster": "prod",
    }  # fmt: skip
    assert document["commit"]["id"] == ONE.id
    assert document["id"] == f"prod/shop/web/Stuck@{ONE.id}/{document['time']}"


def test_slack_gets_escaped_text_within_its_limits() -> None:
    document = slack_obj(notice("<!channel> & " + "x" * 5000))
    (attachment,) = document["attachments"]
    text = attachment["blocks"][0]["text"]["text"]
    assert text.startswith("✗ *shop/web* on prod: Stuck\n&lt;!channel&gt; &amp; xxx")
    assert "GK4201: why &amp; &lt;b&gt;" in text
    assert len(text) <= 3000
    assert "<" not in text + document["text"]


def test_discord_gets_an_embed_that_marks_and_mentions_nothing() -> None:
    document = discord_obj(notice("@everyone [free](http://x) **now** " + "x" * 5000))
    assert document["allowed_mentions"] == {"parse": []}
    (embed,) = document["embeds"]
    assert embed["title"] == "✗ shop/web on prod\\: Stuck"
    assert embed["description"].startswith("\\@everyone \\[free\\]\\(http\\://x\\) \\*\\*now\\*\\*")
    assert len(embed["description"]) <= 4096
    assert embed["color"] == 0xE01E5A


def test_teams_gets_a_card_of_plain_text() -> None:
    document = teams_obj(notice("[free](http://x)"))
    (attachment,) = document["attachments"]
    runs = [block["inlines"][0] for block in attachment["content"]["body"]]
    assert {run["type"] for run in runs} == {"TextRun"}
    assert runs[0] == {
        "type": "TextRun", "text": "✗ shop/web on prod: Stuck", "weight": "Bolder",
        "color": "Attention",
    }  # fmt: skip
    assert runs[1]["text"] == "[free](http://x)"
    assert runs[2]["text"] == "GK4201: why & <b>"


def test_every_type_of_the_schema_has_a_format() -> None:
    schema = json.loads((ROOT / "schemas" / "crds" / "sinks.gitkruise.io.json").read_text())
    (version,) = schema["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for kind in spec["notify"]["items"]["properties"]["type"]["enum"]:
        body = message_body(Notify(type=kind, secret_ref=SECRET), notice())
        assert "shop/web" in json.dumps(json.loads(body))


TEMPLATE = '{"a": "${unit}", "b": ["${message}", "$5 ${state}${commit}"]}'


@given(text=st.text(max_size=60))
def test_a_template_gives_json_whatever_is_reported(text: str) -> None:
    rule = Notify(type="webhook", secret_ref=SECRET, template=TEMPLATE)
    document = json.loads(message_body(rule, notice(text)))
    assert (document["a"], document["b"][1]) == ("shop/web", f"$5 Stuck{ONE.id}")
    assert document["b"][0] == visible(describe(notice(text).record))


TEMPLATES = {
    TEMPLATE: "",
    '"${title} ${text} ${time} ${id} ${cluster} ${severity} ${subject} ${author}"': "",
    "{}": "",
    '{"a": ${state}}': "it gives no JSON",
    "${title}": "it gives no JSON",
    '{"a": "${sha}"}': "${sha} is no value of a message: author, cluster, commit",
    '{"a": "${}"}': "${} is no value of a message",
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_judged_before_there_is_news(template: str) -> None:
    found = template_problem(template)
    assert found.startswith(TEMPLATES[template])
    assert bool(found) == bool(TEMPLATES[template])
    if not found:
        rule = Notify(type="webhook", secret_ref=SECRET, template=template)
        json.loads(message_body(rule, notice()))
