"""Jobs run before a change, after it, or when it fails: once for each content of git."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.gitops.programs import options
from tests.gitops.reconcile.test_ownership import renamed
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow


def job(name: str, when: str, image: str = "job:v1", key: str = "gitkruise.io/hook") -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {key: when}},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 1,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": image}]}
            },
        },
    }


SETTINGS: Final = config_map("settings", mode="fast")
FASTER: Final = config_map("settings", mode="faster")
BEFORE, AFTER, ALARM = (
    job("before", "pre-apply"), job("after", "PostSync", key="argocd.argoproj.io/hook"),
    job("alarm", "on-failure"),
)  # fmt: skip

AGAIN: Final = "deleted, to be created again: a hook runs for each commit that changes its unit"


def uid(stage: Stage, name: str) -> str:
    return str(stage.get("Job", name, "batch")["metadata"]["uid"])


def test_they_run_before_and_after_once_for_each_content(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(AFTER, web(), BEFORE, SETTINGS, ALARM)
            await stage.rest(2)
            assert stage.state == "Rolling"
            await stage.rest(120)
            once = ["patch before", "patch settings", "patch web", "patch after"]
            assert (stage.wire.writes(), stage.state) == (once, "Done")
            ran = uid(stage, "before")
            stage.wire.requests.clear()
            stage.origin.commit({"README.md": "hello"}, "words")
            await stage.push(message="nothing")
            await stage.rest(700)
            assert stage.wire.writes() == []
            await stage.push(AFTER, web(), BEFORE, FASTER, ALARM)
            await stage.rest(120)
            again = ["delete before", "patch before", "patch settings", "delete after",
                     "patch after"]  # fmt: skip
            assert (stage.wire.writes(), stage.state) == (again, "Done")
            assert uid(stage, "before") != ran
            events = stage.world.objects(GroupKind("", "Event"), SPACE)
            messages = {e["message"] for e in events if e["reason"] == "Replaced"}
            assert messages == {f"unit shop/web: {AGAIN}"}
            assert stage.get("Job", "alarm", "batch") is None
            stage.wire.requests.clear()
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(120)
            assert (stage.wire.writes(), stage.state) == ([], "Done")

    stage.play(script)


def test_a_crash_while_one_runs_starts_it_no_second_time(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(BEFORE, SETTINGS)
            await stage.rest(1)
            assert stage.wire.writes() == ["patch before"]
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(120)
            assert stage.wire.writes() == ["patch before", "patch settings"]

    stage.play(script)


def test_they_do_not_run_again_for_another_name_of_their_unit(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()

    async def run(name: str) -> None:
        program = options(stage, tmp_path, renamed(name, "MirrorPrune"))
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(120)

    def jobs() -> dict[str, tuple[str, str]]:
        found = {name: stage.get("Job", name, "batch")["metadata"] for name in ("before", "after")}
        return {n: (m["uid"], m["annotations"]["gitkruise.io/unit-ref"]) for n, m in found.items()}

    async def script() -> None:
        stage.origin.commit({"a/app.yaml": documents(BEFORE, SETTINGS, AFTER)})
        await run("old")
        ran = jobs()
        await run("new")
        assert jobs() == {name: (uid, "shop/new") for name, (uid, _) in ran.items()}
        assert not any(write.startswith("delete") for write in stage.wire.writes())
        stage.origin.commit({"a/app.yaml": documents(BEFORE, FASTER, AFTER)})
        await run("newer")
        assert jobs().keys() == ran.keys()
        events = stage.world.objects(GroupKind("", "Event"), SPACE)
        messages = {e["message"] for e in events if e["reason"] == "Replaced"}
        assert messages == {f"unit shop/newer: {AGAIN}"}

    stage.play(script)


def test_nothing_is_applied_when_the_first_fails_until_git_moves(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(job("before", "pre-apply", "job:crash"), SETTINGS, ALARM)
            await stage.rest(300)
            assert stage.wire.writes() == ["patch before", "patch alarm"]
            assert stage.state == "Stuck"
            assert stage.record.message == "Job shop/before: the hook failed"
            await stage.push(BEFORE, SETTINGS, ALARM)
            await stage.rest(120)
            assert stage.get("ConfigMap", "settings") is not None
            assert stage.state == "Done"

    stage.play(script)


def test_a_rollout_that_fails_runs_the_hook_for_failures(staged: MakeStage) -> None:
    stage = staged(health={"noProgressTimeout": "30s"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:broken"), AFTER, ALARM)
            await stage.rest(120)
            assert stage.wire.writes() == ["patch web", "patch alarm"]
            assert stage.state == "Stuck"

    stage.play(script)


ROWS: list[tuple[str, Obj, str]] = [
    ("no such moment", job("x", "at-noon"), "gitkruise.io/hook: at-noon"),
    ("no Job", config_map("x", {"gitkruise.io/hook": "pre-apply"}, a="1"), "a ConfigMap"),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_is_no_hook_is_rejected(staged: MakeStage, row: tuple[str, Any, str]) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(row[1], SETTINGS)
            await stage.rest(5)
            finding = stage.record.findings[0]
            assert (stage.state, finding.code) == ("Rejected", "GK2015")
            assert finding.message.startswith(row[2])

    stage.play(script)


def plain_job(image: str) -> Obj:
    made = job("nightly", "", image)
    return {**made, "metadata": {"name": "nightly"}}


@pytest.mark.parametrize("made", [job("before", "pre-apply", "x:broken"), plain_job("x:broken")])
def test_a_job_whose_image_cannot_be_pulled_is_stuck(staged: MakeStage, made: Obj) -> None:
    """A hook and a Job of the commit; until its pods start, no other state is reported as good."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(made, SETTINGS)
            await stage.rest(60)
            assert stage.state == "Stuck"
            message = stage.record.message
            assert message.startswith(f"Job shop/{made['metadata']['name']}: ")
            assert message.endswith(
                "cannot start: image x:broken cannot be pulled; 0 of 1 succeeded"
            )
            assert "Done" not in {str(record.state) for record in stage.offered}
            await stage.push(job("mended", "pre-apply"), SETTINGS)
            await stage.rest(60)
            assert stage.state == "Done"

    stage.play(script)
