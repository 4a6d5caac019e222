"""A kind that the API server does not list keeps its own objects from being reconciled only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gitkruise.errors import ApiError, InternalError
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, config_map

SERVICE: Final[Obj] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "front"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}
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


def test_what_left_git_is_deleted_when_its_kind_can_be_listed(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", x="1"), SERVICE)
            await stage.rest()
        stage.start_over()
        stage.wire.refuse = unlisted("services", DOWN)
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
