"""Commands that read the status branch in a clone: fetched first, or with the age of the record."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.cli.context.local_repository import RecordedUnits, recorded_units
from gitkruise.git.push.user_push import Publisher
from gitkruise.model.gitops.unit_state import State
from tests.cli.calls import Caller, Terminal, environment
from tests.cli.shop import REJECTED, Checkout, cloneset, unit_record
from tests.git.repos import run_git

pytestmark = pytest.mark.slow

COMMANDS = {
    "status": ["status"], "units": ["get", "units", "-A"], "history": ["history"],
    "drift": ["drift"],
}  # fmt: skip


@pytest.fixture
def copy(gk: Caller, checkout: Checkout) -> Path:
    """A clone of the shop, from before its newest commit was rejected."""
    checkout.commit("first", {"c.yaml": cloneset()})
    checkout.record("sandbox", unit_record())
    folder = gk.folder / "copy"
    run_git(gk.folder, "clone", "-q", str(checkout.folder), str(folder))
    checkout.record("sandbox", unit_record(state=State.REJECTED, findings=(REJECTED,)))
    return folder


@pytest.mark.parametrize("command", ["status", pytest.param("units", marks=pytest.mark.slow)])
def test_a_rejection_is_fetched(gk: Caller, copy: Path, cluster: Path, command: str) -> None:
    ended = gk(*COMMANDS[command], cwd=copy, KUBECONFIG=str(cluster))
    assert (ended.code, ended.err) == (0, "")
    assert "! Rejected" in ended.out
    assert "GK1203" in ended.out


@pytest.mark.parametrize(
    "command",
    ["status", *(pytest.param(c, marks=pytest.mark.slow) for c in ("units", "history", "drift"))],
)
def test_what_cannot_be_fetched_is_shown_with_its_age(
    gk: Caller, checkout: Checkout, copy: Path, cluster: Path, command: str
) -> None:
    checkout.folder.rename(checkout.folder.with_name("gone"))
    ended = gk(*COMMANDS[command], cwd=copy, KUBECONFIG=str(cluster))
    assert ended.code == 0
    assert ended.out
    warning, age = ended.err.splitlines()
    assert warning.startswith("warning: the status branch is not up to date: GK31")
    assert age.startswith("   = the record of cluster sandbox was written ")
    assert age.endswith(" ago")


# A unit without live objects, whatever other tests left in the cluster.
WATCH = ("get", "units", "quiet", "-n", "quiet", "--watch", "--exit-when-done")


def record_state(checkout: Checkout, state: State) -> None:
    checkout.record("sandbox", replace(unit_record(state=state), unit="quiet/quiet"))


@pytest.mark.slow
def test_a_watch_of_units_shows_new_records(checkout: Checkout, copy: Path, cluster: Path) -> None:
    record_state(checkout, State.ROLLING)
    words = [*WATCH, "--repo", str(copy), "--kubeconfig", str(cluster)]
    with Terminal(words, environment(), columns=120) as terminal:
        assert "Rolling" in terminal.read_until("Rolling")
        away = checkout.folder.rename(checkout.folder.with_name("gone"))
        output = terminal.read_until(r"sandbox was written .* ago")
        assert "warning: the status branch is not up to date: GK31" in output
        away.rename(checkout.folder)
        record_state(checkout, State.DONE)
        assert terminal.end() == 0
    last = terminal.raw.rpartition("\x1b[?1049l")[2]
    assert "Done" in last
    assert "not up to date" not in last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "ended"), [(State.HELD, 0), (State.REJECTED, 1), (State.STUCK, 1)]
)
def test_a_watch_of_units_ends_with_their_states(
    gk: Caller, checkout: Checkout, copy: Path, cluster: Path, state: State, ended: int
) -> None:
    record_state(checkout, state)
    assert gk(*WATCH, cwd=copy, KUBECONFIG=str(cluster)).code == ended


@pytest.mark.slow
def test_a_watch_of_units_that_are_not_done_names_them(
    gk: Caller, checkout: Checkout, copy: Path, cluster: Path
) -> None:
    record_state(checkout, State.ROLLING)
    given_up = gk(*WATCH, "--timeout", "1s", cwd=copy, KUBECONFIG=str(cluster))
    assert given_up.code == 6
    assert "seen: quiet is Rolling" in given_up.err


@pytest.mark.slow
def test_a_remote_that_hangs_ends_at_the_limit(gk: Caller, copy: Path) -> None:
    program = gk.folder / "ssh"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    run_git(copy, "remote", "set-url", "origin", "ssh://git.invalid/shop.git")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(gk.folder), "GIT_SSH_COMMAND": str(program)}
    with pytest.raises(Exception, match="cannot reach the git remote origin"):
        Publisher(copy, env).fetch_status(0.3)


@pytest.mark.parametrize("name", ["upstream", pytest.param("team/shop", marks=pytest.mark.slow)])
def test_the_remote_may_have_any_name(
    gk: Caller, checkout: Checkout, copy: Path, cluster: Path, name: str
) -> None:
    folder = gk.folder / "other"
    run_git(gk.folder, "clone", "-q", "-o", name, str(checkout.folder), str(folder))
    checkout.record("sandbox", unit_record())
    ended = gk("status", cwd=folder, KUBECONFIG=str(cluster))
    assert (ended.code, ended.err, "Rejected" in ended.out) == (0, "", False)


def test_a_fork_shows_the_newest_record(
    gk: Caller, checkout: Checkout, copy: Path, cluster: Path
) -> None:
    fork = gk.folder / "fork"
    run_git(gk.folder, "clone", "-q", "--mirror", str(checkout.folder), str(fork))
    run_git(copy, "remote", "rename", "origin", "upstream")
    run_git(copy, "remote", "add", "origin", str(fork))
    checkout.record("sandbox", unit_record())
    ref = "refs/heads/gitkruise/status/sandbox"
    text = run_git(checkout.folder, "cat-file", "commit", ref)
    later = re.sub(r"(?m)^(committer .*>) .*", r"\1 1900000000 +0000", text) + "\n"
    commit = run_git(
        checkout.folder, "hash-object", "-t", "commit", "-w", "--stdin", data=later.encode()
    )
    run_git(checkout.folder, "update-ref", ref, commit)
    assert "Rejected" not in gk("status", cwd=copy, KUBECONFIG=str(cluster)).out


def test_a_remote_without_records_may_be_gone(gk: Caller, copy: Path, cluster: Path) -> None:
    run_git(copy, "remote", "add", "backup", str(gk.folder / "gone"))
    ended = gk("status", cwd=copy, KUBECONFIG=str(cluster))
    assert (ended.code, ended.err, "GK1203" in ended.out) == (0, "", True)


def test_records_are_read_again_when_their_branch_moved(checkout: Checkout) -> None:
    path = str(checkout.folder)
    assert recorded_units("sandbox", path) == RecordedUnits()
    checkout.commit("first", {"c.yaml": cloneset()})
    checkout.record("sandbox", unit_record())
    first = recorded_units("sandbox", path)
    assert recorded_units("sandbox", path, first) is first
    checkout.record("sandbox", unit_record(state=State.REJECTED, findings=(REJECTED,)))
    (unit,) = recorded_units("sandbox", path, first).units
    assert unit.state is State.REJECTED
