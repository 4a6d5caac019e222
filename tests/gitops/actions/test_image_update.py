"""Newer tags are written where references to the image are written, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitkruise.errors import DiagnosticError, NothingToDo
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.image_update import (
    ImageUpdate,
    compute_update,
    updates_images_of,
)
from gitkruise.gitops.images.references import references_to
from gitkruise.gitops.images.survey import ImageState
from gitkruise.gitops.images.tags import SeenTags
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import (
    Config,
    GitSource,
    GitSourceSpec,
    Reference,
    Render,
    Substitute,
    Unit,
    UnitSpec,
)
from gitkruise.model.gitops.image_policy import (
    FollowedImage,
    ImagePolicy,
    SemverPolicy,
    choose_tag,
)
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.repos import Origin, make_origin, run_git
from tests.worlds import START

RANGE = ImagePolicy(semver=SemverPolicy(range="1.x"))
WEB = FollowedImage(repository="registry.example.com/shop/web", policy=RANGE)
PROXY = FollowedImage(repository="nginx", policy=RANGE)
MANIFESTS = """\
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}  # the shop
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers:
        - {name: migrate, image: "registry.example.com/shop/web:1.0.0"}
      containers:
        - name: web
          image: registry.example.com/shop/web:1.0.0  # our own
        - name: proxy
          image: docker.io/library/nginx:1.2.0
        - name: admin
          image: registry.example.com/shop/web-admin:1.0.0
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: report, image: 'registry.example.com/shop/web:1.1.0'}
"""
SIDECARS = """\
apiVersion: apps.kruise.io/v1alpha1
kind: SidecarSet
metadata: {name: mesh}
spec:
  selector: {matchLabels: {app: web}}
  containers:
    - {name: proxy, image: nginx}
"""
PINNED = f"registry.example.com/shop/web@sha256:{'0' * 64}"


@dataclass
class Shop:
    """A repository with one unit."""

    origin: Origin
    unit: Unit

    def updated(self, *tags: str, images: Sequence[FollowedImage] = (WEB, PROXY)) -> ImageUpdate:
        """The update of the images, whose registries all have these tags."""
        source = GitSource("shop", "src", GitSourceSpec(url="."))
        config = Config({"shop/src": source}, {self.unit.id: self.unit})
        commit = run_git(self.origin.bare, "rev-parse", "main")
        with Repository.open(str(self.origin.bare)) as repository:
            side = read_side(repository, commit, config, load_catalog(), Gates())
            assert not side.findings
            states = [
                ImageState(
                    unit=self.unit,
                    image=image,
                    references=tuple(references_to(image.repository, side.objects)),
                    seen=SeenTags(len(tags), choose_tag(tags, image), START),
                )
                for image in images
            ]
            return compute_update(repository, commit, self.unit, states)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    origin = make_origin(tmp_path)
    origin.commit({"a.yaml": MANIFESTS, "mesh.yaml": SIDECARS})
    unit = Unit("shop", "web", UnitSpec(source_ref=Reference("src"), images=(WEB, PROXY)))
    return Shop(origin, unit)


def test_every_reference_of_the_unit_is_edited_and_nothing_else(shop: Shop) -> None:
    found = shop.updated("1.2.0", "1.1.0", "2.0.0")
    web = "registry.example.com/shop/web:"
    assert {name: data.decode() for name, data in found.files.items()} == {
        "a.yaml": MANIFESTS.replace(f"{web}1.0.0", f"{web}1.2.0").replace("1.1.0", "1.2.0"),
        "mesh.yaml": SIDECARS.replace("image: nginx", "image: nginx:1.2.0"),
    }
    assert {str(key): len(fields) for key, fields in found.fields.items()} == {
        "CloneSet shop/web": 2, "CronJob shop/report": 1, "SidecarSet mesh": 1,
    }  # fmt: skip
    assert found.message().splitlines() == [
        "web: web 1.2.0, nginx 1.2.0", "",
        "registry.example.com/shop/web 1.0.0, 1.1.0 → 1.2.0", "nginx no tag → 1.2.0", "",
        "Gitkruise-Action: update-images", "Gitkruise-Unit: shop/web",
    ]  # fmt: skip


def test_what_git_has_already_is_no_update(shop: Shop) -> None:
    with pytest.raises(NothingToDo, match="git has the tags that the policies choose"):
        shop.updated("1.0.0", "1.1.0", images=(FollowedImage(repository="x.io/y", policy=RANGE),))
    found = shop.updated("1.1.0", images=(WEB,))
    assert [str(key) for key in found.fields] == ["CloneSet shop/web"]


def test_a_digest_is_left_alone(shop: Shop) -> None:
    text = MANIFESTS.replace("registry.example.com/shop/web:1.0.0  #", f"{PINNED}  #")
    shop.origin.commit({"a.yaml": text})
    found = shop.updated("1.1.0", images=(WEB,))
    assert PINNED in found.files["a.yaml"].decode()
    assert [change.before for change in found.images] == [("1.0.0",)]


def test_a_tag_that_is_a_variable_is_refused_at_its_line(shop: Shop) -> None:
    given = Render(substitute=Substitute(vars={"TAG": "1.0.0"}))
    spec = UnitSpec(source_ref=Reference("src"), images=(WEB,), render=given)
    shop.unit = Unit("shop", "web", spec)
    shop.origin.commit({"a.yaml": MANIFESTS.replace("shop/web:1.0.0  #", "shop/web:${TAG}  #")})
    with pytest.raises(DiagnosticError, match="GK3602") as caught:
        shop.updated("1.2.0", images=(WEB,))
    assert str(caught.value.findings[0].places[0]) == "a.yaml:14:18"


def test_a_commit_is_known_by_its_trailers(shop: Shop) -> None:
    found = shop.updated("1.2.0")
    commit = shop.origin.commit({}, found.message())
    other = Unit("shop", "other", shop.unit.spec)
    with Repository.open(str(shop.origin.bare)) as repository:
        assert updates_images_of(repository, commit, shop.unit)
        assert not updates_images_of(repository, commit, other)


@pytest.mark.slow
@pytest.mark.usefixtures("kubectl")
def test_a_kustomization_is_edited_where_it_sets_the_tag(shop: Shop) -> None:
    overlay = (
        "resources: [../base]\nimages:\n  - name: registry.example.com/shop/web\n"
        "    newTag: 1.0.5  # ours\n"
    )
    shop.origin.commit(
        {
            "a.yaml": None, "mesh.yaml": None,
            "base/kustomization.yaml": "resources: [a.yaml, mesh.yaml]\n",
            "base/a.yaml": MANIFESTS, "base/mesh.yaml": SIDECARS,
            "live/kustomization.yaml": overlay,
        }
    )  # fmt: skip
    spec = UnitSpec(source_ref=Reference("src"), images=(WEB, PROXY), path="live")
    shop.unit = Unit("shop", "web", spec)
    found = shop.updated("1.1.0", "1.3.0")
    assert {name: data.decode() for name, data in found.files.items()} == {
        "live/kustomization.yaml": overlay.replace("1.0.5", "1.3.0"),
        "base/a.yaml": MANIFESTS.replace("nginx:1.2.0", "nginx:1.3.0"),
        "base/mesh.yaml": SIDECARS.replace("image: nginx", "image: nginx:1.3.0"),
    }
