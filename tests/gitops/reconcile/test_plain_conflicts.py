"""Conflicts that name no field pass by themselves: they reject no commit and leave nothing out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from gitkruise.errors import AlreadyExists, ApiError, Conflict
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest
from tests.gitops.stage import MakeStage, config_map, web

pytestmark = pytest.mark.slow

ERRORS: Final[dict[str, Callable[[str], ApiError]]] = {
    "a newer version": Conflict,
    "created meanwhile": AlreadyExists,
}


def answering(error: ApiError, times: int, *, dry: bool) -> Callable[[ApiRequest], ApiError | None]:
    """Refuse the next `times` applies: the dry runs, or the others."""
    left = [times]

    def refuse(request: ApiRequest) -> ApiError | None:
        if request.content_type != APPLY_PATCH or ("dryRun" in request.params) != dry:
            return None
        if request.name != "settings" or not left[0]:
            return None
        left[0] -= 1
        return error

    return refuse


@pytest.mark.parametrize("dry", [True, False], ids=["dry run", "apply"])
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("exists", [True, False], ids=["changed", "new"])
def test_a_few_are_repeated_within_seconds(
    staged: MakeStage, error: Callable[[str], ApiError], dry: bool, exists: bool
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            before = [config_map("settings", mode="safe")] if exists else []
            await stage.push(web(), *before)
            await stage.rest()
            stage.wire.refuse = answering(error("try again"), 3, dry=dry)
            await stage.push(web(), config_map("settings", mode="fast"))
            await stage.rest(10)
            assert stage.state == "Done"
            assert not stage.record.findings

    stage.play(script)


@pytest.mark.parametrize("dry", [True, False], ids=["dry run", "apply"])
def test_many_are_repeated_with_pauses_and_reject_nothing(staged: MakeStage, dry: bool) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), config_map("settings", mode="safe"))
            await stage.rest()
            stage.wire.refuse = answering(Conflict("try again"), 10**9, dry=dry)
            await stage.push(web(), config_map("settings", mode="fast"))
            asked = len(stage.wire.requests)
            await stage.rest(300)
            assert len(stage.wire.requests) - asked < 200
            assert {f.code for f in stage.record.findings} == {"GK4102"}
            assert {"unchanged", "next"} <= dict(stage.record.findings[0].notes).keys()
            stage.wire.refuse = lambda _: None
            await stage.rest(60)
            assert stage.state == "Done"
            assert not stage.record.findings

    stage.play(script)
