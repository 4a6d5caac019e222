"""Units that wait or were rejected, as status, get units, why and doctor show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.progress import ProgressLines
from gitkruise.cli.views.resources import units
from gitkruise.errors import Finding
from gitkruise.gitops.inspect.cluster_view import Managed
from gitkruise.gitops.status.reader import RecordedObject
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from tests.cli.calls import Caller
from tests.cli.live import applied
from tests.cli.shop import CHECKOUT, REJECTED, START, Checkout, cloneset, commit, unit_record

CONSENT = 'approval (2 objects change; git commit -m "Agreed")'
MARKS = {"commit": "2" * 40, "path": "c.yaml:1", "unit-ref": "shop/shop"}
REFUSED = Finding(
    code="GK3102", message="git refuses", notes=(("next", "renew the Secret shop/git"),)
)
WAITING: UnitRecord = replace(
    unit_record(state=State.WAITING),
    attempted=commit(3, "next"),
    message=f"waits for {CONSENT}",
    waits=CONSENT,
    objects=(),
)


@pytest.mark.slow
def test_the_record_of_a_cluster_by_another_name_is_pointed_to(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("dev", WAITING)
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, cloneset(replicas=1), **MARKS):
        status = gk("status", cwd=checkout.folder, **env)
        why = gk("why", "checkout", "-n", "shop", cwd=checkout.folder, **env)
        found = gk("status", "--cluster", "dev", cwd=checkout.folder, **env)
    hint = "the repository has its record of cluster dev: --cluster dev, if that is this one"
    assert f"  next: {hint}" in status.out
    assert f"next     {hint}" in why.out
    assert '… Waiting  unit shop/shop at 3333333 "next"' in found.out


@pytest.mark.slow
def test_an_object_that_only_a_rejected_commit_has_is_explained(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    wrong = replace(REJECTED, notes=(("next", "rename it to partition"),))
    checkout.record("sandbox", unit_record(state=State.REJECTED, findings=(wrong,)))
    env = {"KUBECONFIG": str(cluster)}
    ended = gk("why", "nope", "-n", "shop", cwd=checkout.folder, **env)
    assert (ended.code, "GK4010" in ended.err) == (5, True)
    cause = "commit 3333333 of unit shop/shop was rejected: GK1203 apps/checkout.yaml:24:3: unknown"
    assert f"= not live: {cause}" in ended.err
    assert "= next: rename it to partition" in ended.err
    checkout.record("sandbox", unit_record())
    ended = gk("why", "nope", "-n", "shop", cwd=checkout.folder, **env)
    assert "not live" not in ended.err
    assert "= next: gitkruise get rollouts -A lists those of all namespaces" in ended.err


@pytest.mark.slow
def test_every_command_names_the_commit_that_waits(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", WAITING)
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, cloneset(replicas=1), **MARKS):
        done = ["get", "cs", "checkout", "-n", "shop", "-w", "--exit-when-done"]
        assert gk(*done, **env).code == 0
        status = gk("status", cwd=checkout.folder, **env)
        found = gk("get", "units", "-n", "shop", "-o", "json", cwd=checkout.folder, **env).obj
        why = gk("why", "checkout", "-n", "shop", cwd=checkout.folder, **env)
        failing = gk("status", "--fail-on", "waiting", cwd=checkout.folder, **env)
    assert '… Waiting  unit shop/shop at 3333333 "next"\n  waits for approval (2' in status.out
    assert [(u["name"], u["state"]) for u in found["items"]] == [("shop", "Waiting")]
    assert found["items"][0]["message"] == f"waits for {CONSENT}"
    assert why.out.startswith("cloneset/checkout is … Waiting\n")
    assert "commit 3333333 of unit shop/shop is not live: it waits for approval" in why.out
    assert failing.code == 1


@pytest.mark.parametrize(
    ("record", "code", "words"),
    [
        (WAITING, 0, "! git      unit        shop/shop at 3333333 waits for approval"),
        (unit_record(state=State.REJECTED, findings=(REJECTED,)), 1,
         "✗ git      unit        shop/shop is Rejected at 3333333: GK1203"),
        (unit_record(state=State.STUCK, findings=(REFUSED,)), 1,
         "shop/shop is Stuck at 3333333: GK3102"),
        (unit_record(state=State.STUCK), 1, "✗ git      unit        shop/shop is Stuck at 2222222"),
        (unit_record(state=State.UNKNOWN), 0, "! git      unit        shop/shop is Unknown at"),
        (unit_record(), 0, ""),
    ],
    ids=["waiting", "rejected", "refused", "stuck", "unknown", "held"],
)  # fmt: skip
def test_doctor(gk: Caller, checkout: Checkout, record: UnitRecord, code: int, words: str) -> None:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", record)
    ended = gk("doctor", "git", cwd=checkout.folder)
    assert (ended.code, words in ended.out) == (code, True), ended.out
    assert ("unit        shop/shop" in ended.out) is bool(words)
    steps = [note["next"] for f in record.findings if (note := dict(f.notes))]
    assert (steps or ["gitkruise status --all-clusters" if words else ""])[0] in ended.out


def test_the_log_says_what_it_waits_for() -> None:
    style = Style(colour=False, unicode=True, width=200)
    line = next(ProgressLines(style).lines(replace(WAITING, rollouts=()), START))
    assert line.endswith(
        f'unit shop/shop state=Waiting commit=3333333 "next" waits-for="{CONSENT}"'
    )


def test_a_unit_without_workloads_is_listed_from_its_record(checkout: Checkout) -> None:
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.status.reader import read_units  # noqa: PLC0415

    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", unit_record(state=State.REJECTED, findings=(REJECTED,)))
    with Repository.open(str(checkout.folder)) as repository:
        news = read_units(repository, "refs/heads/gitkruise/status/sandbox")
    (stuck,) = (replace(unit, state=State.STUCK) for unit in news)  # by the same problem
    moving = _workload(CHECKOUT, State.ROLLING)
    assert [unit["state"] for unit in units([moving], [stuck], "")] == ["Stuck"]
    assert [u["state"] for u in units([moving], [replace(stuck, problems=())], "")] == ["Rolling"]
    live = _workload(CHECKOUT, State.STUCK, "no image")
    for mine in ([], [live]):
        (unit,) = units(mine, news, "")
        assert (unit["state"], unit["message"][:6]) == ("Rejected", "GK1203")
    (unit,) = units([live], [], "")
    assert (unit["state"], unit["message"]) == ("Stuck", "no image")


def test_workloads_that_may_not_be_listed_are_not_counted(checkout: Checkout) -> None:
    """A state of some workloads is not that of the unit: another one may be stuck."""
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.status.reader import read_units  # noqa: PLC0415

    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", unit_record(state=State.STUCK))
    with Repository.open(str(checkout.folder)) as repository:
        news = read_units(repository, "refs/heads/gitkruise/status/sandbox")
    mine = [_workload(CHECKOUT, State.DONE)]
    (unit,) = units(mine, news, "", partial=True)
    assert (unit["state"], unit["workloads"], unit["total"]) == ("Stuck", None, None)
    (unit,) = units(mine, [], "", partial=True)
    assert unit["state"] == "Unknown"


def test_a_unit_goes_on_while_an_object_that_is_no_workload_does(checkout: Checkout) -> None:
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415
    from gitkruise.gitops.status.reader import read_units  # noqa: PLC0415

    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", unit_record(state=State.ROLLING))
    with Repository.open(str(checkout.folder)) as repository:
        (news,) = read_units(repository, "refs/heads/gitkruise/status/sandbox")
    assert news.attempted is not None
    live = _workload(CHECKOUT, State.DONE)
    mine = RecordedObject(key=CHECKOUT, state=State.DONE, commit="", message="")
    rest = replace(news, objects={CHECKOUT: mine}, sent=news.attempted)
    other = RecordedObject(
        key=CHECKOUT._replace(kind="Widget"), state=State.ROLLING, commit="", message="starts"
    )
    behind = replace(rest, sent=replace(news.attempted, id="1" * 40))
    for recorded, state in (
        (rest, "Done"),
        (behind, "Rolling"),
        (replace(rest, objects={CHECKOUT: mine, other.key: other}), "Rolling"),
    ):
        (unit,) = units([live], [recorded], "")
        assert unit["state"] == state


@pytest.mark.slow
def test_the_namespace_of_a_workload_does_not_hide_that_its_unit_waits(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", replace(WAITING, unit="ops/shop"))
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, cloneset(replicas=1), **{**MARKS, "unit-ref": "ops/shop"}):
        done = ["get", "cs", "checkout", "-n", "shop", "-w", "--exit-when-done"]
        assert gk(*done, **env).code == 0
        words = ("get", "units", "-n", "shop", "-o", "json")
        found = gk(*words, cwd=checkout.folder, **env).obj
    states = {(u["namespace"], u["name"]): u["state"] for u in found["items"]}
    assert states["ops", "shop"] == "Waiting"


def test_units_of_a_namespace_are_those_in_it_and_those_with_a_workload_there() -> None:
    there = CHECKOUT._replace(namespace="there")
    found = [_workload(CHECKOUT, State.DONE), _workload(there, State.STUCK, "no image")]
    for scope in ("", "shop", "there"):
        (unit,) = units(found, [], scope)
        assert (unit["state"], unit["workloads"]) == ("Stuck", 2)
    assert units(found, [], "elsewhere") == []


def _workload(key: ObjectKey, state: State, message: str = "") -> Managed:
    return Managed(
        key=key, obj={}, state=state, message=message, unit="shop/shop", commit="", path=""
    )
