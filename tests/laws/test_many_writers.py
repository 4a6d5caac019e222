"""Law of many writers: 20 clusters tell 50 pieces of news each to one repository that refuses one
push in ten, before or after it took it; each is told once, in order, and nothing is ever forced."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.push.status_branch import CommitAuthor, StatusBranch, Update
from gitkruise.git.repository.repository import RefMoved, Repository
from tests.git.repos import Origin, make_origin, run_git

CLUSTERS, RECORDS = 20, 50
TRIES_MAX: Final = 20
LATE_S: Final = 5.0
NOW: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)
BOT: Final = CommitAuthor(name="gitkruise", email="gitkruise@localhost")
SHARED, OWN = "gitkruise/status/all", "gitkruise/status/{cluster}"


def drawn(*words: object) -> int:
    """A number below 100, the same in every run."""
    text = "/".join(map(str, words)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") % 100


class Writer:
    """One cluster's gitkruise; `waited` are the seconds each piece of news took."""

    def __init__(
        self, origin: Origin, name: str, branch: str, moves: list[tuple[str, str]]
    ) -> None:
        self.name, self.waited = name, [0.0] * RECORDS
        self.repository = Repository.open(str(origin.bare))
        self.asked, self.now_at = 0, 0
        self._moves, self._push = moves, self.repository.push_ref
        self.repository.push_ref = self.push  # type: ignore[method-assign]  # a server that refuses
        ref = branch.replace("{cluster}", name)
        self.branch = StatusBranch(
            self.repository, ref, source_branch="main", identity=BOT, sleep=self.sleep
        )

    def sleep(self, seconds: float) -> None:
        self.waited[self.now_at] += seconds

    def push(self, ref: str, new: str, *, old: str | None) -> None:
        """One in ten is refused: as if somebody was faster, or with its answer lost."""
        self.asked += 1
        draw = drawn(self.name, self.asked)
        if draw < 7:
            raise RefMoved(finding("somebody was faster"))
        self._push(ref, new, old=old)
        self._moves.append((old or "", new))
        if draw < 10:
            raise SourceFailed(finding("the connection broke off"))

    def publish(self, number: int) -> None:
        """As the loop that writes the branch does it: again until it went well."""
        self.now_at = number
        subject = f"{self.name}: news {number}"
        path = f"units/{self.name}/status.yaml"
        update = Update(files={path: f"{number}\n".encode()}, subject=subject)
        for _ in range(TRIES_MAX):
            try:
                self.branch.publish(update, NOW)
            except SourceFailed:
                self.sleep(1.0)
                continue
            return
        raise AssertionError(f"{subject} never went through")


def finding(message: str) -> Finding:
    return Finding(code="GK3501", message=message)


@pytest.mark.slow
@pytest.mark.parametrize("branch", [OWN, SHARED], ids=["a branch each", "one branch for all"])
def test_each_piece_of_news_is_published_once_and_nothing_is_forced(
    tmp_path: Path, branch: str
) -> None:
    origin = make_origin(tmp_path)
    origin.commit({"a": "1"})
    moves: list[tuple[str, str]] = []
    with ExitStack() as stack:
        writers = [Writer(origin, f"c{n:02}", branch, moves) for n in range(CLUSTERS)]
        for writer in writers:
            stack.callback(writer.repository.close)
        for number in range(RECORDS):
            for writer in sorted(writers, key=lambda w: drawn(number, w.name)):
                writer.publish(number)
        refused = sum(w.asked for w in writers) - CLUSTERS * RECORDS
        assert refused >= CLUSTERS * RECORDS // 20  # the server did refuse
    refs = run_git(origin.bare, "for-each-ref", "--format=%(refname)", "refs/heads/gitkruise")
    subjects: list[str] = []
    for ref in refs.split():
        subjects += reversed(run_git(origin.bare, "log", "--format=%s", ref).splitlines())
        assert run_git(origin.bare, "rev-list", "--merges", ref) == ""
    wanted = [f"{w.name}: news {n}" for w in writers for n in range(RECORDS)]
    assert sorted(subjects) == sorted(wanted)
    for writer in writers:
        own = [line for line in subjects if line.startswith(writer.name)]
        assert own == [f"{writer.name}: news {n}" for n in range(RECORDS)]
    assert_grown(origin, moves, branches=len(refs.split()))
    waits = sorted(seconds for w in writers for seconds in w.waited)
    assert waits[int(len(waits) * 0.99)] <= LATE_S


def assert_grown(origin: Origin, moves: list[tuple[str, str]], *, branches: int) -> None:
    """Every push was the next commit on what was there."""
    parents = run_git(origin.bare, "log", "--format=%P,%H", "--branches=gitkruise").splitlines()
    assert sorted(moves) == sorted((p.split(",")[0], p.split(",")[1]) for p in parents)
    assert sum(old == "" for old, _ in moves) == branches
