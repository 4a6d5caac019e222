"""Programs that a checkout's own configuration names never run; the user's own do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitkruise.git.plumbing.safe_config import inert
from gitkruise.git.push.user_push import Publisher
from gitkruise.git.push.worktree import WorkTree
from tests.git.repos import run_git

KEYS = (
    "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv", "diff.x.command",
    "diff.external", "merge.x.driver", "core.fsmonitor", "core.sshCommand", "core.askPass",
    "core.editor", "core.pager", "gpg.program", "gpg.ssh.program", "credential.helper",
    "remote.origin.uploadpack", "remote.origin.receivepack", "core.alternateRefsCommand",
)  # fmt: skip


@pytest.fixture
def trapped(tmp_path: Path) -> tuple[Path, Path]:
    """A checkout whose configuration names one program everywhere, and the file it would write."""
    canary, program, folder = tmp_path / "ran", tmp_path / "program", tmp_path / "checkout"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {canary}\ncat\n')
    program.chmod(0o755)
    bare = tmp_path / "origin.git"
    folder.mkdir()
    run_git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", str(bare))
    run_git(folder, "init", "-q", "--initial-branch=main")
    (folder / "a.yaml").write_text("a: 1\n")
    (folder / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "-q", "-m", "first")
    run_git(folder, "remote", "add", "origin", str(bare))
    run_git(folder, "push", "-q", "origin", "main")
    for key in KEYS:
        run_git(folder, "config", key, str(program))
    run_git(folder, "config", "filter.x.required", "true")
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-index-change", "reference-transaction", "pre-push"):
        (hooks / name).write_bytes(program.read_bytes())
        (hooks / name).chmod(0o755)
    (folder / "a.yaml").write_text("a: 2\n")
    canary.unlink(missing_ok=True)
    return folder, canary


def test_reading_a_checkout_runs_nothing_of_it(trapped: tuple[Path, Path]) -> None:
    folder, canary = trapped
    tree = WorkTree.holding(folder)
    assert tree.dirty() == ["a.yaml"]
    assert len(tree.snapshot()) == 40
    assert not canary.exists(), canary.read_text()


def test_publishing_from_a_checkout_runs_nothing_of_it(trapped: tuple[Path, Path]) -> None:
    folder, canary = trapped
    (folder / "a.yaml").write_text("a: 1\n")
    variables = {
        "PATH": os.environ["PATH"], "HOME": str(folder.parent),  # noqa: TID251  git is on it
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    publisher = Publisher(folder, variables)
    branch = publisher.branch("main")
    tree = run_git(folder, "rev-parse", "HEAD^{tree}")
    canary.unlink(missing_ok=True)
    commit = publisher.commit(tree, branch.tip, "second\n")
    publisher.publish(branch, commit)
    assert not canary.exists(), canary.read_text()


def test_what_the_user_configured_stays() -> None:
    listed = (
        "global\0credential.helper\nstore\0global\0gpg.program\n/usr/bin/gpg\0"
        "local\0credential.helper\n!evil\0local\0gpg.program\n/tmp/evil\0"
        "local\0filter.x.clean\n/tmp/evil\0local\0user.name\nme\0"
    )
    known = inert(listed, {"GIT_CONFIG_COUNT": "1"})
    pairs = [
        (known[f"GIT_CONFIG_KEY_{n}"], known[f"GIT_CONFIG_VALUE_{n}"])
        for n in range(1, int(known["GIT_CONFIG_COUNT"]))
    ]
    assert pairs == [
        ("credential.helper", ""), ("credential.helper", "store"), ("gpg.program", "/usr/bin/gpg"),
        ("filter.x.clean", ""),
    ]  # fmt: skip
    assert inert("global\0credential.helper\nstore\0", {}) == {}
