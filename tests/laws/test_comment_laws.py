"""The law of comments: whatever the change, bounded and in balance, and nobody is mentioned."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from gitkruise.errors import Finding
from gitkruise.gitops.preview.render_markdown import LEAST, LIMIT, plan_markdown
from gitkruise.model.gitops.report import PlanReport, Span, Tone
from gitkruise.wire.primitives.names import Obj
from tests.gitops.plans import prediction, report
from tests.planner.sync.build import key, thing

NASTY = st.text(st.sampled_from("`~@#|<>&[]()!*_-\n\r\t\x1b\u202e x1/:"), max_size=60) | st.text(
    max_size=30
)
HOSTILE = st.sampled_from(
    [
        "````",
        "</details>",
        "<details>",
        "```\n</details>\n",
        "@everyone",
        "<!--",
        "|",
        "`@org/team`",
    ]
)
VALUES = NASTY | HOSTILE | st.text("ab\n`", min_size=100, max_size=400)


@st.composite
def reports(draw: st.DrawFn) -> PlanReport:
    """A random change of random size."""
    many = draw(st.sampled_from([0, 1, 3, 20, 150]))
    values = draw(st.lists(VALUES, min_size=1, max_size=8))
    keys = draw(st.lists(VALUES, min_size=1, max_size=4, unique=True))

    def made(number: int, turn: int) -> Obj:
        data = {k: f"{values[(number + i + turn) % len(values)]}{turn}" for i, k in enumerate(keys)}
        kind = "CloneSet" if number % 5 == 1 else "ConfigMap"
        return thing(f"o{number}", kind, data=data, spec={"x": values[number % len(values)]})

    before = [made(n, 0) for n in range(many) if n % 7 != 3]
    turns = draw(st.integers(1, 3))
    after = [made(n, 1 + n % turns) for n in range(many) if n % 11 != 4]
    kept = {key(obj) for obj in before}
    moved = [key(obj) for obj in after if obj["kind"] == "CloneSet" and key(obj) in kept]
    rollouts = [prediction(k, draw(st.sampled_from(["recreate", "in-place"]))) for k in moved[:30]]
    whole = report(before, after, rollouts, subject=draw(VALUES))
    words = draw(st.lists(VALUES, max_size=3))
    more = draw(st.sampled_from([0, 1, 40]))
    return replace(
        whole,
        blast=(*(Span(word, Tone.ALARM) for word in words * more), *whole.blast),
        findings=tuple(Finding(code="GK1101", message=word) for word in words * more),
    )


class Balance(HTMLParser):
    """Tags that are open; raises where one closes that was not."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def prose(text: str) -> str:
    """`text` without its fences; asserts that each of them ends."""
    out, fence = [], ""
    for line in text.split("\n"):
        mark = re.match("`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif mark:
            fence = mark[0]
        else:
            out.append(line)
    assert not fence
    return "\n".join(out)


def without_code(line: str) -> str:
    """`line` without its code spans, found as CommonMark finds them."""
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", line)


@settings(max_examples=40)
@given(reports(), st.sampled_from([LIMIT, 20_000, LEAST]))
def test_a_comment_is_bounded_and_in_balance(made: PlanReport, limit: int) -> None:
    text = plan_markdown(made, limit=limit)
    assert len(text) <= limit
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    bare = [without_code(line) for line in prose(text).split("\n")]
    balance = Balance()
    balance.feed("\n".join(bare))
    assert balance.open == []
    assert not re.search(r"@\w", re.sub("<code>.*?</code>", "", "\n".join(bare)))
    assert all(line.count("|") - line.count("\\|") == 6 for line in bare if line.startswith("|"))
