"""Counts in records: only of the commit that the record names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.progress import ProgressLines
from gitkruise.gitops.status.serializer import commit_subject
from gitkruise.model.gitops.record import pod_counts
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.commit_statuses import describe
from tests.cli import shop as example
from tests.gitops.reconcile.test_sidecars import mesh
from tests.gitops.stage import WEB, MakeStage, config_map, web
from tests.worlds import START, deployment

pytestmark = pytest.mark.slow

TEMPLATES: list[tuple[str, dict[str, Any]]] = [
    ("app:v2", {}),  # another template
    ("app:v2", {"partition": 2}),  # a canary
]


@pytest.mark.parametrize(("image", "rolling"), TEMPLATES, ids=["all", "canary"])
def test_no_record_counts_pods_of_the_commit_before(
    staged: MakeStage, image: str, rolling: dict[str, Any]
) -> None:
    stage = staged()
    commits: list[str] = []

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            commits.append(await stage.push(web(image, **rolling), message="second"))
            await stage.rest()

    stage.play(script)
    records = [r for r in stage.offered if r.causal is not None and r.causal.id == commits[0]]
    before = [r for r in records if dict(r.steps)[WEB][-1].commit.id != commits[0]]
    assert before, "the record before the apply"
    for record in before:
        assert "/" not in commit_subject([record]).split(": ")[1]
        assert "4/4" not in describe(record)
        assert record.updated == 0
        assert not any(r.generation_seen for r in record.rollouts)
        assert {str(r.state) for r in record.rollouts} <= {"Waiting", "Rolling"}
        assert [r.state for r in record.rollouts] == [o.state for o in record.objects]


def test_the_log_names_a_commit_as_done_only_after_its_apply(staged: MakeStage) -> None:
    stage = staged()
    commits: list[str] = []

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            commits.append(await stage.push(web("app:v2"), message="second"))
            await stage.rest()

    stage.play(script)
    printed = ProgressLines(Style(colour=False, unicode=False, width=100))
    lines = [line for record in stage.offered for line in printed.lines(record, START)]
    about = [line for line in lines if "cloneset/web" in line and commits[0][:7] in line]
    states = [line.partition("state=")[2].split()[0] for line in about]
    assert states[0] == "Waiting"
    assert states.count("Done") == 1
    assert states[-1] == "Done"
    assert not [line for line in about if "state=Waiting" in line and "new=" in line]


def test_an_object_that_waits_for_its_turn_is_not_done(staged: MakeStage) -> None:
    stage = staged()

    def pair(mode: str, image: str) -> list[Any]:
        late = config_map("late", {"gitkruise.io/wave": "2"}, mode=mode)
        return [web(image, maxUnavailable=1), late]

    async def script() -> None:
        async with stage.running():
            await stage.push(*pair("a", "app:v1"), message="first")
            await stage.rest()
            await stage.push(*pair("b", "app:v2"), message="second")
            await stage.rest(1)
            assert stage.get("ConfigMap", "late")["data"] == {"mode": "a"}
            states = {o.key.name: str(o.state) for o in stage.record.objects}
            assert states["late"] == "Waiting"
            await stage.rest()
            assert {str(o.state) for o in stage.record.objects} == {"Done"}

    stage.play(script)


@pytest.mark.parametrize("image", ["app:v1", "app:v3"], ids=["back", "on"])
def test_a_commit_that_mends_a_bad_image_in_place_is_never_stuck(
    staged: MakeStage, image: str
) -> None:
    stage = staged()
    states: list[tuple[str, str]] = []

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:bad"), message="bad")
            await stage.rest()
            assert "image app:bad cannot be pulled" in stage.record.message
            before = len(stage.offered)
            await stage.push(web(image), message="mended")
            await stage.rest()
            states.extend((str(r.state), r.message) for r in stage.offered[before:])

    stage.play(script)
    assert states[-1][0] == "Done"
    assert not [news for news in states if news[0] == "Stuck"]
    assert [line.split()[1] for line in stage.diary()].count("stuck") == 1


def test_a_pod_under_two_rollouts_of_a_unit_is_counted_once(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web(), message="first")
            await stage.rest()
            assert (stage.record.updated, stage.record.total) == (4, 4)
            await stage.push(mesh("mesh:v2", partition=3), web(), message="canary")
            await stage.rest()
            assert sorted(r.updated for r in stage.record.rollouts) == [1, 4]
            assert (stage.record.updated, stage.record.total) == (1, 4)

    stage.play(script)
    lines = [line.split(" at ")[0] for line in stage.diary()]
    assert "shop/web: done 4/4" in lines
    assert lines[-1] == "shop/web: held 1/4"


def test_pods_without_a_uid_are_different_ones() -> None:
    rollout = replace(example.rollout(State.HELD), updated=4, ready=9, total=10)
    assert pod_counts([rollout, rollout]) == (8, 18, 20)
    assert pod_counts([replace(rollout, generation_seen=False)]) == (0, 9, 10)


def test_states_of_a_unit_and_its_workloads_only_move_forward(staged: MakeStage) -> None:
    """Also where the short status on a Deployment makes its controller look once more."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            for image in ("app:v1", "app:v2"):
                before = len(stage.offered)
                await stage.push(web(image), deployment("api", image=image), message=image)
                await stage.rest()
                records = stage.offered[before:]
                assert _runs(r.state for r in records)[-2:] == ["Rolling", "Done"]
                assert not {"Waiting"} & {r.state for r in records}
                for name in ("web", "api"):
                    found = [o.state for r in records for o in r.rollouts if o.key.name == name]
                    assert _runs(found) in (["Rolling", "Done"], ["Waiting", "Rolling", "Done"])

    stage.play(script)


def _runs(states: Iterable[State]) -> list[str]:
    """Return the states without immediate repetitions."""
    return [str(state) for state, _ in groupby(states)]
