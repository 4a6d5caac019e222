"""A repository on a server is mirrored, and its failures are distinguished."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.repository import RefMoved, Repository
from tests.git.repos import Origin, make_origin, processes_of, run_git, serve

pytestmark = pytest.mark.slow

PASSWORD = "canary-pass"
AUTHORIZATION = "Basic " + base64.b64encode(f"dana:{PASSWORD}".encode()).decode()


def open_remote(base: str, folder: Path, credentials: GitCredentials | None = None) -> Repository:
    return Repository.open(
        f"{base}/origin.git", mirrors=folder / "mirrors", credentials=credentials,
        protocols={"http"}, timeout_s=20,
    )  # fmt: skip


@pytest.fixture
def remote(origin: Origin, tmp_path: Path) -> Iterator[Repository]:
    with serve(tmp_path) as base, open_remote(base, tmp_path) as repository:
        yield repository


def test_a_fetch_brings_the_tip_and_all_it_needs(origin: Origin, remote: Repository) -> None:
    first = origin.commit({"a.yaml": "1"}, "first")
    assert remote.tip("main") == first
    assert remote.fetch("main") == first
    second = origin.commit({"a.yaml": "2"}, "second")
    assert remote.fetch("main") == second
    assert remote.resolve("main") == second
    assert remote.is_ancestor(first, second)
    assert remote.changed_paths(first, second) == ["a.yaml"]
    assert remote.default_branch() == "refs/heads/main"
    assert run_git(remote.git_dir, "for-each-ref", "--format=%(refname)") == (
        "refs/gitkruise/heads/main"
    )


def test_a_rewritten_branch_is_fetched_as_it_is(origin: Origin, remote: Repository) -> None:
    first = origin.commit({"a": "1"})
    remote.fetch("main")
    run_git(origin.work, "checkout", "--quiet", "--orphan", "other")
    run_git(origin.work, "commit", "--quiet", "-m", "rewritten")
    run_git(origin.work, "push", "--quiet", "--force", "origin", "HEAD:main")
    tip = remote.fetch("main")
    assert not remote.is_ancestor(first, tip)


def test_only_the_exact_ref_counts(origin: Origin, remote: Repository) -> None:
    """B-G07"""
    origin.commit({"a": "1"}, branch="team/refs/heads/main")
    with pytest.raises(SourceFailed) as caught:
        remote.tip("main")
    assert caught.value.findings[0].code == "GK3201"


def test_sha256_repositories_are_mirrored(tmp_path: Path) -> None:
    """B-G25"""
    origin = make_origin(tmp_path, "--object-format=sha256")
    commit = origin.commit({"a": "1"})
    with serve(tmp_path) as base, open_remote(base, tmp_path) as remote:
        assert remote.fetch("main") == commit
        assert [entry.path for entry in remote.list_tree(commit)] == ["a"]


def test_a_push_is_a_fast_forward_or_nothing(origin: Origin, remote: Repository) -> None:
    first = origin.commit({"a": "1"})
    remote.fetch("main")
    remote.push_ref("refs/heads/s", first, old=None)
    second = origin.commit({"a": "2"}, branch="s")
    tree = remote.tree_id(first)
    rival = remote.write_object(
        "commit", f"tree {tree}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n".encode()
    )
    for old in (None, first):
        with pytest.raises(RefMoved):
            remote.push_ref("refs/heads/s", rival, old=old)
    assert run_git(origin.bare, "rev-parse", "s") == second


def test_a_refusing_server_is_no_race(origin: Origin, remote: Repository) -> None:
    first = origin.commit({"a": "1"})
    remote.fetch("main")
    hook = origin.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    words = ("error: GH006: Protected branch update failed.", "error: Use a pull request.")
    hook.write_text("#!/bin/sh\n" + "".join(f"echo '{one}' >&2\n" for one in words) + "exit 1\n")
    hook.chmod(0o755)
    with pytest.raises(SourceFailed) as caught:
        remote.push_ref("refs/heads/s", first, old=None)
    (finding,) = caught.value.findings
    message = (
        "GH006: Protected branch update failed. Use a pull request. "
        "[remote rejected] (pre-receive hook declined)"
    )
    assert (finding.code, dict(finding.notes)["git said"]) == ("GK3106", message)


@pytest.mark.parametrize("ref", ["refs/heads/s/sandbox", "refs/heads/a"])
def test_a_branch_whose_name_is_taken_by_a_folder_is_no_race(
    origin: Origin, remote: Repository, ref: str
) -> None:
    """Ten attempts would end with the advice to let nothing else write the branch."""
    first = origin.commit({"a": "1"})
    run_git(origin.bare, "branch", "s", first)
    run_git(origin.bare, "branch", "a/b", first)
    remote.fetch("main")
    for repository in (remote, Repository.open(str(origin.bare))):
        with pytest.raises(SourceFailed) as caught:
            repository.push_ref(ref, first, old=None)
        (finding,) = caught.value.findings
        taken = "refs/heads/s" if ref.endswith("sandbox") else "refs/heads/a/b"
        assert f"rename or delete {taken} there" in dict(finding.notes)["next"]


def test_credentials_are_sent_and_hidden(origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a": "1"})
    secret = GitCredentials(username="dana", password=PASSWORD)
    with serve(tmp_path, AUTHORIZATION) as base:
        with open_remote(base, tmp_path, secret) as remote:
            assert remote.fetch("main") == commit
            assert not any(PASSWORD in line for line in processes_of("git"))
        with open_remote(base, tmp_path) as stranger, pytest.raises(SourceFailed) as caught:
            stranger.tip("main")
    (finding,) = caught.value.findings
    assert finding.code == "GK3102"
    assert PASSWORD not in str(finding)
    left = [path.read_bytes() for path in (tmp_path / "mirrors").rglob("*") if path.is_file()]
    assert not any(PASSWORD.encode() in data for data in left)


def test_a_bearer_token_is_sent(origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a": "1"})
    with serve(tmp_path, "Bearer canary-token") as base:
        secret = GitCredentials.from_secret({"bearerToken": "canary-token"})
        with open_remote(base, tmp_path, secret) as remote:
            assert remote.tip("main") == commit


def test_an_unreachable_server_counts_its_tries(tmp_path: Path) -> None:
    findings: list[Finding] = []
    with open_remote("http://127.0.0.1:9", tmp_path) as remote:
        for _ in range(3):
            with pytest.raises(SourceFailed) as caught:
                remote.tip("main")
            findings += caught.value.findings
    finding = findings[-1]
    notes = dict(finding.notes)
    assert finding.code == "GK3101"
    assert finding.message == "cannot reach the git remote http://127.0.0.1:9/origin.git"
    assert notes["git said"].endswith(", 3 tries in a row")
    assert {"unchanged", "next"} <= notes.keys()


def test_no_repository_there(tmp_path: Path) -> None:
    with (
        serve(tmp_path) as base,
        open_remote(base, tmp_path) as remote,
        pytest.raises(SourceFailed) as caught,
    ):
        remote.tip("main")
    assert caught.value.findings[0].code == "GK3103"


def test_a_damaged_mirror_is_put_aside_and_made_anew(origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a": "1"})
    with serve(tmp_path) as base:
        with open_remote(base, tmp_path) as remote:
            remote.fetch("main")
        (remote.git_dir / "HEAD").write_bytes(b"\0")
        with open_remote(base, tmp_path) as again:
            assert again.fetch("main") == commit
    assert sorted(path.suffix for path in (tmp_path / "mirrors").iterdir()) == ["", ".damaged"]


def test_ssh_wants_known_hosts(tmp_path: Path) -> None:
    """B-G22"""
    with pytest.raises(SourceFailed) as caught:
        Repository.open("ssh://git@127.0.0.1:9/x.git", mirrors=tmp_path)
    (finding,) = caught.value.findings
    assert finding.code == "GK3020"
    assert dict(finding.notes)["next"].startswith("ssh-keyscan -p 9 127.0.0.1 prints ")
    with pytest.raises(SourceFailed) as caught:
        Repository.open("git@git.example.com:shop/fleet.git", mirrors=tmp_path)
    (finding,) = caught.value.findings
    assert dict(finding.notes)["next"].startswith("ssh-keyscan git.example.com prints ")


def test_a_planted_git_tree_is_refused_on_receipt(origin: Origin, remote: Repository) -> None:
    origin.plant(f"100644 blob {origin.blob(b'x')}\t.git\n")
    with pytest.raises(SourceFailed) as caught:
        remote.fetch("main")
    assert caught.value.findings[0].code == "GK3105"
