"""A unit says itself how its own kinds do, what to ignore, and how long it waits."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.gitops.reconcile.test_replace import job
from tests.gitops.stage import MakeStage, Stage, config_map, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow


def definition(group: str, version: str, kind: str) -> Obj:
    """A CustomResourceDefinition that takes any object, and has a status."""
    word = kind.lower()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{word}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"{word}s", "singular": word, "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


CRD: Final = definition("example.com", "v1", "Database")
RULE: Final = {
    "apiVersion": "example.com/v1",
    "kind": "Database",
    "failed": "status.phase == 'Broken'",
    "held": "status.phase == 'Halted' && spec.size > 2",
    "current": "status.phase == 'Up'",
}
LATER: Final = config_map("later", {"gitkruise.io/wave": "1"}, x="1")


def database(notes: dict[str, str] | None = None) -> Obj:
    meta = {"name": "main", **({"annotations": notes} if notes else {})}
    return {"apiVersion": "example.com/v1", "kind": "Database", "metadata": meta,
            "spec": {"size": 3}}  # fmt: skip


def becomes(stage: Stage, phase: Any) -> None:
    """The operator of databases writes a status."""
    kind = stage.world.catalog.by_kind("example.com", "v1", "Database")
    assert kind is not None
    request = ApiRequest(
        verb="patch",
        resource=kind.ref,
        namespace=SPACE,
        name="main",
        subresource="status",
        body={"status": {"phase": phase}},
        content_type=MERGE_PATCH,
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


ROWS: list[tuple[str, str | None, str, bool]] = [
    # row, phase written by the operator, state of the unit, whether the next wave is sent
    ("no status yet", None, "Rolling", False),
    ("another phase", "Starting", "Rolling", False),
    ("current", "Up", "Done", True),
    ("held is ready", "Halted", "Held", True),
    ("failed", "Broken", "Stuck", False),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_kind_of_ones_own_is_judged_by_expressions(
    staged: MakeStage, row: tuple[str, str | None, str, bool]
) -> None:
    _, phase, state, later = row
    stage = staged(health={"exprs": [RULE]})

    async def script() -> None:
        async with stage.running():
            await stage.push(LATER, database(), CRD)
            await stage.rest(5)
            assert stage.wire.writes() == ["patch databases.example.com", "patch main"]
            if phase is not None:
                becomes(stage, phase)
            await stage.rest(5)
            assert stage.state == state
            assert (stage.get("ConfigMap", "later") is not None) is later

    stage.play(script)


def test_an_expression_without_an_answer_is_reported_and_cured_by_news(staged: MakeStage) -> None:
    stage = staged(health={"exprs": [{"kind": "Database", "current": "status.phase > 1"}]})

    async def script() -> None:
        async with stage.running():
            await stage.push(database(), CRD)
            await stage.rest(5)
            becomes(stage, "Up")
            await stage.rest(5)
            assert (stage.state, stage.record.findings[0].code) == ("Rejected", "GK7031")
            assert "spec.health.exprs.0.current" in stage.record.message
            becomes(stage, 2)
            await stage.rest(5)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


@pytest.mark.parametrize(
    "notes",
    [{"gitkruise.io/health": "Ignore"}, {"argocd.argoproj.io/ignore-healthcheck": "true"}],
    ids=["ours", "Argo's"],
)
def test_nobody_waits_for_what_says_so(staged: MakeStage, notes: dict[str, str]) -> None:
    stage = staged(health={"exprs": [RULE]})

    async def script() -> None:
        async with stage.running():
            await stage.push(database(notes), CRD, LATER)
            await stage.rest(5)
            becomes(stage, "Broken")
            await stage.rest(5)
            assert stage.state == "Done"

    stage.play(script)


def test_an_object_may_say_itself_when_it_is_well(staged: MakeStage) -> None:
    stage = staged(health={"exprs": [RULE]})  # its own word comes first
    own = database({"gitkruise.io/health": "status.phase == 'Warm' || status.phase > 1"})

    async def script() -> None:
        async with stage.running():
            await stage.push(own, CRD, LATER)
            await stage.rest(5)
            becomes(stage, "Up")
            await stage.rest(5)
            assert (stage.state, stage.record.findings[0].code) == ("Rejected", "GK2017")
            assert stage.record.findings[0].places[0].file == "app.yaml"
            becomes(stage, "Warm")
            await stage.rest(5)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("ConfigMap", "later") is not None

    stage.play(script)


def test_a_word_on_health_that_cannot_be_read_is_refused_with_its_line(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", {"gitkruise.io/health": "status. =="}, x="1"))
            await stage.rest(5)
            (finding,) = [f for f in stage.record.findings if f.code == "GK2017"]
            assert (stage.state, finding.places[0].line) == ("Rejected", 6)

    stage.play(script)


def test_what_is_not_ready_in_time_is_stuck_until_it_is_ready(staged: MakeStage) -> None:
    stage = staged(health={"exprs": [RULE], "timeout": "2m"})

    async def script() -> None:
        async with stage.running():
            await stage.push(database(), CRD)
            await stage.rest(118)
            assert stage.state == "Rolling"
            await stage.rest(5)
            assert stage.state == "Stuck"
            assert "not ready within 2m: not yet true" in stage.record.message
            becomes(stage, "Up")
            await stage.rest(5)
            assert stage.state == "Done"
            await stage.rest(300)
            becomes(stage, "Starting")
            await stage.rest(100)
            assert stage.state == "Rolling"  # the clock begins anew

    stage.play(script)


def test_a_suspended_cron_job_keeps_no_deletion_back(staged: MakeStage) -> None:
    stage = staged()
    template = {"spec": {"template": {"spec": job("job:v1")["spec"]["template"]["spec"]}}}
    night = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "night"},
        "spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": template},
    }

    async def script() -> None:
        async with stage.running():
            await stage.push(night, config_map("gone", a="1"))
            await stage.rest(5)
            assert (stage.state, stage.get("ConfigMap", "gone") is None) == ("Done", False)
            await stage.push(night)
            await stage.rest(5)
            assert (stage.state, stage.get("ConfigMap", "gone")) == ("Done", None)

    stage.play(script)


def test_a_pause_that_git_states_uses_up_no_timeout(staged: MakeStage) -> None:
    stage = staged(health={"exprs": [RULE], "timeout": "2m"})

    async def script() -> None:
        async with stage.running():
            await stage.push(database(), job("job:v1", suspend=True), CRD)
            await stage.rest(5)
            becomes(stage, "Up")
            await stage.rest(300)
            assert stage.state == "Paused"
            becomes(stage, "Starting")
            await stage.rest(100)
            assert stage.state == "Rolling"
            await stage.rest(30)
            assert stage.state == "Stuck"

    stage.play(script)


@pytest.mark.parametrize("fast", [True, False])
def test_a_failure_ends_the_wait_at_once_or_when_its_time_is_over(
    staged: MakeStage, *, fast: bool
) -> None:
    stage = staged(health={"exprs": [RULE], "timeout": "2m", "failFast": fast})

    async def script() -> None:
        async with stage.running():
            await stage.push(database(), CRD)
            await stage.rest(5)
            becomes(stage, "Broken")
            await stage.rest(5)
            assert stage.state == ("Stuck" if fast else "Rolling")
            await stage.rest(120)
            assert stage.state == "Stuck"

    stage.play(script)


def test_a_rollout_that_outlasts_the_timeout_is_stuck_though_it_moves(staged: MakeStage) -> None:
    stage = staged(health={"timeout": "5s"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            await stage.push(web("app:v2", maxUnavailable=1))
            states = set()
            for _ in range(60):
                await stage.rest(1)
                states.add(stage.state)
            assert states == {"Rolling", "Stuck", "Done"}
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.parametrize("step", [6 * 3600, -6 * 3600])
@pytest.mark.parametrize("limit", ["timeout", "noProgressTimeout"])
def test_a_clock_that_is_set_ends_no_deadline_and_puts_off_none(
    staged: MakeStage, limit: str, step: int
) -> None:
    stage = staged(health={limit: "5m"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            await stage.push(web("app:unready"))
            await stage.rest(2 * 60)
            stage.clock.step(step)
            await stage.rest(2 * 60)
            assert stage.state == "Rolling"
            await stage.rest(3 * 60)
            assert stage.state == "Stuck"

    stage.play(script)
