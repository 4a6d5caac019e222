"""Steps of a rollout: which commits failed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import RolloutStep
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.report.rollout_steps import failed_commits
from tests.worlds import START

# (revision, state, whether it had what it asked for) of each step, oldest first; who failed
STEPS = {
    "none": ([], []),
    "stuck": ([("a", State.DONE, True), ("b", State.STUCK, False)], [1]),
    "two-in-a-row": ([("b", State.STUCK, False), ("c", State.STUCK, False)], [0, 1]),
    "rolled-out-and-crashing-later": ([("a", State.STUCK, True)], []),
    "mended-by-a-later-step": ([("a", State.STUCK, False), ("a", State.DONE, True)], []),
    "a-canary-that-failed-at-all": ([("a", State.HELD, True), ("a", State.STUCK, False)], [1]),
    "overtaken-while-it-went-well": ([("a", State.ROLLING, False), ("b", State.DONE, True)], []),
}


@pytest.mark.parametrize("name", STEPS)
def test_which_commits_failed(name: str) -> None:
    rows, wanted = STEPS[name]
    steps = tuple(
        RolloutStep(
            commit=GitCommit(id=str(at)),
            change="",
            revision=revision,
            partition="0",
            asked=4,
            replicas=4,
            started=START + timedelta(minutes=at),
            state=state,
            updated=1,
            done=START + timedelta(minutes=at + 1) if reached else None,
        )
        for at, (revision, state, reached) in enumerate(rows)
    )
    assert failed_commits(steps) == tuple(map(str, wanted))
