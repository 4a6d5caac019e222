"""Rollback where a kustomization sets the image: its line is put back, not that of the object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import InvalidManifests
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.kustomized import KustomizedFolder
from gitkruise.gitops.actions.rollback import compute_rollback, rollback_target
from tests.git.repos import Origin, make_origin
from tests.gitops.stage import WEB, documents
from tests.worlds import cloneset

BASE = "resources: [web.yaml]\n"
HEAD = "# the shop\nresources: [../base]\nimages:\n  - name: app\n"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl")]


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return make_origin(tmp_path)


def commit(origin: Origin, images: str, partition: Any = None, base: str = BASE) -> str:
    """Commit a base, and an overlay with `images`."""
    rolling = {} if partition is None else {"partition": partition}
    files: dict[str, str | None] = {
        "base/kustomization.yaml": base,
        "base/web.yaml": documents(cloneset("web", 4, "app:base", **rolling)),
        "live/kustomization.yaml": HEAD + images,
    }
    return origin.commit(files, images)


def back(origin: Origin, now: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the commit to go back to, the files to write, and what changes in the object."""
    with Repository.open(str(origin.bare)) as repository:
        span = rollback_target(repository, now, WEB, "base/web.yaml", KustomizedFolder("live"))
        assert span is not None, "git contains no earlier template of it"
        found = compute_rollback(
            repository,
            WEB,
            now=now,
            to=span.until.id,
            file="base/web.yaml",
            folder=KustomizedFolder("live"),
        )
    files = {found.file: found.data.decode(), **{f: d.decode() for f, d in found.others.items()}}
    changed = {".".join(map(str, c.path)): c.after for c in found.fields}
    return span.until.id, files, changed


@pytest.mark.parametrize(
    ("old", "new", "image"),
    [
        ("    newTag: v1\n", "    newTag: v2\n", "app:v1"),
        ('    newTag: "1.10"\n', '    newTag: "1.11"\n', "app:1.10"),
        ("    newName: r/app\n", "    newName: r/other\n", "r/app:base"),
        ("    digest: sha256:aa\n", "    digest: sha256:bb\n", "app@sha256:aa"),
    ],
    ids=["tag", "number", "name", "digest"],
)
def test_the_line_that_sets_the_image_is_put_back(
    origin: Origin, old: str, new: str, image: str
) -> None:
    good = commit(origin, old)
    to, files, changed = back(origin, commit(origin, new))
    assert to == good
    assert files == {"live/kustomization.yaml": HEAD + old}
    assert changed == {"spec.template.spec.containers.0.image": image}


def test_the_partition_goes_back_in_the_same_commit(origin: Origin) -> None:
    commit(origin, "    newTag: v1\n")
    _, files, changed = back(origin, commit(origin, "    newTag: v2\n", "75%"))
    assert sorted(files) == ["base/web.yaml", "live/kustomization.yaml"]
    assert changed["spec.updateStrategy.rollingUpdate.partition"] == 0
    assert changed["spec.template.spec.containers.0.image"] == "app:v1"


def test_the_innermost_kustomization_counts_too(origin: Origin) -> None:
    inner = BASE + "images: [{name: app, newTag: v%d}]\n"
    good = commit(origin, "    newName: r/app\n", base=inner % 1)
    to, files, changed = back(origin, commit(origin, "    newName: r/app\n", base=inner % 2))
    assert (to, files) == (good, {"base/kustomization.yaml": inner % 1})
    assert changed == {"spec.template.spec.containers.0.image": "r/app:v1"}


@pytest.mark.slow
def test_an_entry_that_is_new_gets_the_tag_that_the_object_had(origin: Origin) -> None:
    commit(origin, "    newName: app\n")
    _, files, changed = back(origin, commit(origin, "    newTag: v2\n"))
    assert files == {"live/kustomization.yaml": HEAD + "    newTag: base\n"}
    assert changed == {"spec.template.spec.containers.0.image": "app:base"}


@pytest.mark.slow
def test_an_entry_that_sets_another_field_is_not_guessed(origin: Origin) -> None:
    commit(origin, "    newTag: v1\n")
    with pytest.raises(InvalidManifests, match="GK3602: cannot set image app here") as caught:
        back(origin, commit(origin, "    digest: sha256:aa\n"))
    (place,) = caught.value.findings[0].places
    assert (place.file, place.line) == ("live/kustomization.yaml", 4)
