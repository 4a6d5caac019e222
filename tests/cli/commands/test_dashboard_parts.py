"""Answers of the dashboard for a viewer of one namespace, down to their bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitkruise.cli.commands.inspect.dashboard import _resource
from gitkruise.cli.commands.inspect.dashboard_answers import Answers
from gitkruise.cli.commands.inspect.dashboard_sources import LocalRepository, RunningSources
from gitkruise.cli.context.cluster import ChosenCluster
from gitkruise.dashboard.gate import Viewer
from gitkruise.dashboard.record_rights import REASON
from gitkruise.dashboard.rights import Rules
from gitkruise.dashboard.viewers import ClusterGate
from gitkruise.errors import DiagnosticError
from gitkruise.kube.auth.connection import from_kubeconfig
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from tests.cli.commands.test_drift import TWO_UNITS
from tests.cli.shop import Checkout, cloneset
from tests.dashboard.cluster import CLONESETS, JANE, ROOT, STRANGER, Reviewing
from tests.git.repos import run_git

FOREIGN = ("bank", "ledger", "hunter2", "vault", "broken")


def config_map(name: str, namespace: str, **data: str) -> str:
    return _object("ConfigMap", name, namespace, data={**data})


def secret(name: str, value: str) -> str:
    return _object("Secret", name, "shop", stringData={"password": value})


def _object(kind: str, name: str, namespace: str, **more: Any) -> str:
    about = {"metadata": {"name": name, "namespace": namespace}}
    return json.dumps({"apiVersion": "v1", "kind": kind, **about, **more})


Body = Callable[[Answers, Viewer], Awaitable[Any]]


def ask(kubeconfig: Path, folder: Path, body: Body, token: str = JANE) -> Any:
    """Answers of a repository to the owner of a token."""

    async def run() -> Any:
        clock, catalog = SystemClock(), load_catalog()
        transport = HttpTransport(from_kubeconfig([kubeconfig]), clock)
        chosen = ChosenCluster(
            transport=transport, clock=clock, name="sandbox", namespace="default"
        )
        rules = Rules({"cloneset": CLONESETS}, partial(_resource, catalog), "sandbox")
        gate = ClusterGate(Reviewing(), rules, clock)
        viewer = await gate.viewer({"Authorization": f"Bearer {token}"}, 0)
        assert viewer is not None
        try:
            return await body(Answers(chosen, LocalRepository(chosen, str(folder), None)), viewer)
        finally:
            await transport.close()

    return asyncio.run(run())


def asked_all(answers: Answers, viewer: Viewer, commit: str) -> Awaitable[list[Any]]:
    """The commit, its plan and its diff."""

    async def asked() -> list[Any]:
        return [await answers.find_out(f"{q}/{commit}", viewer) for q in ("commit", "plan", "diff")]

    return asked()


def history(checkout: Checkout) -> tuple[str, str]:
    """Return a commit that changes both namespaces, and one that changes the other only."""
    checkout.commit("first", {
        "cart.yaml": cloneset("v1"), "ledger.yaml": config_map("ledger", "bank", a="1"),
        "vault.yaml": secret("vault", "hunter2"),
    })  # fmt: skip
    mixed = checkout.commit("cart v2\n\nfor the bank, too", {
        "cart.yaml": cloneset("v2", partition="60%"), "vault.yaml": secret("vault", "hunter3"),
        "ledger.yaml": config_map("ledger", "bank", a="2"),
    })  # fmt: skip
    bank = {"ledger.yaml": config_map("ledger", "bank", a="3")}
    return mixed, checkout.commit("the bank's ledger", dict(bank))


def test_a_plan_has_the_objects_that_its_viewer_may_list(checkout: Checkout, cluster: Path) -> None:
    mixed, _ = history(checkout)
    found, plan, diff = ask(cluster, checkout.folder, lambda a, v: asked_all(a, v, mixed))
    (entry,) = plan["entries"]
    assert entry["name"] == "~ CloneSet shop/checkout"
    assert plan["summary"].startswith("1 changed · 4 pods")
    assert plan["hidden"] == f"2 objects are not shown: {REASON}"
    assert (found["subject"], found["message"]) == ("cart v2", "")
    assert found["hidden"] == plan["hidden"]
    (changed,) = diff["entries"]
    assert (changed["name"], changed["added"], changed["removed"]) == (entry["name"], 2, 2)
    assert "+    partition: 60%" in changed["lines"]
    text = json.dumps([found, plan, diff])
    assert [word for word in FOREIGN if word in text] == []
    found, plan, diff = ask(cluster, checkout.folder, lambda a, v: asked_all(a, v, mixed), ROOT)
    assert len(diff["entries"]) == 3
    assert "hunter" not in json.dumps(diff)
    assert len(plan["entries"]) == 3
    assert "for the bank, too" in found["message"]
    assert "hidden" not in plan


def test_the_merge_of_a_branch_has_the_objects_that_its_viewer_may_list(
    checkout: Checkout, cluster: Path
) -> None:
    """Its title is shown to those who see something that it changes."""
    mixed, bank = history(checkout)
    run_git(checkout.folder, "branch", "topic", mixed)
    run_git(checkout.folder, "branch", "ledgers", bank)
    run_git(checkout.folder, "reset", "--quiet", "--hard", "HEAD~2")
    found, plan, diff = ask(cluster, checkout.folder, lambda a, v: asked_all(a, v, "branch/topic"))
    assert (found["name"], found["subject"]) == ("branch topic", "cart v2")
    assert [entry["name"] for entry in plan["entries"]] == ["~ CloneSet shop/checkout"]
    assert found["hidden"] == plan["hidden"] == f"2 objects are not shown: {REASON}"
    assert len(diff["entries"]) == 1
    text = json.dumps([found, plan, diff])
    assert [word for word in FOREIGN if word in text] == []
    answers = ask(
        cluster, checkout.folder, lambda a, v: asked_all(a, v, "branch/ledgers"), STRANGER
    )
    assert [word for word in FOREIGN if word in json.dumps(answers).replace("ledgers", "")] == []


@pytest.mark.parametrize("token", [JANE, STRANGER])
def test_a_commit_of_others_is_a_number_of_objects(
    checkout: Checkout, cluster: Path, token: str
) -> None:
    _, bank = history(checkout)
    found, plan, diff = ask(cluster, checkout.folder, lambda a, v: asked_all(a, v, bank), token)
    assert diff == {"entries": [], "moreEntries": 0}
    assert found["hidden"] == plan["hidden"] == f"1 object is not shown: {REASON}"
    assert (plan["entries"], plan["nothing"], plan["summary"], plan["blast"]) == ([], "", "", [])
    text = json.dumps([found, plan])
    assert [word for word in FOREIGN if word in text] == []


def test_who_may_list_all_that_a_commit_changes_reads_its_message(
    checkout: Checkout, cluster: Path
) -> None:
    checkout.commit("first", {"cart.yaml": cloneset("v1")})
    commit = checkout.commit("cart v2\n\nLooks right.", {"cart.yaml": cloneset("v2")})
    found, plan, _ = ask(cluster, checkout.folder, lambda a, v: asked_all(a, v, commit))
    assert "Looks right." in found["message"]
    assert (found["hidden"], plan["hidden"]) == ("", "")


def test_deletions_of_a_unit_with_hidden_objects_may_wait(
    checkout: Checkout, cluster: Path
) -> None:
    """How many of a unit's objects go, and what it is called, is not said."""
    files = {f"{n}.yaml": config_map(f"flags-{n}", "shop" if n < 2 else "bank") for n in range(14)}
    checkout.commit("first", {**files, "cart.yaml": cloneset("v1")})
    gone = checkout.commit("less", dict.fromkeys(files))
    _, plan, _ = ask(cluster, checkout.folder, lambda a, v: asked_all(a, v, gone))
    texts = [span["text"] for span in plan["blast"]]
    assert texts[0].startswith("MAY WAIT FOR APPROVAL")
    assert texts[1].startswith("2 objects DELETED")
    assert plan["hidden"].startswith("12 objects")
    assert "bank" not in json.dumps(plan)


PROMOTE = "forecast/promote/cloneset/shop/checkout"


def test_an_edit_is_foreseen_without_the_lines_of_others_around_it(
    checkout: Checkout, cluster: Path
) -> None:
    """The file has the object of another namespace before and after the line that changes."""
    checkout.commit("first", {"all.yaml": cloneset("v1")})
    before, after = config_map("vault", "bank"), config_map("ledger", "bank")
    text = f"{before}\n---\n{cloneset('v2', partition='60%')}---\n{after}"
    checkout.commit("canary", {"all.yaml": text})
    found = ask(cluster, checkout.folder, lambda a, v: a.find_out(PROMOTE, v))
    changed = [line for line in found["diff"] if line[:1] in "+-" and line[1:2] not in "+-"]
    assert [line.strip() for line in changed] == ["-    partition: 60%", "+    partition: 0"]
    assert found["diff"][2].startswith("@@"), "no line before the changed ones"
    assert len(found["diff"]) == 5
    (entry,) = found["plan"]["entries"]
    assert entry["name"] == "~ CloneSet shop/checkout"
    assert found["plan"]["hidden"] == ""
    assert [word for word in FOREIGN if word in json.dumps(found)] == []
    whole = ask(cluster, checkout.folder, lambda a, v: a.find_out(PROMOTE, v), ROOT)
    assert "ledger" in json.dumps(whole["diff"])


@pytest.mark.parametrize(("about", "code"), [
    (f"{PROMOTE}?partition=90%", "GK7042"),
    (PROMOTE.replace("checkout", "ledgers"), "GK7091"),
])  # fmt: skip
def test_a_refusal_is_shown_where_it_names_no_other_object(
    checkout: Checkout, cluster: Path, about: str, code: str
) -> None:
    checkout.commit("first", {"cart.yaml": cloneset("v1")})
    other = cloneset("v1", name="ledger").replace("shop", "bank")
    checkout.commit("canary", {"cart.yaml": cloneset("v2", partition="60%"), "b.yaml": other})
    with pytest.raises(DiagnosticError) as refused:
        ask(cluster, checkout.folder, lambda a, v: a.find_out(about, v))
    assert refused.value.findings[0].code == code
    assert "bank" not in str(refused.value)


def test_drift_is_compared_for_the_objects_that_a_viewer_may_list(
    checkout: Checkout, cluster: Path
) -> None:
    files = {
        "gitkruise.yaml": TWO_UNITS, "good/cart.yaml": cloneset("v1"), "broken/c.yaml": "kind: [",
        "good/ledger.yaml": config_map("ledger", "bank"), "good/v.yaml": secret("vault", "hunter2"),
    }  # fmt: skip
    checkout.commit("one", dict(files))
    found = ask(cluster, checkout.folder, lambda a, v: a.find_out("drift", v))
    assert [one["object"]["name"] for one in found["items"]] == ["checkout"]
    assert (found["compared"], found["findings"]) == (1, [])
    assert found["hidden"] == f"2 objects and 1 unit are not shown: {REASON}"
    assert [word for word in FOREIGN if word in json.dumps(found)] == []


def test_nodes_are_shown_to_those_who_may_list_them(checkout: Checkout, cluster: Path) -> None:
    checkout.commit("one", {"cart.yaml": cloneset("v1")})
    found = ask(cluster, checkout.folder, lambda a, v: a.find_out("machines", v))
    assert found["nodes"] == {}
    assert found["unread"] == ["jane may not list nodes", "jane may not list nodeimages"]
    found = ask(cluster, checkout.folder, lambda a, v: a.find_out("machines", v), ROOT)
    assert found["unread"] == []


def test_everyone_is_shown_that_another_process_leads(checkout: Checkout, cluster: Path) -> None:
    async def body(answers: Answers, viewer: Viewer) -> Any:
        answers.source = RunningSources(lambda: None)
        return await answers.find_out("drift", viewer)

    with pytest.raises(DiagnosticError, match="GK7067"):
        ask(cluster, checkout.folder, body)


@pytest.mark.parametrize("about", ["plan", "commit", "diff"])
def test_the_reason_for_no_answer_is_not_shown_to_everyone(
    checkout: Checkout, cluster: Path, about: str
) -> None:
    bank = {"ledger.yaml": "kind: [bank"}
    commit = checkout.commit("broken", {"cart.yaml": cloneset("v1"), **bank})

    def asked(token: str) -> str:
        with pytest.raises(DiagnosticError) as refused:
            ask(cluster, checkout.folder, lambda a, v: a.find_out(f"{about}/{commit}", v), token)
        return str(refused.value)

    assert about == "commit" or "ledger.yaml" in asked(ROOT)
    answer = asked(JANE)
    assert "GK7091" in answer
    assert [word for word in FOREIGN if word in answer] == []
