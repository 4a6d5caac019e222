"""The queue of a unit's commits: none is lost, and the newest one counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.gitops.reconcile.retry import CommitQueue
from gitkruise.wire.primitives.times import RetryPause

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAUSE = RetryPause(NOW, NOW + timedelta(seconds=30))
LATER = NOW + timedelta(minutes=1)
ENDS = ("judged", "parked", "crashed", "failed", "waits")


def judge(queue: CommitQueue, end: str) -> str:
    """Take the pending commit, and end as the reconciler does; return a commit with a verdict."""
    queue.begin_round()
    queue.wake(LATER)
    if queue.parked and not queue.pending and end == "waits":
        queue.unpark()
    if not queue.pending:
        return ""
    commit = queue.take()
    assert queue.news == commit, "until there is a verdict"
    match end:
        case "judged":
            queue.judged(None, rejected=False)
            return commit
        case "crashed":
            queue.shelve(commit, PAUSE)
        case "failed":
            queue.put_back(commit)
            queue.note_failure()
        case _:
            queue.park(commit)
    return ""


@given(st.lists(st.one_of(st.sampled_from(ENDS), st.integers(0, 99).map(str))))
def test_the_newest_commit_has_a_verdict_or_is_news(steps: list[str]) -> None:
    queue, newest, verdict = CommitQueue(), "", ""
    for step in steps:
        if step in ENDS:
            verdict = judge(queue, step) or verdict
        else:
            queue.offer(step)
            newest, verdict = step, ""
        assert queue.news == ("" if verdict == newest else newest)
        assert queue.empty == (not queue.news)


def test_a_commit_that_failed_in_this_round_overtakes_nothing() -> None:
    queue = CommitQueue()
    queue.offer("one")
    judge(queue, "failed")
    assert (queue.pending, queue.failed, queue.overtaken) == ("one", True, False)
    queue.offer("two")
    assert queue.overtaken


def test_a_newer_commit_is_not_shelved_with_the_one_that_crashed() -> None:
    queue = CommitQueue()
    queue.offer("one")
    queue.begin_round()
    taken = queue.take()
    queue.offer("two")
    queue.shelve(taken, PAUSE)
    assert (queue.pending, queue.crashed) == ("two", False)


def test_a_rejected_commit_leaves_the_next_look_at_the_live_one() -> None:
    queue = CommitQueue()
    queue.judged(("live", PAUSE), rejected=False)
    queue.judged(None, rejected=True)
    assert queue.wake_times() == [PAUSE.until]
    queue.wake(NOW)
    assert queue.pending == ""
    queue.wake(LATER)
    assert queue.pending == "live"
    queue.judged(None, rejected=False)
    assert queue.wake_times() == []


def test_a_rejected_commit_is_not_judged_again_after_a_newer_one() -> None:
    queue = CommitQueue()
    queue.judged(("old", PAUSE), rejected=True)
    queue.offer("new")
    assert queue.wake_times() == []
    judge(queue, "parked")
    queue.wake(LATER)
    assert (queue.pending, queue.parked) == ("", "new")
