"""The short status on live rollouts is brought about, also after writes that failed."""

from __future__ import annotations

import pytest

from gitkruise.errors import ApiError, Forbidden, InternalError, NotLeading
from gitkruise.planner.sync.annotations import ROLLOUT, annotation
from gitkruise.wire.primitives.paths import get
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


def test_an_older_text_is_not_written_over_a_newer_one(staged: MakeStage) -> None:
    """Writes fail while pods move; the last one succeeds before the pause after them ends."""
    stage, texts = staged(), list[str]()

    def refuse(request: ApiRequest) -> ApiError | None:
        text = str(get(request.body, "metadata", "annotations", ROLLOUT, default=""))
        if request.content_type != MERGE_PATCH or not text:
            return None
        texts.append(text)
        settled = any(text.startswith("done") for text in texts)
        return None if settled else InternalError("etcd leader changed")

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            stage.wire.refuse = refuse
            await stage.push(web("app:v2", maxUnavailable=1))
            await stage.rest()

    stage.play(script)
    assert texts[0].startswith("rolling")
    assert texts[-1].startswith("done 4/4")
    assert annotation(stage.get("CloneSet", "web", "apps.kruise.io"), ROLLOUT) == texts[-1]


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
