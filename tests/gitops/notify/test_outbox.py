"""Nothing that is to be told is lost: refusals by turns, an hour of silence, restarts."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.gitops.forges.http import JsonReply
from gitkruise.gitops.notify.channel import deliver
from gitkruise.gitops.notify.outbox import (
    FILE,
    FORMAT,
    ITEMS_MAX,
    NotificationOutbox,
    OutboxEntry,
    QueuedItem,
    open_outbox,
)
from gitkruise.gitops.notify.sender import TRIES_MAX, Sender
from gitkruise.model.gitops.notifications import CommentItem, CommitStatusItem, StatusState
from gitkruise.sandbox.controllers import alongside
from tests.clock import ManualClock
from tests.gitops.forges.forges import ME, ModelForge, away, client, reply
from tests.gitops.stage import Inline
from tests.worlds import START

COMMITS: Final = [f"{number:040x}" for number in range(60)]
CHANNEL: Final = "shop/out/forge"


def status(commit: str, state: StatusState = "success", words: str = "done") -> CommitStatusItem:
    return CommitStatusItem(commit, "gitkruise/test/shop/web", state, words)


NewOffice: TypeAlias = Callable[..., "Office"]


class Office:
    """A box, its sender and a forge, in virtual time."""

    def __init__(self, path: Path, kind: str = "github") -> None:
        self.clock = ManualClock(START)
        self.model = ModelForge(kind, commits=set(COMMITS))
        self.path = path / "outbox.sqlite"
        self.outbox = NotificationOutbox(self.path)

    def close(self) -> None:
        self.outbox.close()

    def put(self, *items: CommitStatusItem | CommentItem, after: float = 0) -> None:
        when = self.clock.now() + timedelta(seconds=after)
        keys = [x.commit if isinstance(x, CommitStatusItem) else str(x.number) for x in items]
        entries = [OutboxEntry(key, item, when) for key, item in zip(keys, items, strict=True)]
        self.outbox.put(CHANNEL, entries)

    def run(self, seconds: float, *, steps: Callable[[float], None] = lambda _: None) -> None:
        """Let the sender work for so long; `steps` is called every ten seconds."""

        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            forge = client(self.model, self.clock)
            self.sender = Sender(
                self.outbox, CHANNEL, lambda item: deliver(forge, item), self.clock
            )
            async with alongside(self.sender.run()):
                passed = 0.0
                while passed < seconds:
                    steps(passed)
                    self.sender.wake()
                    await self.clock.sleep(10)
                    passed += 10

        self.clock.run(main())

    @property
    def arrived(self) -> set[str]:
        return {commit for commit, _ in self.model.statuses}


@pytest.fixture
def new_office(tmp_path: Path) -> Iterator[NewOffice]:
    with ExitStack() as ended:

        def opened(kind: str = "github") -> Office:
            office = Office(tmp_path, kind)
            ended.callback(office.close)
            return office

        yield opened


def is_open(path: Path) -> bool:
    """Return whether this process has the file open."""
    handles = Path("/proc/self/fd").iterdir()
    return any(os.path.realpath(handle) == str(path.resolve()) for handle in handles)


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_refusals_by_turns_lose_nothing_and_double_nothing(
    new_office: NewOffice, kind: str
) -> None:
    office = new_office(kind)
    turns = cycle([403, 422, 429, 500, 200, 404, 200, 200, 200, 503, 200])

    def fails(_method: str, _path: str) -> JsonReply | None:
        code = next(turns)
        headers = {"Retry-After": "3"} if code == 429 else {}
        return None if code == 200 else reply(code, {"message": "not now"}, headers)

    office.model.fails = fails
    office.put(*(status(commit) for commit in COMMITS[:20]), CommentItem(4, "test", "plan"))
    office.run(3 * 3600)
    assert office.arrived == set(COMMITS[:20])
    assert all(len(kept) == 1 for kept in office.model.statuses.values())
    assert [c["author"] for c in office.model.comments[4]] == [ME]
    assert office.outbox.waiting(CHANNEL) == []
    assert office.sender.problem == ""


@pytest.mark.slow
def test_an_hour_of_silence_loses_nothing_and_is_asked_about_once_a_minute(
    new_office: NewOffice,
) -> None:
    office = new_office()
    office.model.fails = away
    for number, commit in enumerate(COMMITS[:30]):
        office.put(status(commit, "pending", f"{number}"))

    def later(passed: float) -> None:
        if passed == 1800:
            office.put(*(status(commit) for commit in COMMITS[30:40]))
        if passed == 3600:
            assert len(office.model.asked) <= 120
            assert office.sender.problem.startswith("503: connection refused")
            office.model.fails = lambda _method, _path: None

    office.run(3800, steps=later)
    assert office.arrived == set(COMMITS[:40])
    assert all(len(kept) == 1 for kept in office.model.statuses.values())


def test_the_newest_words_replace_those_not_sent_and_the_last_word_wins(
    new_office: NewOffice,
) -> None:
    office = new_office()
    office.model.fails = away
    commit = COMMITS[0]

    def steps(passed: float) -> None:
        if passed < 100:
            office.put(status(commit, "pending", f"{passed}"))
        if passed == 100:
            office.put(status(commit))
            office.model.fails = lambda _method, _path: None

    office.run(300, steps=steps)
    assert [commit_status for kept in office.model.statuses.values() for commit_status in kept] == [
        ("success", "done")
    ]


def test_an_item_that_the_disk_does_not_let_go_is_sent_once(new_office: NewOffice) -> None:
    office = new_office()
    full = "CREATE TRIGGER full BEFORE DELETE ON items BEGIN SELECT RAISE(ABORT, 'full'); END"
    with closing(sqlite3.connect(office.path)) as database:
        database.execute(full)

        def steps(passed: float) -> None:
            if passed == 600:
                assert office.sender.problem == "the outbox cannot be used: full"
                database.execute("DROP TRIGGER full")

        office.put(status(COMMITS[0]), status(COMMITS[1]))
        office.run(900, steps=steps)
    assert list(office.model.statuses.values()) == [[("success", "done")]] * 2
    assert office.outbox.waiting(CHANNEL) == []
    assert office.sender.problem == ""


def test_a_letter_replaced_while_it_is_sent_is_sent_again(new_office: NewOffice) -> None:
    office = new_office()
    commit = COMMITS[0]
    office.put(status(commit, "pending", "moving"))

    def fails(_method: str, _path: str) -> JsonReply | None:
        office.model.fails = lambda _method, _path: None
        office.put(status(commit))
        return None

    office.model.fails = fails
    office.run(30)
    assert [state for state, _ in next(iter(office.model.statuses.values()))] == [
        "pending", "success",
    ]  # fmt: skip


def test_what_the_forge_will_never_take_steps_back_and_is_given_up(new_office: NewOffice) -> None:
    office = new_office()
    office.put(status("f" * 40), *(status(commit) for commit in COMMITS[:5]))
    office.run(20)
    assert office.arrived == set(COMMITS[:5])
    assert office.outbox.waiting(CHANNEL) == ["f" * 40]
    office.run(3 * 3600)
    assert office.outbox.waiting(CHANNEL) == []
    assert sum(path.endswith("f" * 40) for path in office.model.asked) == TRIES_MAX


def test_retry_after_is_kept_to_and_letters_wait_for_their_time(new_office: NewOffice) -> None:
    office = new_office()
    times: list[float] = []

    def fails(_method: str, _path: str) -> JsonReply | None:
        times.append(office.clock.monotonic())
        return reply(429, {}, {"Retry-After": "600"}) if len(times) == 1 else None

    office.model.fails = fails
    office.put(status(COMMITS[0]))
    office.put(status(COMMITS[1]), after=1200)
    office.run(1300)
    assert times[0] == 0
    assert 600 <= times[1] <= 601
    assert 1200 <= times[2] <= 1210


def test_a_clock_that_is_set_back_holds_no_letter_up(new_office: NewOffice) -> None:
    office = new_office()
    office.put(status(COMMITS[0]))
    office.model.fails = away

    def steps(passed: float) -> None:
        if passed == 60:
            office.clock.step(-1800)
            office.model.fails = lambda _method, _path: None

    office.run(200, steps=steps)
    assert not office.outbox.waiting(CHANNEL)


def test_a_letter_of_a_process_whose_clock_was_ahead_is_sent(new_office: NewOffice) -> None:
    office = new_office()
    office.put(status(COMMITS[0]), after=24 * 3600)
    office.run(20)
    assert not office.outbox.waiting(CHANNEL)


def test_a_restart_goes_on_where_it_was(new_office: NewOffice) -> None:
    office = new_office()
    office.model.fails = away
    office.put(*(status(commit) for commit in COMMITS))
    office.outbox.put(CHANNEL, [], {"sent/x": b"kept", "sent/y": b"gone"})
    office.outbox.put(CHANNEL, [], {"sent/y": None})
    office.run(50)
    office.close()
    office.outbox = NotificationOutbox(office.path)
    assert len(office.outbox.waiting(CHANNEL)) == len(COMMITS)
    assert office.outbox.notes(CHANNEL, "sent/") == {"x": b"kept"}
    assert office.outbox.notes("another", "sent/") == {}
    office.model.fails = lambda _method, _path: None
    office.run(120)
    assert office.arrived == set(COMMITS)
    assert office.path.stat().st_mode & 0o077 == 0


def test_a_box_has_a_limit_and_keeps_the_newest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(NotificationOutbox(tmp_path / "x.sqlite")) as outbox:
        entries = [OutboxEntry(str(n), status(COMMITS[0]), START) for n in range(ITEMS_MAX + 3)]
        outbox.put(CHANNEL, entries)
        waiting = outbox.waiting(CHANNEL)
        assert (len(waiting), waiting[0]) == (ITEMS_MAX, "3")
        assert "dropped=3" in caplog.text
        first = outbox.next(CHANNEL, START)
        assert isinstance(first, QueuedItem)
        assert first.key == "3"


def test_a_problem_is_reported_when_it_lasts_and_when_it_ends(new_office: NewOffice) -> None:
    office, problems = new_office(), list[tuple[float, str]]()
    office.model.fails = away
    office.put(status(COMMITS[0]))

    def steps(passed: float) -> None:
        office.sender.on_problem = lambda why: problems.append((office.clock.monotonic(), why))
        if passed == 600:
            office.model.fails = lambda _method, _path: None

    office.run(800, steps=steps)
    silent = "messages do not arrive: connection refused: nothing listens there"
    assert [why for _, why in problems] == [silent, ""]
    assert 300 <= problems[0][0] <= 400
    assert 600 <= problems[1][0] <= 700


def test_a_receiver_that_takes_no_message_is_reported(new_office: NewOffice) -> None:
    """A chat answers 404 for a web hook that was deleted, to whatever it is sent."""
    office, problems = new_office(), list[str]()
    office.model.fails = lambda _method, _path: reply(404, {"message": "no_service"})
    office.put(status(COMMITS[0]))

    def steps(passed: float) -> None:
        office.sender.on_problem = problems.append
        if passed == 3600:
            assert not office.outbox.waiting(CHANNEL)
            office.model.fails = lambda _method, _path: None
            office.put(status(COMMITS[1]))

    office.run(3700, steps=steps)
    *failures, end = problems
    assert [one.partition(" do")[0] for one in failures] == ["some messages", "messages"]
    assert all("no_service" in one for one in failures)
    assert end == ""


def test_a_refused_token_is_reported_immediately(new_office: NewOffice) -> None:
    office, problems = new_office(), list[str]()
    office.model.fails = lambda _method, _path: reply(401, {"message": "Bad credentials"})
    office.put(status(COMMITS[0]), after=5)

    def steps(_passed: float) -> None:
        office.sender.on_problem = problems.append

    office.run(30, steps=steps)
    assert len(problems) == 1
    assert "Bad credentials" in problems[0]


def test_a_token_that_may_not_comment_holds_up_no_status(new_office: NewOffice) -> None:
    """Nor does one conversation that is locked hold up another."""
    office, problems = new_office(), list[str]()
    locked = reply(403, {"message": "Resource not accessible by personal access token"})
    office.model.fails = lambda _method, path: locked if "/issues/4/" in path else None
    office.put(CommentItem(4, "test", "plan"), CommentItem(5, "test", "plan"))
    office.put(*(status(commit) for commit in COMMITS[:5]))

    def steps(passed: float) -> None:
        office.sender.on_problem = problems.append
        if passed == 3600:
            assert office.outbox.waiting(CHANNEL) == ["4"]
            office.model.fails = lambda _method, _path: None

    office.run(60, steps=steps)
    assert office.arrived == set(COMMITS[:5])
    assert [c["author"] for c in office.model.comments[5]] == [ME]
    assert "Resource not accessible" in office.sender.problem
    assert problems[-1].startswith("some messages do not arrive: ")
    office.run(2 * 3600, steps=steps)
    assert [c["author"] for c in office.model.comments[4]] == [ME]
    assert problems[-1] == ""
    assert office.sender.problem == ""
    assert len(office.model.asked) < 60


_OLD: Final = """
CREATE TABLE letters (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
  version INTEGER NOT NULL, tries INTEGER NOT NULL, after REAL NOT NULL, UNIQUE (channel, key));
CREATE TABLE notes (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
  UNIQUE (channel, key));
"""


def old_outbox(folder: Path, words: str) -> None:
    """Files of an earlier version that was killed: one item, and notes, only in the -wal file."""
    with closing(sqlite3.connect(folder / "live.sqlite")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(_OLD)
        body = msgspec.json.encode(status(COMMITS[0], words=words))
        with database:
            database.execute(
                "INSERT INTO letters VALUES (1, ?, 'status/a', ?, 0, 3, 0)", (CHANNEL, body)
            )
            database.execute("INSERT INTO notes VALUES (1, ?, 'told/x', ?)", (CHANNEL, b"kept"))
            database.execute("INSERT INTO notes VALUES (2, ?, 'pull/7', ?)", (CHANNEL, b"story"))
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(folder / f"live.sqlite{suffix}", folder / f"letters.sqlite{suffix}")
    for file in folder.glob("live.sqlite*"):
        file.unlink()


def content(outbox: NotificationOutbox) -> tuple[str, int, dict[str, bytes]]:
    waiting = outbox.next(CHANNEL, START)
    assert isinstance(waiting, QueuedItem)
    assert isinstance(waiting.item, CommitStatusItem)
    return waiting.item.description, waiting.tries, outbox.notes(CHANNEL, "")


TAKEN_OVER: Final = ("before", 3, {"sent/x": b"kept", "pull/7": b"story"})


def test_the_file_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    old_outbox(tmp_path, "before")
    for _ in range(2):
        with closing(open_outbox(tmp_path)) as outbox:
            assert content(outbox) == TAKEN_OVER
            outbox.put(CHANNEL, [], {"sent/x": b"kept"})
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_an_interrupted_migration_goes_on(tmp_path: Path) -> None:
    old_outbox(tmp_path, "before")
    (tmp_path / "letters.sqlite-wal").rename(tmp_path / f"{FILE}-wal")
    with closing(open_outbox(tmp_path)) as outbox:
        assert content(outbox) == TAKEN_OVER


def test_an_earlier_version_that_ran_in_between_loses_nothing(tmp_path: Path) -> None:
    with closing(open_outbox(tmp_path)) as outbox:
        older, other = status(COMMITS[0], words="older"), status(COMMITS[1], words="other")
        outbox.put(
            CHANNEL,
            [OutboxEntry("status/a", older, START), OutboxEntry("status/b", other, START)],
            {"sent/x": b"older", "sent/y": b"other"},
        )
    old_outbox(tmp_path, "before")
    with closing(open_outbox(tmp_path)) as outbox:
        assert outbox.waiting(CHANNEL) == ["status/b", "status/a"]
        assert outbox.notes(CHANNEL, "") == {
            "sent/x": b"kept", "sent/y": b"other", "pull/7": b"story",
        }  # fmt: skip
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_an_earlier_version_that_kept_nothing_is_taken_over(tmp_path: Path) -> None:
    for name in ("letters.sqlite", FILE):
        (tmp_path / name).touch()
    with closing(open_outbox(tmp_path)) as outbox:
        assert outbox.waiting(CHANNEL) == []


def test_a_pipe_under_the_earlier_name_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "letters.sqlite")
    with pytest.raises(ClusterFailed, match="GK4111"):
        open_outbox(tmp_path)


@pytest.mark.parametrize("name", [FILE, "letters.sqlite"])
@pytest.mark.parametrize("data", [b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path, name: str, data: bytes) -> None:
    open_outbox(tmp_path).close()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ClusterFailed, match=name) as raised:
        open_outbox(tmp_path)
    assert raised.value.findings[0].code == "GK4111"
    assert (tmp_path / name).read_bytes() == data
    assert not is_open(tmp_path / name)
    assert not is_open(tmp_path / FILE)


def test_the_file_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / FILE
    with closing(open_outbox(tmp_path)) as outbox:
        outbox.put(CHANNEL, [OutboxEntry("status/a", status(COMMITS[0]), START)])
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(ClusterFailed, match=r"GK4122: .* has format 2; .* knows up to 1"):
        open_outbox(tmp_path)
    assert path.read_bytes() == before
