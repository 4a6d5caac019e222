"""A repository of this machine is read in place, by id, within limits."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitkruise.errors import DiagnosticError, GitkruiseError, InvalidManifests, SourceFailed
from gitkruise.git.repository.repository import RefMoved, Repository
from tests.git.repos import ENV, Origin, make_origin, run_git


def code_of(error: pytest.ExceptionInfo[DiagnosticError]) -> str:
    return error.value.findings[0].code


def test_refs_resolve_to_commits(origin: Origin, repository: Repository) -> None:
    first = origin.commit({"a.yaml": "a: 1\n"}, "first")
    run_git(origin.work, "tag", "-a", "v1", "-m", "one")
    run_git(origin.work, "push", "--quiet", "origin", "v1")
    second = origin.commit({"a.yaml": "a: 2\n"}, "second")
    assert repository.default_branch() == "refs/heads/main"
    assert repository.tip("main") == repository.fetch("main") == second
    assert repository.tip("refs/tags/v1") == first
    names = ("v1", "refs/tags/v1", first, first[:9])
    assert {repository.resolve(name) for name in names} == {first}


def test_a_user_names_commits_as_git_does(origin: Origin) -> None:
    first, second = (origin.commit({"a.yaml": f"a: {n}\n"}) for n in (1, 2))
    run_git(origin.work, "tag", "-a", "v1", "-m", "one", first)
    with Repository.open(str(origin.work)) as repository:
        for name in ("HEAD~1", "v1", first[:9], "main@{1}", "origin/main^"):
            assert repository.named(name) == first
        assert repository.named("HEAD") == second
        for name in ("nope", "-x", "main..main", "HEAD:a.yaml", "", "HEAD\nHEAD"):
            with pytest.raises(SourceFailed) as refused:
                repository.named(name)
            assert code_of(refused) == "GK3201"


def test_a_linked_checkout_is_a_repository(origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a.yaml": "a: 1\n"})
    run_git(origin.work, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    with Repository.open(str(tmp_path / "linked")) as repository:
        assert repository.named("HEAD") == commit


@pytest.mark.parametrize(("length", "found"), [(9, True), (30, False)])
def test_a_chain_of_tags_is_followed_so_far(
    origin: Origin, repository: Repository, length: int, found: bool
) -> None:  # fmt: skip
    name, kind = origin.commit({"a": "1"}), "commit"
    for _ in range(length):
        text = f"object {name}\ntype {kind}\ntag t\ntagger a <a> 1 +0000\n\nt\n"
        name = run_git(origin.bare, "hash-object", "-w", "-t", "tag", "--stdin", data=text.encode())
        kind = "tag"
    run_git(origin.bare, "update-ref", "refs/tags/t", name)
    if found:
        assert repository.tip("refs/tags/t") == repository.tip("main")
        return
    with pytest.raises(SourceFailed):
        repository.tip("refs/tags/t")


def test_a_branch_and_a_tag_of_one_name_are_distinguished(
    origin: Origin, repository: Repository
) -> None:
    """B-G07"""
    first = origin.commit({"a": "1"}, branch="x")
    run_git(origin.bare, "update-ref", "refs/tags/x", first)
    second = origin.commit({"a": "2"}, branch="x")
    assert (repository.tip("x"), repository.tip("refs/tags/x")) == (second, first)


@pytest.mark.parametrize("name", ["nope", "-x", "a..b", "HEAD", "a" * 40, "refs/tags/blob", "main"])
def test_what_is_no_commit_is_not_found(origin: Origin, repository: Repository, name: str) -> None:
    run_git(origin.bare, "update-ref", "refs/tags/blob", origin.blob(b"x"))
    with pytest.raises(SourceFailed) as caught:  # "main": the repository is still empty (B-G09)
        repository.tip(name)
    assert code_of(caught) == "GK3201"


def test_a_near_name_is_offered(origin: Origin, repository: Repository) -> None:
    origin.commit({"a": "1"}, branch="release")
    with pytest.raises(SourceFailed) as caught:
        repository.tip("relaese")
    assert ("did you mean", "release") in caught.value.findings[0].notes


def test_a_commit_is_shown_escaped(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"a": "1"}, "first \x1b[31mred\u202e\n\nbody @everyone " + "x" * 9_000)
    details = repository.commit(commit)
    assert (details.author, details.subject) == ("Dana K", "first \\u001b[31mred\\u202e")
    assert details.time == datetime.fromtimestamp(1_790_000_000, UTC)
    assert details.parents == ()


@pytest.mark.parametrize("when", ["0 +0000", "4102444800 +0000", "999999999999 -9999"])
def test_odd_dates_do_no_harm(origin: Origin, repository: Repository, when: str) -> None:
    tree = run_git(origin.bare, "mktree")
    raw = f"tree {tree}\nauthor  <> {when}\ncommitter x <y> {when}\n\nodd\n"
    words = ("hash-object", "-t", "commit", "-w", "--stdin", "--literally")
    commit = run_git(origin.bare, *words, data=raw.encode())
    assert repository.commit(commit).subject == "odd"


def test_history_and_differences(origin: Origin, repository: Repository) -> None:
    first = origin.commit({"app/a.yaml": "1", "app/sub/b.yaml": "1", "other": "1"}, "first")
    second = origin.commit({"other": "2"}, "second")
    third = origin.commit({"app/a.yaml": None, "app/c.yaml": "1"}, "third")
    assert repository.is_ancestor(first, third)
    assert not repository.is_ancestor(third, first)
    assert repository.changed_paths(first, third) == ["app/a.yaml", "app/c.yaml", "other"]
    assert repository.changed_paths(first, third, "app") == ["app/a.yaml", "app/c.yaml"]
    assert repository.changed_paths(first, second, "app") == []
    assert repository.tree_id(first, "app") == repository.tree_id(second, "app")
    subjects = [c.subject for c in repository.commits_between(first, third)]
    assert subjects == ["third", "second"]
    touching = repository.commits_between("", third, paths=["app"])
    assert [c.subject for c in touching] == ["third", "first"]


def test_a_listing_has_modes_and_sizes(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"a/b.yaml": "12345", 'a/é "q"\n.yaml': "1", "z": ""})
    entries = repository.list_tree(commit)
    assert [e.path for e in entries] == ["a/b.yaml", 'a/é "q"\n.yaml', "z"]
    sizes = repository.sizes([entry.id for entry in entries])
    assert [sizes[entry.id] for entry in entries] == [5, 1, 0]
    assert repository.read_blob(entries[0].id) == b"12345"
    assert [e.path for e in repository.list_tree(commit, "a/b.yaml")] == ["a/b.yaml"]


@pytest.mark.parametrize(
    "path", ["../x", "/etc", "a\\b", "a\0b", "a ", " a", "a/../..", "x" * 2_000]
)
def test_a_bad_path_is_refused(origin: Origin, repository: Repository, path: str) -> None:
    commit = origin.commit({"a": "1"})
    with pytest.raises(InvalidManifests) as caught:
        repository.tree_id(commit, path)
    assert code_of(caught) == "GK3010"


def test_a_missing_path_is_named(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"a": "1"})
    for path in ("nope", "a/inside-a-file"):
        with pytest.raises(SourceFailed) as caught:
            repository.tree_id(commit, path)
        assert code_of(caught) == "GK3202"


@pytest.mark.slow
def test_a_tree_bomb_stops_at_a_limit(origin: Origin, repository: Repository) -> None:
    blob = origin.blob(b"x")
    lines = "".join(f"100644 blob {blob}\tf{n}\n" for n in range(10))
    for _ in range(9):
        tree = run_git(origin.bare, "mktree", data=lines.encode())
        lines = "".join(f"040000 tree {tree}\td{n}\n" for n in range(10))
    commit = origin.plant(lines)
    with pytest.raises(InvalidManifests) as caught:
        repository.list_tree(commit)
    assert code_of(caught) == "GK9020"


def test_a_deep_tree_stops_at_a_limit(origin: Origin, repository: Repository) -> None:
    line = f"100644 blob {origin.blob(b'x')}\tf\n"
    for _ in range(70):
        line = f"040000 tree {run_git(origin.bare, 'mktree', data=line.encode())}\td\n"
    with pytest.raises(InvalidManifests) as caught:
        repository.list_tree(origin.plant(line))
    assert "depth > 64" in str(caught.value)


def test_many_files_are_read_in_order(origin: Origin, repository: Repository) -> None:
    blobs = [origin.blob(str(number).encode()) for number in range(40)]
    wanted = [*blobs, blobs[0], blobs[0]]
    assert list(repository.read_blobs(wanted)) == [*(b"%d" % n for n in range(40)), b"0", b"0"]
    with pytest.raises(SourceFailed):
        list(repository.read_blobs([blobs[0], "1" * 40]))


def test_a_missing_object_is_an_error_and_the_reader_lives_on(
    origin: Origin, repository: Repository
) -> None:
    commit = origin.plant(f"100644 blob {'1' * 40}\tgone\n")
    with pytest.raises(SourceFailed) as caught:
        repository.read_blob("1" * 40)
    assert code_of(caught) == "GK3104"
    assert repository.resolve(commit) == commit


def test_refs_move_only_from_where_they_were(origin: Origin, repository: Repository) -> None:
    first, second = origin.commit({"a": "1"}), origin.commit({"a": "2"})
    repository.push_ref("refs/heads/s", first, old=None)
    repository.push_ref("refs/heads/s", second, old=first)
    for old in (None, first):
        with pytest.raises(RefMoved):
            repository.push_ref("refs/heads/s", first, old=old)
    assert repository.tip("s") == second


def test_hooks_and_configuration_of_the_repository_run_nothing(
    origin: Origin, repository: Repository, tmp_path: Path
) -> None:
    first = origin.commit({"a": "1"})
    touched = tmp_path / "touched"
    for hook in ("reference-transaction", "post-update", "update"):
        path = origin.bare / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {touched}\n")
        path.chmod(0o755)
    run_git(origin.bare, "config", "core.fsmonitor", f"touch {touched}")
    run_git(origin.bare, "config", "alias.cat-file", f"!touch {touched}")
    touched.unlink(missing_ok=True)
    repository.push_ref("refs/heads/s", first, old=None)
    assert repository.tip("s") == first
    assert not touched.exists()


def test_replacement_objects_are_not_followed(origin: Origin, repository: Repository) -> None:
    """B-G28"""
    good, evil = origin.blob(b"good"), origin.blob(b"evil")
    run_git(origin.bare, "replace", good, evil)
    assert repository.read_blob(good) == b"good"


def test_a_callers_git_variables_change_nothing(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = origin.commit({"a": "1"})
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    with Repository.open(str(origin.bare)) as repository:
        assert repository.tip("main") == commit


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_written_objects_are_git_objects(tmp_path: Path, algorithm: str) -> None:
    origin = make_origin(tmp_path, f"--object-format={algorithm}")
    origin.commit({"a": "1"})
    with Repository.open(str(origin.bare)) as repository:
        blob = repository.write_object("blob", b"hello\n")
        assert repository.write_object("blob", b"hello\n") == blob
    assert run_git(origin.bare, "cat-file", "-p", blob) == "hello"
    run_git(origin.bare, "fsck", "--strict")


def test_a_checkout_is_read_through_its_git_folder(origin: Origin) -> None:
    commit = origin.commit({"a": "1"})
    with Repository.open(str(origin.work)) as repository:
        assert repository.tip("main") == commit
        assert repository.local


@pytest.mark.parametrize("place", ["missing", "."])
def test_no_repository_is_an_error(tmp_path: Path, place: str) -> None:
    with pytest.raises(SourceFailed) as caught:
        Repository.open(f"{tmp_path}/{place}")
    assert code_of(caught) == "GK3103"
    assert isinstance(caught.value, GitkruiseError)


def test_a_repository_that_was_deleted_is_no_missing_ref(
    origin: Origin, repository: Repository
) -> None:
    origin.commit({"a": "1"})
    shutil.rmtree(origin.bare)
    with pytest.raises(SourceFailed, match="the folder is gone"):
        repository.fetch("main")


def test_new_commits_are_seen_by_a_reader_that_is_open(
    origin: Origin, repository: Repository
) -> None:
    seen = []
    for n in range(3):
        commit = origin.commit({"a": str(n)})
        subprocess.run(["git", "gc", "--quiet"], cwd=origin.bare, env=ENV, check=True)
        seen.append(repository.tip("main") == commit)
    assert seen == [True, True, True]
