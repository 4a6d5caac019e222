"""`--log-format json`: one object for each event, with the facts of its line."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from gitkruise.cli.console.log_format import JsonFormatter, LineFormatter, finding_facts
from gitkruise.errors import Finding, Forbidden, SourceFailed
from gitkruise.printable import UNPRINTABLE
from gitkruise.wire.primitives.log_line import log_line
from tests.cli.calls import Caller
from tests.cli.console.test_hostile_text import HOSTILE

REFUSED = SourceFailed(Finding(code="GK3103", message="no route to git.example.com"))


def made(message: object, **more: Any) -> logging.LogRecord:
    line = logging.LogRecord("gitkruise.git", logging.WARNING, "f", 1, message, (), None)
    line.created = 1_767_323_045.0625  # exact in binary
    line.__dict__.update(more)
    return line


def shown(line: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(line)
    assert "\n" not in text
    assert text.isascii()
    value: dict[str, Any] = json.loads(text)
    return value


def raised(error: Exception) -> Any:
    try:
        raise error
    except type(error):
        return sys.exc_info()


def test_a_line_has_time_level_logger_message_and_facts() -> None:
    assert shown(made(log_line("outbox-full", channel="shop chat", dropped=3, last=True))) == {
        "time": "2026-01-02T03:04:05.062500Z",
        "level": "WARNING",
        "logger": "gitkruise.git",
        "message": 'event=outbox-full channel="shop chat" dropped=3 last=True',
        "event": "outbox-full",
        "channel": "shop chat",
        "dropped": 3,
        "last": True,
    }


@pytest.mark.parametrize(
    ("facts", "more"),
    [
        ({"error": REFUSED}, {"error": str(REFUSED), "code": "GK3103"}),
        ({"error": REFUSED.findings[0]}, {"error": str(REFUSED), "code": "GK3103"}),
        ({"code": "GK9000", "error": REFUSED}, {"error": str(REFUSED), "code": "GK9000"}),
        ({"error": Forbidden("no")}, {"error": str(Forbidden("no")), "reason": "Forbidden"}),
        ({"error": "GK3103: a text"}, {"error": "GK3103: a text"}),
        ({"error": OSError("gone")}, {"error": "gone"}),
        ({"share": 0.5}, {"share": 0.5}),
        ({"share": float("nan")}, {"share": "nan"}),
        ({"path": Path("/a")}, {"path": "/a"}),
        ({"left": None}, {"left": "None"}),
    ],
)
def test_a_fact_is_a_value_and_an_error_has_its_code(
    facts: dict[str, object], more: dict[str, object]
) -> None:
    value = shown(made(log_line("x", **facts)))
    del value["time"], value["level"], value["logger"], value["message"]
    assert value == {"event": "x", **more}


def test_a_line_of_a_library_has_its_message() -> None:
    line = made("took %s s", args=(3,))
    assert shown(line)["message"] == "took 3 s"


def test_a_trace_is_a_field_and_quotes_no_text_of_an_exception() -> None:
    value = shown(made("no", exc_info=raised(ValueError("s3cret"))))
    assert value["exception"].startswith("Traceback (most recent call last):\n  File ")
    assert value["exception"].endswith("\nbuiltins.ValueError")
    assert "s3cret" not in str(value)
    assert value["message"] == "no"


def test_every_note_of_an_error_is_in_a_field() -> None:
    notes = (
        ("", "leases is forbidden"), ("unchanged", "nothing was read"), ("other contexts", "a, b"),
        ("next", "grant it"), ("or", "gitkruise doctor"),
    )  # fmt: skip
    assert finding_facts(Finding(code="GK4301", message="not allowed", notes=notes)) == {
        "code": "GK4301",
        "text": "not allowed",
        "detail": "leases is forbidden; other contexts: a, b",
        "unchanged": "nothing was read",
        "next": "grant it; or: gitkruise doctor",
    }


@given(text=HOSTILE)
def test_hostile_text_stays_in_its_field(text: str) -> None:
    value = shown(made(log_line("x", error=text), exc_info=raised(ValueError(text))))
    assert set(value) == {"time", "level", "logger", "message", "event", "error", "exception"}
    assert UNPRINTABLE.search("".join(map(str, value.values())).replace("\n", "")) is None
    plain = made(log_line("x", error=text))
    assert f"WARNING gitkruise.git: {shown(plain)['message']}" == LineFormatter().format(plain)


@pytest.mark.parametrize("command", ["run", "webhook", "agent"])
def test_a_command_that_fails_says_why_in_json(gk: Caller, command: str) -> None:
    words = {"run": ("--hooks", "nowhere"), "webhook": ("--listen", "nowhere"), "agent": ()}
    ended = gk(command, "--log-format", "json", *words[command])
    (line,) = map(json.loads, ended.err.splitlines())
    assert ended.code == 2
    assert line["level"] == "ERROR"
    assert line["event"] == "command-failed"
    assert line["code"] == ("GK5123" if command == "agent" else "GK7027")
    assert line["text"]
    assert line["next"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--log-format", "json", "--local-sources"), "add --sandbox"),
        (("--log-format", "json", "--unknown"), "No such option '--unknown'"),
        (("--unknown", "--log-format=json"), "No such option '--unknown'"),
        (("--log-format", "json", "--lease"), "'--lease' requires an argument"),
    ],
)
def test_wrong_words_are_an_event_too(gk: Caller, words: tuple[str, ...], text: str) -> None:
    ended = gk("run", *words)
    (line,) = map(json.loads, ended.err.splitlines())
    assert (ended.code, line["event"]) == (2, "command-failed")
    assert text in line["text"]
