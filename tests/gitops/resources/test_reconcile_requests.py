"""Requests to reconcile an object: confirmed in its status once that has happened, not before."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.objects import House, play
from tests.gitops.stage import config_map

pytestmark = pytest.mark.slow
STEP_S, STEPS = 0.02, 3000


async def request(hands: House, kind: str, name: str, value: str) -> None:
    await hands.note(name, kind=kind, **{"gitkruise.io/reconcile-at": value})


async def handled(hands: House, kind: str, name: str, value: str) -> Any:
    """The first status that confirms the request."""
    for _ in range(STEPS):
        status = hands.status(kind, name)
        if status.get("lastHandledReconcileAt") == value:
            return status
        await hands.rest(STEP_S)
    raise AssertionError(f"{kind} {name}: the request {value} was not confirmed")


def slow(hands: House) -> None:
    """Let every request about a ConfigMap take longer than a status."""

    async def before(request: ApiRequest) -> None:
        if request.resource.plural == "configmaps":
            await hands.stage.clock.sleep(2)

    hands.stage.wire.before = before


def ready(status: Any) -> tuple[str, str]:
    found = next(c for c in status["conditions"] if c["type"] == "Ready")
    return found["status"], found["reason"]


def test_a_unit_confirms_a_request_after_the_round(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source(interval="1h")
        await hands.unit("web")
        await hands.rest()
        slow(hands)
        for value in ("2", "3"):
            commit = hands.push(web=[config_map("a", x=value)])
            await request(hands, "Unit", "web", value)
            status = await handled(hands, "Unit", "web", value)
            assert status["lastAppliedRevision"] == f"main@sha1:{commit}"
            assert hands.stage.get("ConfigMap", "a")["data"] == {"x": value}

    play(hands, script)


def test_a_round_that_fails_is_confirmed_with_its_outcome(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source(interval="1h")
        await hands.unit("web")
        await hands.rest()
        slow(hands)
        commit = hands.push(
            web=[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "X"}}]
        )
        await request(hands, "Unit", "web", "now")
        status = await handled(hands, "Unit", "web", "now")
        assert ready(status) == ("False", "BuildFailed")
        assert status["lastAttemptedRevision"] == f"main@sha1:{commit}"

    play(hands, script)


@pytest.mark.parametrize("suspend", [True, {"until": "2026-11-21T10:10:00Z"}], ids=["on", "until"])
def test_a_suspended_unit_confirms_a_request_once_it_is_resumed(hands: House, suspend: Any) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web", suspend=suspend)
        await hands.rest()
        await request(hands, "Unit", "web", "now")
        await hands.rest(60)
        assert "lastHandledReconcileAt" not in hands.status("Unit", "web")
        if suspend is True:
            await hands.unit("web", suspend=False)
        else:
            await hands.rest(600)
        status = await handled(hands, "Unit", "web", "now")
        assert ready(status) == ("True", "Succeeded")
        assert hands.has("a") == [True]

    play(hands, script)


def test_a_source_confirms_a_request_after_the_fetch(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source(interval="1h")
        await hands.unit("web")
        await hands.rest()
        bare = hands.stage.origin.bare
        bare.rename(bare.with_suffix(".away"))
        await request(hands, "GitSource", "src", "away")
        assert ready(await handled(hands, "GitSource", "src", "away"))[0] == "False"
        bare.with_suffix(".away").rename(bare)
        commit = hands.push(web=[config_map("a", x="2")])
        await request(hands, "GitSource", "src", "back")
        status = await handled(hands, "GitSource", "src", "back")
        assert status["revision"] == f"main@sha1:{commit}"

    play(hands, script)


def test_a_unit_that_cannot_run_confirms_a_request_with_the_reason(hands: House) -> None:
    async def script(hands: House) -> None:
        await hands.unit("lost", sourceRef={"name": "nowhere"})
        await hands.rest()
        await request(hands, "Unit", "lost", "now")
        status = await handled(hands, "Unit", "lost", "now")
        assert ready(status) == ("False", "SourceFailed")

    play(hands, script)


def test_a_request_outlives_other_settings_of_its_unit(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")], other=[config_map("b", x="1")])

    async def script(hands: House) -> None:
        await hands.source(interval="1h")
        await hands.unit("web")
        await hands.rest()
        await request(hands, "Unit", "web", "now")
        await hands.rest(0.21)  # the request is seen
        await hands.unit("web", interval="20m")
        await hands.unit("other")
        await handled(hands, "Unit", "web", "now")

    play(hands, script)
