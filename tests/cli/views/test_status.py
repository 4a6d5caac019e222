"""Status puts the live cluster and the status branch together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gitkruise.cli.console.style import Style, cell_width
from gitkruise.cli.context.local_repository import clusters_recording, history_at_hand
from gitkruise.cli.views import resources
from gitkruise.cli.views.status import StatusView, build_view, status_lines, status_obj
from gitkruise.errors import Finding, Severity
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.inspect.cluster_view import Managed
from gitkruise.gitops.inspect.explain import explain, left_git
from gitkruise.gitops.inspect.unit_objects import record_it
from gitkruise.gitops.status.reader import RecordedObject, RecordedUnit, read_units, recorded_unit
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from tests.cli.calls import Caller
from tests.cli.live import applied
from tests.cli.shop import CHECKOUT, REJECTED, START, WEB, Checkout, cloneset, rollout, unit_record

OLDER = GitCommit(id="1" * 40)
LATER = START + timedelta(hours=2)
STUCK = (
    "search-x7k2p and 1 more cannot start: image registry.example.com/search:v9 cannot be pulled"
)


def style(width: int) -> Style:
    return Style(colour=False, unicode=True, width=width)


def managed(key: ObjectKey, state: State, message: str = "", r: Rollout | None = None) -> Managed:
    return Managed(
        key=key, obj={"metadata": {}}, state=state, message=message, unit="shop/shop",
        commit="2" * 40, path="c.yaml:1", rollout=r,
    )  # fmt: skip


LIVE = [
    managed(CHECKOUT, State.HELD, "held", rollout()),
    managed(WEB, State.DONE),
    managed(
        ObjectKey("apps.kruise.io", "CloneSet", "shop", "search-with-quite-a-long-name"),
        State.STUCK,
        STUCK, rollout(State.STUCK, partition="0", kept=0, updated=2, updated_ready=0, ready=8),
    ),
]  # fmt: skip


def standing(checkout: Checkout, *, rejected: bool) -> StatusView:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    record = unit_record(findings=(REJECTED,), state=State.REJECTED) if rejected else unit_record()
    checkout.record("sandbox", record)
    with Repository.open(str(checkout.folder)) as repository:
        units = read_units(repository, "refs/heads/gitkruise/status/sandbox")
    return build_view(LIVE, units, LATER, cluster="sandbox", source="shop-deploy", namespace="")


@pytest.mark.parametrize("rejected", [False, True], ids=["held", "rejected"])
def test_text(checkout: Checkout, golden: Callable[[str, str], None], rejected: bool) -> None:
    shown = standing(checkout, rejected=rejected)
    texts = []
    for width in (70, 80, 120):
        lines = list(status_lines(shown, style(width), wide=False))
        assert all(cell_width(line) <= width for line in lines)
        texts.append(f"## {width} columns\n" + "\n".join(lines) + "\n")
    golden(f"cli-status-{'rejected' if rejected else 'held'}.txt", "\n".join(texts))


def test_reasons_and_commands_of_the_header_are_whole_in_a_narrow_terminal(
    checkout: Checkout,
) -> None:
    problem = f"GK5101 a.yaml:1:1: {STUCK}, and the commit before it stays applied until then"
    (unit,) = standing(checkout, rejected=True).units
    rejected = replace(unit, problems=(problem,))
    view = build_view(LIVE, [rejected], LATER, cluster="sandbox", source="src", namespace="")
    view = replace(view, unrecorded=("shop/other",), elsewhere=("staging",) * 12)
    lines = [*status_lines(view, style(80), wide=False)]
    assert problem in " ".join(line.strip() for line in lines)
    assert f"  next: {record_it(view.elsewhere)}" in lines


def test_what_only_git_can_know_wins(checkout: Checkout) -> None:
    shown = standing(checkout, rejected=False)
    states = {m.key: (m.state, m.message) for m in shown.objects}
    assert states[WEB] == (State.DRIFTED, "replicas 2 → 5")
    assert states[CHECKOUT][0] is State.HELD


@pytest.mark.parametrize(
    ("code", "next_", "shown"),
    [
        ("GK1203", "", "gitkruise plan {short}"),
        ("GK2102", "", "a commit that corrects what {short} asks for"),
        ("GK5101", "see what serves it", "see what serves it"),
    ],
)
def test_the_next_step_after_a_rejection_is_one_that_shows_its_cause(
    checkout: Checkout, code: str, next_: str, shown: str
) -> None:
    (unit,) = standing(checkout, rejected=True).units
    news = replace(unit, problems=(f"{code} a.yaml:1:1: no",), next=next_)
    assert news.attempted is not None
    expected = shown.format(short=news.attempted.short)
    view = build_view(LIVE, [news], LATER, cluster="sandbox", source="src", namespace="")
    assert [*status_lines(view, style(120), wide=False)][-1] == f"Next: {expected}"
    live = managed(CHECKOUT, State.HELD, "held", rollout())
    assert explain(live, None, news).next[-1] == f"for the newest commit: {expected}"


def test_the_problem_of_a_rejected_unit_is_its_error(checkout: Checkout) -> None:
    warning = Finding(
        code="GK2021", message="status is left out", notes=(("next", "take it out of the file"),),
        severity=Severity.WARNING,
    )  # fmt: skip
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    record = unit_record(findings=(warning, REJECTED), state=State.REJECTED)
    checkout.record("sandbox", record)
    with Repository.open(str(checkout.folder)) as repository:
        (unit,) = read_units(repository, "refs/heads/gitkruise/status/sandbox")
    for news in (unit, recorded_unit(record)):
        assert [problem.partition(" ")[0] for problem in news.problems] == [REJECTED.code, "GK2021"]
        assert news.next == dict(REJECTED.notes).get("next", "take it out of the file")


def test_an_object_that_git_does_not_name_any_more_is_not_as_git_asks(checkout: Checkout) -> None:
    kept = Finding(code="GK2302", message="CloneSet shop/checkout left git: an annotation keeps it")
    record = unit_record(state=State.DONE, findings=(kept,))
    checkout.record("sandbox", replace(record, objects=record.objects[1:]))
    with Repository.open(str(checkout.folder)) as repository:
        units = read_units(repository, "refs/heads/gitkruise/status/sandbox")
    live = replace(managed(CHECKOUT, State.DONE), obj={"metadata": {}})
    shown = build_view([live], units, LATER, cluster="sandbox", source="src", namespace="")
    (row,) = (line for line in status_lines(shown, style(120), wide=False) if "cloneset" in line)
    assert row.endswith("left git")
    assert status_obj(shown)["items"][0]["leftGit"] is True
    held = replace(live, state=State.HELD, rollout=rollout())  # no commit moves it
    shown = build_view([held], units, LATER, cluster="sandbox", source="src", namespace="")
    (row,) = (line for line in status_lines(shown, style(120), wide=False) if "cloneset" in line)
    assert row.endswith("left git")
    broken = replace(live, state=State.STUCK, message="it cannot start", unit=units[0].unit)
    waiting = replace(units[0], state=State.WAITING, waits="approval")
    (listed,) = resources.units([broken], [waiting], "")
    assert (listed["state"], listed["message"]) == ("Waiting", "waits for approval")
    (reason,) = explain(live, None, units[0]).reasons
    assert reason == f"unit shop/shop does not name it any more: GK2302 {kept.message}"
    another = "GK2302 ConfigMap shop/keep left git but stays in the cluster: an annotation"
    many = "GK2303 this commit would delete 5 of 7 objects (limit 3)"
    (reason,) = explain(live, None, replace(units[0], problems=(another, many))).reasons
    assert reason == f"unit shop/shop does not name it any more: {many}"
    several = another.replace("keep left", "keep and 2 more left")  # it may be one of them
    (reason,) = explain(live, None, replace(units[0], problems=(another, several))).reasons
    assert reason.endswith(several)
    busy = replace(units[0], state=State.STUCK, message="Job shop/mig: it failed", problems=())
    (reason,) = explain(live, None, busy).reasons
    ready = "deletions come when all other objects are ready"
    assert reason.endswith(f"{ready}; the unit is Stuck: Job shop/mig: it failed")
    idle = replace(units[0], state=State.PAUSED, message="CloneSet shop/web: paused", problems=())
    (reason,) = explain(live, None, idle).reasons
    assert reason.endswith(f"{ready}; the unit is Paused: CloneSet shop/web: paused")
    held = replace(live, state=State.HELD, rollout=rollout())
    assert explain(held, None, units[0]).next == ("the end of what keeps it: then it is deleted",)
    unread = replace(units[0], state=State.REJECTED)
    assert not left_git(live, unread), "the newest commit may name it"


def test_a_record_that_cannot_be_read_hides_no_other(checkout: Checkout) -> None:
    """Somebody edited it by hand."""
    bad = {"units/shop/bad/status.yaml": b"x: [\n"}
    checkout.record("sandbox", unit_record(), **bad)
    with Repository.open(str(checkout.folder)) as repository:
        units = read_units(repository, "refs/heads/gitkruise/status/sandbox")
    assert [(u.unit, u.state) for u in units] == [
        ("shop/shop", State.HELD),
        ("shop/bad", State.UNKNOWN),
    ]
    live = replace(managed(WEB, State.DONE), unit="shop/bad")
    shown = build_view([live], units, LATER, cluster="sandbox", source="src", namespace="")
    text = "\n".join(status_lines(shown, style(200), wide=False))
    assert "GK3206 units/shop/bad/status.yaml on" in text
    assert not shown.objects[0].left_git


def test_an_object_that_a_newer_commit_has_not_reached_waits(checkout: Checkout) -> None:
    (unit,) = standing(checkout, rejected=False).units
    assert unit.attempted is not None
    waits = replace(unit.objects[CHECKOUT], state=State.WAITING, message="waits for its turn")
    behind = replace(unit, objects={CHECKOUT: waits})
    for sent, state in ((unit.attempted, State.HELD), (OLDER, State.WAITING)):
        news = replace(behind, sent=sent)
        shown = build_view(LIVE, [news], LATER, cluster="sandbox", source="x", namespace="")
        assert [m.state for m in shown.objects if m.key == CHECKOUT] == [state]


def test_a_unit_that_waits_for_an_object_without_a_row_is_named(checkout: Checkout) -> None:
    (unit,) = standing(checkout, rejected=False).units
    why = "ConfigMap shop/settings: until the old one is gone"
    waits = replace(unit, state=State.WAITING, message=why, objects={})
    done = [replace(m, state=State.DONE) for m in LIVE]
    shown = build_view(done, [waits], LATER, cluster="sandbox", source="x", namespace="")
    lines = [*status_lines(shown, style(120), wide=False)]
    at = next(i for i, line in enumerate(lines) if "Waiting  unit shop/shop at " in line)
    assert lines[at + 1] == f"  {why}"
    rolling = replace(shown, objects=(replace(done[0], state=State.WAITING), *done[1:]))
    assert not any("unit shop" in line for line in status_lines(rolling, style(120), wide=False))


def test_a_unit_that_an_object_without_a_row_pauses_is_named(checkout: Checkout) -> None:
    (unit,) = standing(checkout, rejected=False).units
    key = ObjectKey("rollouts.kruise.io", "Rollout", "shop", "web")
    news = RecordedObject(key=key, state=State.PAUSED, commit="", message="step 1: StepPaused")
    why = "Rollout shop/web: step 1: StepPaused"
    paused = replace(unit, state=State.PAUSED, message=why, objects={key: news})
    for state, named in ((State.DONE, True), (State.PAUSED, False), (State.ROLLING, False)):
        live = [replace(m, state=state) for m in LIVE]
        shown = build_view(live, [paused], LATER, cluster="sandbox", source="x", namespace="")
        lines = [*status_lines(shown, style(120), wide=False)]
        assert (f"  {why}" in lines) == named, state
    done = [replace(m, state=State.DONE) for m in LIVE]
    (listed,) = resources.units(done, [paused], "")
    assert (listed["state"], listed["message"]) == ("Paused", why)


@pytest.mark.parametrize("live", [State.ROLLING, State.STUCK])
def test_a_unit_that_is_late_is_named_while_its_rollout_moves(
    checkout: Checkout, live: State
) -> None:
    (unit,) = standing(checkout, rejected=False).units
    why = "CloneSet shop/checkout: not ready within 10m: 3 of 4 asked are updated"
    late = replace(unit, state=State.STUCK, message=why, objects={})
    moving = [replace(m, state=live, unit="shop/shop") for m in LIVE]
    shown = build_view(moving, [late], LATER, cluster="sandbox", source="x", namespace="")
    lines = [*status_lines(shown, style(120), wide=False)]
    assert (f"  {why}" in lines) == (live is State.ROLLING)


def test_a_record_that_does_not_name_the_live_commit_is_out_of_date(checkout: Checkout) -> None:
    (unit,) = standing(checkout, rejected=False).units
    news = replace(unit.objects[CHECKOUT], commit=OLDER.id[:7])  # as in objects.tsv
    assert unit.attempted is not None
    for live, outdated in ((OLDER.id, False), (unit.attempted.id, False), ("9" * 40, True)):
        m = replace(managed(CHECKOUT, State.DONE), commit=live)
        recorded = replace(unit, objects={CHECKOUT: news}, problems=())
        shown = build_view([m], [recorded], LATER, cluster="sandbox", source="x", namespace="")
        text = "\n".join(status_lines(shown, style(200), wide=False))
        out_of_date = "its record is out of date: cloneset/checkout has 9999999, which it does not"
        assert (out_of_date in text) is outdated
        assert bool(status_obj(shown)["units"][0]["problems"]) is outdated


def test_units_without_a_record_are_named_with_what_does_not_show(checkout: Checkout) -> None:
    known = standing(checkout, rejected=False)
    assert known.unrecorded == ()
    alone = build_view(LIVE, [], LATER, cluster="sandbox", source="", namespace="")
    lines = [*status_lines(alone, style(120), wide=False)]
    assert lines[:4] == [
        "cluster sandbox", "? Unknown  unit shop/shop",
        "  its record is not known here: a newer or rejected commit does not show",
        f"  next: {record_it(())}",
    ]  # fmt: skip
    assert status_obj(alone)["unrecorded"] == ["shop/shop"]
    assert "unrecorded" not in status_obj(known)
    assert clusters_recording(alone.unrecorded, str(checkout.folder)) == ("sandbox",)
    assert clusters_recording(["shop/other"], str(checkout.folder)) == ()
    rows = [*status_lines(replace(alone, elsewhere=("dev",)), style(120), wide=False)]
    step = "the repository has its record of cluster dev: --cluster dev, if that is this one"
    assert rows[3] == f"  next: {step}"
    blind = build_view(
        LIVE, [], LATER, cluster="sandbox", source="", namespace="", units_unread="no units for you"
    )
    assert "units of the cluster: not known: no units for you" in [
        *status_lines(blind, style(120), wide=False)
    ]
    assert status_obj(blind)["unitsUnknown"] == "no units for you"


def test_a_view_without_all_kinds_does_not_say_that_there_is_no_workload() -> None:
    empty = build_view([], [], LATER, cluster="sandbox", source="", namespace="shop")
    part = replace(empty, kinds_unread=("deployments.apps",))
    assert [*status_lines(part, style(120), wide=False)][-1] == (
        "gitkruise manages no workload in namespace shop of cluster sandbox of the kinds that this "
        "account may list"
    )
    assert status_obj(part)["kindsUnknown"] == ["deployments.apps"]
    assert "kindsUnknown" not in status_obj(empty)


def test_an_artifact_is_named_instead_of_the_repository_of_the_record(checkout: Checkout) -> None:
    artifact = "oci://registry.example/shop/app@sha256:" + "a" * 64
    units = [
        replace(unit, source="v1.2.0", attempted=replace(unit.attempted, artifact=artifact))
        for unit in standing(checkout, rejected=False).units
        if unit.attempted is not None
    ]
    shown = build_view(LIVE, units, LATER, cluster="sandbox", source="shop-deploy", namespace="")
    first = next(iter(status_lines(shown, style(200), wide=False)))
    assert first.startswith("oci://registry.example/shop/app@v1.2.0  ")


def test_the_last_change_is_the_last_of_git_whatever_its_date(checkout: Checkout) -> None:
    (unit,) = standing(checkout, rejected=False).units
    assert unit.attempted is not None
    ahead = replace(unit.attempted, id=checkout.commit("a", {"a.yaml": "# a\n"}), subject="ahead")
    ahead = replace(ahead, time=LATER + timedelta(days=9))
    last = replace(unit.attempted, id=checkout.commit("b", {"a.yaml": "# b\n"}), subject="last")
    units = [replace(unit, attempted=ahead), replace(unit, unit="shop/other", attempted=last)]
    shown = build_view(LIVE, units, LATER, cluster="sandbox", source="shop-deploy", namespace="")
    with history_at_hand("") as leads:
        assert "ahead" in next(iter(status_lines(shown.ordered_by(leads), style(200), wide=False)))
    with history_at_hand(str(checkout.folder)) as leads:
        shown = shown.ordered_by(leads)
    assert "last change" in (first := next(iter(status_lines(shown, style(200), wide=False))))
    assert '"last"' in first


@pytest.mark.parametrize(
    ("live", "state"),
    [(State.DONE, "Unknown"), (State.HELD, "Unknown"), (State.STUCK, "Stuck")],
)
def test_a_unit_without_a_record_is_not_done(live: State, state: str) -> None:
    """Only the record knows of a newer commit, or of a rejected one."""
    seen = replace(managed(WEB, live), unit="shop/shop", obj={"metadata": {}})
    assert resources.units([seen], [], "")[0]["state"] == state


def test_a_suspended_unit_is_shown_though_all_is_as_git_asks() -> None:
    news = RecordedUnit(
        unit="shop/shop", cluster="sandbox", source="main", state=State.DONE,
        message="suspended by dana until 2026-12-01T08:00:00Z (audit): 1 object as git asks",
        since=None, attempted=None, applied=None, causal=None,
    )  # fmt: skip
    done = replace(managed(WEB, State.DONE), unit="shop/shop", obj={"metadata": {}})
    shown = build_view([done], [news], LATER, cluster="sandbox", source="x", namespace="")
    assert f"  {news.message}" in [*status_lines(shown, style(120), wide=False)]
    assert status_obj(shown)["units"][0]["suspended"]
    assert resources.units([done], [news], "")[0]["message"] == news.message
    reasons = explain(done, None, news).reasons
    assert f"unit shop/shop is {news.message}; nothing new is applied" in reasons


def test_a_warning_does_not_hide_the_object_that_is_stuck() -> None:
    news = RecordedUnit(
        unit="shop/shop", cluster="sandbox", source="main", state=State.STUCK,
        message="Certificate shop/web: it is late", problems=("GK1013 a.yaml:1:1: a plain word",),
        since=None, attempted=None, applied=None, causal=None,
    )  # fmt: skip
    shown = build_view([], [news], LATER, cluster="sandbox", source="x", namespace="")
    lines = [*status_lines(shown, style(120), wide=False)]
    assert lines.index(f"  {news.message}") < lines.index(f"  {news.problems[0]}")
    assert resources.units([], [news], "")[0]["message"] == news.message


def test_a_rejected_commit_counts_for_fail_on(checkout: Checkout) -> None:
    assert standing(checkout, rejected=True).in_state({State.REJECTED})
    assert not standing(checkout, rejected=True).only({State.STUCK}).in_state({State.HELD})


def test_the_neediest_object_is_the_next_command(checkout: Checkout) -> None:
    lines = list(status_lines(standing(checkout, rejected=False), style(200), wide=True))
    assert lines[-1] == "Next: gitkruise why cloneset/search-with-quite-a-long-name -n shop"
    assert STUCK in "\n".join(lines)


@pytest.mark.slow
def test_end_to_end(gk: Caller, checkout: Checkout, cluster: Path) -> None:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", unit_record())
    env = {"KUBECONFIG": str(cluster)}
    marks = {"commit": "2" * 40, "path": "c.yaml:1", "unit-ref": "shop/shop"}
    with applied(cluster, cloneset(replicas=1), **marks):
        done = ["get", "cs", "checkout", "-n", "shop", "-w", "--exit-when-done"]
        assert gk(*done, **env).code == 0
        text = gk("status", "--repo", str(checkout.folder), **env)
        alone = gk("status", "-n", "shop", **env)
        obj = gk("status", "-o", "json", cwd=checkout.folder, **env).obj
        failing = gk("status", "--fail-on", "drifted", cwd=checkout.folder, **env)
        only = gk("status", "--state", "done", "-o", "json", cwd=checkout.folder, **env).obj
    assert text.out.startswith('shop@main  last change 2222222 "canary"  Dana K · ')
    assert "≠ Drifted" in text.out  # known to git, gone from the cluster
    assert alone.out.startswith("cluster sandbox\n")
    assert [i["state"] for i in obj["items"]] == ["Done", "Drifted"]
    assert (obj["cluster"], obj["units"][0]["unit"]) == ("sandbox", "shop/shop")
    assert failing.code == 1
    assert [i["object"]["name"] for i in only["items"]] == ["checkout"]


EMPTY = [
    ("", [], frozenset(), "gitkruise manages no workload in cluster sandbox"),
    ("web", [], frozenset(), "gitkruise manages no workload in namespace web of cluster sandbox"),
    ("", LIVE, {State.REJECTED}, "no object in cluster sandbox is in such a state, 3 in others"),
]


@pytest.mark.parametrize(("namespace", "live", "states", "line"), EMPTY)
def test_an_empty_list_says_of_what(
    namespace: str, live: list[Managed], states: frozenset[State], line: str
) -> None:
    view = build_view(live, [], LATER, cluster="sandbox", source="", namespace=namespace)
    assert list(status_lines(view.only(states), style(80), wide=False))[-1] == line


BEYOND = ((3, "GK3"), (4, "and 1 more finding"), (6, "and 3 more findings"))


@pytest.mark.parametrize(("count", "last"), BEYOND)
def test_findings_beyond_three_are_counted(checkout: Checkout, count: int, last: str) -> None:
    view = standing(checkout, rejected=True)
    (unit,) = view.units
    found = replace(unit, problems=tuple(f"GK{n}" for n in range(1, count + 1)))
    lines = [*status_lines(replace(view, units=(found,)), style(120), wide=False)]
    at = lines.index("  GK1")
    assert lines[at : at + 3] == ["  GK1", "  GK2", "  GK3"]
    assert lines[at + min(count, 4) - 1].strip() == last
