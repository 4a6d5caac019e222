"""What anybody who may push the status branch writes into records decides nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gitkruise.cli.views.promotion import progress
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.planner.sync.annotations import MANAGER, UNIT, marked
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.git.repos import run_git
from tests.gitops.promoted import promoting, promotion, standing, written
from tests.gitops.reconcile.test_hooks import AFTER, BEFORE
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents, web
from tests.planner.sync.build import desired
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", mode="fast")
JOBS = ResourceRef("batch", "v1", "jobs")
RECORD = "units/shop/web/status.yaml"


def forge(stage: Stage, folder: Path, path: str, old: str, new: str) -> None:
    """Replace `old` by `new` in a file of the status branch, as a stranger with a clone would."""
    work = folder / f"forger-{len(list(folder.iterdir()))}"
    run_git(folder, "clone", "-q", str(stage.origin.bare), str(work))
    run_git(work, "checkout", "-q", STATUS.removeprefix("refs/heads/"))
    (file,) = work.glob(path)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    run_git(work, "add", "--all")
    run_git(work, "-c", "user.name=m", "-c", "user.email=m@x", "commit", "-qm", "forged")
    run_git(work, "push", "-q", "origin", "HEAD")


def aside(stage: Stage, files: dict[str, str]) -> str:
    """A commit on another branch, which was never taken."""
    good = run_git(stage.origin.work, "rev-parse", "HEAD")
    commit = stage.origin.commit(files, "aside")
    run_git(stage.origin.bare, "update-ref", "refs/heads/aside", commit)
    run_git(stage.origin.work, "reset", "-q", "--hard", good)
    run_git(stage.origin.bare, "update-ref", "refs/heads/main", good)
    return commit


def undate(stage: Stage) -> None:
    """Take away what says who wrote the CloneSet, and when."""
    group, version = CLONESET.group, "v1alpha1"
    kind = stage.world.catalog.by_kind(group, version, CLONESET.kind)
    assert kind is not None
    request = ApiRequest(
        verb="patch", resource=kind.ref, namespace=SPACE, name="web", content_type=MERGE_PATCH,
        body={"metadata": {"managedFields": [{}]}},
    )  # fmt: skip
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


def without(stage: Stage, job: str) -> None:
    """Delete a Job, as whatever clears finished ones away does."""
    request = ApiRequest(
        verb="delete", resource=JOBS, namespace=SPACE, name=job,
        body={"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"},
    )  # fmt: skip
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


async def forged_aside(stage: Stage, folder: Path, files: dict[str, str]) -> str:
    """Forge the record of a live commit to name one that is not in its history; the live one."""
    async with stage.running():
        good = await stage.push(SETTINGS)
        await stage.rest()
    forge(stage, folder, RECORD, good, aside(stage, files))
    return good


def test_a_forged_applied_commit_suppresses_no_hook(staged: MakeStage, tmp_path: Path) -> None:
    """Live objects bear the commit from its first wave on, long before its hooks have run."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            good = await stage.push(web(), BEFORE, AFTER)
            await stage.rest(120)
            assert stage.state == "Done"
            new = await stage.push(web("app:v2"), BEFORE, AFTER)
            await stage.rest(4)
            assert stage.wire.writes()[-1] == "patch web"
        forge(stage, tmp_path, RECORD, good, new)
        stage.start_over()
        stage.wire.requests.clear()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(120)
            assert stage.wire.writes() == ["delete after", "patch after"]
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.parametrize("old", ["applied:", "since:"], ids=["commit", "record"])
def test_a_forged_record_repeats_no_hook(staged: MakeStage, tmp_path: Path, old: str) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS, BEFORE, AFTER)
            await stage.rest(120)
            assert stage.state == "Done"
        without(stage, "before")
        without(stage, "after")
        forge(stage, tmp_path, RECORD, old, "nothing:")
        stage.start_over()
        stage.wire.requests.clear()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(120)
            assert (stage.wire.writes(), stage.state) == ([], "Done")
            await stage.push(config_map("settings", mode="new"), BEFORE, AFTER)
            await stage.rest(120)
            assert stage.wire.writes() == ["patch before", "patch settings", "patch after"]

    stage.play(script)


OTHER = {"app.yaml": documents(config_map("settings", mode="forged"))}


@pytest.mark.parametrize("files", [OTHER, {"NOTES.md": "x\n"}], ids=["other", "same"])
def test_a_forged_applied_commit_stops_no_source(
    staged: MakeStage, tmp_path: Path, files: dict[str, str]
) -> None:
    """Neither one that asks for other content nor one that asks for what is live."""
    stage = staged()

    async def script() -> None:
        await forged_aside(stage, tmp_path, files)
        stage.start_over()
        async with stage.running():
            await stage.push(config_map("settings", mode="new"))
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "new"}

    stage.play(script)


def test_a_record_that_live_objects_do_not_confirm_is_not_repeated(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Such as after a reset of the cluster: its last state is over."""
    stage = staged()

    async def script() -> None:
        await forged_aside(stage, tmp_path, OTHER)
        stage.start_over()
        stage.offered.clear()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
        assert [one for one in stage.offered if not one.objects and one.state == "Done"] == []
        assert stage.state == "Done"

    stage.play(script)


def test_a_forged_applied_commit_is_not_kept_where_git_cannot_be_read(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()

    async def script() -> None:
        good = await forged_aside(stage, tmp_path, OTHER)
        run_git(stage.origin.bare, "update-ref", "refs/heads/kept", good)
        run_git(stage.origin.bare, "update-ref", "-d", "refs/heads/main")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert stage.record.findings[0].code == "GK3201"
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}

    stage.play(script)


def test_forged_times_do_not_shorten_a_soak(staged: MakeStage, tmp_path: Path) -> None:
    """Pods that became ready later say so themselves."""
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:v2", partition="75%"), message="canary")
            await stage.rest()
            due = standing(stage).due
        for path in (RECORD, "units/shop/web/rollouts/*.yaml"):
            forge(stage, tmp_path, path, "2026-", "2025-")
        stage.start_over()
        async with promoting(stage):
            await stage.rest(20)
            assert standing(stage).due == due
            assert len(written(stage)) == 2

    stage.play(script)


@pytest.mark.parametrize("year", ["2025-", "2027-"])
def test_forged_times_move_no_soak_of_a_step_without_new_pods(
    staged: MakeStage, tmp_path: Path, year: str
) -> None:
    """The last write of the spec counts, which the cluster remembers."""
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:v2", partition="75%"), message="canary")
            await stage.rest(60)
            slower = web("app:v2", partition="75%", maxUnavailable=2)
            await stage.push(slower, message="slower")
            await stage.rest()
            due = standing(stage).due
        for path in (RECORD, "units/shop/web/rollouts/*.yaml"):
            forge(stage, tmp_path, path, "2026-", year)
        stage.start_over()
        async with promoting(stage):
            await stage.rest(20)
            found = standing(stage).due
            assert due is not None
            assert found is not None
            assert abs(found - due) <= timedelta(seconds=2)
            assert len(written(stage)) == 3
            await stage.rest(3 * 60)
            assert len(written(stage)) == 4

    stage.play(script)


def test_a_soak_starts_over_where_the_cluster_does_not_date_the_spec(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:v2", partition="75%"), message="canary")
            await stage.rest(60)
            assert standing(stage).note == ""
        undate(stage)
        stage.start_over()
        async with promoting(stage):
            began = stage.clock.now()
            await stage.rest(20)
            standing_now = standing(stage)
            assert standing_now.due is not None
            assert standing_now.due >= began.replace(microsecond=0) + timedelta(minutes=2)
            assert "the soak counts from this start" in progress(standing_now, stage.clock.now())

    stage.play(script)


def test_a_deleted_record_lets_no_commit_empty_a_unit(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
        forge(stage, tmp_path, RECORD, "since:", "nothing:")
        stage.origin.commit({"app.yaml": "# nothing\n"}, "emptied")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert stage.state == "Rejected"
            assert "GK2301" in {f.code for f in stage.record.findings}
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}

    stage.play(script)


def test_a_source_is_held_while_the_cluster_does_not_say_what_is_live(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
        stage.start_over()
        async with stage.running():
            stage.wire.cut = True
            await stage.push(config_map("settings", mode="new"))
            assert stage.follower.problem is not None
            assert stage.follower.problem.code == "GK3308"
            assert stage.follower.followed == ""
            stage.wire.cut = False
            await stage.follower.check()
            await stage.rest(120)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "new"}

    stage.play(script)


def test_a_newer_live_commit_stays_while_the_newest_cannot_be_taken(staged: MakeStage) -> None:
    """Another process applied it; the source leads neither to it nor to the older one."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            newer = stage.origin.commit({"NOTES.md": "x\n"}, "newer")
            await stage.push(app="kind: [")
            await stage.rest()
            assert stage.state == "Rejected"
            label = stage.get("ConfigMap", "settings")["metadata"]["labels"][UNIT]
            theirs = desired(config_map("settings", mode="newer"))
            stage.meddle(
                marked(theirs, unit="shop/web", label=label, commit=newer, path="app.yaml:1"),
                manager=MANAGER,
            )
            await stage.rest(120)
            assert "GK3211" in {f.code for f in stage.record.findings}
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "newer"}
            await stage.push(config_map("settings", mode="last"))
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "last"}

    stage.play(script)
