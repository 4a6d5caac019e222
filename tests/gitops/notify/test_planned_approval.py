"""The plan of a pull request names the approval that its merge asks for: it can be given there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.git.repos import run_git
from tests.gitops.notify.harness import ForgeHarness
from tests.gitops.promoted import promotion
from tests.gitops.stage import MakeStage, config_map, web

pytestmark = pytest.mark.slow
KEEP, EXTRA = config_map("keep", a="b"), config_map("extra", a="b")
APPROVE: Final = re.compile(r"Gitkruise-Approve: ([0-9a-f]{12})")
TRAIL: Final = "Gitkruise-Approve: "


def approved_by_record(harness: ForgeHarness) -> str:
    return harness.stage.record.message.rpartition(TRAIL)[2][:12]


ROWS: Final[dict[str, tuple[dict[str, Any], list[Any], list[Any], str]]] = {
    "changed and left": (
        {"approval": "always"}, [KEEP, EXTRA], [config_map("keep", a="c")], "2 objects change"
    ),
    "new": ({"approval": "always"}, [KEEP], [KEEP, EXTRA], "1 object changes"),
    "risky": (
        {"approval": "risky", "promotion": promotion()}, [web()], [web("app:v2")],
        "all pods of CloneSet shop/web change without a canary",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "before", "after", "why"), ROWS.values(), ids=ROWS)
def test_an_approval_is_given_in_the_pull_request_that_asks_for_it(
    staged: MakeStage, tmp_path: Path, spec: dict[str, Any], before: list[Any], after: list[Any],
    why: str,
) -> None:  # fmt: skip
    harness = ForgeHarness(staged(**spec), tmp_path)
    stage = harness.stage

    async def script() -> None:
        async with harness.open():
            await harness.push(*before, message="first")
            await stage.rest()
            if mark := approved_by_record(harness):
                await harness.push(message=f"agreed\n\n{TRAIL}{mark}")
            await stage.rest()
            assert stage.state == "Done"
            harness.branch(1, *after)
            await stage.rest()
            (asked,) = APPROVE.findall(harness.comment(1))
            assert why in harness.comment(1)
            work, head = stage.origin.work, harness.model.pulls[1]["head"]
            run_git(work, "checkout", "--quiet", "--detach", head)
            message = f"agreed\n\n{TRAIL}{asked}"
            run_git(work, "commit", "--quiet", "--allow-empty", "-m", message)
            head = run_git(work, "rev-parse", "HEAD")
            run_git(work, "push", "--quiet", "origin", f"{head}:refs/pull/1/head")
            run_git(work, "checkout", "--quiet", "main")
            harness.model.pulls[1]["head"] = head
            await stage.rest()
            assert "has approval, which a commit gave" in harness.comment(1)
            await harness.merge(1)
            await stage.rest()
            assert stage.state == "Done"
            assert stage.record.causal is not None
            assert stage.record.causal.id == stage.unit.live_commit

    stage.play(script)


@pytest.mark.parametrize("spec", [{"approval": "risky"}, {}])
def test_no_approval_is_asked_where_none_is_needed(
    staged: MakeStage, tmp_path: Path, spec: dict[str, Any]
) -> None:
    harness = ForgeHarness(staged(**spec), tmp_path)

    async def script() -> None:
        async with harness.open():
            await harness.push(KEEP, message="first")
            await harness.stage.rest()
            harness.branch(1, config_map("keep", a="c"))
            await harness.stage.rest()
            assert TRAIL not in harness.comment(1)

    harness.stage.play(script)
