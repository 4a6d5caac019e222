"""Commits become rollouts: applied in order, held by partition, overtaken, and told in git."""

from __future__ import annotations

import pytest

from gitkruise.errors import ApiError
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import run_git
from tests.gitops.stage import NOTES, STATUS, UNIT, MakeStage, config_map, documents, web
from tests.worlds import cloneset, deployment


def test_a_first_commit_is_applied_in_order_and_reported(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            commit = await stage.push(web(), config_map("settings", mode="fast"), message="first")
            await stage.rest()
            assert stage.wire.writes() == ["patch settings", "patch web"]
            assert stage.wire.writes(dry=True) == ["patch web", "patch settings"]
            assert stage.state == "Done"
            assert stage.record.applied
            assert stage.record.applied.id == commit
            assert stage.images() == ["app:v1"] * 4

    stage.play(script)
    assert stage.diary()[-1].startswith(f"{UNIT}: done 4/4 at ")
    assert "Done" in run_git(stage.origin.bare, "notes", "--ref", NOTES, "show", "main")


@pytest.mark.slow
def test_a_partition_holds_and_the_next_commit_finishes(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:v2", partition=3), message="canary")
            await stage.rest()
            assert stage.state == "Held"
            assert (stage.rollout.updated, stage.rollout.asked) == (1, 1)
            assert stage.images() == ["app:v1"] * 3 + ["app:v2"]
            await stage.push(web("app:v2"), message="all")
            await stage.rest()
            assert stage.state == "Done"
            steps = dict(stage.record.steps)[stage.rollout.key]
            assert [(s.commit.subject, s.change, s.state) for s in steps] == [
                ("first", "created, 4 pods", State.DONE),
                ("canary", "app v1 → v2, partition 0 → 3", State.HELD),
                ("all", "partition 3 → 0", State.DONE),
            ]

    stage.play(script)
    phases = [line.split(": ")[1].split(" at ")[0] for line in stage.diary()]
    assert [p for p in phases if not p.startswith("rolling")] == [
        "done 4/4", "held 1/4", "done 4/4",
    ]  # fmt: skip


@pytest.mark.slow
def test_creation_counts_the_pods_that_git_asks_for(staged: MakeStage) -> None:
    stage = staged()
    made = deployment("agent")
    spec = {name: value for name, value in made["spec"].items() if name != "replicas"}
    daemons = {**made, "kind": "DaemonSet", "spec": spec}

    async def script() -> None:
        async with stage.running():
            await stage.push(cloneset("web", 1), daemons, message="first")
            await stage.rest()
            changes = {key.kind: steps[0].change for key, steps in stage.record.steps}
            assert changes == {"CloneSet": "created, 1 pod", "DaemonSet": "created"}

    stage.play(script)


@pytest.mark.slow
def test_a_commit_during_a_rollout_overtakes_it_and_that_is_reported(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            second = await stage.push(web("app:v2", maxUnavailable=1), message="second")
            await stage.rest(1)
            assert stage.state == "Rolling"
            third = await stage.push(web("app:v3", maxUnavailable=1), message="third")
            await stage.rest()
            assert stage.images() == ["app:v3"] * 4
            assert [(c.id, by) for c, by in stage.record.superseded] == [(second, third)]

    stage.play(script)
    messages = run_git(stage.origin.bare, "log", "--format=%B", STATUS)
    assert messages.count("was overtaken by") == 1
    assert messages.count("Gitkruise-Superseded") == 1


@pytest.mark.slow
def test_a_newer_commit_overtakes_between_two_writes(staged: MakeStage) -> None:
    stage = staged(apply={"concurrency": 1})
    maps = [config_map(f"m{number:02}", x="1") for number in range(30)]
    newer = [config_map(f"m{number:02}", x="2") for number in range(30)]

    def push_meanwhile(request: ApiRequest) -> ApiError | None:
        if request.name == "m04" and "dryRun" not in request.params:
            commit = stage.origin.commit({"app.yaml": documents(*newer)}, "newer")
            stage.repository.fetch("refs/heads/main")
            stage.unit.offer(commit)
            stage.wire.refuse = lambda _: None
        return None

    async def script() -> None:
        stage.wire.refuse = push_meanwhile
        async with stage.running():
            await stage.push(*maps, message="first")
            await stage.rest()
            assert stage.wire.writes()[:6] == [f"patch m{n:02}" for n in (0, 1, 2, 3, 4, 0)]
            assert len(stage.wire.writes()) == 5 + 30
            assert stage.state == "Done"
            assert stage.get("ConfigMap", "m29")["data"] == {"x": "2"}

    stage.play(script)


@pytest.mark.slow
def test_commits_pushed_together_are_reported_though_only_the_last_is_applied(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            second = stage.origin.commit({"app.yaml": documents(web("app:v2"))}, "second")
            await stage.push(web("app:v3"), message="third")
            await stage.rest()
            assert [c.id for c, _ in stage.record.superseded] == [second]
            assert not any(image == "app:v2" for image in stage.images())

    stage.play(script)


@pytest.mark.slow
def test_marks_name_unit_commit_and_place_and_a_new_head_alone_writes_nothing(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            first = await stage.push(web(), config_map("settings", mode="fast"))
            await stage.rest()
            meta = stage.get("ConfigMap", "settings")["metadata"]
            assert meta["labels"] == {"gitkruise.io/unit": stage.unit.label}
            marks = {k.removeprefix("gitkruise.io/"): v for k, v in meta["annotations"].items()}
            assert marks.pop("digest").startswith("sha256:")
            assert marks == {"unit-ref": UNIT, "commit": first, "path": "app.yaml:23"}
            done, diary = len(stage.wire.writes()), stage.diary()
            stage.origin.commit({"README.md": "hello"}, "words")
            await stage.push(message="nothing")
            await stage.rest()
            reordered = dict(reversed(web().items()))
            await stage.push(reordered, config_map("settings", mode="fast"), message="layout")
            await stage.rest()
            assert len(stage.wire.writes()) == done
            assert stage.get("ConfigMap", "settings")["metadata"] == meta
            causal, attempted = stage.record.causal, stage.record.attempted
            assert causal
            assert attempted
            assert (causal.id, attempted.subject) == (first, "layout")
            assert len(stage.diary()) == len(diary) + 2  # both commits are told

    stage.play(script)


@pytest.mark.slow
def test_the_short_status_is_written_on_news_only(staged: MakeStage) -> None:
    stage = staged()

    def annotations() -> list[str]:
        return [
            r.body["metadata"]["annotations"]["gitkruise.io/rollout"]
            for r in stage.wire.requests
            if r.params.get("fieldManager") == "gitkruise-status"
        ]

    async def script() -> None:
        async with stage.running():
            first = await stage.push(web())
            await stage.rest()
            canary = await stage.push(web("app:v2", partition=2))
            await stage.rest(600)
            assert annotations() == [
                f"rolling {first[:7]}", f"done 4/4 {first[:7]}",
                f"rolling {canary[:7]}", f"held 2/4 {canary[:7]}",
            ]  # fmt: skip
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert len(annotations()) == 4

    stage.play(script)
