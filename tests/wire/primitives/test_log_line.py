"""Lines of the log."""

from __future__ import annotations

import pytest

from gitkruise.wire.primitives.log_line import log_line


@pytest.mark.parametrize(
    ("fact", "shown"),
    [
        ("shop/web", "shop/web"),
        (3, "3"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("one\ntwo", '"one\\ntwo"'),
    ],
)
def test_a_fact_cannot_pass_for_another_one(fact: object, shown: str) -> None:
    assert log_line("push-received", receiver="shop/in", fact=fact) == (
        f"event=push-received receiver=shop/in fact={shown}"
    )


def test_a_line_keeps_its_event_and_its_facts_as_they_are() -> None:
    line = log_line("outbox-full", channel="chat", dropped=3)
    assert line == "event=outbox-full channel=chat dropped=3"
    assert (line.event, line.facts) == ("outbox-full", {"channel": "chat", "dropped": 3})
