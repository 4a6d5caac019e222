"""A promotion of a StatefulSet of either kind: its steps are numbers of ordinals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gitops.promoted import STEPS, promoting, standing
from tests.gitops.stage import MakeStage, Stage
from tests.planner.statefulset.build import GATE, IN_PLACE, advanced

pytestmark = pytest.mark.slow
KRUISE = "apps.kruise.io/v1beta1"
VERSIONS = pytest.mark.parametrize("version", [KRUISE, "apps/v1"])


def db(version: str, image: str, partition: int, **rolling: Any) -> Any:
    """Four pods."""
    more = {**IN_PLACE, **rolling} if version == KRUISE else {}
    made = advanced(4, image=image, pod=GATE, rolling={"partition": partition, **more})
    if version != KRUISE:
        del made["spec"]["template"]["spec"]["readinessGates"]
    return {**made, "apiVersion": version}


def staged(embedded: MakeStage, version: str) -> Stage:
    workload = {"kind": "StatefulSet", "name": "db", "apiVersion": version}
    return embedded(promotion={"workload": workload, "steps": STEPS, "via": "commit"})


def partition(stage: Stage, version: str) -> int:
    live = stage.get("StatefulSet", "db", version.partition("/")[0])
    found: int = live["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
    return found


@VERSIONS
def test_each_step_lowers_the_partition_after_its_soak(embedded: MakeStage, version: str) -> None:
    stage = staged(embedded, version)

    async def script() -> None:
        async with promoting(stage):
            await stage.push(db(version, "app:v1", 0), message="first")
            await stage.rest()
            await stage.push(db(version, "app:v2", 3), message="canary")
            await stage.rest()
            assert (stage.state, stage.images().count("app:v2")) == ("Held", 1)
            assert (standing(stage).step, standing(stage).next) == (1, "50%")
            await stage.rest(3 * 60)
            assert (stage.state, stage.images().count("app:v2")) == ("Held", 2)
            assert partition(stage, version) == 2
            await stage.rest(5 * 60)
            assert (stage.state, stage.images().count("app:v2")) == ("Done", 4)
            assert (standing(stage).step, partition(stage, version)) == (3, 0)

    stage.play(script)


def test_a_soak_begins_when_pods_were_ready_for_min_ready_seconds(embedded: MakeStage) -> None:
    stage = staged(embedded, KRUISE)
    slow = {"minReadySeconds": 100}

    async def script() -> None:
        async with promoting(stage):
            await stage.push(db(KRUISE, "app:v1", 0, **slow), message="first")
            await stage.rest(10 * 60)
            await stage.push(db(KRUISE, "app:v2", 3, **slow), message="canary")
            await stage.rest(60)
            assert (stage.state, stage.images().count("app:v2")) == ("Rolling", 1)
        stage.start_over()
        async with promoting(stage):
            await stage.rest(60)
            found = standing(stage)
            assert found.due is not None
            newest = max(p.ready_since for p in stage.live.store.pods("shop") if p.ready_since)
            assert (found.due - newest).total_seconds() >= 100 + 2 * 60

    stage.play(script)


@VERSIONS
def test_a_step_waits_until_its_pods_are_available(embedded: MakeStage, version: str) -> None:
    stage = staged(embedded, version)

    async def script() -> None:
        async with promoting(stage):
            await stage.push(db(version, "app:v1", 0), message="first")
            await stage.rest()
            await stage.push(db(version, "app:missing", 3), message="canary")
            await stage.rest(10 * 60)
            assert stage.state != "Held"
            assert partition(stage, version) == 3

    stage.play(script)
