"""A kind that the API server does not list keeps its own objects from being reconciled only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from gitkruise.errors import ApiError, Forbidden, InternalError
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.reconcile.test_hooks import job
from tests.gitops.stage import MakeStage, Stage, config_map, web

SERVICE: Final[Obj] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "front"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}
DENIED: Final = Forbidden("services is forbidden")
DOWN: Final = InternalError("conversion webhook for example.com/v1, Kind=Widget failed: no service")


def unlisted(plural: str, error: ApiError) -> Callable[[ApiRequest], ApiError | None]:
    """Return a rule that refuses lists of a kind."""
    return lambda r: error if (r.verb, r.resource.plural) == ("list", plural) else None


def test_a_kind_that_a_unit_does_not_have_does_not_hold_it_up(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        stage.wire.refuse = unlisted("services", DOWN)
        async with stage.running():
            await stage.push(config_map("a", x="1"), config_map("b", x="1"))
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            await stage.push(config_map("a", x="1"))
            await stage.rest()
            assert stage.get("ConfigMap", "b") is None

    stage.play(script)


@pytest.mark.parametrize("error", [DENIED, DOWN])
def test_what_left_git_is_deleted_when_its_kind_can_be_listed(
    staged: MakeStage, error: ApiError
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", x="1"), SERVICE)
            await stage.rest()
        stage.start_over()
        stage.wire.refuse = unlisted("services", error)
        async with stage.running():
            await stage.push(config_map("a", x="2"))
            await stage.rest()
            assert stage.get("ConfigMap", "a")["data"] == {"x": "2"}
            assert stage.get("Service", "front")
            assert (stage.state, [f.code for f in stage.record.findings]) == ("Unknown", ["GK4103"])
            assert stage.record.message.startswith(
                "GK4103: Service shop/front left git and may still be live: cannot list Service: "
            )
            stage.wire.refuse = lambda _: None
            await stage.rest()
            assert stage.get("Service", "front") is None
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


LATER: Final = config_map("later", {"gitkruise.io/wave": "1"}, x="1")


def states(stage: Stage) -> dict[str, str]:
    return {o.key.name: str(o.state) for o in stage.record.objects}


@pytest.mark.parametrize("error", [DENIED, DOWN])
def test_the_other_objects_of_a_unit_go_on(staged: MakeStage, error: ApiError) -> None:
    stage = staged()

    async def script() -> None:
        stage.wire.refuse = unlisted("services", error)
        async with stage.running():
            await stage.push(config_map("a", x="1"), SERVICE, LATER)
            await stage.rest()
            assert stage.get("ConfigMap", "a")
            assert stage.get("ConfigMap", "later") is None  # the wave before it is not ready
            assert stage.get("Service", "front") is None
            assert states(stage) == {"a": "Done", "front": "Unknown", "later": "Waiting"}
            finding = stage.record.findings[0]
            assert (stage.state, finding.code) == ("Unknown", "GK4103")
            assert finding.message == f"cannot watch Service: {error}"
            assert dict(finding.notes)["since"] == "2026-11-21T10:00:00Z"
            await stage.push(config_map("a", x="2"), SERVICE, LATER)
            await stage.rest(5)  # what has failed for long is not waited for again
            assert stage.get("ConfigMap", "a")["data"] == {"x": "2"}
            stage.wire.refuse = lambda _: None
            await stage.rest(120)
            assert states(stage) == {"a": "Done", "front": "Done", "later": "Done"}
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_rollouts_whose_pods_are_not_listed_are_left_alone(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", x="1"), web())
            await stage.rest()
        stage.start_over()
        stage.wire.refuse = unlisted("pods", DENIED)
        async with stage.running():
            await stage.push(config_map("a", x="2"), web("app:v2"))
            await stage.rest()
            assert stage.get("ConfigMap", "a")["data"] == {"x": "2"}
            assert states(stage) == {"a": "Done", "web": "Unknown"}
            assert (stage.state, stage.images()) == ("Unknown", ["app:v1"] * 4)
            await stage.push(config_map("a", x="2"))
            await stage.rest()
            assert stage.get("CloneSet", "web", "apps.kruise.io")
            stage.wire.refuse = lambda _: None
            await stage.rest(120)
            assert stage.get("CloneSet", "web", "apps.kruise.io") is None
            assert stage.state == "Done"

    stage.play(script)


def test_an_approval_waits_for_all_kinds_of_its_commit(staged: MakeStage) -> None:
    stage = staged(approval="always")

    async def script() -> None:
        stage.wire.refuse = unlisted("services", DENIED)
        async with stage.running():
            await stage.push(config_map("a", x="1"), SERVICE)
            await stage.rest()
            assert stage.get("ConfigMap", "a") is None
            assert (stage.state, stage.record.waits) == ("Unknown", "")
            stage.wire.refuse = lambda _: None
            await stage.rest(120)
            assert "2 objects change" in stage.record.waits

    stage.play(script)


def test_a_hook_whose_run_cannot_be_seen_does_not_run_again(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        stage.wire.refuse = unlisted("jobs", DENIED)
        async with stage.running():
            await stage.push(config_map("a", x="1"), job("migrate", "pre-apply"))
            await stage.rest()
            assert stage.get("Job", "migrate", "batch") is None
            assert stage.state == "Unknown"

    stage.play(script)


def test_pods_that_are_listed_again_stay_known_meanwhile(staged: MakeStage) -> None:
    """Controllers that take the lease list the pods again."""
    stage = staged()

    async def slowly(request: ApiRequest) -> None:
        if (request.verb, request.resource.plural) == ("list", "pods"):
            await stage.clock.sleep(10)

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", x="1"), web())
            await stage.rest()
            stage.wire.before = slowly
            stage.live.share_workloads()
            stage.unit.look_again("", lambda: None)
            await stage.rest(5)
            assert states(stage) == {"a": "Done", "web": "Done"}
            await stage.rest()
            assert "Unknown" not in {record.state for record in stage.offered if record.objects}

    stage.play(script)
