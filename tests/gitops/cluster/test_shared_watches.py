"""Pages of a running controller read its caches, and watch only what it does not follow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gitkruise.app import RunningController
from gitkruise.gitops.inspect.cluster_view import EVENT, WORKLOADS, Survey
from gitkruise.gitops.runtime.fleet_questions import RunningFleet
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.controllers import alongside
from tests.gitops.cluster.test_live_cache import program
from tests.gitops.stage import documents
from tests.observer.program import Program
from tests.worlds import cloneset

__all__ = ["program"]
pytestmark = pytest.mark.slow
# Nobody else in the process follows them, because no unit has one.
ALONE = {"events", "daemonsets", "jobs", "cronjobs"}


@asynccontextmanager
async def following(program: Program) -> AsyncIterator[Survey]:
    """A survey that has listed everything, as that of the pages does before the process leads."""
    stage = program.stage
    survey = Survey(stage.wire, load_catalog(), (*WORKLOADS, EVENT), marked=True)
    async with alongside(survey.follow(stage.clock)):
        await stage.rest(1)
        yield survey


def caches(program: Program, running: RunningController) -> RunningFleet:
    return RunningFleet(running.fleet, Gates(), program.stage.clock)


def reported_by(program: Program, survey: Survey) -> list[tuple[str, str, int]]:
    """What the survey says of each workload, and how many pods it has."""
    now = program.stage.clock.now()
    return [(str(m.key), str(m.state), len(m.pods)) for m in survey.managed(now) if m.rollout]


def watched(program: Program) -> dict[str, int]:
    return {plural: n for plural, n in program.stage.wire.watched.items() if n}


def test_what_the_process_follows_is_watched_once(program: Program) -> None:
    stage = program.stage

    async def script() -> None:
        async with program.up() as running, following(program) as survey:
            await stage.rest()
            twice, before = watched(program), reported_by(program, survey)
            assert before == [
                ("CloneSet default/shop", "Done", 3), ("CloneSet shop/web", "Done", 2),
            ]  # fmt: skip
            fleet = caches(program, running)
            survey.share(fleet.caches)
            await stage.rest(1)
            assert reported_by(program, survey) == before
            once = watched(program)
            fewer = {plural for plural in twice if once[plural] < twice[plural]}
            assert fewer >= {"clonesets", "pods", "controllerrevisions", "sidecarsets"}
            assert {plural for plural in twice if plural not in fewer} >= ALONE
            assert [once[plural] for plural in ("pods", "controllerrevisions")] == [1, 1]
            survey.changed.clear()
            program.origin.commit({"one/app.yaml": documents(cloneset("web", 4, "app:v1"))}, "more")
            await stage.rest()
            assert survey.changed.is_set()
            assert reported_by(program, survey)[1] == ("CloneSet shop/web", "Done", 4)
            assert survey.problem == ""

    program.play(script, inside=False)


def test_what_the_process_follows_no_more_is_watched_again(program: Program) -> None:
    """Rows stay meanwhile."""
    stage = program.stage

    async def script() -> None:
        async with following(program) as survey:
            async with program.up() as running:
                await stage.rest()
                fleet = caches(program, running)
                survey.share(fleet.caches)
                await stage.rest(1)
                before = reported_by(program, survey)
                stage.wire.cut = True
                await stage.rest(5)
                assert "connection" in survey.problem, "that of the shared watches"
                stage.wire.cut = False
                await stage.rest()
            survey.share(())
            assert reported_by(program, survey) == before
            await stage.rest(2)
            survey.share(())
            assert reported_by(program, survey) == before
            assert watched(program)["pods"] == 1
            assert survey.problem == ""

    program.play(script, inside=False)


def test_objects_without_the_label_of_a_unit_are_not_shown(program: Program) -> None:
    """The controllers follow every CloneSet of the cluster."""
    stage = program.stage
    program.origin.commit({"one/app.yaml": None, "two/app.yaml": None}, "nothing")

    async def script() -> None:
        async with program.up() as running, following(program) as survey:
            stage.meddle(cloneset("other", 1, "app:v1"))
            await stage.rest()
            survey.share(caches(program, running).caches)
            await stage.rest(1)
            assert reported_by(program, survey) == []

    program.play(script, inside=False)
