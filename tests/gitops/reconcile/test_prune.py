"""Deleting what left git: who agreed to it, what it waits for, and what it never does."""

from __future__ import annotations

import shlex
from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from gitkruise.errors import Forbidden
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import make_origin, run_git
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents, web

pytestmark = pytest.mark.slow

KEEP = config_map("keep", a="b")
EXTRA = [config_map(f"extra-{n}", a="b") for n in range(5)]


def code(stage: Stage) -> str:
    return next((f.code for f in stage.record.findings if f.code.startswith("GK23")), "")


def note(stage: Stage, label: str) -> str:
    found = next(f for f in stage.record.findings if f.code.startswith("GK23"))
    return dict(reversed(found.notes))[label]


def extras(stage: Stage) -> int:
    return sum(stage.get("ConfigMap", obj["metadata"]["name"]) is not None for obj in EXTRA)


def test_a_commit_approves_a_large_deletion_by_its_hash(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, *EXTRA)
            await stage.rest()
            await stage.push(KEEP)
            await stage.rest()
            assert (stage.state, code(stage), extras(stage)) == ("Waiting", "GK2303", 5)
            command = note(stage, "next")
            wrong = command.split(": ")[-1].strip('"')[::-1]
            await stage.push(message=f"no\n\nGitkruise-Approve: {wrong}")
            await stage.rest()
            assert (stage.state, extras(stage)) == ("Waiting", 5)
            run_git(stage.origin.work, *_words(command))  # what the message says, as it stands
            run_git(stage.origin.work, "push", "-q", "origin", "HEAD:main")
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, code(stage), extras(stage)) == ("Done", "", 0)

    stage.play(script)


def _words(command: str) -> list[str]:
    """The words of `git …` as a shell would split them."""
    return shlex.split(command)[1:]


def test_an_approval_of_less_is_no_approval_of_more(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, *EXTRA)
            await stage.rest()
            await stage.push(KEEP, EXTRA[0])
            await stage.rest()
            command = note(stage, "next")
            await stage.push(KEEP)  # one object more leaves git
            await stage.rest()
            run_git(stage.origin.work, *_words(command))
            run_git(stage.origin.work, "push", "-q", "origin", "HEAD:main")
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, code(stage), extras(stage)) == ("Waiting", "GK2303", 5)
            assert note(stage, "next") != command

    stage.play(script)


def test_an_annotation_of_the_unit_approves_too(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, *EXTRA)
            await stage.rest()
            await stage.push(KEEP)
            await stage.rest()
        name, _, mark = note(stage, "or").rpartition(": ")
        assert name == "annotate the Unit: gitkruise.io/approve"
        stage.approved = mark
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, extras(stage)) == ("Done", 0)

    stage.play(script)


def test_nothing_is_deleted_while_the_source_cannot_be_read(staged: MakeStage) -> None:
    stage = staged()
    held = config_map("held", a="b")

    def not_yet(request: ApiRequest) -> Forbidden | None:
        wet = request.verb == "patch" and "dryRun" not in request.params
        return Forbidden("quota") if wet and request.name == "keep" else None

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, held)
            await stage.rest()
            stage.wire.refuse = not_yet  # the commit that drops `held` is not through in time
            good = await stage.push(config_map("keep", a="c"))
            await stage.rest(10)
            run_git(stage.origin.bare, "update-ref", "-d", "refs/heads/main")
            await stage.follower.check()
            stage.wire.refuse = lambda _: None
            await stage.rest(300)
            assert stage.get("ConfigMap", "keep")["data"] == {"a": "c"}
            assert stage.get("ConfigMap", "held")
            assert code(stage) == "GK2305"
            run_git(stage.origin.bare, "update-ref", "refs/heads/main", good)
            await stage.follower.check()
            await stage.rest()
            assert stage.get("ConfigMap", "held") is None
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


@pytest.mark.parametrize(
    "bad", ["{broken", "kind: ConfigMap", documents(config_map("Not_A_Name", a="b"))]
)
def test_nothing_is_deleted_while_the_newest_commit_cannot_be_taken(
    staged: MakeStage, bad: str
) -> None:
    stage = staged()
    held = config_map("held", a="b")

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, held)
            await stage.rest()
            stage.wire.refuse = lambda r: Forbidden("no") if r.verb == "delete" else None
            await stage.push(KEEP)
            await stage.rest(5)
            await stage.push(more=bad)
            stage.wire.refuse = lambda _: None
            await stage.rest(300)
            assert stage.get("ConfigMap", "held")
            assert stage.state == "Rejected"
            (stage.origin.work / "more.yaml").unlink()
            await stage.push(message="take it back")
            await stage.rest()
            assert stage.get("ConfigMap", "held") is None

    stage.play(script)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rewritten_history_deletes_nothing_before_the_next_commit(
    staged: MakeStage, *, restarted: bool
) -> None:
    stage = staged()
    stage.allow_force_push = True
    stage.start_over()
    held = config_map("held", a="b")

    async def rewritten() -> None:
        await stage.push(config_map("keep", a="c"), message="rewritten")
        await stage.rest(300)
        assert stage.get("ConfigMap", "keep")["data"] == {"a": "c"}
        assert stage.get("ConfigMap", "held")
        assert code(stage) == "GK2305"
        await stage.push(config_map("keep", a="d"), message="next")
        await stage.rest()
        assert stage.get("ConfigMap", "held") is None
        assert (stage.state, stage.record.findings) == ("Done", ())

    async def script() -> None:
        async with stage.running():
            first = await stage.push(KEEP)
            await stage.push(KEEP, held)
            await stage.rest()
            run_git(stage.origin.work, "reset", "--hard", "-q", first)
            run_git(stage.origin.bare, "update-ref", "refs/heads/main", first)
            if not restarted:
                await rewritten()
        if restarted:
            stage.start_over()
            async with stage.running():
                await rewritten()

    stage.play(script)


def test_a_source_that_moves_elsewhere_deletes_nothing_by_the_same_step(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    held = config_map("held", a="b")

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, held)
            await stage.rest()
        (tmp_path / "other").mkdir()
        stage.origin, stage.allow_force_push = make_origin(tmp_path / "other"), True
        stage.origin.commit({"app.yaml": documents(KEEP)}, "elsewhere")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(300)
            assert stage.get("ConfigMap", "held")
            assert code(stage) == "GK2305"
            await stage.push(config_map("keep", a="d"))
            await stage.rest()
            assert stage.get("ConfigMap", "held") is None

    stage.play(script)


def test_an_object_moves_to_another_unit_by_one_commit_without_being_deleted(
    staged: MakeStage,
) -> None:
    stage = staged(path="a")
    other, reporter = stage.add_unit("shop/other", msgspec.structs.replace(stage.spec, path="b"))
    moving = config_map("moving", a="b")

    async def script() -> None:
        async with stage.running(other):
            first = {
                "a/app.yaml": documents(KEEP, moving),
                "b/app.yaml": documents(config_map("b", x="z")),
            }
            other.offer(stage.origin.commit(first))
            await stage.follower.check()
            await stage.rest()
            uid = stage.get("ConfigMap", "moving")["metadata"]["uid"]
            second = {
                "a/app.yaml": documents(KEEP),
                "b/app.yaml": documents(config_map("b", x="z"), moving),
            }
            commit = stage.origin.commit(second)
            await stage.follower.check()  # the other unit is slow to look
            await stage.rest(600)
            assert code(stage) == "GK2305"
            assert "shop/other" in stage.record.findings[0].message
            other.offer(commit)
            await stage.rest()
            moved = stage.get("ConfigMap", "moving")["metadata"]
            assert (moved["uid"], moved["labels"]["gitkruise.io/unit"]) == (uid, other.label)
            assert (stage.state, str(reporter.record.state)) == ("Done", "Done")

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


def test_a_unit_without_its_folder_keeps_no_other_from_deleting(staged: MakeStage) -> None:
    stage = staged(path="a")
    other, _ = stage.add_unit("shop/other", msgspec.structs.replace(stage.spec, path="none"))

    async def script() -> None:
        async with stage.running(other):
            for objects in ((KEEP, EXTRA[0]), (KEEP,)):
                other.offer(stage.origin.commit({"a/app.yaml": documents(*objects)}))
                await stage.follower.check()
                await stage.rest()
            assert (stage.state, extras(stage)) == ("Done", 0)

    stage.play(script)


def test_what_waits_for_a_finalizer_is_reported_after_the_timeout(staged: MakeStage) -> None:
    stage = staged(prune={"timeout": "2m"})

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, EXTRA[0])
            await stage.rest()
            body = {
                **EXTRA[0],
                "metadata": {"name": "extra-0", "finalizers": ["example.com/backup"]},
            }
            stage.meddle(body, manager="backup-operator")
            await stage.push(KEEP)
            await stage.rest(110)
            assert (stage.state, code(stage)) == ("Rolling", "")
            assert stage.record.message == (
                "deleting ConfigMap shop/extra-0; finalizers: example.com/backup"
            )
            await stage.rest(15)
            assert (stage.state, code(stage)) == ("Stuck", "GK2306")
            assert "example.com/backup" in stage.record.message
            stage.meddle(
                {**body, "metadata": {"name": "extra-0", "finalizers": []}},
                manager="backup-operator",
            )
            await stage.rest(5)
            assert (stage.state, stage.record.findings, extras(stage)) == ("Done", (), 0)

    stage.play(script)


def test_a_lost_inventory_is_found_again_by_its_label(staged: MakeStage) -> None:
    """Neither the status branch nor memory is needed to know what to delete."""
    stage = staged()
    stranger = config_map("extra-9", a="b")

    async def script() -> None:
        stage.meddle(stranger, manager="somebody")
        async with stage.running():
            await stage.push(KEEP, *EXTRA[:2])
            await stage.rest()
        run_git(stage.origin.bare, "update-ref", "-d", "refs/heads/gitkruise/status/test")
        stage.origin.commit({"app.yaml": documents(KEEP)})
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, extras(stage)) == ("Done", 0)
            assert stage.get("ConfigMap", "extra-9")

    stage.play(script)


def test_what_may_not_be_deleted_keeps_no_other(staged: MakeStage) -> None:
    stage = staged()

    def denied(request: ApiRequest) -> Forbidden | None:
        return Forbidden("no") if request.verb == "delete" and request.name == "extra-0" else None

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, *EXTRA[:3])
            await stage.rest()
            stage.wire.refuse = denied
            await stage.push(KEEP)
            await stage.rest()
            assert (stage.state, code(stage), extras(stage)) == ("Stuck", "GK2307", 1)
            stage.wire.refuse = lambda _: None
            await stage.rest()
            assert (stage.state, stage.record.findings, extras(stage)) == ("Done", (), 0)

    stage.play(script)


def test_no_record_counts_pods_of_a_workload_that_the_commit_does_not_contain(
    staged: MakeStage,
) -> None:
    stage = staged()
    records: list[UnitRecord] = []
    renamed = web()
    renamed["metadata"]["name"] = "site"

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, web())
            await stage.rest()
            stage.reporter.listen(records.append)
            await stage.push(KEEP, renamed)
            await stage.rest()
            assert (stage.state, stage.get("CloneSet", "web")) == ("Done", None)

    stage.play(script)
    of_it = [r for r in records if [o.key.name for o in r.objects] == ["keep", "site"]]
    names = {rollout.key.name for record in of_it for rollout in record.rollouts}
    assert (names, max(record.total for record in of_it)) == ({"site"}, 4)


ASIDE = config_map("held", {"gitkruise.io/reconcile": "Disabled"}, a="b")


@pytest.mark.parametrize("seen", ["by this process", "by an earlier process", "by none"])
def test_what_git_left_alone_stays_when_its_file_goes(staged: MakeStage, seen: str) -> None:
    """The annotation was never applied: a sync leaves the object as it is."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, config_map("held", a="b"), config_map("other", a="b"))
            await stage.rest()
            stage.origin.commit({"app.yaml": documents(KEEP, ASIDE, config_map("other", a="b"))})
            if seen != "by none":
                await stage.follower.check()
                await stage.rest()
            if seen != "by an earlier process":
                await stage.push(KEEP)
                await stage.rest()
        if seen == "by an earlier process":
            stage.start_over()
            async with stage.running():
                await stage.push(KEEP)
                await stage.rest()
        assert stage.get("ConfigMap", "other") is None
        assert stage.get("ConfigMap", "held")
        assert (stage.state, code(stage)) == ("Done", "GK2302")
        assert stage.record.findings[0].message == (
            "ConfigMap shop/held left git but stays in the cluster: "
            "annotation gitkruise.io/reconcile: Disabled"
        )

    stage.play(script)


def test_what_git_left_alone_for_a_time_goes_with_its_file(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            for held in (config_map("held", a="b"), ASIDE, config_map("held", a="c")):
                await stage.push(KEEP, held)
                await stage.rest()
        stage.start_over()
        async with stage.running():
            await stage.push(KEEP)
            await stage.rest()
            assert (stage.state, code(stage)) == ("Done", "")
            assert stage.get("ConfigMap", "held") is None

    stage.play(script)


def test_an_approval_that_git_has_is_known_before_anything_is_reported(staged: MakeStage) -> None:
    """One pass of sync ends with the first state that waits for a person."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, *EXTRA)
            await stage.rest()
            await stage.push(KEEP)
            await stage.rest()
        run_git(stage.origin.work, *_words(note(stage, "next")))
        run_git(stage.origin.work, "push", "-q", "origin", "HEAD:main")
        stage.start_over()
        stage.offered.clear()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
        assert (stage.state, extras(stage)) == ("Done", 0)
        assert "Waiting" not in {str(record.state) for record in stage.offered}

    stage.play(script)


def test_a_start_says_nothing_of_done_before_it_knows_what_left_git(staged: MakeStage) -> None:
    stage = staged()
    held = config_map("held", a="b")

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, held)
            await stage.rest()
        run_git(stage.origin.bare, "update-ref", "-d", STATUS)  # a unit without a record
        stage.start_over()
        stage.offered.clear()
        async with stage.running():
            commit = await stage.push(KEEP)
            await stage.rest()
        states = [r.state for r in stage.offered if r.causal is not None and r.causal.id == commit]
        assert [state for state, _ in groupby(states)] == [State.ROLLING, State.DONE]

    stage.play(script)
