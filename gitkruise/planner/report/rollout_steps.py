"""History of a rollout commit by commit: the request and the outcome of each."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import Rollout, RolloutStep
from gitkruise.model.gitops.unit_state import READY, SETTLED, State

KEPT: Final = 20  # steps kept in the record; git has the rest


Steps = tuple[RolloutStep, ...]


def begin_step(
    steps: Steps, commit: GitCommit, change: str, rollout: Rollout, now: datetime
) -> Steps:
    """The steps with a new one for `commit`, which has just been applied."""
    if steps and steps[-1].commit.id == commit.id:
        return steps
    closed = (*steps[:-1], close_step(steps[-1], commit)) if steps else ()
    step = RolloutStep(
        commit=commit,
        change=change,
        revision=rollout.update_revision,
        partition=rollout.partition,
        asked=rollout.asked,
        replicas=rollout.replicas,
        started=now,
        state=State.ROLLING,
        updated=rollout.updated,
    )
    return (*closed, step)[-KEPT:]


def failed_commits(steps: Steps) -> tuple[str, ...]:
    """The commits at which a revision got stuck before all its pods were ready, and stayed so.

    A revision that was rolled out by a later step has not failed.
    """
    last = {step.revision: step for step in steps}.values()
    return tuple(s.commit.id for s in last if s.state is State.STUCK and s.done is None)


def close_step(step: RolloutStep, by: GitCommit) -> RolloutStep:
    """A step that a newer commit overtakes keeps what it reached.

    It also does so while pods that it had are away, as after a drain of their nodes. What got stuck
    since stays so.
    """
    if step.state in SETTLED:
        return step
    if step.done is not None and step.state is State.ROLLING:
        held = max(step.asked, step.updated) < step.replicas
        return replace(step, state=State.HELD if held else State.DONE)
    return replace(step, message=f"overtaken by {by.short} at {step.updated} of {step.asked}")


def observe_step(steps: Steps, rollout: Rollout, now: datetime) -> Steps:
    """The steps with the last one brought up to date; the same object when nothing changed.

    `done` is the first time at which it had what it asks for: a pod that crashes later, or a
    change that is put back, makes its rollout no longer. A pause is no such time.
    """
    if not steps or not rollout.generation_seen:
        return steps
    last = steps[-1]
    new = replace(
        last,
        revision=rollout.update_revision,
        partition=rollout.partition,
        asked=rollout.asked,
        replicas=rollout.replicas,
        state=rollout.state,
        updated=rollout.updated,
        done=last.done or (now if rollout.state in READY else None),
        message=rollout.message if rollout.state is State.STUCK else "",
    )
    return steps if new == last else (*steps[:-1], new)
