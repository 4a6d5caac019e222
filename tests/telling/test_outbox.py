"""Nothing that is to be told is lost: refusals by turns, an hour of silence, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Final

import pytest

from gitkruise.gitops.telling.box import LETTERS_MAX, LetterBox, Post, Waiting
from gitkruise.gitops.telling.http import Answer
from gitkruise.gitops.telling.outlet import deliver
from gitkruise.gitops.telling.postman import TRIES_MAX, Postman
from gitkruise.kube.clock import ManualClock
from gitkruise.model.telling import CommentLetter, StatusLetter, StatusState
from gitkruise.sandbox.live import alongside
from tests.gitops.stage import Inline
from tests.telling.forges import ME, ModelForge, away, client, reply
from tests.worlds import START

COMMITS: Final = [f"{number:040x}" for number in range(60)]
CHANNEL: Final = "shop/out/forge"


def status(commit: str, state: StatusState = "success", words: str = "done") -> StatusLetter:
    return StatusLetter(commit, "gitkruise/test/shop/web", state, words)


class Office:
    """A box, its postman and a forge, in virtual time."""

    def __init__(self, path: Path, kind: str = "github") -> None:
        self.clock = ManualClock(START)
        self.model = ModelForge(kind, commits=set(COMMITS))
        self.path = path / "letters.sqlite"
        self.box = LetterBox(self.path)

    def put(self, *letters: StatusLetter | CommentLetter, after: float = 0) -> None:
        when = self.clock.now() + timedelta(seconds=after)
        keys = [x.commit if isinstance(x, StatusLetter) else str(x.number) for x in letters]
        posts = [Post(key, letter, when) for key, letter in zip(keys, letters, strict=True)]
        self.box.put(CHANNEL, posts)

    def run(self, seconds: float, *, steps: Callable[[float], None] = lambda _: None) -> None:
        """Let the postman work for so long; `steps` is called every ten seconds."""

        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            forge = client(self.model, self.clock)
            self.postman = Postman(
                self.box, CHANNEL, lambda letter: deliver(forge, letter), self.clock
            )
            async with alongside(self.postman.run()):
                passed = 0.0
                while passed < seconds:
                    steps(passed)
                    self.postman.wake()
                    await self.clock.sleep(10)
                    passed += 10

        self.clock.run(main())

    @property
    def arrived(self) -> set[str]:
        return {commit for commit, _ in self.model.statuses}


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_refusals_by_turns_lose_nothing_and_double_nothing(tmp_path: Path, kind: str) -> None:
    office = Office(tmp_path, kind)
    turns = cycle([403, 422, 429, 500, 200, 404, 200, 200, 200, 503, 200])

    def fails(_method: str, _path: str) -> Answer | None:
        code = next(turns)
        headers = {"Retry-After": "3"} if code == 429 else {}
        return None if code == 200 else reply(code, {"message": "not now"}, headers)

    office.model.fails = fails
    office.put(*(status(commit) for commit in COMMITS[:20]), CommentLetter(4, "test", "plan"))
    office.run(3 * 3600)
    assert office.arrived == set(COMMITS[:20])
    assert all(len(kept) == 1 for kept in office.model.statuses.values())
    assert [c["author"] for c in office.model.comments[4]] == [ME]
    assert office.box.waiting(CHANNEL) == []
    assert office.postman.problem == ""


def test_an_hour_of_silence_loses_nothing_and_is_asked_about_once_a_minute(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.model.fails = away
    for number, commit in enumerate(COMMITS[:30]):
        office.put(status(commit, "pending", f"{number}"))

    def later(passed: float) -> None:
        if passed == 1800:
            office.put(*(status(commit) for commit in COMMITS[30:40]))
        if passed == 3600:
            assert len(office.model.asked) <= 120
            assert office.postman.problem.startswith("503: connection refused")
            office.model.fails = lambda _method, _path: None

    office.run(3800, steps=later)
    assert office.arrived == set(COMMITS[:40])
    assert all(len(kept) == 1 for kept in office.model.statuses.values())


def test_the_newest_words_replace_those_not_sent_and_the_last_word_wins(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.model.fails = away
    commit = COMMITS[0]

    def steps(passed: float) -> None:
        if passed < 100:
            office.put(status(commit, "pending", f"{passed}"))
        if passed == 100:
            office.put(status(commit))
            office.model.fails = lambda _method, _path: None

    office.run(300, steps=steps)
    assert [told for kept in office.model.statuses.values() for told in kept] == [
        ("success", "done")
    ]


def test_a_letter_replaced_while_it_is_sent_is_sent_again(tmp_path: Path) -> None:
    office = Office(tmp_path)
    commit = COMMITS[0]
    office.put(status(commit, "pending", "moving"))

    def fails(_method: str, _path: str) -> Answer | None:
        office.model.fails = lambda _method, _path: None
        office.put(status(commit))
        return None

    office.model.fails = fails
    office.run(30)
    assert [state for state, _ in next(iter(office.model.statuses.values()))] == [
        "pending", "success",
    ]  # fmt: skip


def test_what_the_forge_will_never_take_steps_back_and_is_given_up(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.put(status("f" * 40), *(status(commit) for commit in COMMITS[:5]))
    office.run(20)
    assert office.arrived == set(COMMITS[:5])
    assert office.box.waiting(CHANNEL) == ["f" * 40]
    office.run(3 * 3600)
    assert office.box.waiting(CHANNEL) == []
    assert sum(path.endswith("f" * 40) for path in office.model.asked) == TRIES_MAX


def test_retry_after_is_kept_to_and_letters_wait_for_their_time(tmp_path: Path) -> None:
    office = Office(tmp_path)
    times: list[float] = []

    def fails(_method: str, _path: str) -> Answer | None:
        times.append(office.clock.monotonic())
        return reply(429, {}, {"Retry-After": "600"}) if len(times) == 1 else None

    office.model.fails = fails
    office.put(status(COMMITS[0]))
    office.put(status(COMMITS[1]), after=1200)
    office.run(1300)
    assert times[0] == 0
    assert 600 <= times[1] <= 601
    assert 1200 <= times[2] <= 1210


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.model.fails = away
    office.put(*(status(commit) for commit in COMMITS))
    office.box.put(CHANNEL, [], {"told/x": b"kept", "told/y": b"gone"})
    office.box.put(CHANNEL, [], {"told/y": None})
    office.run(50)
    office.box.close()
    office.box = LetterBox(office.path)
    assert len(office.box.waiting(CHANNEL)) == len(COMMITS)
    assert office.box.notes(CHANNEL, "told/") == {"x": b"kept"}
    assert office.box.notes("another", "told/") == {}
    office.model.fails = lambda _method, _path: None
    office.run(120)
    assert office.arrived == set(COMMITS)
    assert office.path.stat().st_mode & 0o077 == 0


def test_a_box_has_a_limit_and_keeps_the_newest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(LetterBox(tmp_path / "x.sqlite")) as box:
        posts = [Post(str(n), status(COMMITS[0]), START) for n in range(LETTERS_MAX + 3)]
        box.put(CHANNEL, posts)
        waiting = box.waiting(CHANNEL)
        assert (len(waiting), waiting[0]) == (LETTERS_MAX, "3")
        assert "3 letters were never sent" in caplog.text
        first = box.next(CHANNEL, START)
        assert isinstance(first, Waiting)
        assert first.key == "3"


def test_trouble_is_told_when_it_lasts_and_when_it_ends(tmp_path: Path) -> None:
    office, told = Office(tmp_path), list[tuple[float, str]]()
    office.model.fails = away
    office.put(status(COMMITS[0]))

    def steps(passed: float) -> None:
        office.postman.trouble = lambda why: told.append((office.clock.monotonic(), why))
        if passed == 600:
            office.model.fails = lambda _method, _path: None

    office.run(800, steps=steps)
    assert [why for _, why in told] == ["connection refused: nothing listens there", ""]
    assert 300 <= told[0][0] <= 400
    assert 600 <= told[1][0] <= 700


def test_a_refused_token_is_told_at_once(tmp_path: Path) -> None:
    office, told = Office(tmp_path), list[str]()
    office.model.fails = lambda _method, _path: reply(401, {"message": "Bad credentials"})
    office.put(status(COMMITS[0]), after=5)

    def steps(_passed: float) -> None:
        office.postman.trouble = told.append

    office.run(30, steps=steps)
    assert len(told) == 1
    assert "Bad credentials" in told[0]
