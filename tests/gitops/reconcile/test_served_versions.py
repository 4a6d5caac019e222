"""Versions that the cluster stops or begins to serve while gitkruise runs."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.conversion.registry import convert
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.webhook.registration import MUTATING, NAME, VALIDATING, Address, Registrar
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, Stage, web

ADDRESS = Address(namespace="gitkruise-system", url="https://127.0.0.1:1")
KRUISE = "apps.kruise.io"

pytestmark = pytest.mark.slow


def alpha(image: str) -> dict[str, Any]:
    """Return the CloneSet web as an object of v1alpha1."""
    return dict(convert(web(image), "v1alpha1"))


def image(stage: Stage) -> str:
    live = stage.get("CloneSet", "web", KRUISE)
    return str(get(live, "spec", "template", "spec", "containers")[0]["image"])


@pytest.mark.parametrize("first", [True, False], ids=["served-at-the-start", "served-later"])
def test_a_running_controller_goes_on_when_webhooks_are_withdrawn(
    staged: MakeStage, first: bool
) -> None:
    stage = staged()
    transport = WorldTransport(stage.cluster)
    registrar = Registrar(transport, ADDRESS)

    async def publish() -> None:
        """Publish as `gitkruise webhook` does; here no webhook could be called."""
        await registrar.publish(b"CA")
        for ref in (MUTATING, VALIDATING):
            await transport.send(ApiRequest(verb="delete", resource=ref, name=NAME))

    async def script() -> None:
        await publish()
        if not first:
            await registrar.withdraw()
        async with stage.running():
            await stage.push(alpha("app:v1"))
            await stage.rest()
            if not first:
                await publish()
                await stage.live.discover()
            assert (stage.state, image(stage)) == ("Done", "app:v1")
            await registrar.withdraw()
            await stage.rest(400)
            assert (stage.state, stage.record.findings) == ("Done", ())
            stage.meddle(web("app:v8"))
            await stage.rest(200)
            assert (stage.state, image(stage)) == ("Done", "app:v1")
            await stage.push(alpha("app:v2"))
            await stage.rest(120)
            assert (stage.state, image(stage)) == ("Done", "app:v2")

    stage.play(script)
