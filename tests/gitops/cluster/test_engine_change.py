"""OpenKruise's manager and its definitions, which come and go while gitkruise runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gitkruise.app import RunningController, controller
from gitkruise.sandbox.controllers import alongside
from tests.gitops.cluster.leases import install_lease, renew_lease
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, documents, web

LONG_AGO_S: Final = 3600.0


def push(stage: Stage, image: str) -> None:
    stage.origin.commit({"web/app.yaml": documents(web(image))}, image)


def findings(running: RunningController) -> list[str]:
    found = running.reporters["shop/web"].record.findings
    return [f"{one.code}: {one.message}" for one in found]


LOST: Final = "GK4402: OpenKruise's manager is running, and engine: own was asked for"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("own", [LOST]),
        ("auto", []),
    ],
)
def test_a_unit_names_the_engine_that_it_lost(
    staged: MakeStage, tmp_path: Path, asked: str, found: list[str]
) -> None:
    stage = staged()
    more = f", workloads: {{{{engine: {asked}}}}}"
    program = options(stage, tmp_path, SOURCE + unit("web", more))

    async def script() -> None:
        push(stage, "app:v1")
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(60)
            assert findings(running) == []
            install_lease(stage, 0)
            async with alongside(renew_lease(stage)):
                await stage.rest(60)
                assert findings(running) == found
            await stage.rest(60)
            (silent,) = findings(running)
            assert silent.startswith("GK4404")

    stage.play(script, stage.driver(()).run)


@pytest.mark.parametrize("installed", [True, False], ids=["after-an-outage", "newly-installed"])
def test_openkruise_gets_the_pods_when_its_manager_starts(
    staged: MakeStage, tmp_path: Path, installed: bool
) -> None:
    """A reboot of the cluster may start gitkruise first: two engines would act on the same pods."""
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("web"))

    async def script() -> None:
        if installed:
            install_lease(stage, LONG_AGO_S)
        push(stage, "app:v1")
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(60)
            assert (running.engine, stage.images()) == ("own", ["app:v1"] * 4)
            if not installed:
                install_lease(stage, 0)
            async with alongside(renew_lease(stage)):
                await stage.rest(5)
                push(stage, "app:v2")
                await stage.rest(60)
                (rollout,) = running.reporters["shop/web"].record.rollouts
                assert stage.images() == ["app:v1"] * 4, "OpenKruise drives the pods"
                assert rollout.engine == "kruise"

    stage.play(script, stage.driver(()).run)


def test_a_unit_names_the_workloads_that_a_silent_manager_leaves(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("web"))

    async def script() -> None:
        install_lease(stage, 0)
        push(stage, "app:v1")
        async with controller(program, stage.wire, stage.clock) as running:
            async with alongside(renew_lease(stage)):
                await stage.rest(61)
                assert findings(running) == []
            await stage.rest(60)
            (silent,) = findings(running)
            assert silent == (
                "GK4404: no engine drives CloneSet shop/web: OpenKruise's manager"
                " has not renewed its Lease since 2026-11-21T10:01:00Z"
            )
            async with alongside(renew_lease(stage)):
                await stage.rest(60)
                assert findings(running) == []

    stage.play(script, stage.driver(()).run)
