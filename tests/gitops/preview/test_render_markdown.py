"""A comment says what it leaves out, and shows the worst when not all of it fits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import Finding, SourcePlace
from gitkruise.gitops.preview.render_markdown import LEAST, _cell, plan_markdown
from tests.gitops.plans import prediction, report
from tests.planner.sync.build import key, thing


def left_out(text: str) -> tuple[int, int]:
    """(objects that are not in the table, objects without details), as the foot says."""
    foot = text.rstrip("\n").rpartition("\n")[2]
    table = re.search(r"\*\*(\d+) objects? left out of the table", foot)
    details = re.search(r"\*\*details of (\d+) objects? left out", foot)
    return int(table[1]) if table else 0, int(details[1]) if details else 0


@pytest.mark.parametrize("many", [10, 100, 1_000])
def test_what_is_left_out_is_counted(many: int) -> None:
    before = [thing(f"o{n}", data={"a": "1"}) for n in range(many)]
    after = [thing(f"o{n}", data={"a": f"v{n}"}) for n in range(many)]
    text = plan_markdown(report(before, after), limit=15_000)
    rows = len(re.findall(r"^\| ~ ", text, re.MULTILINE))
    assert left_out(text) == (many - rows, many - text.count("<details>"))
    assert text.count("<details>") == text.count("</details>")
    assert f"{many} changed" in text


def test_the_worst_is_shown_when_not_all_of_it_fits() -> None:
    before = [thing(f"o{n}", data={"a": "1"}) for n in range(500)] + [thing("doomed")]
    after = [thing(f"o{n}", data={"a": f"v{n}"}) for n in range(500)]
    text = plan_markdown(report(before, after), limit=LEAST)
    assert "| − | `ConfigMap shop/doomed` |" in text
    assert "1 object DELETED (ConfigMap shop/doomed)" in text


def test_steps_go_before_fields_do() -> None:
    obj = thing("web", "CloneSet", spec={"replicas": 1})
    made = report([obj], [thing("web", "CloneSet", spec={"replicas": 2})], [prediction(key(obj))])
    assert "step 1: 2 in-place, then 2 of 10" in plan_markdown(made)
    assert "level 0" in plan_markdown(made)


def test_a_finding_of_two_places_is_one_line() -> None:
    places = [SourcePlace(file="a.yaml", line=n, column=1) for n in (1, 2)]
    alike = [Finding(code="GK1405", message="m", places=(place,)) for place in places]
    text = plan_markdown(replace(report([], []), findings=tuple(alike)))
    assert text.count("[GK1405]: m") == 1


def test_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="needs"):
        plan_markdown(report([], []), limit=LEAST - 1)


@given(text=st.text(alphabet="\\|@`a"))
def test_no_text_ends_its_cell(text: str) -> None:
    """A pipe ends a cell unless a backslash is before it that is not escaped itself."""
    assert re.fullmatch(r"(?:\\.|[^|\\])*", f"{_cell(text)}`")
