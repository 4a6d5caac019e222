"""Status commits go on top of the branch, lose no other work, and repeat nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitkruise.errors import SourceFailed, UsageProblem
from gitkruise.git.push.status_branch import CommitAuthor, Notes, StatusBranch, Update
from gitkruise.git.repository.repository import Repository
from tests.git.push.history import history
from tests.git.repos import Origin, run_git, serve

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
BOT = CommitAuthor(name="gitkruise", email="gitkruiseexample.com")
REF = "refs/heads/gitkruise/status/test"


def branch_of(
    repository: Repository,
    sleep: Callable[[float], bool | None] = lambda _: None,
    attempts: int = 10,
) -> StatusBranch:
    return StatusBranch(
        repository, "gitkruise/status/test", source_branch="main", identity=BOT,
        sleep=sleep, attempts_max=attempts,
    )  # fmt: skip


def update(*files: str, subject: str = "news", **more: bytes) -> Update:
    return Update(
        files={name: f"{name}\n".encode() for name in files} | more, subject=subject,
        trailers=[("Gitkruise-Phase", "Held"), ("Gitkruise-Unit", "shop/web\nEvil: yes")],
    )  # fmt: skip


def test_the_first_commit_is_an_orphan_and_the_next_its_child(
    origin: Origin, repository: Repository
) -> None:
    origin.commit({"a": "1"})
    branch = branch_of(repository)
    first = branch.publish(update("index.tsv", "units/shop/web.yaml", subject="one"), NOW)
    second = branch.publish(update("units/shop/api.yaml", subject="two"), NOW)
    log = run_git(origin.bare, "log", "--format=%H %P|%an|%ae|%ct|%s", REF).splitlines()
    stamp = int(NOW.timestamp())
    assert log == [
        f"{second} {first}|gitkruise|gitkruiseexample.com|{stamp}|two",
        f"{first} |gitkruise|gitkruiseexample.com|{stamp}|one",
    ]
    files = run_git(origin.bare, "ls-tree", "-r", "--name-only", REF).splitlines()
    assert files == ["index.tsv", "units/shop/api.yaml", "units/shop/web.yaml"]
    run_git(origin.bare, "fsck", "--strict")


def test_no_news_makes_no_commit(origin: Origin, repository: Repository) -> None:
    origin.commit({"a": "1"})
    branch = branch_of(repository)
    assert branch.publish(update("a.yaml"), NOW) is not None
    assert branch.publish(update("a.yaml", subject="again"), NOW) is None
    assert branch_of(repository).publish(update("a.yaml"), NOW + timedelta(hours=1)) is None
    assert run_git(origin.bare, "rev-list", "--count", REF) == "1"


def test_files_are_deleted_with_their_empty_folders(origin: Origin, repository: Repository) -> None:
    origin.commit({"a": "1"})
    branch = branch_of(repository)
    branch.publish(update("units/a/status.yaml", "units/b/status.yaml"), NOW)
    gone = Update(files={}, delete=["units/a/status.yaml", "never/was"], subject="gone")
    branch.publish(gone, NOW)
    assert branch.files() == {"units/b/status.yaml": b"units/b/status.yaml\n"}
    assert branch.files("units/a") == {}
    assert branch.read("units/b/status.yaml") == b"units/b/status.yaml\n"
    assert branch.read("units/a/status.yaml") is None


def test_history_reads_subjects_and_trailers_back(origin: Origin, repository: Repository) -> None:
    origin.commit({"a": "1"})
    branch = branch_of(repository)
    assert history(branch) == []
    for number in range(3):
        branch.publish(update(f"{number}", subject=f"news {number}\nand more"), NOW)
    entries = history(branch, limit=2)
    assert [entry.subject for entry in entries] == ["news 2 and more", "news 1 and more"]
    assert entries[0].time == NOW
    assert dict(entries[0].trailers) == {
        "Gitkruise-Phase": "Held", "Gitkruise-Unit": "shop/web Evil: yes",
    }  # fmt: skip


def test_foreign_files_are_kept_to_the_byte(origin: Origin, repository: Repository) -> None:
    """B-G33"""
    blob, link = origin.blob(b"\0\xff foreign"), origin.blob(b"/etc/passwd")
    folder = run_git(origin.bare, "mktree", data=f"100755 blob {blob}\tx.sh\n".encode())
    origin.plant(
        f"100644 blob {blob}\tforeign\n120000 blob {link}\tlink\n040000 tree {folder}\tunits\n", REF
    )
    branch_of(repository).publish(update("units/web.yaml"), NOW)
    lines = run_git(origin.bare, "ls-tree", "-r", REF).splitlines()
    assert [line for line in lines if "web.yaml" not in line] == [
        f"100644 blob {blob}\tforeign", f"120000 blob {link}\tlink",
        f"100755 blob {blob}\tunits/x.sh",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "path"),
    [("120000 blob {blob}\tindex\n", "index"), ("040000 tree {tree}\tindex\n", "index"),
     ("100644 blob {blob}\tunits\n", "units/web"), ("120000 blob {blob}\tunits\n", "units/web")],
    ids=["link", "folder", "file-for-folder", "link-for-folder"],
)  # fmt: skip
def test_something_in_our_way_is_left_there(
    origin: Origin, repository: Repository, entry: str, path: str
) -> None:
    """B-G33"""
    blob = origin.blob(b"x")
    tree = run_git(origin.bare, "mktree", data=f"100644 blob {blob}\tx\n".encode())
    before = origin.plant(entry.format(blob=blob, tree=tree), REF)
    with pytest.raises(SourceFailed) as caught:
        branch_of(repository).publish(update(path), NOW)
    assert caught.value.findings[0].code == "GK3502"
    assert run_git(origin.bare, "rev-parse", REF) == before


def test_somebody_faster_is_built_upon(origin: Origin, repository: Repository) -> None:
    origin.commit({"a": "1"})
    branch, rival = branch_of(repository), branch_of(repository)
    branch.publish(update("ours"), NOW)
    rival.publish(update("theirs"), NOW)
    waits: list[float] = []
    again = branch_of(repository, sleep=waits.append)
    again.files()
    rival.publish(update("theirs-2"), NOW)
    again.publish(update("ours-2"), NOW)
    assert waits == [0.2]
    assert sorted(branch.files()) == ["ours", "ours-2", "theirs", "theirs-2"]


def test_attempts_have_an_end_and_waits_a_cap(origin: Origin, repository: Repository) -> None:
    origin.commit({"a": "1"})
    rival = branch_of(repository)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)

    class Busy(Repository):
        """The real repository, where another push is always faster."""

        def push_ref(self, ref: str, new: str, *, old: str | None) -> None:
            rival.publish(update(f"rival-{new}"), NOW)
            super().push_ref(ref, new, old=old)

    with Busy.open(str(origin.bare)) as busy, pytest.raises(SourceFailed) as caught:
        branch_of(busy, sleep=sleep, attempts=9).publish(update("ours"), NOW)
    assert caught.value.findings[0].code == "GK3501"
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0])
    assert len(rival.files()) == 9


def test_an_end_of_the_process_ends_the_attempts(origin: Origin, repository: Repository) -> None:
    lock = origin.bare / f"{REF}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()  # of a git that was killed there
    with pytest.raises(SourceFailed, match="under each of 1 attempts") as caught:
        branch_of(repository, sleep=lambda _: True).publish(update("ours"), NOW)
    assert caught.value.findings[0].code == "GK3501"


@pytest.mark.slow
def test_concurrent_pushers_lose_nothing(origin: Origin, tmp_path: Path) -> None:
    origin.commit({"a": "1"})
    failures: list[BaseException] = []

    def work(base: str, who: str) -> None:
        try:
            with Repository.open(
                f"{base}/origin.git", mirrors=tmp_path / who, protocols={"http"}
            ) as own:
                branch = branch_of(own, attempts=60)
                for number in range(4):
                    branch.publish(update(f"{who}/{number}", subject=f"{who} {number}"), NOW)
        except BaseException as error:
            failures.append(error)

    with serve(tmp_path) as base:
        threads = [threading.Thread(target=work, args=(base, who)) for who in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    files = run_git(origin.bare, "ls-tree", "-r", "--name-only", REF).splitlines()
    assert sorted(files) == sorted(f"{who}/{number}" for who in "abc" for number in range(4))
    subjects = run_git(origin.bare, "log", "--format=%s", REF).splitlines()
    assert len(subjects) == len(set(subjects)) == 12
    assert run_git(origin.bare, "rev-list", "--min-parents=2", "--count", REF) == "0"


def test_a_deleted_branch_begins_again(origin: Origin, repository: Repository) -> None:
    origin.commit({"a": "1"})
    branch = branch_of(repository)
    branch.publish(update("one"), NOW)
    run_git(origin.bare, "update-ref", "-d", REF)
    branch.publish(update("two"), NOW)
    assert branch.files() == {"two": b"two\n"}


def test_the_source_branch_is_refused(repository: Repository) -> None:
    with pytest.raises(UsageProblem):
        StatusBranch(repository, "main", source_branch="main", identity=BOT, sleep=lambda _: None)


def test_notes_are_seen_by_git(origin: Origin, repository: Repository) -> None:
    commits = [origin.commit({"a": str(n)}) for n in range(3)]
    notes = Notes(repository, "refs/notes/gitkruise/test", identity=BOT, sleep=lambda _: None)
    assert notes.read(commits[0]) is None
    assert notes.put({commits[0]: "held 4/10", commits[1]: "done"}, NOW) is not None
    assert notes.put({commits[0]: "held 4/10"}, NOW) is None
    assert notes.put({commits[0]: "done"}, NOW) is not None
    assert notes.read(commits[0]) == "done\n"
    shown = run_git(origin.bare, "log", "--format=%N", "--notes=gitkruise/test", commits[1])
    assert shown.split() == ["done", "done"]


def test_files_of_several_writers_are_merged_again_after_a_faster_push(
    origin: Origin, repository: Repository
) -> None:
    origin.commit({"a": "1"})
    ours, rival = branch_of(repository), branch_of(repository)
    ours.publish(Update(files={"index": b"one\n"}, subject="one"), NOW)
    reads: list[bytes | None] = []

    def merged(read: Callable[[str], bytes | None]) -> dict[str, bytes]:
        reads.append(read("index"))
        if len(reads) == 1:
            rival.publish(Update(files={"index": b"one\ntwo\n"}, subject="two"), NOW)
        return {"index": (reads[-1] or b"") + b"three\n"}

    ours.publish(Update(files={}, merged=merged, subject="three"), NOW)
    assert reads == [b"one\n", b"one\ntwo\n"]
    assert ours.read("index") == b"one\ntwo\nthree\n"


def test_notes_of_several_writers_are_merged_again_after_a_faster_push(
    origin: Origin, repository: Repository
) -> None:
    commit = origin.commit({"a": "1"})
    ref = "refs/notes/gitkruise/test"
    ours, rival = (Notes(repository, ref, identity=BOT, sleep=lambda _: None) for _ in range(2))
    ours.put({commit: "one"}, NOW)

    def merge(earlier: str | None, text: str) -> str:
        if earlier == "one\n":
            rival.put({commit: "one two"}, NOW)
        return f"{(earlier or '').strip()} {text}"

    ours.put({commit: "three"}, NOW, merge)
    assert ours.read(commit) == "one two three\n"


def test_notes_keep_the_form_git_gave_them(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"a": "1"})
    blob = origin.blob(b"by hand\n")
    line = f"100644 blob {blob}\t{commit[2:]}\n"
    folder = run_git(origin.bare, "mktree", data=line.encode())
    origin.plant(f"040000 tree {folder}\t{commit[:2]}\n", "refs/notes/gitkruise/test")
    notes = Notes(repository, "refs/notes/gitkruise/test", identity=BOT, sleep=lambda _: None)
    assert notes.read(commit) == "by hand\n"
    notes.put({commit: "ours"}, NOW)
    names = run_git(origin.bare, "ls-tree", "-r", "--name-only", "refs/notes/gitkruise/test")
    assert names == f"{commit[:2]}/{commit[2:]}"
    assert notes.read(commit) == "ours\n"
