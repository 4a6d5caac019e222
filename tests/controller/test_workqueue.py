"""Laws of the work queue: each key once, earliest time wins, no two rounds overlap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.controller.workqueue import WorkQueue

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def test_the_earliest_request_wins() -> None:
    queue = WorkQueue[str]()
    for seconds in (5, 2, 9):
        queue.add("a", at(seconds))
    queue.add("b", at(3))
    assert (queue.next_at(), len(queue)) == (at(2), 2)
    assert queue.pop(at(1)) is None
    assert [queue.pop(at(9)) for _ in range(3)] == ["a", "b", None]


def test_a_request_during_a_round_waits_for_its_end() -> None:
    queue = WorkQueue[str]()
    queue.add("a", at(0))
    assert queue.pop(at(0)) == "a"
    queue.add("a", at(7))
    queue.add("a", at(1))
    assert queue.pop(at(9)) is None
    assert queue.running == 1
    queue.done("a")
    assert queue.next_at() == at(1)


def test_news_gather_until_they_pause_or_last_too_long() -> None:
    queue = WorkQueue[str]()
    for seconds in (0, 2, 4):
        queue.gather("a", at(seconds), quiet=seconds_of(3), longest=seconds_of(10))
    assert (queue.pop(at(6)), queue.next_at()) == (None, at(7))
    for seconds in (6, 8, 9):
        queue.gather("a", at(seconds), quiet=seconds_of(3), longest=seconds_of(10))
    assert queue.next_at() == at(10)
    assert queue.pop(at(10)) == "a"


def test_news_put_off_no_other_request() -> None:
    queue = WorkQueue[str]()
    queue.add("a", at(4))
    for seconds in (0, 2, 3):
        queue.gather("a", at(seconds), quiet=seconds_of(3), longest=seconds_of(10))
    assert queue.next_at() == at(4)
    queue.gather("b", at(3), quiet=seconds_of(3), longest=seconds_of(10))
    queue.add("b", at(5))
    queue.gather("b", at(4), quiet=seconds_of(3), longest=seconds_of(10))
    assert [queue.pop(at(5)), queue.pop(at(5))] == ["a", "b"]


def test_dropped_keys_are_forgotten() -> None:
    queue = WorkQueue[str]()
    queue.add("a", at(0))
    queue.drop("a")
    assert (queue.pop(at(9)), queue.next_at()) == (None, None)
    queue.add("a", at(4))
    assert queue.pop(at(4)) == "a"


def seconds_of(number: int) -> timedelta:
    return timedelta(seconds=number)


moves = st.one_of(
    st.tuples(st.just("gather"), st.sampled_from("abcd"), st.integers(0, 20)),
    st.tuples(st.just("add"), st.sampled_from("abcd"), st.integers(0, 20)),
    st.tuples(st.just("pop"), st.just(""), st.integers(0, 20)),
    st.tuples(st.sampled_from(["done", "drop"]), st.sampled_from("abcd"), st.just(0)),
)


@given(st.lists(moves, min_size=10, max_size=60))
def test_it_behaves_like_two_dicts(script: list[tuple[str, str, int]]) -> None:
    queue = WorkQueue[str]()
    due: dict[str, int] = {}
    again: dict[str, int] = {}
    running: set[str] = set()
    news: dict[str, tuple[int, int]] = {}  # since when, and by when in any case
    for move, key, seconds in script:
        if move == "add":
            queue.add(key, at(seconds))
            times = again if key in running else due
            times[key] = min(seconds, times.get(key, seconds))
            if key in news:
                news[key] = news[key][0], min(seconds, news[key][1])
        elif move == "gather":
            queue.gather(key, at(seconds), quiet=seconds_of(3), longest=seconds_of(5))
            times = again if key in running else due
            since, firm = news.setdefault(key, (seconds, times.get(key, 99)))
            times[key] = min(seconds + 3, since + 5, firm)
        elif move == "pop":
            got = queue.pop(at(seconds))
            first = min(due.values(), default=99)
            if got is None:
                assert first > seconds
            else:
                assert got not in running
                assert due.pop(got) == first <= seconds
                news.pop(got, None)
                running.add(got)
        elif move == "drop":
            queue.drop(key)
            due.pop(key, None)
            again.pop(key, None)
            news.pop(key, None)
        elif key in running:
            queue.done(key)
            running.remove(key)
            if key in again:
                due[key] = again.pop(key)
        assert len(queue) == len(due)
        assert queue.next_at() == (at(min(due.values())) if due else None)
