"""Ordinary slips in manifests: the unit is Rejected with the place, and nothing around it stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.app import controller
from gitkruise.errors import CRASHED
from tests.gitops.build.test_field_types import ROWS
from tests.gitops.notify.harness import ForgeHarness
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, config_map, documents, web

pytestmark = pytest.mark.slow
NAMED = {
    "null in stringData", "empty wave", "boolean", "list", "namespace", "maxLength", "minimum",
    "null property", "labels",
}  # fmt: skip
SLIPS = [row for row in ROWS if row[0] in NAMED]


def test_each_slip_is_rejected_and_the_other_unit_goes_on(
    staged: MakeStage, tmp_path: Path
) -> None:
    assert len(SLIPS) == 9
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("a") + unit("b"))
    good = documents(config_map("a", x="good"))

    def push(number: int, text: str) -> None:
        files = {"a/x.yaml": text, "b/x.yaml": documents(config_map("b", x=str(number)))}
        stage.origin.commit(files, f"commit {number}")

    async def script() -> None:
        push(-1, good)
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(20)
            for number, (_, text, place, words) in enumerate(SLIPS):
                push(number, text)
                await stage.rest(20)
                record = running.reporters["shop/a"].record
                assert record.state == "Rejected"
                assert f"x.yaml:{place}" in str(record.findings[0].places[0])
                assert words in record.message
                assert running.reporters["shop/b"].record.state == "Done"
                assert stage.get("ConfigMap", "b")["data"] == {"x": str(number)}
                assert stage.get("ConfigMap", "a")["data"] == {"x": "good"}
        async with controller(program, stage.wire, stage.clock) as running:  # the slip is there
            await stage.rest(30)
            assert running.reporters["shop/a"].record.state == "Rejected"
            assert running.reporters["shop/b"].record.state == "Done"
            push(99, good)
            await stage.rest(30)
            assert running.reporters["shop/a"].record.state == "Done"

    stage.play(script)


def test_the_pull_request_of_a_stranger_gets_a_comment_that_names_the_slip(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    harness = ForgeHarness(stage, tmp_path)

    async def script() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await stage.rest()
            for number, (_, text, place, _) in enumerate(SLIPS, 1):
                head = harness.branch(number, text=text, repo=2)
                await stage.rest(10)
                assert "GK1204" in harness.comment(number)
                assert f"app.yaml:{place}" in harness.comment(number)
                assert CRASHED not in harness.comment(number)
                assert harness.status(head, "gitkruise/plan")[0] == "failure"
            await harness.push(web("app:v2"), message="goes on")
            await stage.rest()
            assert stage.images() == ["app:v2"] * 4

    stage.play(script)
