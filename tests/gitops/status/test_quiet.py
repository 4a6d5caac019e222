"""Nothing new, nothing written: idle rounds, restarts and things that will not stay put."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.errors import Finding, SourceFailed
from gitkruise.gitops.status.serializer import record_files
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.git.repos import run_git
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents, web

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", mode="fast")


def cut(stage: Stage) -> None:
    """Let the cluster answer nothing; the next event breaks the watches."""
    stage.wire.cut = True
    stage.meddle(config_map("any", a="b"))
    stage.meddle({**web(), "metadata": {"name": "web", "labels": {"a": "b"}}})


def test_a_thousand_idle_rounds_write_nothing(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(partition=1), SETTINGS)
            await stage.rest()
            asked, lines, offered = len(stage.wire.requests), stage.diary(), len(stage.offered)
            for _ in range(1000):
                await stage.unit.round()
            await stage.rest(3600)
            assert len(stage.wire.requests) == asked
            assert len(stage.offered) == offered
            assert stage.diary() == lines

    stage.play(script)


def test_a_cluster_that_falls_silent_is_reported_without_a_push(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            cut(stage)
            await stage.rest(90)
            assert (stage.state, stage.record.findings[0].code) == ("Unknown", "GK4103")
            stage.wire.cut = False
            await stage.rest(300)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_watch_that_works_again_is_reported_immediately(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            cut(stage)
            await stage.rest(90)
            assert stage.state == "Unknown"
            stage.wire.cut = False
            while stage.live.problem() is not None:
                await stage.rest(0.1)
            await stage.rest(3)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_watch_that_fails_concerns_units_with_its_kind_alone(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS)
            await stage.rest()
            cut(stage)
            await stage.rest(1)
            failing = stage.live.problem({CLONESET})
            assert failing is not None
            assert failing.message == "cannot watch CloneSet.apps.kruise.io: connection refused"
            assert "kubectl get clonesets.apps.kruise.io -A " in dict(failing.notes)["next"]
            assert stage.live.problem({GroupKind("", "Secret")}) is None

    stage.play(script)


def test_a_restart_goes_on_without_applying_or_telling_anything_twice(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS)
            await stage.rest()
            await stage.push(web("app:v2", partition=2), SETTINGS, message="canary")
            await stage.rest()
        before, lines = stage.record, stage.diary()
        writes = len(stage.wire.writes())
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert len(stage.wire.writes()) == writes
            assert stage.diary() == lines
            assert record_files(stage.record) == record_files(before)

    stage.play(script)


def test_a_crash_in_the_middle_of_a_rollout_starts_no_pod_twice(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(maxUnavailable=1))
            await stage.rest()
            commit = await stage.push(web("app:v2", maxUnavailable=1), message="new")
            await stage.rest(1)
            assert stage.state == "Rolling"
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert stage.state == "Done"
            assert stage.wire.writes() == ["patch web"] * 2
            step = dict(stage.record.steps)[stage.rollout.key][-1]
            assert (step.commit.id, str(step.state)) == (commit, "Done")

    stage.play(script)


def test_a_restart_on_a_bad_commit_keeps_healing_the_good_one(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS)
            await stage.rest()
            await stage.push(app="{broken", message="bad")
            await stage.rest()
        lines, record = stage.diary(), stage.record
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            (healed,) = stage.record.interventions  # news; all else is as before
            assert (healed.reason, healed.key.name) == ("DriftCorrected", "settings")
            bare = replace(stage.record, interventions=())
            assert record_files(bare) == record_files(record)
            assert len(stage.diary()) == len(lines) + 1
            assert stage.diary()[-1] == f"shop/web: DriftCorrected {healed.key} [skip ci]"
            body = run_git(stage.origin.bare, "log", "-1", "--format=%b", STATUS)
            assert f"DriftCorrected {healed.key}: {healed.text}" in body.splitlines()

    stage.play(script)


def test_a_restart_on_a_bad_commit_goes_on_from_the_one_that_was_never_well(
    staged: MakeStage,
) -> None:
    """A commit that only takes an object away leaves no mark; its deletion waits."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1-bad"), SETTINGS)
            await stage.rest()
            await stage.push(web("app:v1-bad"), message="without settings")
            await stage.rest()
            await stage.push(app="{broken", message="bad")
            await stage.rest()
        record = stage.record
        assert [o.key.name for o in record.objects] == ["web"]
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert record_files(stage.record) == record_files(record)
            assert stage.get("ConfigMap", "settings") is not None

    stage.play(script)


MODES: list[tuple[str, str, str]] = [
    ("correct", "fast", "Done"),
    ("detect", "slow", "Drifted"),
    ("off", "slow", "Done"),
]


@pytest.mark.parametrize(("mode", "value", "state"), MODES, ids=[row[0] for row in MODES])
def test_drift_modes(staged: MakeStage, mode: str, value: str, state: str) -> None:
    stage = staged(drift={"mode": mode})

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest()
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": value}
            assert stage.state == state
            fields = [(d.field, d.git, d.live) for d in stage.record.drift]
            assert fields == ([("data.mode", "fast", "slow")] if mode == "detect" else [])

    stage.play(script)
    if mode == "detect":
        assert "data.mode" in stage.status_file("units/shop/web/drift.yaml")


POLICIES: list[tuple[str, str, bool]] = [
    ("owned", "kubectl-edit", True),
    ("owned", "kubectl-client-side-apply", True),
    ("owned", "helm", True),
    ("owned", "kustomize-controller", True),
    ("owned", "argocd-controller", True),
    ("owned", "some-operator", False),
    ("force", "some-operator", True),
    ("fail", "kubectl-edit", False),
]


@pytest.mark.parametrize(
    ("policy", "manager", "taken"), POLICIES, ids=[f"{p} {m}" for p, m, _ in POLICIES]
)
def test_fields_of_others(staged: MakeStage, policy: str, manager: str, *, taken: bool) -> None:
    stage = staged(apply={"conflicts": policy})

    async def script() -> None:
        stage.meddle(config_map("settings", mode="slow"), manager=manager)
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            data = stage.get("ConfigMap", "settings")["data"]
            assert data == {"mode": "fast" if taken else "slow"}
            assert stage.state == ("Done" if taken else "Rejected")
            if not taken:
                finding = stage.record.findings[0]
                assert finding.code == "GK2401"
                assert manager in finding.message
                assert "mode: fast" in finding.places[0].snippet[-1][1]

    stage.play(script)


def test_others_on_the_status_branch_lose_nothing(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            run_git(stage.origin.work, "fetch", "-q", "origin", STATUS)
            run_git(stage.origin.work, "checkout", "-q", "FETCH_HEAD")
            (stage.origin.work / "notes.txt").write_text("mine")
            run_git(stage.origin.work, "add", "notes.txt")
            run_git(stage.origin.work, "commit", "-qm", "theirs")
            run_git(stage.origin.work, "push", "-q", "origin", f"HEAD:{STATUS}")
            run_git(stage.origin.work, "checkout", "-q", "main")
            await stage.push(web("app:v2"))
            await stage.rest()
            assert stage.status_file("notes.txt") == "mine"
            assert "theirs" in stage.diary()
            assert stage.diary()[-1].startswith("shop/web: done 4/4")

    stage.play(script)


def test_counts_wait_for_company_and_a_broken_sink_stops_nothing(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            publish, count = stage.branch.publish, len(stage.diary())

            def broken(*_: Any) -> str | None:
                raise SourceFailed(Finding(code="GK3101", message="away"))

            stage.branch.publish = broken  # type: ignore[method-assign,assignment]  # the remote is away
            await stage.push(web("app:v2"))
            await stage.rest(120)
            assert stage.images() == ["app:v2"] * 4
            assert stage.outbox.problem
            assert not stage.outbox.idle
            stage.branch.publish = publish  # type: ignore[method-assign]  # and back
            await stage.rest(60)
            assert stage.outbox.idle
            assert len(stage.diary()) == count + 1  # the newest record alone

    stage.play(script)


def test_what_left_git_is_deleted_once_all_else_is_ready(staged: MakeStage) -> None:
    stage = staged()
    extra = [config_map(f"extra-{n}", a="b") for n in range(3)]

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS, *extra)
            await stage.rest()
            second = await stage.push(web("app:v2", maxUnavailable=1), SETTINGS, extra[0])
            await stage.rest(1)
            assert stage.get("ConfigMap", "extra-2")  # the rollout is not through yet
            await stage.rest()
            assert stage.get("ConfigMap", "extra-0")
            assert stage.get("ConfigMap", "extra-1") is None
            assert stage.get("ConfigMap", "extra-2") is None
            assert stage.state == "Done"
        records = [r for r in stage.offered if r.causal and r.causal.id == second]
        done = [n for n, record in enumerate(records) if str(record.state) == "Done"]
        assert done[0] == len(records) - 1, [(str(r.state), r.message) for r in records]
        assert "deleting ConfigMap shop/extra-1 and 1 more object" in {r.message for r in records}

    stage.play(script)
    deletes = [r for r in stage.wire.requests if r.verb == "delete"]
    assert all(r.body["preconditions"]["uid"] for r in deletes)
    assert len(deletes) == 2


def test_too_many_deletes_wait_for_a_person_and_survive_a_restart(staged: MakeStage) -> None:
    stage = staged(prune={"maxDelete": 3})
    extra: list[Obj] = [config_map(f"extra-{n}", a="b") for n in range(4)]

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS, *extra)
            await stage.rest()
            await stage.push(config_map("settings", mode="slow"))
            await stage.rest()
            assert (stage.state, stage.record.findings[0].code) == ("Waiting", "GK2303")
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "slow"}
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, stage.record.findings[0].code) == ("Waiting", "GK2303")
            stage.origin.commit(
                {"app.yaml": documents(config_map("settings", mode="slow"), extra[0])}
            )
            await stage.follower.check()
            await stage.rest()
            assert stage.state == "Done"
            assert stage.get("ConfigMap", "extra-0")
            assert stage.get("ConfigMap", "extra-1") is None

    stage.play(script)
