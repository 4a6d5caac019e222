"""Commands about a unit whose objects are in a remote base: plan, and actions on its overlay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import Caller, Ended
from tests.cli.shop import cloneset
from tests.git.repos import ENV, make_origin, run_git

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl")]

WHO = {name: value for name, value in ENV.items() if name.startswith("GIT_")}
CONFIG = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: shop}
spec: {url: .}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec:
  sourceRef: {name: src}
  path: app
"""
ALLOWED = "  render: {{kustomize: {{remoteBases: [{{url: '{url}'}}]}}}}\n"
OVERLAY = """\
resources: ['{url}//deploy?ref={ref}']
images:
- name: registry.example.com/checkout
  newTag: {image}
"""
PATCH = """\
patches:
- patch: |-
    apiVersion: apps.kruise.io/v1alpha1
    kind: CloneSet
    metadata: {name: checkout, namespace: shop}
    spec:
      updateStrategy:
        partition: 60%
"""


class Shop:
    """A repository of bases, and a checkout that uses it."""

    def __init__(self, folder: Path, gk: Caller) -> None:
        for name in ("own", "bases"):
            (folder / name).mkdir()
        self.own, self.bases = make_origin(folder / "own"), make_origin(folder / "bases")
        self.url, self._gk = f"file://{self.bases.bare}", gk
        self.tag("v1", cloneset("v1"))
        self.tag("v2", cloneset("v1", replicas=12))

    def tag(self, name: str, text: str) -> None:
        listing = "resources: [checkout.yaml]\n"
        self.bases.commit({"deploy/kustomization.yaml": listing, "deploy/checkout.yaml": text})
        run_git(self.bases.bare, "tag", name, "main")

    def commit(self, ref: str, image: str, more: str = PATCH, config: str = ALLOWED) -> None:
        overlay = OVERLAY.format(url=self.url, ref=ref, image=image) + more
        config = CONFIG + config.format(url=self.url)
        self.own.commit({"gitkruise.yaml": config, "app/kustomization.yaml": overlay}, image)
        run_git(self.own.work, "fetch", "-q")

    def run(self, *words: str) -> Ended:
        return self._gk(*words, cwd=self.own.work, COLUMNS="100", **WHO)

    def overlay(self) -> str:
        return run_git(self.own.bare, "show", "main:app/kustomization.yaml")


@pytest.fixture
def shop(tmp_path: Path, gk: Caller) -> Shop:
    return Shop(tmp_path, gk)


def test_a_plan_shows_what_another_tag_of_a_base_changes(shop: Shop) -> None:
    shop.commit("v1", "v1")
    shop.commit("v2", "v1")
    ended = shop.run("plan")
    assert (ended.code, ended.err) == (0, "")
    assert "replicas  10 → 12" in ended.out
    old, new = (run_git(shop.bases.bare, "rev-parse", f"{tag}^{{commit}}") for tag in ("v1", "v2"))
    based = f"base v1 at {old[:7]} → v2 at {new[:7]} of file://"
    assert f"unit shop/web: {based}" in ended.out
    assert "CloneSet shop/checkout    .remote-bases/" in ended.out


def test_a_base_that_is_not_listed_is_refused_with_the_line_to_add(shop: Shop) -> None:
    shop.commit("v1", "v1", config="")
    ended = shop.run("plan")
    assert ended.code == 3
    assert "error[GK3402]: a remote base is not fetched from" in ended.err
    assert "--> app/kustomization.yaml:1:13" in ended.err
    output = " ".join(ended.err.split())
    assert f"add {{url: {shop.url}}} to render.kustomize.remoteBases" in output


def test_an_action_edits_the_overlay_of_a_remote_base(shop: Shop) -> None:
    shop.commit("v1", "v1")
    shop.commit("v1", "v2")
    ended = shop.run("promote", "checkout", "--partition", "30%", "--yes")
    assert ended.code == 0, ended.err
    assert "partition: 30%" in shop.overlay()
    ended = shop.run("rollback", "checkout", "--to", "HEAD~2", "--yes")
    assert ended.code == 0, ended.err
    assert "newTag: v1" in shop.overlay()


def test_a_field_that_only_the_remote_base_sets_is_not_edited(shop: Shop) -> None:
    shop.commit("v1", "v1", more="")
    before = shop.overlay()
    ended = shop.run("hold", "checkout", "--partition", "30%", "--yes")
    assert ended.code == 3
    assert "error[GK3602]: a remote base sets this field" in ended.err
    assert "next: add a patch to the unit's kustomization" in ended.err
    assert shop.overlay() == before
