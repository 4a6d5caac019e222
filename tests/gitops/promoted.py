"""A stage whose unit has a promotion, followed every twenty seconds, with or without a forge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gitkruise.gitops.actions.on_failure import FailureHandler
from gitkruise.gitops.actions.promotion import Promoter
from gitkruise.gitops.actions.proposals import Proposer
from gitkruise.gitops.actions.pull_requests import ActionPullRequests
from gitkruise.gitops.analysis.analyst import Analyst
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.gitops.http_get import Fetch, fetch
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.controllers import alongside
from tests.git.repos import run_git
from tests.gitops.stage import BOT, Stage

STEPS = [
    {"partition": "75%", "soak": "2m"},
    {"partition": "50%", "soak": "4m"},
    {"partition": 0},
]


def promotion(via: str = "commit", **more: Any) -> dict[str, Any]:
    return {"workload": {"kind": "CloneSet", "name": "web"}, "steps": STEPS, "via": via, **more}


def configured(stage: Stage) -> Config:
    """The unit and its source."""
    source = GitSource("shop", "src", GitSourceSpec(url=str(stage.origin.bare), ref=stage.ref))
    unit = stage.unit.unit
    return Config({"shop/src": source}, {unit.id: unit}, {})


@asynccontextmanager
async def promoting(
    stage: Stage,
    forge: ForgeRepository | None = None,
    *kinds: type[Promoter | FailureHandler],
    fetch: Fetch = fetch,
) -> AsyncIterator[None]:
    """gitkruise with what acts for its unit (a Promoter, unless `kinds` are named), while the block
    runs; its end is a crash."""
    kinds = kinds or (Promoter,)
    unit = stage.unit.unit
    proposer = Proposer(
        repository=stage.repository, branch="main", config=configured(stage), live=stage.live,
        gates=Gates(), clock=stage.clock, identity=BOT,
    )  # fmt: skip
    offers = ActionPullRequests(forge, proposer) if forge else None
    args = (unit, stage.unit, stage.reporter, proposer)
    has_news = stage.around.standings.has_news
    acting: list[Promoter | FailureHandler] = []
    if Promoter in kinds:
        analyst = Analyst(
            unit, stage.live.transport, stage.clock,
            workers=stage.around.workers, memory=stage.around.analysis, fetch=fetch,
        )  # fmt: skip
        acting.append(Promoter(*args, pull_requests=offers, analyst=analyst, has_news=has_news))
    if FailureHandler in kinds:
        acting.append(FailureHandler(*args, pull_requests=offers, has_news=has_news))

    async def follow() -> None:
        while True:
            await stage.follower.check()
            await stage.clock.sleep(20)

    async with stage.running(), alongside(follow(), *(one.run() for one in acting)):
        yield


def standing(stage: Stage) -> PromotionRecord:
    found = stage.record.promotion
    assert found is not None
    return found


def written(stage: Stage, ref: str = "main") -> list[str]:
    """Subjects of a branch, oldest first."""
    return run_git(stage.origin.bare, "log", "--reverse", "--format=%s", ref).split("\n")
