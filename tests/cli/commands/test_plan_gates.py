"""A plan says what lets a unit take its commit, or keeps it from that."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.cli.calls import Caller
from tests.git.repos import run_git

UNIT: Final = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: shop}
spec: {url: ., ref: {branch: main}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec: {sourceRef: {name: src}, path: web%s}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: other, namespace: shop}
spec: {sourceRef: {name: src}, path: other, suspend: true, approval: always}
"""
WINDOW: Final = "{kind: allow, schedule: 0 9 * * 1-5, duration: 8h}"
ROWS: Final = {
    "nothing": ("", []),
    "suspended": (
        ", suspend: {by: dana, reason: freeze}",
        ["unit shop/web is suspended by dana (freeze): it applies nothing meanwhile"],
    ),
    "no longer suspended": (", suspend: {until: 2020-01-01T00:00:00Z}", []),
    "windows": (f", windows: [{WINDOW}]", ["unit shop/web takes commits as its window allows"]),
    "two windows": (
        f", windows: [{WINDOW}, {WINDOW}]", ["unit shop/web takes commits as its 2 windows allow"]
    ),
    "approval": (", approval: always", ["unit shop/web waits for approval of each commit"]),
    "approval of risks": (
        ", approval: risky", ["unit shop/web waits for approval if the commit is risky"]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "lines"), ROWS.values(), ids=ROWS)
def test_a_plan_names_what_the_commit_waits_for(
    gk: Caller, tmp_path: Path, spec: str, lines: list[str]
) -> None:
    for folder in ("web", "other"):
        (tmp_path / folder).mkdir()
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {folder}}}\n"
        (tmp_path / folder / "a.yaml").write_text(text)
    (tmp_path / "gitkruise.yaml").write_text(UNIT % spec)
    run_git(tmp_path, "init", "-q", "-b", "main")
    run_git(tmp_path, "add", "-A")
    run_git(tmp_path, "commit", "-qm", "first")
    (tmp_path / "web" / "a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n"
    )
    run_git(tmp_path, "commit", "-qam", "second")
    ended = gk("plan", "--offline", cwd=tmp_path)
    assert ended.code == 0, ended.err
    for line in lines:
        assert line in " ".join(ended.out.split())
    assert ("unit shop/" in ended.out) is bool(lines)
    assert "shop/other" not in ended.out


CLONESET: Final = """\
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: %s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec: {containers: [{name: app, image: "%s"}]}
"""
OLD, NEW, LOST = (
    "registry.example.com/app:v1",
    "registry.example.com/app:v2",
    "registry.invalid/app",
)


@pytest.mark.slow
@pytest.mark.parametrize(("image", "why"), [(NEW, ""), (LOST, ": the plan sees it get stuck")])
def test_a_plan_names_the_unit_that_another_one_waits_for(
    gk: Caller, tmp_path: Path, image: str, why: str
) -> None:
    config = (UNIT % ", dependsOn: [{name: other}]").replace(
        ", suspend: true, approval: always", ""
    )
    (tmp_path / "gitkruise.yaml").write_text(config)
    run_git(tmp_path, "init", "-q", "-b", "main")
    for images in ((OLD, OLD), (NEW, image)):
        for name, one in zip(("web", "other"), images, strict=True):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "a.yaml").write_text(CLONESET % (name, name, name, one))
        run_git(tmp_path, "add", "-A")
        run_git(tmp_path, "commit", "-qm", "change")
    output = " ".join(gk("plan", "--offline", cwd=tmp_path).out.split())
    assert f"unit shop/web takes commits when unit shop/other is ready{why} · " in output
