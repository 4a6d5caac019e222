"""gitkruise init: what it writes, when it refuses, and that other commands read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import cloneset
from tests.git.repos import run_git

OVERLAY = "resources: [../base]\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A checkout without a commit."""
    folder = tmp_path / "shop"
    (folder / "apps").mkdir(parents=True)
    (folder / "apps" / "checkout.yaml").write_text(cloneset())
    run_git(folder, "init", "--quiet", "--initial-branch=trunk")
    return folder


def commit(shop: Path) -> None:
    run_git(shop, "add", "--all")
    run_git(shop, "commit", "--quiet", "-m", "change")


def test_the_file_is_written_and_other_commands_read_it(gk: Caller, shop: Path) -> None:
    ended = gk("init", cwd=shop / "apps")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.splitlines() == [
        "wrote gitkruise.yaml: 1 unit of branch trunk",
        "  apps   1 object",
        "next:",
        "  gitkruise validate",
        "  git add --all && git commit -m 'gitkruise: follow trunk'",
        "  gitkruise run --config gitkruise.yaml",
    ]
    assert run_git(shop, "status", "--porcelain", "-uall").splitlines() == [
        "?? apps/checkout.yaml", "?? gitkruise.yaml",
    ]  # fmt: skip
    assert gk("validate", cwd=shop).code == 0
    commit(shop)
    planned = gk("plan", "HEAD", "-o", "json", cwd=shop)
    assert planned.code == 0
    assert [change["source"] for change in planned.obj["changes"]] == ["apps/checkout.yaml:1"]


def test_a_file_is_never_replaced(gk: Caller, shop: Path) -> None:
    file = shop / "gitkruise.yaml"
    file.write_text("# mine\n")
    ended = gk("init", cwd=shop)
    assert ended.code == 2
    assert "error[GK7061]: gitkruise.yaml exists" in ended.err
    assert "no file was written" in ended.err
    assert file.read_text() == "# mine\n"
    printed = gk("init", "--print", cwd=shop)
    assert printed.code == 0
    assert "  path: apps\n" in printed.out
    assert printed.err == "  apps   1 object\n"
    assert file.read_text() == "# mine\n"


def test_units_that_are_declared_elsewhere_count(gk: Caller, shop: Path) -> None:
    unit = "apiVersion: gitkruise.io/v1alpha1\nkind: Unit\nmetadata: {name: apps}\n"
    (shop / "unit.yaml").write_text(unit)
    ended = gk("init", cwd=shop)
    assert ended.code == 2
    assert "error[GK7061]: units are declared in unit.yaml" in ended.err
    assert not (shop / "gitkruise.yaml").exists()


def test_a_cluster_gets_one_overlay_of_a_base(gk: Caller, shop: Path) -> None:
    (shop / "apps").rename(shop / "base")
    (shop / "base" / "kustomization.yaml").write_text("resources: [checkout.yaml]\n")
    for name in ("prod", "test"):
        (shop / name).mkdir()
        (shop / name / "kustomization.yaml").write_text(OVERLAY)
    commit(shop)
    ended = gk("init", cwd=shop)
    assert ended.code == 2
    assert "error[GK7062]: prod, test share a base: a cluster gets one of them" in ended.err
    assert "gitkruise init --path prod" in ended.err
    chosen = gk("init", "--path", "test", "--branch", "main", cwd=shop)
    assert chosen.err.splitlines()[:2] == [
        "wrote gitkruise.yaml: 1 unit of branch main", "  test   kustomization",
    ]  # fmt: skip


def test_names_cannot_run_anything_in_the_commands_to_copy(gk: Caller, shop: Path) -> None:
    run_git(shop, "symbolic-ref", "HEAD", "refs/heads/$(id)")
    ended = gk("init", cwd=shop)
    assert "  git add --all && git commit -m 'gitkruise: follow $(id)'" in ended.err.splitlines()
    (shop / "gitkruise.yaml").unlink()
    (shop / "apps").rename(shop / "$(id)")
    (shop / "$(id)" / "kustomization.yaml").write_text("resources: [checkout.yaml]\n")
    for name in ("prod", "test"):
        (shop / name).mkdir()
        (shop / name / "kustomization.yaml").write_text("resources: ['../$(id)']\n")
    (shop / "a b").mkdir()
    (shop / "a b" / "map.yaml").write_text(cloneset(name="other"))
    assert "gitkruise init --path 'a b' --path prod" in gk("init", cwd=shop).err


def test_what_is_in_no_unit_is_named(gk: Caller, shop: Path) -> None:
    (shop / "chart").mkdir()
    (shop / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 1.0.0\n")
    (shop / "map.yaml").write_text(cloneset(name="other"))
    ended = gk("init", cwd=shop)
    assert "not in a unit: . has manifests next to folders that are rendered" in ended.err
    assert "not in a unit: chart is a Helm chart" in ended.err


def test_nothing_to_follow(gk: Caller, shop: Path, tmp_path: Path) -> None:
    (shop / "apps" / "checkout.yaml").write_text("replicas: 1\n")
    (shop / "apps" / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 1.0.0\n")
    ended = gk("init", cwd=shop)
    assert ended.code == 2
    assert "error[GK7062]: the checkout has no folder of manifests" in ended.err
    assert "a Helm chart needs a unit with render.kind: helm: apps" in ended.err
    assert gk("init", "--path", "missing", cwd=shop).code == 4
    outside = gk("init", "--repo", str(tmp_path))
    assert (outside.code, "GK3103" in outside.err) == (4, True)
