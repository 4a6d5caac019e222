"""Commands about units that follow artifacts of a registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import cloneset
from tests.git.repos import ENV, make_origin, run_git

CONFIG = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: app, namespace: shop}
spec: {url: "oci://registry.example/shop/app"}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec: {sourceRef: {name: app}, path: apps}
"""
WHO = {name: value for name, value in ENV.items() if name.startswith("GIT_")}


@pytest.mark.parametrize("verb", ["promote", "hold", "pause", "resume", "rollback"])
def test_units_of_an_artifact_are_not_changed_by_commits(
    gk: Caller, tmp_path: Path, verb: str
) -> None:
    origin = make_origin(tmp_path)
    origin.commit({"gitkruise.yaml": CONFIG, "apps/checkout.yaml": cloneset("v1")}, "release")
    before = run_git(origin.bare, "show-ref")
    ended = gk(verb, "checkout", "--yes", cwd=origin.work, **WHO)
    assert (ended.code, "GK7077" in ended.err) == (2, True), ended.err
    assert "shop/web (oci://registry.example/shop/app)" in ended.err
    assert run_git(origin.bare, "show-ref") == before


def test_a_plan_of_the_files_of_an_artifact_needs_no_registry(gk: Caller, tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    origin.commit({"gitkruise.yaml": CONFIG, "apps/checkout.yaml": cloneset("v1")}, "release")
    origin.commit({"apps/checkout.yaml": cloneset("v2")}, "next")
    ended = gk("plan", cwd=origin.work, **WHO)
    assert ended.code == 0, ended.err
    assert "CloneSet shop/checkout" in ended.out


GIT = """\
---
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: fleet, namespace: shop}
spec: {url: "%s"}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: fleet, namespace: shop}
spec: {sourceRef: {name: fleet}, path: apps}
"""


@pytest.mark.parametrize("kept", ["in the repository", "in a file"])
def test_a_plan_leaves_out_the_units_of_an_artifact_that_is_built_elsewhere(
    gk: Caller, tmp_path: Path, kept: str
) -> None:
    origin = make_origin(tmp_path)
    text = CONFIG.replace("path: apps", "path: .") + GIT % origin.bare
    words: tuple[str, ...] = ()
    files = {"apps/checkout.yaml": cloneset("v1")}
    if kept == "in a file":
        (tmp_path / "config.yaml").write_text(text)
        words = ("--config", str(tmp_path / "config.yaml"))
    else:
        files["gitkruise.yaml"] = text
    origin.commit(files, "release")
    changed = {"apps/checkout.yaml": cloneset("v2"), "b.yaml": cloneset("v2", name="other")}
    commit = origin.commit(changed, "next")
    ended = gk("plan", commit, *words, cwd=origin.work, **WHO)
    assert ended.code == 0, ended.err
    assert "CloneSet shop/checkout" in ended.out
    assert "CloneSet shop/other" not in ended.out


def test_doctor_reads_the_configuration_of_a_directory_without_git(
    gk: Caller, tmp_path: Path
) -> None:
    (tmp_path / "gitkruise.yaml").write_text(CONFIG)
    ended = gk("doctor", "git", "config", "-o", "json", cwd=tmp_path)
    verdicts = [item["verdict"] for item in ended.obj["items"]]
    assert (ended.code, verdicts) == (0, ["warning", "good"])
    assert ended.obj["items"][1]["message"].startswith("1 source, 1 unit")
    (tmp_path / "gitkruise.yaml").write_text("kind: [")
    assert gk("doctor", "config", cwd=tmp_path).code == 1
    (tmp_path / "gitkruise.yaml").unlink()
    assert gk("doctor", "git", cwd=tmp_path).code == 1
