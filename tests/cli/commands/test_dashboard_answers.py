"""Answers of the dashboard that take a computation, from a repository and a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gitkruise.cli.commands.inspect.dashboard_answers import Answers
from gitkruise.cli.commands.inspect.dashboard_sources import LocalRepository
from gitkruise.cli.context.cluster import ChosenCluster
from gitkruise.dashboard.gate import Machine
from gitkruise.errors import DiagnosticError
from gitkruise.kube.auth.connection import from_kubeconfig
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from tests.cli.commands.test_drift import TWO_UNITS
from tests.cli.shop import CONFIG_MAP, Checkout, cloneset
from tests.git.repos import run_git


def ask(kubeconfig: Path, path: str, body: Callable[[Answers], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        clock = SystemClock()
        transport = HttpTransport(from_kubeconfig([kubeconfig]), clock)
        try:
            chosen = ChosenCluster(
                transport=transport, clock=clock, name="sandbox", namespace="default"
            )
            return await body(
                Answers(chosen, LocalRepository(chosen, path, None) if path else None)
            )
        finally:
            await transport.close()

    return asyncio.run(run())


def test_the_plan_of_a_commit_is_that_of_its_change_to_its_parent(
    checkout: Checkout, cluster: Path
) -> None:
    """It says nothing of what the cluster has, and is planned once."""
    checkout.commit("before", {"c.yaml": cloneset("v1")})
    canary = checkout.commit("canary", {"c.yaml": cloneset("v2", partition="60%")})
    checkout.commit("later", {"d.yaml": CONFIG_MAP})

    async def body(answers: Answers) -> Any:
        first = await answers.find_out(f"plan/{canary[:7]}", Machine())
        assert await answers.find_out(f"plan/{canary}", Machine()) is first
        return first

    plan = ask(cluster, str(checkout.folder), body)
    (entry,) = plan["entries"]
    assert (entry["name"], entry["change"]) == ("~ CloneSet shop/checkout", "configure")
    assert [field["path"] for field in entry["fields"]] == [
        "template.spec.containers[app].image", "updateStrategy.partition",
    ]  # fmt: skip
    (rollout,) = entry["rollouts"]
    assert [(step["done"], step["total"]) for step in rollout["steps"]] == [(2, 10), (4, 10)]
    hold = "".join(span["text"] for span in rollout["hold"])
    assert hold.endswith("gitkruise promote cloneset/checkout -n shop")
    assert plan["source"] == "offline: pods are counted, not named"
    assert (plan["command"], plan["subject"]) == (f"gitkruise plan {canary[:7]}", "canary")


def test_a_commit_in_git_with_the_approvals_that_it_brings(
    checkout: Checkout, cluster: Path
) -> None:
    first = checkout.commit("before", {"c.yaml": cloneset("v1")})
    text = "approve it\n\nLooks right.\n\nGitkruise-Approve: 0123456789ab"
    commit = checkout.commit(text, {"c.yaml": cloneset("v2")})

    async def body(answers: Answers) -> Any:
        return await answers.find_out(f"commit/{commit}", Machine())

    found = ask(cluster, str(checkout.folder), body)
    assert (found["id"], found["parents"]) == (commit, [first])
    assert (found["subject"], found["approvals"]) == ("approve it", ["0123456789ab"])
    assert "Looks right." in found["message"]


def test_a_command_is_foreseen_with_its_edit_and_nothing_is_pushed(
    checkout: Checkout, cluster: Path
) -> None:
    checkout.commit("before", {"c.yaml": cloneset("v1")})
    web = cloneset("v1", name="web")
    files: dict[str, str | None] = {"c.yaml": cloneset("v2", partition="60%"), "web.yaml": web}
    canary = checkout.commit("canary", files)

    async def body(answers: Answers) -> Any:
        promote = await answers.find_out("forecast/promote/cloneset/shop/checkout", Machine())
        return promote, await answers.find_out("forecast/promote/cloneset/shop/web", Machine())

    promote, again = ask(cluster, str(checkout.folder), body)
    changed = [line.strip() for line in promote["diff"] if "partition" in line]
    assert changed == ["-    partition: 60%", "+    partition: 0"]
    (entry,) = promote["plan"]["entries"]
    assert [step["done"] for step in entry["rollouts"][0]["steps"]][-1] == 10
    assert "web" in again["message"]
    assert run_git(checkout.folder, "rev-parse", "HEAD").strip() == canary
    assert run_git(checkout.folder, "status", "--porcelain") == ""


def test_live_objects_are_compared_with_git(checkout: Checkout, cluster: Path) -> None:
    checkout.commit("before", {"c.yaml": cloneset("v1")})

    async def body(answers: Answers) -> Any:
        return await answers.find_out("drift", Machine())

    found = ask(cluster, str(checkout.folder), body)
    assert (found["compared"], [one["live"] for one in found["items"]]) == (1, ["is missing"])


def test_a_partition_is_foreseen_as_its_command_shows_it(checkout: Checkout, cluster: Path) -> None:
    checkout.commit("before", {"c.yaml": cloneset("v1")})
    checkout.commit("canary", {"c.yaml": cloneset("v2", partition="60%")})
    about = "cloneset/shop/checkout?partition="

    async def body(answers: Answers) -> Any:
        words = (f"promote/{about}30%", f"hold/{about}80%", f"hold/{about}60%")
        found = [await answers.find_out(f"forecast/{each}", Machine()) for each in words]
        for wrong in ("x", "-1", "", "30%&a=1"):
            answer = await answers.find_out(f"forecast/promote/{about}{wrong}", Machine())
            assert answer is None, wrong
        return found

    lower, higher, same = ask(cluster, str(checkout.folder), body)
    assert "+    partition: 30%" in lower["diff"]
    command = "gitkruise promote cloneset/checkout -n shop --partition 30%"
    assert lower["command"] == command
    (entry,) = lower["plan"]["entries"]
    assert entry["rollouts"][0]["steps"][-1]["done"] == 7
    assert "+    partition: 80%" in higher["diff"]
    assert higher["command"].startswith("gitkruise hold cloneset/checkout")
    assert "there is nothing to do" in same["message"]


@pytest.mark.slow
def test_a_unit_that_cannot_be_read_hides_no_drift_of_others(
    checkout: Checkout, cluster: Path
) -> None:
    files = {"gitkruise.yaml": TWO_UNITS, "good/c.yaml": cloneset("v1"), "broken/c.yaml": "kind: ["}
    checkout.commit("one", dict(files))

    async def body(answers: Answers) -> Any:
        return await answers.find_out("drift", Machine())

    found = ask(cluster, str(checkout.folder), body)
    assert (found["compared"], [one["live"] for one in found["items"]]) == (1, ["is missing"])
    (finding,) = found["findings"]
    assert finding["places"][0]["file"] == "broken/c.yaml"


def test_a_pull_request_is_fetched_from_the_remote_of_a_clone(
    checkout: Checkout, cluster: Path, tmp_path: Path
) -> None:
    """The refs of the clone stay as they are."""
    base = checkout.commit("before", {"c.yaml": cloneset("v1")})
    remote = str(tmp_path / "remote.git")
    run_git(tmp_path, "clone", "--quiet", "--bare", str(checkout.folder), remote)
    run_git(checkout.folder, "remote", "add", "origin", remote)
    work = tmp_path / "work"
    run_git(tmp_path, "clone", "--quiet", remote, str(work))
    (work / "c.yaml").write_text(cloneset("v2"))
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    run_git(work, *author, "commit", "--quiet", "-am", "newer image")
    head = run_git(work, "rev-parse", "HEAD")
    run_git(work, "push", "--quiet", "origin", "HEAD:refs/pull/7/head", "HEAD:refs/heads/topic")
    before = run_git(checkout.folder, "for-each-ref")

    async def body(answers: Answers) -> Any:
        asked = [f"{q}/{place}" for place in ("pr/7", "branch/topic") for q in ("commit", "plan")]
        return [await answers.find_out(about, Machine()) for about in asked]

    change, plan, branch, same = ask(cluster, str(checkout.folder), body)
    assert (change["name"], change["subject"]) == ("pull request 7", "newer image")
    assert (change["id"], change["base"], change["into"]) == (head, base, "main")
    assert [entry["name"] for entry in plan["entries"]] == ["~ CloneSet shop/checkout"]
    assert plan["command"] == f"gitkruise plan {base[:7]}...{head[:7]}"
    assert (branch["name"], same["entries"]) == ("branch topic", plan["entries"])
    assert run_git(checkout.folder, "for-each-ref") == before
    assert not (checkout.folder / ".git" / "FETCH_HEAD").exists()


@pytest.mark.parametrize("about", ["pr/8", "branch/none", "branch/-x"])
def test_a_head_that_the_remote_does_not_have_is_an_error(
    checkout: Checkout, cluster: Path, about: str
) -> None:
    checkout.commit("before", {"c.yaml": cloneset("v1")})

    async def body(answers: Answers) -> Any:
        return await answers.find_out(f"plan/{about}", Machine())

    with pytest.raises(DiagnosticError, match="GK3201"):
        ask(cluster, str(checkout.folder), body)


NONE = [
    "plan/pr/x",
    "plan/pr/",
    "plan/HEAD",
    "plan/--all",
    "plan/",
    "plan",
    "commit/../x",
    "drift/x",
    "why/cloneset/a",
    "",
    "forecast/promote",
    "forecast/recreate/pod/shop/a",
    "forecast/promote/cloneset//a",
    "forecast/pause/cloneset/shop/a?partition=3",
]


@pytest.mark.parametrize("about", NONE)
def test_other_questions_have_no_answer(checkout: Checkout, cluster: Path, about: str) -> None:
    checkout.commit("before", {"c.yaml": cloneset("v1")})

    async def body(answers: Answers) -> Any:
        assert await answers.find_out(about, Machine()) is None
        answers.source = None
        return await answers.find_out("drift", Machine())

    assert ask(cluster, str(checkout.folder), body) is None


@pytest.mark.parametrize("about", ["plan/abcdef0", "commit/abcdef0"])
def test_a_commit_that_is_not_there_is_an_error(
    checkout: Checkout, cluster: Path, about: str
) -> None:
    checkout.commit("before", {"c.yaml": cloneset("v1")})

    async def body(answers: Answers) -> Any:
        return await answers.find_out(about, Machine())

    with pytest.raises(DiagnosticError, match="GK3201"):
        ask(cluster, str(checkout.folder), body)
