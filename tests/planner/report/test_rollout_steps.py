"""Steps of a rollout: which commits failed, and what others reached."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import RolloutStep
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.report.rollout_steps import close_step, failed_commits
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


# The state, the pods asked for of 4, the updated ones, whether it had what it asked for; the state
# after a newer commit, and whether it says that it was overtaken.
CLOSED = {
    "under-way": (State.ROLLING, 4, 2, False, State.ROLLING, True),
    "complete": (State.DONE, 4, 4, True, State.DONE, False),
    "a-pod-is-away-again": (State.ROLLING, 4, 3, True, State.DONE, False),
    "a-pod-of-a-canary-is-away-again": (State.ROLLING, 2, 2, True, State.HELD, False),
    "a-first-revision-in-spite-of-a-partition": (State.ROLLING, 2, 4, True, State.DONE, False),
    "crashing-later": (State.STUCK, 4, 4, True, State.STUCK, True),
}


@pytest.mark.parametrize("name", CLOSED)
def test_what_an_overtaken_step_has_reached(name: str) -> None:
    state, asked, updated, reached, wanted, overtaken = CLOSED[name]
    step = replace(_step(0, "a", state, reached=reached), asked=asked, updated=updated)
    closed = close_step(step, GitCommit(id="9" * 40))
    assert (closed.state, closed.message) == (
        wanted, f"overtaken by {'9' * 7} at {updated} of {asked}" if overtaken else ""
    )  # fmt: skip


def _step(at: int, revision: str, state: State, *, reached: bool) -> RolloutStep:
    return RolloutStep(
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


@pytest.mark.parametrize("name", STEPS)
def test_which_commits_failed(name: str) -> None:
    rows, wanted = STEPS[name]
    steps = tuple(
        _step(at, revision, state, reached=reached)
        for at, (revision, state, reached) in enumerate(rows)
    )
    assert failed_commits(steps) == tuple(map(str, wanted))
