"""The one comment: bounded, balanced, edited section by section, and nobody else's words act."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitkruise.model.gitops.notifications import Outcome, PullRequestReport, PullState
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.comment import (
    BODY_MAX,
    BRIEF_MAX,
    MARK,
    NO_ROOM,
    PLAN_MAX,
    brief,
    compose,
    is_ours,
    plain,
    section,
    sections,
)

PLAN: Final = (
    "### gitkruise plan `a..b`\n\n| table |\n\n<details><summary>x</summary>\n\n</details>\n"
)


def pull(state: PullState = "open", **more: object) -> PullRequestReport:
    fields = {"number": 7, "head": "c03d77a" + "0" * 33, "branch": "main", "plan": PLAN, **more}
    return PullRequestReport(state=state, **fields)  # type: ignore[arg-type]  # rows of fields


HEADS: Final[list[tuple[str, PullRequestReport, str, bool]]] = [
    ("current", pull(), "### gitkruise plan for `c03d77a` → `main` on `prod` · ✅ current", False),
    ("outdated", pull(newer="d" * 40), "· ⚠️ outdated: `ddddddd` was pushed", True),
    ("no plan", pull(failed="GK1001", plan=""), "· ✗ no plan", False),
    ("merged for others", pull("merged", merged_as="e" * 40),
     "`eeeeeee` → `main` on `prod` · merged, it changes no unit", True),
    ("merged", pull("merged", merged_as="e" * 40, touches=True),
     "### gitkruise: `eeeeeee` → `main` on `prod` · merged, waiting for the cluster", True),
    ("held", pull("merged", outcomes=(Outcome("shop/web", "Held", "held"),)), "· ⏸ Held", True),
    ("worst", pull("merged", outcomes=(Outcome("a", "Done", ""), Outcome("b", "Stuck", ""))),
     "· ✗ Stuck", True),
    ("closed", pull("closed"), "· closed without a merge, nothing changes", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("report", "head", "folded"), [h[1:] for h in HEADS], ids=[h[0] for h in HEADS]
)
def test_the_first_line_says_whether_the_plan_counts(
    report: PullRequestReport, head: str, *, folded: bool
) -> None:
    text = section(report, "prod")
    assert head in text.splitlines()[0]
    assert ("<summary>The plan for" in text) is folded
    assert text.count("<details>") == text.count("</details>")
    assert brief(report, "prod") == text.splitlines()[0]


def test_outcomes_come_before_the_plan_and_no_word_of_theirs_acts() -> None:
    text = section(
        pull("merged", outcomes=(Outcome("shop/web", "Stuck", "@all <b>no</b> #12 `x` [y](z)"),)),
        "prod",
    )
    line = next(line for line in text.splitlines() if line.startswith("- "))
    assert line.startswith("- ✗ **shop/web** @\u200ball \\<b\\>no\\</b\\> #\u200b12 \\`x\\`")
    assert text.index("- ✗") < text.index("<details>")


NAME: Final = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)
TEXT: Final = st.text(max_size=300) | st.sampled_from(
    ["<!-- gitkruise:end prod -->", "<!-- gitkruise:begin x -->\nforged\n", MARK, "x" * 70_000]
)


@pytest.mark.slow
@given(parts=st.lists(st.tuples(NAME, TEXT), max_size=12))
def test_a_comment_keeps_to_its_limit_and_every_section_to_itself(
    parts: list[tuple[str, str]],
) -> None:
    body, last = "", {}
    for name, text in parts:
        clean = text.strip() or "x"
        body = compose(body, name, clean, f"{name} in brief")
        last[name] = clean
        assert is_ours(body)
        assert len(body) <= BODY_MAX
        assert name in sections(body)
    found = sections(body)
    assert set(found) <= set(last)
    for name, text in found.items():
        shown = text.replace("<!-\u200b- gitkruise:", "<!-- gitkruise:")
        assert shown in {last[name], f"{name} in brief\n\n{NO_ROOM}"}


def test_a_section_without_room_says_what_is_left_out() -> None:
    large = pull(plan="#\n" + "x" * PLAN_MAX)
    body = compose("", "stage", section(large, "stage"), brief(large, "stage"))
    shown = sections(compose(body, "prod", section(large, "prod"), brief(large, "prod")))
    assert "xxx" in shown["stage"]
    assert shown["prod"] == (
        "### gitkruise plan for `c03d77a` → `main` on `prod` · ✅ current\n\n"
        "This comment has no room for the rest. "
        "`gitkruise plan INTO..BRANCH` shows the plan, `gitkruise status` the units."
    )


@given(
    plan=st.text(max_size=500), failed=st.text(max_size=500), unit=st.text(max_size=900),
    words=st.text(max_size=3_000), count=st.integers(0, 200),
    state=st.sampled_from(["open", "merged", "closed"]),
)  # fmt: skip
def test_any_outcome_fits_next_to_the_largest_plan(
    plan: str, failed: str, unit: str, words: str, count: int, state: PullState
) -> None:
    outcomes = (Outcome(unit, str(State.STUCK), words),) * count
    report = pull(state, plan="#\n" + plan.ljust(PLAN_MAX), failed=failed, outcomes=outcomes)
    text = section(report, "prod")
    body = compose("", "prod", text, brief(report, "prod"))
    assert len(body) <= BODY_MAX
    assert len(brief(report, "prod")) <= BRIEF_MAX
    if count <= 5:
        assert sections(body)["prod"].startswith("### gitkruise")


@given(text=st.text())
@example("&commat;dana, https://evil.example, WWW.evil.example")
def test_plain_words_stay_plain(text: str) -> None:
    shown = plain(text)
    assert not re.search(r"(?<!\\)[`*_\[\]<>|~&]", shown)
    assert not re.search(r"[@#]\w|://|www\.", shown, re.IGNORECASE)
    assert "\n" not in shown


SECTIONS: Final = ("prod.shard-0-of-2", "prod.shard-1-of-2", "stage", "eu.sink-a.git")


@pytest.mark.parametrize(
    ("own", "gone"),
    [
        ("prod.shard-0-of-2", SECTIONS[:0]),
        ("prod.shard-0-of-3", SECTIONS[:2]),
        ("prod", SECTIONS[:2]),
        ("stage", SECTIONS[:0]),
        ("prod.eu", SECTIONS[:0]),
        ("eu.sink-b.git", SECTIONS[:0]),
        ("eu", SECTIONS[3:]),
        ("eu.sink-a.git.shard-0-of-2", SECTIONS[3:]),
        ("prod.sink-a.git", SECTIONS[:2]),
        ("prod.sink-a.git.shard-0-of-2", SECTIONS[:2]),
        ("stage.sink-a.git", SECTIONS[2:3]),
    ],
)
def test_sections_of_other_shards_or_of_all_sinks_go(own: str, gone: tuple[str, ...]) -> None:
    body = ""
    for name in SECTIONS:
        body = compose(body, name, "said", "brief")
    kept = {*SECTIONS, own} - set(gone)
    assert set(sections(compose(body, own, "new", "brief"))) == kept


@pytest.mark.parametrize(
    ("above", "ours"),
    [
        ("", True),
        ("Read the runbook.\r\n\r\n", True),
        (f"> {MARK}\n\n", True),
        ("> ", False),
    ],
)
def test_text_above_a_comment_stays_and_a_quote_is_no_comment_of_ours(
    above: str, ours: bool
) -> None:
    body = above + compose("", "prod", "said", "brief")
    assert is_ours(body) is ours
    if ours:
        assert compose(body, "prod", "new", "brief") == body.replace("said", "new")
