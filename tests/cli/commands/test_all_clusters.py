"""`status --all-clusters`: every status branch of a repository, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.model.gitops.unit_state import State
from tests.cli.calls import Caller
from tests.cli.shop import REJECTED, Checkout, cloneset, unit_record
from tests.git.repos import run_git


@pytest.fixture
def fleet(checkout: Checkout) -> Path:
    """A repository that two clusters have written to; the unit of one is rejected."""
    checkout.commit("first", {"c.yaml": cloneset()})
    checkout.record("eu", unit_record())
    checkout.record("us", unit_record(state=State.REJECTED, findings=(REJECTED,)))
    return checkout.folder


def test_units_of_every_cluster_with_the_age_of_their_records(gk: Caller, fleet: Path) -> None:
    ended = gk("status", "--all-clusters", cwd=fleet)
    heads, eu, us, _, totals, source = ended.out.splitlines()
    assert heads.split() == ["CLUSTER", "UNIT", "COMMIT", "STATE", "SINCE", "MESSAGE", "WRITTEN"]
    assert eu.startswith("eu ")
    assert us.startswith("us ")
    assert "! Rejected" in us
    assert totals.startswith("2 clusters, 2 units: 1 rejected · 1 ")
    assert "WRITTEN" in source
    assert ended.code == 0


@pytest.mark.parametrize("columns", ["40", "80"])
def test_the_age_of_a_record_stays_in_a_narrow_window(
    gk: Caller, fleet: Path, columns: str
) -> None:
    heads, eu, *_ = gk("status", "--all-clusters", cwd=fleet, COLUMNS=columns).out.splitlines()
    assert heads.endswith("WRITTEN")
    assert eu.endswith(" ago")


@pytest.mark.parametrize(
    ("words", "clusters", "code"),
    [
        ("--fail-on rejected", ["eu", "us"], 1),
        ("--fail-on stuck", ["eu", "us"], 0),
        ("--state rejected", ["us"], 0),
        ("--state stuck --fail-on rejected", [], 1),
        ("-n shop", ["eu", "us"], 0),
        ("-n elsewhere", [], 0),
    ],
)
def test_units_are_chosen(
    gk: Caller, fleet: Path, words: str, clusters: list[str], code: int
) -> None:
    ended = gk("status", "--all-clusters", "-o", "json", *words.split(), cwd=fleet)
    assert [item["cluster"] for item in ended.obj["items"]] == clusters
    assert (ended.obj["clusters"], ended.code) == (["eu", "us"], code)


def test_a_branch_that_cannot_be_read_is_no_success(gk: Caller, fleet: Path) -> None:
    blank = run_git(fleet, "commit-tree", "-m", "x", run_git(fleet, "mktree"))
    other = run_git(fleet, "hash-object", "-w", "--stdin", data=b"- nonsense\n")
    tree = run_git(fleet, "mktree", data=f"100644 blob {other}\tstatus.yaml\n".encode())
    for name in ("b", "a", "units"):
        tree = run_git(fleet, "mktree", data=f"040000 tree {tree}\t{name}\n".encode())
    broken = run_git(fleet, "commit-tree", "-m", "x", tree)
    run_git(fleet, "update-ref", "refs/heads/gitkruise/status/us", broken)
    run_git(fleet, "update-ref", "refs/heads/gitkruise/status/ap", blank)
    ended = gk("status", "--all-clusters", cwd=fleet)
    assert "GK3206" in ended.err
    assert "not read: the status branches of 1 cluster" in ended.out
    assert "cluster ap has no unit" in ended.out
    assert ended.code == 4


def test_a_repository_without_records(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("first", {"c.yaml": cloneset()})
    ended = gk("status", "--all-clusters", cwd=checkout.folder)
    assert (ended.code, "GK3205" in ended.err) == (4, True)


@pytest.mark.parametrize("words", ["--sandbox", "--context x", "--cluster eu"])
def test_no_cluster_is_chosen_beside(gk: Caller, fleet: Path, words: str) -> None:
    ended = gk("status", "--all-clusters", *words.split(), cwd=fleet)
    assert (ended.code, "GK7010" in ended.err) == (2, True)


def test_no_repository(gk: Caller) -> None:
    ended = gk("status", "--all-clusters")
    assert (ended.code, "GK3103" in ended.err) == (4, True)
