"""A promotion of a Deployment: its steps are canaries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gitops.promoted import promoting, standing
from tests.gitops.stage import MakeStage, Stage
from tests.worlds import deployment

pytestmark = pytest.mark.slow
STEPS = [{"partition": "75%", "soak": "2m"}, {"updated": 2, "soak": "4m"}, {"partition": 0}]
PROMOTION = {
    "workload": {"kind": "Deployment", "name": "web"},
    "steps": STEPS,
    "via": "commit",
}


def web(image: str, canary: str) -> Any:
    obj: Any = deployment(image=image, replicas=4)
    obj["metadata"]["annotations"] = {"gitkruise.io/canary": canary}
    return obj


def canary(stage: Stage) -> str:
    live = stage.get("Deployment", "web", "apps")
    found: str = live["metadata"]["annotations"]["gitkruise.io/canary"]
    return found


def test_each_step_raises_the_canary_after_its_soak(embedded: MakeStage) -> None:
    stage = embedded(promotion=PROMOTION)

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web("app:v1", "100%"), message="first")
            await stage.rest()
            await stage.push(web("app:v2", "1"), message="canary")
            await stage.rest()
            assert (stage.state, stage.images().count("app:v2")) == ("Held", 1)
            assert (standing(stage).step, standing(stage).next) == (1, "2")
            await stage.rest(3 * 60)
            assert (stage.state, stage.images().count("app:v2"), canary(stage)) == ("Held", 2, "2")
            await stage.rest(5 * 60)
            assert (stage.state, stage.images().count("app:v2")) == ("Done", 4)
            assert (standing(stage).step, canary(stage)) == (3, "100%")

    stage.play(script)


def test_a_step_waits_until_the_canary_has_come_to_rest(embedded: MakeStage) -> None:
    stage = embedded(promotion=PROMOTION)

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web("app:v1", "100%"), message="first")
            await stage.rest()
            assert standing(stage).next == ""
            await stage.push(web("app:missing", "1"), message="canary")
            await stage.rest(10 * 60)
            assert stage.images().count("app:missing") == 1
            assert stage.state != "Held"
            assert canary(stage) == "1"

    stage.play(script)


def test_a_pause_in_git_stops_it_at_its_canary(embedded: MakeStage) -> None:
    """The canary pauses the Deployment as well: its state stays Held."""
    stage = embedded(promotion=PROMOTION)
    paused = web("app:v2", "1")
    paused["spec"]["paused"] = True

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web("app:v1", "100%"), message="first")
            await stage.rest()
            await stage.push(web("app:v2", "1"), message="canary")
            await stage.rest()
            await stage.push(paused, message="pause")
            await stage.rest(10 * 60)
            assert (canary(stage), standing(stage).why) == ("1", "git has paused: true")
            await stage.push(web("app:v2", "1"), message="resume")
            await stage.rest(3 * 60)
            assert canary(stage) == "2"

    stage.play(script)


def test_a_workload_that_the_unit_does_not_have_is_reported(embedded: MakeStage) -> None:
    stage = embedded(promotion=PROMOTION)
    elsewhere = web("app:v1", "100%")
    elsewhere["metadata"]["name"] = "site"

    async def script() -> None:
        async with promoting(stage):
            await stage.push(elsewhere, message="first")
            await stage.rest()
            (finding,) = stage.record.findings
            assert (finding.code, finding.is_error) == ("GK3509", False)
            named = "Deployment shop/web"
            assert finding.message == f"the unit has no {named}, which its promotion names"
            await stage.push(elsewhere, web("app:v1", "100%"), message="second")
            await stage.rest()
            assert stage.record.findings == ()

    stage.play(script)
