"""A promotion goes on by itself, step by step, and stops wherever a person would."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from gitkruise.gitops.actions.actions import ActionArgs, ActionVerb, act_message, compute
from gitkruise.gitops.actions.target import ObjectQuery, find_target, read_branch
from gitkruise.model.gitops.config import Suspend
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_time
from tests.git.repos import run_git
from tests.gitops.promoted import configured, promoting, promotion, standing, written
from tests.gitops.stage import MakeStage, Stage, documents, web
from tests.worlds import SPACE, START

pytestmark = pytest.mark.slow

CANARY = web("app:v2", partition="75%")
FIRST, STEP_2, STEP_3 = "first", "web: promote to partition 50%", "web: promote to all"


async def canary(stage: Stage, rest_s: float = 60, manifest: Obj = CANARY) -> None:
    """Version 2 on one of four pods, or what `manifest` says, and so long after it."""
    await stage.push(web(), message=FIRST)
    await stage.rest()
    await stage.push(manifest, message="canary")
    await stage.rest(rest_s)


def done(stage: Stage) -> tuple[str, int]:
    return stage.state, stage.images().count("app:v2")


@pytest.mark.slow
def test_steps_that_count_updated_pods_are_committed_as_partitions(staged: MakeStage) -> None:
    steps = [{"updated": "25%", "soak": "2m"}, {"updated": 3, "soak": "2m"}, {"updated": "100%"}]
    stage = staged(promotion=promotion(steps=steps))

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            assert standing(stage).next == "1"
            await stage.rest(3 * 60)
            assert (done(stage), standing(stage).next) == (("Held", 3), "0")
            await stage.rest(4 * 60)
            assert (done(stage), standing(stage).step) == (("Done", 4), 3)

    stage.play(script)


def test_each_step_is_committed_after_its_soak_until_all_pods_are_updated(
    staged: MakeStage,
) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            progress = standing(stage)
            assert (progress.step, progress.steps, progress.next, progress.why) == (1, 3, "50%", "")
            assert progress.due is not None
            await stage.rest(55)
            assert (done(stage), written(stage)) == (("Held", 1), [FIRST, "canary"])
            await stage.rest(60)
            assert (done(stage), written(stage)[2:]) == (("Held", 2), [STEP_2])
            await stage.rest(3 * 60)
            assert (standing(stage).next, written(stage)[2:]) == ("0", [STEP_2])
            await stage.rest(2 * 60)
            assert (done(stage), written(stage)[2:]) == (("Done", 4), [STEP_2, STEP_3])
            progress = standing(stage)
            assert (progress.step, progress.next, progress.due, progress.why) == (3, "", None, "")
            await stage.rest(10 * 60)
            assert len(written(stage)) == 4

    stage.play(script)
    output = run_git(stage.origin.bare, "log", "-1", "--format=%an|%(trailers:only,unfold)", "main")
    assert output.split("\n") == [
        "gitkruise|Gitkruise-Action: promote",
        "Gitkruise-Unit: shop/web",
        "Gitkruise-Object: CloneSet shop/web",
        "Gitkruise-Step: 3/3",
    ]
    changed = run_git(stage.origin.bare, "diff", "--unified=0", "main~2", "main", "--", "app.yaml")
    moved = [line.strip("+- ") for line in changed.split("\n") if line[:2] in {"+ ", "- "}]
    assert moved == ["partition: 75%", "partition: 0"]


@pytest.mark.slow
def test_a_restart_in_the_soak_neither_shortens_nor_begins_it_anew(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            due = standing(stage).due
            await stage.rest(10)
        await stage.rest(10)
        stage.start_over()
        async with promoting(stage):
            await stage.rest(20)
            assert standing(stage).due == due
            assert len(written(stage)) == 2
            await stage.rest(60)
            assert written(stage)[2:] == [STEP_2]

    stage.play(script)


@pytest.mark.slow
def test_a_restart_after_the_soak_goes_on_at_once_and_once(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
        await stage.rest(3600)
        stage.start_over()
        async with promoting(stage):
            await stage.rest(90)
            assert (done(stage), written(stage)[2:]) == (("Held", 2), [STEP_2])

    stage.play(script)


@pytest.mark.slow
def test_a_push_in_the_middle_begins_the_soak_anew_from_where_git_is(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            await stage.rest(50)
            await stage.push(web("app:v3", partition="75%"), message="a better one")
            await stage.rest(100)
            assert written(stage)[2:] == ["a better one"]
            await stage.rest(60)
            assert written(stage)[3:] == [STEP_2]
            assert stage.images() == ["app:v1"] * 2 + ["app:v3"] * 2

    stage.play(script)


@pytest.mark.slow
def test_a_commit_that_overtakes_a_step_is_where_it_goes_on(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            await stage.push(web("app:v2", partition=2), message="half of them now")
            await stage.rest(225)
            assert (standing(stage).step, len(written(stage))) == (2, 3)
            await stage.rest(60)
            assert (done(stage), written(stage)[3:]) == (("Done", 4), [STEP_3])

    stage.play(script)


@pytest.mark.slow
def test_what_is_pushed_while_a_step_is_computed_comes_first(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    def push_meanwhile(request: ApiRequest) -> None:
        if request.verb == "list" and request.resource.plural == "nodes":  # it is played ahead
            stage.wire.refuse = lambda _: None
            stage.origin.commit({"app.yaml": documents(web("app:v3", partition="75%"))}, "late")

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            stage.wire.refuse = push_meanwhile
            await stage.rest(2 * 60)
            assert written(stage)[2:] == ["late"]
            assert standing(stage).why == ""
            await stage.rest(2 * 60)
            assert written(stage)[3:] == [STEP_2]

    stage.play(script)


@pytest.mark.slow
def test_it_stands_still_while_pods_fail(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web(), message=FIRST)
            await stage.rest()
            await stage.push(web("app:bad", partition="75%"), message="bad")
            await stage.rest(10 * 60)
            assert (stage.state, written(stage)) == ("Stuck", [FIRST, "bad"])
            assert standing(stage).why == "the rollout is Stuck"
            await stage.push(CANARY, message="mended")
            await stage.rest(3 * 60)
            assert written(stage)[2:] == ["mended", STEP_2]

    stage.play(script)


@pytest.mark.slow
def test_a_pod_that_fails_in_the_soak_begins_it_anew(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            await stage.rest(50)
            pods = stage.world.objects(GroupKind("", "Pod"), SPACE)
            name = next(
                p["metadata"]["name"]
                for p in pods
                if p["spec"]["containers"][0]["image"] == "app:v2"
            )
            where = ResourceRef("", "v1", "pods")
            request = ApiRequest(verb="delete", resource=where, namespace=SPACE, name=name)
            stage.world.handle(request, stage.clock.now())
            stage.cluster.publish()
            await stage.rest(105)
            assert (done(stage), len(written(stage))) == (("Held", 1), 2)
            await stage.rest(60)
            assert written(stage)[2:] == [STEP_2]

    stage.play(script)


def person(stage: Stage, verb: ActionVerb, to: str = "", **files: str) -> str:
    """What `gitkruise VERB` commits, and how its message ends."""
    rules = (stage.world.catalog, Gates())
    tip = stage.repository.resolve("main")
    state = read_branch(stage.repository, "main", tip, configured(stage), *rules)
    _, target = find_target([state], ObjectQuery(kind=CLONESET, name="web"))
    edit = compute(verb, stage.repository, target, ActionArgs(partition=to, keep=3))
    return stage.origin.commit({edit.file: edit.data, **files}, act_message(edit, target))


# What a person does in the soak, what is told, and what makes it go on.
STOPS = {
    "hold": (ActionVerb.HOLD, "Dana K holds it there by {commit}", ActionVerb.RESUME),
    "pause": (ActionVerb.PAUSE, "the rollout is Paused", ActionVerb.RESUME),
    "hold-and-promote": (ActionVerb.HOLD, "Dana K holds it there by {commit}", ActionVerb.PROMOTE),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STOPS)
def test_a_person_stops_it_by_a_commit_and_lets_it_go_on(name: str, staged: MakeStage) -> None:
    stage = staged(promotion=promotion())
    verb, why, onward = STOPS[name]

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            commit = person(stage, verb)
            await stage.rest(5 * 60)
            assert len(written(stage)) == 3
            assert standing(stage).why == why.format(commit=commit[:7])
        stage.start_over()
        async with promoting(stage):
            stage.origin.commit({"README.md": "hello"}, "words")
            await stage.rest(5 * 60)
            assert len(written(stage)) == 4
            person(stage, onward, "50%" if onward is ActionVerb.PROMOTE else "")
            await stage.rest(3 * 60)
            last = written(stage)[4:]
            assert last == [STEP_2] if onward is ActionVerb.PROMOTE else last[1:] == [STEP_2]
            assert done(stage) == ("Held", 2)

    stage.play(script)


@pytest.mark.slow
def test_more_pods_than_asked_for_stop_it(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            await stage.push(web("app:v2", partition=1), message="three")
            await stage.rest()
            await stage.push(web("app:v2", partition=2), message="back to two")
            await stage.rest(10 * 60)
            assert (done(stage), len(written(stage))) == (("Held", 3), 4)
            assert standing(stage).why == "more pods are updated than git asks for"

    stage.play(script)


@pytest.mark.slow
def test_an_annotation_and_a_suspension_stop_it_for_their_time(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())
    until = format_time(START + timedelta(minutes=8))

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web(), message=FIRST)
            await stage.rest()
            held = {**CANARY, "metadata": {**CANARY["metadata"]}}
            held["metadata"]["annotations"] = {"gitkruise.io/hold": f"{until} freeze"}
            await stage.push(CANARY, message="canary")
            await stage.rest()
            stage.meddle(held)
            await stage.rest(5 * 60)
            assert standing(stage).why == f"it is left alone until {until}"
            await stage.rest(3 * 60)
            assert written(stage)[2:] == [STEP_2]

    stage.play(script)


@pytest.mark.slow
def test_a_unit_that_is_suspended_is_not_promoted(staged: MakeStage) -> None:
    until = format_time(START + timedelta(minutes=8))
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
        stage.spec = msgspec.structs.replace(stage.spec, suspend=Suspend(until=until))
        stage.start_over()
        async with promoting(stage):
            await stage.rest(5 * 60)
            assert (len(written(stage)), standing(stage).why) == (2, "the unit is suspended")
            await stage.rest(3 * 60)
            assert written(stage)[2:] == [STEP_2]

    stage.play(script)


@pytest.mark.slow
def test_a_push_that_is_refused_is_reported_and_tried_again(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            lock = stage.origin.bare / "refs" / "heads" / "main.lock"
            lock.touch()
            await stage.rest(5 * 60)
            assert len(written(stage)) == 2
            lock.unlink()
            await stage.rest(6 * 60)
            assert written(stage)[2:] == [STEP_2]

    stage.play(script)


@pytest.mark.slow
def test_while_it_soaks_nothing_is_reported_again(staged: MakeStage) -> None:
    stage = staged(promotion=promotion())

    async def script() -> None:
        async with promoting(stage):
            await canary(stage)
            lines = stage.diary()
            await stage.rest(50)
            assert stage.diary() == lines

    stage.play(script)
    assert "next: 50%" in stage.status_file("units/shop/web/status.yaml")
