"""The short status on live rollouts is brought about, also after writes that failed."""

from __future__ import annotations

import pytest

from gitkruise.errors import ApiError, Forbidden, InternalError, NotLeading
from gitkruise.planner.sync.annotations import ROLLOUT, annotation
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.gitops.stage import MakeStage, web

LEASE = "lease kube-system/gitkruise-sync was not renewed in time"


@pytest.mark.parametrize(
    ("error", "logged"),
    [(InternalError("etcd leader changed"), ["rollout-annotations-wait"]), (NotLeading(LEASE), [])],
    ids=["silent server", "lost lease"],
)
def test_a_write_that_failed_for_now_is_made_later(
    staged: MakeStage, caplog: pytest.LogCaptureFixture, error: ApiError, logged: list[str]
) -> None:
    stage = staged()

    def refuse(request: ApiRequest) -> ApiError | None:
        return error if request.content_type == MERGE_PATCH else None

    async def script() -> None:
        async with stage.running():
            stage.wire.refuse = refuse
            await stage.push(web())
            await stage.rest()
            assert annotation(stage.get("CloneSet", "web", "apps.kruise.io"), ROLLOUT) == ""
            stage.wire.refuse = lambda _: None
            await stage.rest()
            assert annotation(stage.get("CloneSet", "web", "apps.kruise.io"), ROLLOUT).startswith(
                "done 4/4"
            )

    stage.play(script)
    lines = {line.split("event=")[1].split()[0] for line in caplog.messages if "rollout" in line}
    assert lines == set(logged)


def test_a_refused_write_is_logged_and_not_repeated(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage, asked = staged(), list[str]()

    def refuse(request: ApiRequest) -> ApiError | None:
        if request.content_type != MERGE_PATCH:
            return None
        asked.append(request.name)
        return Forbidden("no")

    async def script() -> None:
        async with stage.running():
            stage.wire.refuse = refuse
            await stage.push(web())
            await stage.rest(300)

    stage.play(script)
    refused = [line for line in caplog.messages if "rollout-annotation-not-written" in line]
    assert 0 < len(refused) == len(asked) < 5
