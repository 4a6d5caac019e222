"""Recorded commits as the dashboard shows them: lanes by unit, and the record of one commit."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.cli.context.local_repository import cluster_records
from gitkruise.cli.views.dashboard import ClusterSource
from gitkruise.cli.views.history import Journal
from gitkruise.dashboard.source import HEAD
from gitkruise.model.gitops.record import DriftRecord, Intervention
from gitkruise.model.gitops.unit_state import State
from tests.cli.shop import CHECKOUT, REJECTED, START, Checkout, unit_record
from tests.clock import ManualClock
from tests.git.repos import run_git

NOW = START + timedelta(hours=2)
FIRST, CANARY, BAD = "1" * 40, "2" * 40, "3" * 40
DRIFT = DriftRecord(key=CHECKOUT, field="spec.replicas", git="10", live="12", manager="kubectl")
EARLY = Intervention(at=START, key=CHECKOUT, reason="TakenOver", text="from kubectl")
LATE = Intervention(at=NOW, key=CHECKOUT, reason="DriftCorrected", text="spec.replicas")


def journal(checkout: Checkout, **clusters: Any) -> Journal:
    checkout.commit("first release", {"a.yaml": "# nothing\n"})
    for cluster, record in (clusters or {"sandbox": unit_record()}).items():
        checkout.record(cluster, replace(record, cluster=cluster))
    records, warnings = cluster_records(str(checkout.folder), {})
    assert warnings == []
    return Journal(records)


def test_the_newest_commits_with_a_lane_for_each_cluster_and_unit(checkout: Checkout) -> None:
    found = journal(checkout, prod=unit_record(), sandbox=unit_record())
    rows = found.rows(["warning: old"])
    head = rows.pop(HEAD)
    assert head["lanes"] == ["prod shop/shop", "sandbox shop/shop"]
    assert (head["commits"], head["stale"]) == (2, ["warning: old"])
    assert sorted(head["written"]) == ["prod", "sandbox"]
    assert list(rows) == [CANARY, FIRST]
    assert rows[CANARY]["subject"] == "canary"
    assert rows[CANARY]["lanes"]["prod shop/shop"] == {
        "state": "Held", "objects": 1, "updated": 4, "asked": 4,
        "named": ["attempted", "applied", "causal"],
    }  # fmt: skip
    assert rows[FIRST]["lanes"]["sandbox shop/shop"]["state"] == "Done"


def test_a_rejected_commit_without_a_rollout_is_in_the_history(checkout: Checkout) -> None:
    record = unit_record(state=State.REJECTED, findings=(REJECTED,))
    found = journal(checkout, sandbox=record)
    assert found.rows([])[BAD]["lanes"]["sandbox shop/shop"] == {
        "state": "Rejected", "objects": 0, "updated": 0, "asked": 0, "named": ["attempted"],
    }  # fmt: skip
    unit = found.commit("3333333", NOW, [])["unit/sandbox shop/shop"]
    assert (unit["state"], unit["named"]) == ("Rejected", ["attempted"])
    assert unit["problems"][0].startswith("GK1203 apps/checkout.yaml:24:3")
    applied = found.commit(CANARY, NOW, [])["unit/sandbox shop/shop"]
    assert (applied["state"], applied["problems"]) == ("", [])
    assert applied["message"] == "its state is about 3333333"


def test_the_record_of_one_commit(checkout: Checkout) -> None:
    record = replace(unit_record(), interventions=(EARLY, LATE))
    found = journal(checkout, sandbox=record)
    rows = found.commit("2222222", NOW, [])
    assert rows[HEAD] | {"written": {}} == {
        "id": CANARY, "subject": "canary", "author": "Dana K", "time": "2026-09-21T14:15:20Z",
        "recorded": True, "written": {}, "stale": [],
    }  # fmt: skip
    step = next(row for key, row in rows.items() if key.startswith("step/"))
    assert (step["noun"], step["unit"], step["result"]) == ("cloneset", "shop/shop", "4/4 in 12s")
    reasons = [row["reason"] for key, row in rows.items() if key.startswith("intervention/")]
    assert reasons == ["DriftCorrected"]
    before = found.commit(FIRST, NOW, [])
    assert [r["reason"] for k, r in before.items() if k.startswith("intervention/")] == [
        "TakenOver"
    ]


@pytest.mark.parametrize("id_", ["9999999", "main", "2"])
def test_a_commit_without_a_record_has_none(checkout: Checkout, id_: str) -> None:
    rows = journal(checkout).commit(id_, NOW, [])
    assert list(rows) == [HEAD]
    assert (rows[HEAD]["id"], rows[HEAD]["recorded"]) == (id_, False)


def test_the_page_of_what_is_no_commit_ends_to_wait_for_a_record() -> None:
    unread: Any = None  # nothing but the records is asked
    source = ClusterSource(unread, ManualClock(NOW), "prod", "", unread, unread)
    assert source.rows("commit/main")[HEAD]["recorded"] is False


def test_recorded_drift_and_interventions(checkout: Checkout) -> None:
    record = replace(unit_record(), drift=(DRIFT,), interventions=(EARLY,))
    rows = journal(checkout, sandbox=record).drift([])
    drift = next(row for key, row in rows.items() if key.startswith("drift/"))
    assert (drift["unit"], drift["field"], drift["git"], drift["live"]) == (
        "shop/shop", "spec.replicas", "10", "12",
    )  # fmt: skip
    intervention = next(row for key, row in rows.items() if key.startswith("intervention/"))
    assert (intervention["object"], intervention["message"]) == (
        "CloneSet shop/checkout",
        "from kubectl",
    )


def test_a_branch_that_did_not_move_is_not_read_again(checkout: Checkout) -> None:
    known = journal(checkout, prod=unit_record(), sandbox=unit_record()).records
    path = str(checkout.folder)
    again, _ = cluster_records(path, known)
    assert all(again[name] is known[name] for name in known)
    checkout.record("prod", replace(unit_record(state=State.DONE), cluster="prod"))
    again, _ = cluster_records(path, known)
    assert again["sandbox"] is known["sandbox"]
    assert again["prod"].units[0].state is State.DONE


def test_a_file_that_is_no_record_takes_nothing_else_along(checkout: Checkout) -> None:
    """The unit's state and the steps of other objects are those of now."""
    broken = "units/shop/shop/rollouts/CloneSet.cart.yaml"
    checkout.record("sandbox", unit_record(state=State.DONE), **{broken: b"hello\n"})
    records, warnings = cluster_records(str(checkout.folder), {})
    assert records["sandbox"].units[0].state is State.DONE
    assert [key for key, _ in records["sandbox"].steps] == [CHECKOUT] * 2
    (finding,) = records["sandbox"].unread
    assert (warnings, finding.message.partition(" on ")[0]) == ([], broken)


def test_a_branch_that_cannot_be_read_holds_up_no_other(checkout: Checkout) -> None:
    """Its last record stays, and a warning names it."""
    known = journal(checkout, prod=unit_record(), sandbox=unit_record()).records
    checkout.record("sandbox", replace(unit_record(state=State.DONE), cluster="sandbox"))
    folder = checkout.folder
    blob = run_git(folder, "hash-object", "-w", "--stdin", data=b"state: nonsense\n")
    tree = run_git(folder, "mktree", data=f"100644 blob {blob}\tstatus.yaml\n".encode())
    for name in ("shop", "shop", "units"):
        tree = run_git(folder, "mktree", data=f"040000 tree {tree}\t{name}\n".encode())
    commit = run_git(folder, "commit-tree", tree, "-m", "mine")
    run_git(folder, "update-ref", "refs/heads/gitkruise/status/prod", commit)
    again, warnings = cluster_records(str(folder), known)
    assert again["prod"] is known["prod"]
    assert again["sandbox"].units[0].state is State.DONE
    assert [line.partition(" is not")[0] for line in warnings] == [
        "warning: GK3206: units/shop/shop/status.yaml on refs/heads/gitkruise/status/prod"
    ]
