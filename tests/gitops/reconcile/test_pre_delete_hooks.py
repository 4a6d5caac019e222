"""A pre-delete Job sleeps in the cluster, and runs when its unit goes, before the deletion."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.gitops.reconcile.test_hooks import job
from tests.gitops.runtime.test_finalizer import LEFT, NAMES, House
from tests.gitops.stage import MakeStage, Stage
from tests.worlds import SPACE

pytestmark = pytest.mark.slow


@pytest.fixture
def house(staged: MakeStage, tmp_path: Path) -> House:
    return House(staged(), tmp_path)


def remove(stage: Stage, name: str) -> None:
    """Somebody deletes a Job."""
    jobs = ResourceRef("batch", "v1", "jobs")
    request = ApiRequest(verb="delete", resource=jobs, namespace=SPACE, name=name)
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


@pytest.mark.parametrize(
    "row", [("gitkruise.io/hook", "pre-delete"), ("argocd.argoproj.io/hook", "PreDelete")]
)
def test_it_runs_when_the_unit_goes(house: House, row: tuple[str, str]) -> None:
    name, word = row

    async def script() -> None:
        stage = house.stage
        house.push(*LEFT, job("last", word, key=name))
        await house.run("deletionPolicy: Delete", 120)
        assert stage.get("Job", "last", "batch")["spec"]["suspend"] is True
        assert "state: Done" in stage.status_file("units/shop/leaves/status.yaml")
        house.push(*LEFT, job("last", word, "job:v2", key=name))  # a Job's template cannot change
        await house.run("deletionPolicy: Delete", 120)
        template = stage.get("Job", "last", "batch")["spec"]["template"]
        assert template["spec"]["containers"][0]["image"] == "job:v2"
        assert "state: Done" in stage.status_file("units/shop/leaves/status.yaml")
        stage.wire.requests.clear()
        await house.run(None, 300)
        writes = [w for w in stage.wire.writes() if "leaves" in w or "last" in w]
        assert writes[0] == "patch last"
        deleted = ["delete last", *(f"delete {name}" for name in NAMES)]
        assert sorted(writes[1:]) == sorted(deleted)
        assert (house.there(), house.codes()) == (0, ["GK2311"])
        assert "units/shop/leaves" not in house.branch()

    house.stage.play(script)


def test_when_it_fails_nothing_is_deleted_until_somebody_decides(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT, job("last", "pre-delete", "job:crash"))
        await house.run("deletionPolicy: Delete", 120)
        await house.run(None, 300)
        assert (house.there(), house.codes()) == (4, ["GK2311", "GK2312"])
        remove(house.stage, "last")
        await house.run(None, 300)
        assert house.there() == 0

    house.stage.play(script)


def test_it_does_not_run_where_nothing_is_deleted(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT, job("last", "pre-delete", "job:crash"))
        await house.run("deletionPolicy: Orphan", 120)
        await house.run(None, 300)
        assert (house.there(), house.codes()) == (4, [])
        assert house.stage.get("Job", "last", "batch")["spec"]["suspend"] is True

    house.stage.play(script)
