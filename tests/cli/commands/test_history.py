"""History is read from the status branch, of a clone or of the bare repository, offline."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitkruise.cli.views.history import result_words
from gitkruise.errors import SourceFailed
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.status.reader import steps_of
from gitkruise.model.gitops.record import Intervention
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from tests.cli.calls import Caller
from tests.cli.shop import CHECKOUT, Checkout, cloneset, commit, unit_record
from tests.git.repos import run_git

HOUR = timedelta(hours=1)


@pytest.fixture
def recorded(checkout: Checkout) -> Checkout:
    checkout.commit("first release", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", unit_record())
    return checkout


def test_in_the_repository(
    gk: Caller, recorded: Checkout, golden: Callable[[str, str], None]
) -> None:
    ended = gk("history", "cloneset/checkout", "-n", "shop", cwd=recorded.folder)
    assert ended.code == 0
    golden("cli-history.txt", re.sub(r"\d+ \w ago|- +\b", "… ago", ended.out))


@pytest.mark.parametrize("options", [["--bare"], []], ids=["bare", "clone"])
def test_in_other_copies(
    gk: Caller, recorded: Checkout, tmp_path: Path, options: list[str]
) -> None:
    copy = tmp_path / "copy"
    run_git(tmp_path, "clone", "-q", *options, str(recorded.folder), str(copy))
    items = gk("history", "--repo", str(copy), "-o", "json").obj["items"]
    assert [(i["name"], i["state"], i["updated"]) for i in items] == [
        ("checkout", "Held", 4),
        ("checkout", "Done", 10),
    ]


FILTERS = [
    (["checkout"], 2), (["cs/checkout", "-n", "shop"], 2), (["--limit", "1"], 1),
    (["--commit", "2222222"], 1), (["rollout/checkout"], 2),
]  # fmt: skip


@pytest.mark.parametrize(("words", "count"), FILTERS, ids=[" ".join(f[0]) for f in FILTERS])
def test_narrowed(gk: Caller, recorded: Checkout, words: list[str], count: int) -> None:
    ended = gk("history", *words, "-o", "json", cwd=recorded.folder)
    assert len(ended.obj["items"]) == count


@pytest.mark.parametrize(
    "words",
    [["nope"], ["-n", "other"], ["--commit", "9999999"], ["ss/checkout"], ["checkout", "-n", "x"]],
    ids=" ".join,
)
def test_what_is_not_recorded_is_distinguished_from_what_is(
    gk: Caller, recorded: Checkout, words: list[str]
) -> None:
    ended = gk("history", *words, "-o", "json", cwd=recorded.folder)
    assert (ended.code, ended.out, "GK7017" in ended.err) == (2, "", True)
    assert "shop/checkout" in ended.err


def test_a_first_revision_has_all_pods_whatever_the_partition_asks() -> None:
    ((_, steps),) = unit_record().steps
    begun = replace(steps[0], asked=5, updated=10)
    assert result_words(begun).startswith("10/10 in ")
    assert result_words(replace(begun, updated=4)).startswith("4/5 in ")


def test_a_step_that_ended_before_it_began_has_no_duration() -> None:
    """The clock was put back an hour meanwhile."""
    ((_, steps),) = unit_record().steps
    back = replace(steps[0], done=steps[0].started - HOUR)
    assert result_words(back) == "10/10"


def test_a_paused_step_that_lacks_pods_took_no_time() -> None:
    ((_, steps),) = unit_record().steps
    paused = replace(steps[0], state=State.PAUSED, asked=4, updated=1)
    assert result_words(paused) == "1/4, paused"
    assert result_words(replace(paused, updated=4)).startswith("4/4 in ")


def test_steps_of_a_removed_object_are_read_from_its_last_record(
    gk: Caller, recorded: Checkout
) -> None:
    """The record goes with its object, and the branch still has it."""
    text = "deleted: git does not name it any more"
    at = datetime(2026, 9, 22, tzinfo=UTC)
    pruned = Intervention(at=at, key=CHECKOUT, reason="Pruned", text=text)
    after = replace(unit_record(), rollouts=(), objects=(), steps=(), interventions=(pruned,))
    recorded.record("sandbox", after)
    recorded.record("sandbox", replace(after, interventions=()))
    ended = gk("history", "cloneset/checkout", "-o", "json", cwd=recorded.folder)
    assert [(i["name"], i["state"]) for i in ended.obj["items"]] == [
        ("checkout", "Held"),
        ("checkout", "Done"),
    ]
    assert [one["name"] for one in ended.obj["removed"]] == ["checkout"]
    lines = gk("history", "cloneset/checkout", cwd=recorded.folder).out
    assert f"{CHECKOUT} left the record " in lines
    back = replace(unit_record(), steps=(), rollouts=())  # as it was, so that no step began
    recorded.record("sandbox", back)
    assert "left the record" not in gk("history", "cloneset/checkout", cwd=recorded.folder).out
    assert gk("history", "-o", "json", cwd=recorded.folder).obj["items"] == []
    assert "no rollout is recorded; " in gk("history", cwd=recorded.folder).out


def test_steps_under_an_earlier_unit_follow_those_of_the_present_one(
    gk: Caller, recorded: Checkout
) -> None:
    ((key, steps),) = unit_record().steps
    again = replace(steps[-1], commit=commit(4, "another unit"), started=steps[-1].started + HOUR)
    recorded.record("sandbox", replace(unit_record(), unit="shop/new", steps=((key, (again,)),)))
    ended = gk("history", "cloneset/checkout", "-o", "json", cwd=recorded.folder)
    assert [i["commit"][:1] for i in ended.obj["items"]] == ["4", "2", "1"]
    assert ended.obj["removed"] == []


def test_a_step_that_its_record_left_under_way_goes_on_no_more(
    gk: Caller, recorded: Checkout
) -> None:
    """The unit was renamed in the middle of a rollout."""
    record = unit_record()
    ((key, steps),) = record.steps
    rolling = replace(steps[-1], state=State.ROLLING, done=None, message="")
    recorded.record("sandbox", replace(record, steps=((key, (rolling,)),)))
    assert "so far" in gk("history", "cloneset/checkout", cwd=recorded.folder).out
    recorded.record("sandbox", replace(record, rollouts=(), objects=(), steps=()))
    lines = gk("history", "cloneset/checkout", cwd=recorded.folder).out
    assert "4/4 (when its record ended)" in lines
    assert "so far" not in lines


def test_several_clusters_must_be_distinguished(gk: Caller, recorded: Checkout) -> None:
    recorded.record("prod", unit_record())
    ended = gk("history", cwd=recorded.folder)
    assert (ended.code, "prod, sandbox" in ended.err) == (4, True)
    assert gk("history", "--cluster", "prod", cwd=recorded.folder).code == 0


def test_a_branch_of_somebody_else_is_refused_by_name(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("x", {"units/a/rollouts/x.yaml": "hello\n"})
    run_git(checkout.folder, "update-ref", "refs/heads/gitkruise/status/prod", "HEAD")
    ended = gk("history", cwd=checkout.folder)
    assert (ended.code, "GK3206" in ended.err) == (4, True)


BROKEN = {"units/shop/shop/rollouts/CloneSet.cart.yaml": b"hello\n"}


def test_a_file_that_is_no_record_is_named_and_the_others_are_shown(
    gk: Caller, recorded: Checkout
) -> None:
    events = {"units/shop/shop/interventions.yaml": b"interventions: [7]\n"}
    recorded.record("sandbox", unit_record(), **BROKEN, **events)
    ended = gk("history", "-o", "json", cwd=recorded.folder)
    assert (ended.code, [i["name"] for i in ended.obj["items"]]) == (0, ["checkout"] * 2)
    messages = [f["message"].partition(" on ")[0] for f in ended.obj["findings"]]
    assert messages == [*BROKEN, *events]
    assert all(f"warning[GK3206]: {path}" in ended.err for path in messages)


def test_a_removed_file_that_is_no_record_is_named(gk: Caller, recorded: Checkout) -> None:
    recorded.record("sandbox", unit_record(), **BROKEN)
    recorded.record("sandbox", unit_record())
    ended = gk("history", "cloneset/cart", cwd=recorded.folder)
    assert (ended.code, "warning[GK3206]" in ended.err, "GK7017" in ended.err) == (2, True, True)
    assert gk("history", "cloneset/checkout", cwd=recorded.folder).err == ""


def test_steps_of_an_object_whose_file_is_no_record_are_not_guessed(recorded: Checkout) -> None:
    recorded.record("sandbox", unit_record(), **BROKEN)
    with Repository.open(str(recorded.folder)) as repository:
        assert len(steps_of(repository, "sandbox", CHECKOUT)) == 2
        with pytest.raises(SourceFailed) as error:
            steps_of(repository, "sandbox", CHECKOUT._replace(name="cart"))
    assert error.value.findings[0].is_error


def test_an_object_of_the_whole_cluster_is_named_without_a_slash(
    gk: Caller, checkout: Checkout
) -> None:
    record = unit_record()
    ((key, steps),) = record.steps
    mesh = ObjectKey(key.group, "SidecarSet", "", "mesh")
    rows = (replace(record.rollouts[0], key=mesh), *record.rollouts)
    checkout.commit("first release", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", replace(record, rollouts=rows, steps=((key, steps), (mesh, steps))))
    assert "\nmesh " in gk("history", cwd=checkout.folder).out
    assert "recorded: mesh, shop/checkout" in gk("history", "other", cwd=checkout.folder).err


def test_nothing_recorded_yet(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("x", {"a.yaml": "# nothing\n"})
    ended = gk("history", cwd=checkout.folder)
    assert (ended.code, "git fetch" in ended.err) == (4, True)


def test_what_no_commit_explains_is_shown(gk: Caller, checkout: Checkout) -> None:
    key = ObjectKey("", "ConfigMap", "shop", "settings")
    text = "put back as git says: data.mode slow → fast (set by kubectl-edit)"
    at = datetime(2026, 1, 1, tzinfo=UTC)
    one = Intervention(at=at, key=key, reason="DriftCorrected", text=text)
    checkout.commit("one", {"c.yaml": cloneset()})
    checkout.record("sandbox", replace(unit_record(), interventions=(one,)))
    assert f"DriftCorrected {key}: {text}" in gk("history", cwd=checkout.folder).out
    (intervention,) = gk("history", "-o", "json", cwd=checkout.folder).obj["interventions"]
    assert (intervention["reason"], intervention["message"]) == ("DriftCorrected", text)
