"""Commands about a repository whose units are objects of the cluster work on those units."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.cli.live import applied, apply, send
from tests.cli.shop import Checkout, cloneset
from tests.git.repos import run_git

pytestmark = pytest.mark.slow
WHO = {
    "GIT_AUTHOR_NAME": "Dana K", "GIT_AUTHOR_EMAIL": "d@example.com",
    "GIT_COMMITTER_NAME": "Dana K", "GIT_COMMITTER_EMAIL": "d@example.com",
}  # fmt: skip
KINDS = {"GitSource": "gitsources", "Unit": "units"}


def _request(verb: str, kind: str, name: str, spec: Any = None) -> ApiRequest:
    resource = ResourceRef("gitkruise.io", "v1alpha1", KINDS[kind])
    body = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
    }  # fmt: skip
    if verb == "delete":
        return ApiRequest(verb=verb, resource=resource, namespace="shop", name=name)
    return ApiRequest(verb=verb, resource=resource, namespace="shop", body=body)


@pytest.fixture
def here(checkout: Checkout, tmp_path: Path) -> Checkout:
    """One folder for each environment, with the same object in both."""
    for subject, image in (("one", "v1"), ("two", "v2")):
        text = cloneset(image, partition="60%" if image == "v2" else 0, name="prodweb")
        checkout.commit(subject, {f"apps/{e}/c.yaml": text for e in ("prod", "staging")})
    bare = tmp_path / "origin.git"
    run_git(tmp_path, "clone", "-q", "--bare", str(checkout.folder), str(bare))
    run_git(checkout.folder, "remote", "add", "origin", str(bare))
    run_git(checkout.folder, "fetch", "-q", "origin")
    run_git(checkout.folder, "branch", "-q", "--set-upstream-to=origin/main", "main")
    return checkout


@pytest.fixture
def unit(cluster: Path, tmp_path: Path) -> Iterator[str]:
    """The unit of the one environment, as an object of the cluster."""
    url = f"file://{tmp_path / 'origin.git'}"
    with applied(cluster, cloneset("v1", name="prodweb")):
        send(
            cluster,
            _request("create", "GitSource", "shop", {"url": url, "ref": {"branch": "main"}}),
            _request(
                "create", "Unit", "prod", {"sourceRef": {"name": "shop"}, "path": "apps/prod"}
            ),
        )
        yield "shop/prod"
        send(cluster, _request("delete", "Unit", "prod"), _request("delete", "GitSource", "shop"))


COMMANDS = {
    "plan": ["plan", "-o", "json"],
    "drift": ["drift", "-o", "json"],
    "promote": ["promote", "prodweb", "--updated", "50%", "--print", "--force", "-o", "json"],
    "rollback": ["rollback", "prodweb", "--print", "--force", "-o", "json"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_units_of_the_cluster_count(
    gk: Caller, here: Checkout, cluster: Path, unit: str, name: str
) -> None:
    ended = gk(*COMMANDS[name], "--kubeconfig", str(cluster), cwd=here.folder, **WHO)
    assert ended.code in {0, 1}, ended.err
    assert "default/repository" not in ended.out + ended.err
    assert "apps/staging" not in ended.out
    if name in {"promote", "rollback"}:
        assert (ended.obj["unit"], ended.obj["file"]) == (unit, "apps/prod/c.yaml")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_repository_that_no_unit_follows_is_not_taken_for_one(
    gk: Caller, checkout: Checkout, cluster: Path, unit: str, name: str
) -> None:
    checkout.commit("one", {"c.yaml": cloneset("v1", name="prodweb")})
    ended = gk(*COMMANDS[name], "--kubeconfig", str(cluster), cwd=checkout.folder, **WHO)
    assert (ended.code, "GK7049" in ended.err) == (2, True), ended.err
    assert unit in ended.err


def test_a_configuration_in_the_repository_has_the_last_word(
    gk: Caller, here: Checkout, cluster: Path, unit: str
) -> None:
    head = "apiVersion: gitkruise.io/v1alpha1\n"
    config = f"{head}kind: GitSource\nmetadata: {{name: s}}\nspec: {{url: .}}\n---\n{head}"
    config += "kind: Unit\nmetadata: {name: u}\nspec: {sourceRef: {name: s}, path: apps/staging}\n"
    here.commit("configured", {"gitkruise.yaml": config})
    words = ["rollback", "prodweb", "--dry-run", "--force", "-o", "json"]
    run_git(here.folder, "push", "-q", "origin", "main")
    ended = gk(*words, "--kubeconfig", str(cluster), cwd=here.folder, **WHO)
    assert ended.obj["unit"] == "default/u", (unit, ended.err)


def test_the_status_of_a_unit_is_its_record_where_no_repository_has_one(
    gk: Caller, cluster: Path, tmp_path: Path
) -> None:
    spec = {"sourceRef": {"name": "nowhere"}, "path": "apps/prod"}
    condition = {
        "type": "Ready", "status": "False", "reason": "BuildFailed",
        "message": "GK1203: unknown field", "lastTransitionTime": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    status = {
        "phase": "Rejected", "lastAttemptedRevision": f"main@sha1:{'3' * 40}",
        "conditions": [condition],
    }  # fmt: skip
    unit_status = ApiRequest(
        verb="patch", resource=ResourceRef("gitkruise.io", "v1alpha1", "units"), namespace="shop",
        name="prod", body={"status": status}, content_type="application/merge-patch+json",
        subresource="status",
    )  # fmt: skip
    marks = {"commit": "2" * 40, "path": "c.yaml:1", "unit-ref": "shop/prod"}
    at = ("--kubeconfig", str(cluster))
    with applied(cluster, cloneset("v1", name="prodweb"), **marks):
        send(cluster, _request("create", "Unit", "prod", spec), unit_status)
        shown = gk("status", *at, "--fail-on", "rejected", cwd=tmp_path)
        units = gk("get", "units", "-n", "shop", "-o", "json", *at, cwd=tmp_path).obj["items"]
        why = gk("why", "prodweb", "-n", "shop", *at, cwd=tmp_path)
        send(cluster, _request("delete", "Unit", "prod"))
    assert "! Rejected  unit shop/prod at 3333333\n  GK1203: unknown field" in shown.out
    assert shown.out.startswith("cluster sandbox\n"), "no repository is named"
    assert shown.out.endswith("Next: kubectl describe unit prod -n shop\n")
    assert shown.code == 1
    found = {item["name"]: (item["state"], item["message"]) for item in units}
    assert found["prod"] == ("Rejected", "GK1203: unknown field")
    assert "commit 3333333 was rejected, so what it asks is not live: GK1203" in why.out


def test_a_broken_unit_is_named_and_none_is_invented(
    gk: Caller, here: Checkout, cluster: Path
) -> None:
    spec = {"sourceRef": {"name": "nowhere"}, "path": "apps/prod"}
    with applied(cluster, cloneset("v1", name="prodweb")):  # its namespace
        send(cluster, _request("create", "Unit", "broken", spec))
        ended = gk("plan", "--kubeconfig", str(cluster), cwd=here.folder)
        send(cluster, _request("delete", "Unit", "broken"))
    assert (ended.code, "GK7049" in ended.err) == (2, True), ended.err
    assert "shop/broken (broken: GK" in ended.err


def test_a_command_that_why_recommends_works(
    gk: Caller, here: Checkout, cluster: Path, unit: str
) -> None:
    paused = cloneset("v2", name="prodweb").replace("    type:", "    paused: true\n    type:")
    here.commit("paused", {"apps/prod/c.yaml": paused})
    run_git(here.folder, "push", "-q", "origin", "main")
    apply(cluster, paused)
    answer = gk("why", "prodweb", "-n", "shop", "-o", "json", "--kubeconfig", str(cluster))
    (command,) = answer.obj["next"]
    assert command == f"gitkruise resume cloneset/prodweb -n shop --kubeconfig {cluster}"
    words = [*command.split()[1:], "--print", "--force", "-o", "json"]
    ended = gk(*words, cwd=here.folder, **WHO)
    assert (ended.code, ended.obj["unit"]) == (0, unit), ended.err


def test_a_pause_that_git_does_not_name_is_ended_by_the_command_that_why_recommends(
    gk: Caller, here: Checkout, cluster: Path, unit: str
) -> None:
    """A user paused it with kubectl: what git leaves alone stays, until git names it."""
    asked = cloneset("v2", name="prodweb")
    here.commit("asked", {"apps/prod/c.yaml": asked})
    run_git(here.folder, "push", "-q", "origin", "main")
    apply(cluster, asked.replace("    type:", "    paused: true\n    type:"))
    answer = gk("why", "prodweb", "-n", "shop", "-o", "json", "--kubeconfig", str(cluster)).obj
    assert not any("git says" in reason for reason in answer["reasons"])
    (command,) = answer["next"]
    words = [*command.split()[1:], "--print", "--force"]
    ended = gk(*words, cwd=here.folder, **WHO)
    assert (ended.code, "+    paused: false" in ended.out) == (0, True), (unit, ended)


@pytest.mark.parametrize("command", ["plan", "promote"])
def test_commands_that_plans_and_actions_recommend_name_the_cluster(
    gk: Caller, here: Checkout, cluster: Path, unit: str, command: str
) -> None:
    flags = f"--kubeconfig {cluster}"
    words = ["plan"] if command == "plan" else ["promote", "prodweb", "--updated", "50%", "--print"]
    ended = gk(*words, "--kubeconfig", str(cluster), cwd=here.folder, COLUMNS="200", **WHO)
    assert ended.code == 0, (unit, ended.err)
    assert f"gitkruise promote cloneset/prodweb -n shop {flags}" in ended.out
    words = ["promote", "prodweb", "--partition", "80%", "--print"]
    ended = gk(*words, "--kubeconfig", str(cluster), cwd=here.folder, **WHO)
    assert ended.code == 2, (unit, ended.err)
    assert f"gitkruise rollback cloneset/prodweb -n shop {flags}" in ended.err.replace("\n", " ")


UNITS = """apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: shop, namespace: shop}
spec: {url: "file://%s", ref: {branch: main}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: prod, namespace: shop}
spec: {sourceRef: {name: shop}, path: apps/prod}
"""


@pytest.mark.parametrize("name", ["plan", "promote", "rollback"])
def test_units_among_the_manifests_count_without_a_cluster(
    gk: Caller, here: Checkout, tmp_path: Path, name: str
) -> None:
    here.commit("units", {"cluster/units.yaml": UNITS % (tmp_path / "origin.git")})
    run_git(here.folder, "push", "-q", "origin", "main")
    if name == "plan":
        text = cloneset("v3", partition="60%", name="prodweb")
        here.commit("three", {f"apps/{e}/c.yaml": text for e in ("prod", "staging")})
    ended = gk(*COMMANDS[name], cwd=here.folder, **WHO)
    assert ended.code == 0, ended.err
    assert "default/repository" not in ended.out + ended.err
    if name in {"promote", "rollback"}:
        assert (ended.obj["unit"], ended.obj["file"]) == ("shop/prod", "apps/prod/c.yaml")


@pytest.mark.parametrize("followed", ["shop", "second"])
def test_a_second_working_tree_is_of_the_same_repository(
    gk: Caller, here: Checkout, tmp_path: Path, followed: str
) -> None:
    run_git(here.folder, "remote", "remove", "origin")
    here.commit("units", {"cluster/units.yaml": UNITS % (tmp_path / followed)})
    run_git(here.folder, "worktree", "add", "-q", str(tmp_path / "second"))
    assert here.folder == tmp_path / "shop"
    ended = gk("plan", cwd=tmp_path / "second")
    assert ended.code == 0, ended.err
    assert "default/repository" not in ended.out + ended.err


def test_a_unit_that_is_declared_for_two_clusters_has_to_be_chosen(
    gk: Caller, here: Checkout, tmp_path: Path
) -> None:
    text = UNITS % (tmp_path / "origin.git")
    other = text.replace("apps/prod", "apps/staging")
    here.commit("units", {"clusters/a/units.yaml": text, "clusters/b/units.yaml": other})
    ended = gk("plan", cwd=here.folder)
    assert (ended.code, "GK7049" in ended.err) == (2, True), ended.err
    assert "clusters/a/units.yaml" in ended.err
    assert "clusters/b/units.yaml" in ended.err
    assert "--context" in ended.err
