"""Another writer changes the marks of an applied object, as `kubectl rollout undo` does: drift."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from gitkruise.gitops.status.reader import interventions
from gitkruise.planner.sync.annotations import COMMIT, DIGEST, MANAGER, UNIT, UNIT_REF, annotation
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, web
from tests.worlds import SPACE, deployment

pytestmark = pytest.mark.slow

SLOW: Final = config_map("settings", mode="slow")
FAST: Final = config_map("settings", mode="fast")


def with_notes(obj: Obj, **notes: dict[str, str]) -> dict[str, Any]:
    """Return an object with labels or annotations."""
    return {**obj, "metadata": {**obj["metadata"], **notes}}


async def two_commits(stage: Stage) -> tuple[str, dict[str, str]]:
    """Apply two contents and a commit beside; return the second commit, and the first marks."""
    await stage.push(SLOW, message="slow")
    await stage.rest()
    first = dict(live(stage)["metadata"]["annotations"])
    second = await stage.push(FAST, message="fast")
    await stage.rest()
    await stage.push(FAST, config_map("other", a="b"), message="beside")
    await stage.rest()
    return second, first


def live(stage: Stage) -> dict[str, Any]:
    """Return the live object."""
    found: dict[str, Any] | None = stage.get("ConfigMap", "settings")
    assert found is not None
    return found


def rollout(stage: Stage) -> Obj:
    """Return the live CloneSet."""
    found = stage.world.get(stage.rollout.key)
    assert found is not None
    return found


def steps(stage: Stage) -> list[tuple[str, str, str, int]]:
    """Return subject, change, revision and pods of each step of the rollout."""
    ((_, found),) = stage.record.steps
    return [(one.commit.subject, one.change, one.revision, one.updated) for one in found]


def reasons_and_texts(stage: Stage) -> list[tuple[str, str]]:
    """Return reason and words of the recorded interventions."""
    return [(one.reason, one.text) for one in interventions(stage.repository, STATUS, {})]


def test_content_and_marks_of_an_older_commit_are_put_back_with_their_fields(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            second, first = await two_commits(stage)
            stage.meddle(with_notes(SLOW, annotations=first), manager="kubectl")
            await stage.rest()
            assert live(stage)["data"] == {"mode": "fast"}
            assert annotation(live(stage), COMMIT) == second, "not the commit beside"
            assert stage.state == "Done"

    stage.play(script)
    words = "put back as git says: data.mode slow → fast (set by kubectl)"
    assert reasons_and_texts(stage) == [("DriftCorrected", words)]


def test_they_stay_where_drift_is_only_detected(staged: MakeStage) -> None:
    stage = staged(drift={"mode": "detect"})

    async def script() -> None:
        async with stage.running():
            second, first = await two_commits(stage)
            stage.meddle(with_notes(SLOW, annotations=first), manager="kubectl")
            await stage.rest()
            assert live(stage)["data"] == {"mode": "slow"}
            assert [(d.field, d.live, d.manager) for d in stage.record.drift] == [
                ("data.mode", "slow", "kubectl")
            ]
            assert stage.state == "Drifted"
            (obj,) = [o for o in stage.record.objects if o.key.name == "settings"]
            assert obj.commit == second
            await stage.push(config_map("settings", mode="faster"), message="faster")
            await stage.rest()
            assert live(stage)["data"] == {"mode": "faster"}, "git moved"
            assert stage.state == "Done"

    stage.play(script)


def test_a_correction_is_no_step_of_a_later_commit(staged: MakeStage) -> None:
    stage = staged()
    old, new = web("app:v1"), web("app:v2")

    async def script() -> None:
        async with stage.running():
            await stage.push(old)
            await stage.rest()
            await stage.push(new, message="v2")
            await stage.rest()
            await stage.push(new, SLOW, message="beside")
            await stage.rest()
            before = steps(stage)
            stage.meddle(old, manager="kubectl")
            await stage.rest()
            assert stage.images() == ["app:v2"] * 4
            assert steps(stage) == before
        stage.meddle(old, manager="kubectl")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert stage.images() == ["app:v2"] * 4
            assert steps(stage) == before

    stage.play(script)


MARKS: Final = {
    "digest": (
        with_notes(FAST, annotations={DIGEST: "sha256:0"}),
        f"metadata.annotations.{DIGEST} sha256:0",
    ),
    "commit": (
        with_notes(FAST, annotations={COMMIT: "1" * 40}),
        f"metadata.annotations.{COMMIT} 111",
    ),
    "label": (with_notes(FAST, labels={UNIT: "mine"}), f"metadata.labels.{UNIT} mine"),
}  # fmt: skip


@pytest.mark.parametrize("others", [False, True], ids=["ours alone", "beside another manager"])
@pytest.mark.parametrize(("theirs", "field"), MARKS.values(), ids=MARKS)
def test_marks_alone_are_put_back(
    staged: MakeStage, theirs: dict[str, Any], field: str, others: bool
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            if others:
                await stage.push(SLOW)
                await stage.rest()
                note = with_notes(config_map("settings"), annotations={"note": "x"})
                stage.meddle(note, manager="annotator")
            second, _ = await two_commits(stage)
            before = live(stage)["metadata"]
            stage.meddle(theirs, manager="kubectl")
            await stage.rest()
            after = live(stage)["metadata"]
            assert (after["annotations"], after["labels"]) == (
                before["annotations"], before["labels"]
            )  # fmt: skip
            assert annotation(live(stage), COMMIT) == second
            assert annotation(live(stage), UNIT_REF) == "shop/web"

    stage.play(script)
    ((reason, words),) = reasons_and_texts(stage)
    assert reason == "DriftCorrected"
    assert words.startswith(f"put back as git says: {field}")
    assert words.endswith("(set by kubectl)")


def test_a_label_that_was_removed_is_put_back_and_no_deletion(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            uid, before = rollout(stage)["metadata"]["uid"], steps(stage)
            await stage.push(web(), SLOW, message="beside")
            await stage.rest()
            kind = stage.world.catalog.stored(stage.rollout.key.group_kind)
            assert kind is not None
            body = {"metadata": {"labels": {UNIT: None}}}
            removal = ApiRequest(
                verb="patch", resource=kind.ref, namespace=SPACE, name="web", body=body,
                content_type=MERGE_PATCH, params={"fieldManager": "kubectl-label"},
            )  # fmt: skip
            stage.world.handle(removal, stage.clock.now())
            stage.cluster.publish()
            await stage.rest()
            after = rollout(stage)["metadata"]
            assert (after["uid"], UNIT in after["labels"]) == (uid, True)
            assert steps(stage) == before

    stage.play(script)
    words = f"put back as git says: the label {UNIT} had been removed"
    assert reasons_and_texts(stage) == [("DriftCorrected", words)]


def test_marks_that_were_forged_before_a_start_are_not_taken_for_ours(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await two_commits(stage)
        stage.meddle(with_notes(FAST, annotations={COMMIT: "1" * 40}), manager="kubectl")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            stage.meddle(with_notes(FAST, annotations={COMMIT: "2" * 40}), manager="kubectl")
            await stage.rest()

    stage.play(script)
    assert reasons_and_texts(stage) == []


def test_a_deployment_that_was_deleted_comes_back_without_a_crash(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged()
    wanted = deployment(replicas=2)

    async def script() -> None:
        async with stage.running():
            await stage.push(wanted)
            await stage.rest()
            uid = stage.get("Deployment", "web", "apps")["metadata"]["uid"]
            gone = ApiRequest(
                verb="delete", resource=ResourceRef("apps", "v1", "deployments"),
                namespace=SPACE, name="web",
            )  # fmt: skip
            stage.world.handle(gone, stage.clock.now())
            stage.cluster.publish()
            await stage.rest()
            assert stage.get("Deployment", "web", "apps")["metadata"]["uid"] != uid
            assert stage.state == "Done"

    stage.play(script)
    assert "crashed" not in caplog.text
    assert "Stuck" not in [str(record.state) for record in stage.offered]


def test_another_gitkruise_with_the_same_unit_is_a_manager_that_insists(staged: MakeStage) -> None:
    """Two controllers with one name and other repositories: their writes pause, and both say so."""
    stage, theirs = staged(), dict[str, str]()

    async def rival() -> None:
        while theirs:
            if live(stage)["data"] == {"mode": "fast"}:
                stage.meddle(with_notes(SLOW, annotations=theirs, labels=marks), manager=MANAGER)
            await stage.clock.sleep(0.01)

    async def script() -> None:
        async with stage.running():
            await stage.push(FAST)
            await stage.rest()
            marks.update(live(stage)["metadata"]["labels"])
            theirs.update(live(stage)["metadata"]["annotations"])
            theirs.update({DIGEST: "d" * 16, COMMIT: "e" * 40})
            begun = len(stage.wire.writes())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(rival())
                await stage.rest(600)
                assert len(stage.wire.writes()) - begun < 12
                (finding,) = stage.record.findings
                assert finding.code == "GK2501"
                who = "another gitkruise with this unit (commit eeeeeee) changes data.mode"
                assert who in finding.message
                assert stage.state == "Drifted"
                theirs.clear()
            await stage.rest(1200)
            assert live(stage)["data"] == {"mode": "fast"}
            assert (stage.state, stage.record.findings) == ("Done", ())

    marks = dict[str, str]()
    stage.play(script)
