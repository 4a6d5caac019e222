"""A stage whose promotion measures an endpoint: its metric, its run and its counts."""

from __future__ import annotations

from typing import Any

from gitkruise.gitops.actions.on_failure import FailureHandler
from gitkruise.gitops.actions.promotion import Promoter
from gitkruise.model.gitops.analysis import AnalysisRun
from tests.git.repos import run_git
from tests.gitops.analysis.endpoint import Endpoint, fetch_now
from tests.gitops.promoted import promoting, standing
from tests.gitops.stage import Stage

BACK = "web: roll back to "
STEPS = [{"partition": "75%", "soak": "10s", "analysis": ["errors"]}, {"partition": 0}]


def errors(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    """A metric that is measured three times, every 20 s, below 5%."""
    provider = {
        "web": {"url": f"{endpoint.url}/rate?of={{{{ revision }}}}", "jsonPath": "{$.errors}"}
    }
    return {
        "name": "errors", "provider": provider, "interval": "20s", "count": 3,
        "successCondition": "result < 0.05", **more,
    }  # fmt: skip


def measured(stage: Stage) -> AnalysisRun:
    run = standing(stage).analysis
    assert run is not None
    return run


def counts(run: AnalysisRun, number: int = 0) -> tuple[int, int, int, int]:
    one = run.metrics[number]
    return one.successful, one.failed, one.inconclusive, one.error


def both(stage: Stage, **more: Any) -> Any:
    """gitkruise with its promotions and, if the unit asks for them, its rollbacks."""
    kinds = (Promoter, FailureHandler) if stage.spec.on_failure != "hold" else (Promoter,)
    return promoting(stage, more.get("forge"), *kinds, fetch=fetch_now)


def written_commit(stage: Stage, subject: str) -> str:
    log = run_git(stage.origin.bare, "log", "--format=%h %s", "--abbrev=7", "main").split("\n")
    return next(line.split()[0] for line in log if line.endswith(f" {subject}"))
