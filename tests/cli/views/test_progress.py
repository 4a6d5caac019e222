"""Lines of `run` about objects of the cluster that do not run."""

from __future__ import annotations

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.progress import ProgressLines
from gitkruise.errors import CRASHED, Finding
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from tests.pods import NOW

PLAIN = Style(colour=False, unicode=True, width=80)
REFUSED = Finding(code="GK7052", message="http is not allowed", notes=(("next", "https"),))
CRASH = Finding(code=CRASHED, message="unexpected ValueError")


def record(state: State, *findings: Finding) -> UnitRecord:
    return UnitRecord(
        unit="shop/web", cluster="test", source="main", state=state, message="", since=NOW,
        findings=findings,
    )  # fmt: skip


def test_a_source_is_named_with_its_problem_and_when_it_is_well() -> None:
    lines = ProgressLines(PLAIN)
    first, *finding = lines.problem(("GitSource", "shop/src"), REFUSED, NOW)
    assert first.endswith(" gitsource shop/src ready=False")
    assert finding == ["error[GK7052]: http is not allowed", "   = next: https"]
    (line,) = lines.problem(("GitSource", "shop/src"), None, NOW)
    assert line.endswith(" gitsource shop/src ready=True")


def test_a_unit_has_the_state_of_its_status() -> None:
    lines = ProgressLines(PLAIN)
    assert next(lines.lines(record(State.DONE), NOW)).endswith("unit shop/web state=Done")
    broken = lines.problem(("Unit", "shop/web"), REFUSED, NOW)
    assert broken[0].endswith(" unit shop/web state=Rejected")
    assert lines.problem(("Unit", "shop/web"), None, NOW) == []
    assert len(list(lines.lines(record(State.DONE), NOW))) == 1  # as news, though it said so before


def test_a_problem_that_the_record_has_is_not_repeated() -> None:
    lines = ProgressLines(PLAIN)
    assert list(lines.lines(record(State.STUCK, CRASH), NOW))
    assert lines.problem(("Unit", "shop/web"), CRASH, NOW) == []
