"""`get` shows rollouts and what is behind them, once or while they move."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gitkruise.cli.console.style import Style, cell_width
from gitkruise.cli.console.viewport import fit_window
from gitkruise.cli.views.rollout import rollout_block
from gitkruise.cli.views.watch import Until
from gitkruise.gitops.inspect.cluster_view import Managed
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.pod import pod_facts
from tests.cli.calls import Caller, Terminal, environment
from tests.cli.deployments import web as deployment
from tests.cli.live import applied, apply
from tests.cli.shop import CHECKOUT, cloneset, rollout

COMMIT = "4f2c9e1" + "0" * 33
BROKEN = cloneset("v2", name="broken").replace("v2", "v2-broken")


def wait(name: str, *more: str) -> list[str]:
    return ["get", "rollout", name, "-n", "shop", "-w", "--exit-when-done", *more]


NAMES = ["cloneset/x1", "cloneset x1", "clone x1", "cs/x1", "clonesets x1", "rollout/x1", "ro x1",
         "clonesets.apps.kruise.io/x1"]  # fmt: skip


@pytest.mark.parametrize("words", NAMES)
def test_names_as_kubectl_takes_them(gk: Caller, cluster: Path, words: str) -> None:
    with applied(cluster, cloneset(name="x1", replicas=1)):
        ended = gk("get", *words.split(), "-n", "shop", "-o", "json", KUBECONFIG=str(cluster))
    assert [item["name"] for item in ended.obj["items"]] == ["x1"]


@pytest.mark.slow
def test_everything_behind_a_rollout(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    marks = {"commit": COMMIT, "path": "c.yaml:1", "unit-ref": "shop/web"}
    with applied(cluster, cloneset(name="all", replicas=3), **marks):
        assert gk(*wait("all"), **env).code == 0
        rows = {
            noun: gk("get", noun, "all", "-n", "shop", "-o", "json", **env).obj["items"]
            for noun in ("rollouts", "pods", "revisions", "events")
        }
        names = gk("get", "pods", "cs/all", "-n", "shop", "-o", "name", **env).out.split()
        block = gk("get", "cs", "all", "-n", "shop", **env).out
        units = gk("get", "units", "-n", "shop", "-o", "jsonl", **env).out.splitlines()
        table = gk("get", "cs", "-n", "shop", "--no-headers", **env).out
    (rollout,) = rows["rollouts"]
    assert (rollout["state"], rollout["ready"], rollout["commit"]) == ("Done", 3, COMMIT)
    assert names == [f"pod/{pod['name']}" for pod in rows["pods"]]
    assert {pod["revision"] for pod in rows["pods"]} == {rows["revisions"][0]["hash"]}
    assert "SuccessfulCreate" in {event["reason"] for event in rows["events"]}
    assert {event["object"].partition("/")[0] for event in rows["events"]} == {"cloneset", "pod"}
    assert re.search(r"cloneset/all  shop +✓ Done\ncommit   4f2c9e1   c.yaml:1\n", block)
    assert "pods  ●●●\n" in block
    assert json.loads(units[0])["workloads"] == 1
    assert "NAMESPACE" not in table


@pytest.mark.slow
def test_the_kind_of_the_owner_counts_where_two_have_one_name(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    other = deployment(name="both", replicas=1).replace("app: both", "app: other")
    with applied(cluster, cloneset(name="both", replicas=1)), applied(cluster, other):
        assert gk(*wait("both"), **env).code == 0
        found = {
            (noun, owner): gk("get", noun, f"{owner}/both", "-n", "shop", "-o", "json", **env)
            for noun in ("pods", "revisions", "events")
            for owner in ("cs", "deployment", "rollout")
        }
    counts = {key: len(ended.obj["items"]) for key, ended in found.items()}
    for noun in ("pods", "revisions"):
        assert [counts[noun, owner] for owner in ("cs", "deployment", "rollout")] == [1, 1, 2]
    about = {i["object"].partition("/")[0] for i in found["events", "deployment"].obj["items"]}
    assert about == {"deployment", "pod"}
    assert counts["events", "cs"] + counts["events", "deployment"] == counts["events", "rollout"]


@pytest.mark.parametrize(
    ("noun", "there"), [("cs", "there"), ("events", "there"), ("units", "web")]
)
def test_a_name_that_no_object_has_is_distinguished_from_those_there_are(
    gk: Caller, cluster: Path, noun: str, there: str
) -> None:
    with applied(cluster, cloneset(name="there", replicas=1), **{"unit-ref": "shop/web"}):
        ended = gk("get", noun, "tehre", "-n", "shop", KUBECONFIG=str(cluster))
    assert (ended.code, ended.out) == (5, "")
    assert "GK4010" in ended.err
    assert f"there are: {there}\n" in ended.err


@pytest.mark.parametrize("noun", ["cs", "units", "pods"])
def test_an_empty_list_names_the_namespace(gk: Caller, cluster: Path, noun: str) -> None:
    ended = gk("get", noun, "-n", "other", KUBECONFIG=str(cluster))
    name = {"cs": "clonesets"}.get(noun, noun)
    assert (ended.code, ended.out) == (0, f"no {name} in namespace other; -A lists all\n")


@pytest.mark.slow
def test_watching_a_rollout_to_its_end_off_a_terminal(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, cloneset("v1", name="watched")):
        assert gk(*wait("watched"), **env).code == 0
        apply(cluster, cloneset("v2", name="watched", partition="60%"))
        ended = gk(*wait("watched", "-o", "jsonl", "--timeout", "60s"), **env)
        lines = gk(*wait("watched"), **env).out.splitlines()
    steps = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0
    assert (steps[-1]["state"], steps[-1]["updated"], steps[-1]["kept"]) == ("Held", 4, 6)
    assert all(a != b for a, b in pairwise(steps))
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ cloneset/watched -n shop state=Held new=4 updating=0 "
        r"old=6 ready=10/10 partition=60%",
        lines[-1],
    )


def test_a_stuck_rollout_is_a_no(gk: Caller, cluster: Path) -> None:
    with applied(cluster, BROKEN):
        ended = gk(*wait("broken", "--timeout", "60s"), KUBECONFIG=str(cluster))
    assert (ended.code, "state=Stuck" in ended.out) == (1, True)


def test_patience_ends(gk: Caller, cluster: Path) -> None:
    slow = cloneset(name="never", replicas=3).replace(
        "spec:\n", "spec:\n  minReadySeconds: 3600\n", 1
    )
    with applied(cluster, slow):
        ended = gk(*wait("never", "--timeout", "300ms"), KUBECONFIG=str(cluster))
    assert (ended.code, "not done after 300ms" in ended.err) == (6, True)
    assert "= next: gitkruise why cloneset/never -n shop" in ended.err


def test_events_of_everything_are_never_done(gk: Caller, cluster: Path) -> None:
    ended = gk("get", "events", "-w", "--exit-when-done", KUBECONFIG=str(cluster))
    assert (ended.code, "requires the name of the rollout" in ended.err) == (2, True)


ANSWERS = [
    ([], None), ([State.DONE], 0), ([State.HELD, State.DONE], 0), ([State.PAUSED], 0),
    ([State.STUCK], 1), ([State.STUCK, State.DONE], 1), ([State.STUCK, State.ROLLING], None),
    ([State.WAITING], None), ([State.REJECTED, State.DONE], 1),
]  # fmt: skip


@pytest.mark.parametrize(("states", "answer"), ANSWERS)
def test_when_it_is_over(states: list[State], answer: int | None) -> None:
    assert Until("1m", 60).answer(states) == answer


def test_500_pods_fit_a_small_window() -> None:
    """One character a pod, the title first, nothing wider than the window."""
    facts = tuple(
        pod_facts({"metadata": {"name": f"big-{n}", "namespace": "shop", "uid": str(n)}})
        for n in range(500)
    )
    m = Managed(
        key=CHECKOUT, obj={}, state=State.ROLLING, message="on its way", unit="", commit="",
        path="", rollout=rollout(State.ROLLING, replicas=500, total=500), pods=facts,
    )  # fmt: skip
    style = Style(colour=True, unicode=True, width=80)
    frame = fit_window(rollout_block(m, style), 80, 24, style)
    assert "cloneset/checkout" in frame[0]
    assert sum(line.count("○") for line in frame if "○○" in line) == 500
    check([frame], 24, 80)


def test_reasons_are_whole_in_a_narrow_window() -> None:
    why = "image registry.example.com/search:v9 cannot be pulled: manifest unknown to the registry"
    held = rollout(State.STUCK, message=f"search-x7k2p and 1 more cannot start: {why}")
    m = Managed(
        key=CHECKOUT, obj={}, state=State.STUCK, message="", unit="", commit="", path="",
        rollout=replace(held, failing=(("search-x7k2p", why),)),
    )  # fmt: skip
    lines = rollout_block(m, Style(colour=False, unicode=True, width=60))
    shown = " ".join(" ".join(lines).split())
    assert held.message in shown
    assert f"search-x7k2p: {why}" in shown
    assert all(len(line) <= 60 for line in lines)


@pytest.mark.slow
def test_a_resized_terminal_is_filled_again(cluster: Path) -> None:
    words = ["get", "pods", "big", "-n", "shop", "-w", "--kubeconfig", str(cluster)]
    with (
        applied(cluster, cloneset("v1", name="big", replicas=40)),
        Terminal(words, environment()) as terminal,
    ):
        terminal.read_until(r"more lines(?s:.)*\x1b\[J")
        terminal.resize(10, 60)
        terminal.read_until(r"\x1b\[J")
        frames = terminal.frames()
    assert (len(frames[0]), frames[0][0].split()[0]) == (24, "NAMESPACE")
    assert len(frames[-1]) == 10
    assert frames[-1][-2].startswith("… ")
    check(frames[:1], 24, 80)
    check(frames[-1:], 10, 60)


def check(frames: list[list[str]], rows: int, columns: int) -> None:
    for frame in frames:
        assert len(frame) <= rows
        assert all(cell_width(line) <= columns for line in frame)


@pytest.mark.slow
def test_a_watch_on_a_terminal_leaves_its_last_picture(cluster: Path) -> None:
    words = [*wait("left"), "--kubeconfig", str(cluster)]
    left = applied(cluster, cloneset("v1", name="left", replicas=2))
    with left, Terminal(words, environment()) as terminal:
        assert terminal.end() == 0
    after = terminal.raw.rpartition("\x1b[?1049l")[2]
    assert "cloneset/left" in after
    assert "Done" in after
    assert "\x1b[2J" not in terminal.raw
