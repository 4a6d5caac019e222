"""A push to a local repository is reported immediately, watched or polled."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import aclosing

import pytest
from watchdog.observers import Observer
from watchdog.observers.api import EventQueue, ObservedWatch

from gitkruise.git.repository import ref_watcher
from gitkruise.git.repository.ref_watcher import ref_changes
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin, run_git

LONG_S = 30.0  # only ends a test that would hang


async def count_changes(
    repository: Repository, act: list[object], *, poll_s: float = LONG_S
) -> int:
    """Run each act in turn and wait for its change; return the number of reports."""
    count = 0
    async with asyncio.timeout(LONG_S), aclosing(ref_changes(repository, poll_s=poll_s)) as changes:
        await anext(changes)
        for step in act:
            assert callable(step)
            await asyncio.to_thread(step)
            await anext(changes)
            count += 1
    return count


def steps(origin: Origin) -> list[object]:
    return [
        lambda: origin.commit({"a": "1"}),
        lambda: origin.commit({"a": "2"}, branch="team/new"),
        lambda: run_git(origin.bare, "pack-refs", "--all"),
        lambda: run_git(origin.bare, "symbolic-ref", "HEAD", "refs/heads/team/new"),
        lambda: run_git(origin.bare, "update-ref", "-d", "refs/heads/main"),
    ]


def test_every_change_of_refs_is_reported(origin: Origin, repository: Repository) -> None:
    assert asyncio.run(count_changes(repository, steps(origin))) == 5


def test_where_watching_fails_refs_are_polled(
    origin: Origin,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class NoWatches(Observer):  # type: ignore[misc, valid-type]  # which class it is depends on the system
        """The system's limit of watches is reached."""

        def start(self) -> None:
            raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(ref_watcher, "Observer", NoWatches)
    with caplog.at_level(logging.WARNING):
        assert asyncio.run(count_changes(repository, steps(origin), poll_s=0.01)) == 5
    assert "event=refs-not-watched" in caplog.text


@pytest.mark.parametrize(
    ("path", "counts"),
    [("HEAD", True), ("packed-refs", True), ("refs/heads/a/b", True), ("reftable/x", True),
     ("HEAD.lock", False), ("refs/heads/a.lock", False), ("config", False), ("x", False)],
)  # fmt: skip
def test_locks_and_other_files_are_not_changes(origin: Origin, path: str, counts: bool) -> None:
    assert ref_watcher._is_ref(origin.bare, str(origin.bare / path)) is counts


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_an_event_during_the_end_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    from watchdog.observers.inotify import InotifyEmitter  # noqa: PLC0415  Linux only

    stopped = InotifyEmitter(EventQueue(), ObservedWatch("/", recursive=False))
    stopped.queue_events(0)
    assert caplog.text == ""
