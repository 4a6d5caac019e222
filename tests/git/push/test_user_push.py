"""A repository as its user's git knows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.errors import RefMissing, SourceFailed
from gitkruise.git.push.user_push import Branch, Publisher
from tests.git.repos import ENV, Origin, make_origin, run_git


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    made = make_origin(tmp_path)
    made.commit({"a.yaml": "a: 1\n"})
    return made


def test_remotes_are_those_that_git_names(origin: Origin) -> None:
    for name in ("team/shop", "a.b", "Upper"):
        run_git(origin.work, "remote", "add", name, f"/srv/{name}.git")
    run_git(origin.work, "config", "remote.pushDefault", "a.b")
    publisher = Publisher(origin.work, ENV)
    assert publisher.remotes() == run_git(origin.work, "remote").split()
    assert publisher.address(Branch(name="main", tip="", remote="a.b")) == "/srv/a.b.git"
    assert publisher.folder == origin.work


def test_a_branch_has_the_remote_that_is_configured_last(origin: Origin) -> None:
    for name in ("origin", "fork"):
        run_git(origin.work, "config", "--add", "branch.main.remote", name)
    run_git(origin.work, "remote", "add", "fork", str(origin.bare))
    assert Publisher(origin.work, ENV).branch("main").remote == "fork"


def test_a_bare_repository_has_no_checkout(origin: Origin) -> None:
    publisher = Publisher(origin.bare, ENV)
    assert (publisher.tree, publisher.folder, publisher.remotes()) == (None, origin.bare, [])


@pytest.mark.parametrize(
    ("inside", "why"), [("work/.git", "cannot read the working tree"), (".", "no git repository")]
)
def test_a_folder_without_a_checkout_is_refused(
    origin: Origin, tmp_path: Path, inside: str, why: str
) -> None:
    with pytest.raises(SourceFailed, match=why) as refused:
        Publisher(tmp_path / inside, {**ENV, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})
    assert refused.value.findings[0].code == "GK3103"


def test_a_fetch_of_records_starts_no_upkeep_of_the_checkout(origin: Origin) -> None:
    """A `gc` would lock the user's own commands out for as long as it takes."""
    run_git(origin.bare, "branch", "gitkruise/status/test", "main")
    trace = origin.work.parent / "trace"
    Publisher(origin.work, {**ENV, "GIT_TRACE2_EVENT": str(trace)}).fetch_status()
    assert run_git(origin.work, "rev-parse", "origin/gitkruise/status/test")
    assert "maintenance" not in trace.read_text().replace("--no-auto-maintenance", "")


def test_a_status_branch_that_the_remote_has_no_more_is_not_read_again(origin: Origin) -> None:
    """Its cluster is gone: what was recorded there is true of nothing."""
    origin.commit({"a": "1"})
    for name in ("gitkruise/status/prod", "gitkruise/status/old", "topic"):
        run_git(origin.bare, "branch", name, "main")
    run_git(origin.work, "fetch", "-q", "origin")
    run_git(origin.bare, "branch", "-D", "gitkruise/status/old", "topic")
    Publisher(origin.work, ENV).fetch_status()
    kept = run_git(origin.work, "for-each-ref", "--format=%(refname)", "refs/remotes/origin")
    names = {name.removeprefix("refs/remotes/origin/") for name in kept.split()}
    assert names >= {"gitkruise/status/prod", "topic"}
    assert "gitkruise/status/old" not in names


def test_a_branch_that_the_remote_lacks_is_to_be_pushed_or_another_named(origin: Origin) -> None:
    run_git(origin.work, "branch", "here")
    following = {}
    for name in ("here", "nowhere"):
        with pytest.raises(RefMissing) as failed:
            Publisher(origin.work, ENV).branch(name)
        following[name] = dict(failed.value.findings[0].notes)["next"]
    assert following == {"here": "git push origin here", "nowhere": "name a branch that is there"}


@pytest.mark.parametrize("message", ["Authentication failed", "Host key verification failed."])
def test_the_error_of_a_users_remote_names_no_secret_of_a_cluster(
    origin: Origin, tmp_path: Path, message: str
) -> None:
    script = tmp_path / "ssh"
    script.write_text(f"#!/bin/sh\necho 'fatal: {message}' >&2\nexit 128\n")
    script.chmod(0o755)
    run_git(origin.work, "remote", "set-url", "origin", "ssh://git@127.0.0.1:9/x.git")
    publisher = Publisher(origin.work, {**ENV, "GIT_SSH_COMMAND": str(script)})
    with pytest.raises(SourceFailed) as failed:
        publisher.branch("main")
    (finding,) = failed.value.findings
    assert finding.notes == (
        ("git said", message),
        ("unchanged", "nothing was pushed"),
        ("next", "git ls-remote origin; repeat the command when that succeeds"),
    )
