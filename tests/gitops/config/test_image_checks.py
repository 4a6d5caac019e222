"""Images that could never be followed are refused when the configuration is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.config.loader import load_config
from gitkruise.model.gitops.image_policy import OrderPolicy, SemverPolicy

HEAD = """
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: shop}
spec: {url: ., ref: {branch: main}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {name: out, namespace: shop}
spec: {git: {sourceRef: {name: src}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec:
  sourceRef: {name: src}
  sinkRef: {name: out}
  images:
"""
NUMERICAL = "policy: {numerical: {}}, write: none"


def written(folder: Path, *images: str, more: str = "") -> Path:
    path = folder / "gitkruise.yaml"
    path.write_text(HEAD + "".join(f"  - {{{image}}}\n" for image in images) + more)
    return path


def test_names_are_those_of_flux(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "repository: registry.example.com/shop/web, policy: {semver: {range: 1.x}}, write: none,"
        " filterTags: {pattern: '^v(?P<v>.*)$', extract: $v}, interval: 1m, secretRef: {name: r}",
        "repository: localhost:5000/web, policy: {alphabetical: {order: desc}}, write: commit",
        "repository: nginx, policy: {numerical: {}}, write: none",
    )
    one, two, three = load_config(path).units["shop/web"].spec.images
    assert (one.policy.semver, one.filter_tags.extract) == (SemverPolicy(range="1.x"), "$v")
    assert two.policy.alphabetical == OrderPolicy(order="desc")
    assert (three.write, three.interval) == ("none", "5m")


BAD = {
    "a-tag": (f"repository: 'r.io/web:1.0', {NUMERICAL}", "r.io/web:1.0 is not the name"),
    "a-scheme": (f"repository: 'oci://r.io/web', {NUMERICAL}", "is not the name of an image"),
    "http": (
        f"repository: localhost/web, secretRef: {{name: a}}, interval: 1s, {NUMERICAL}",
        "images.0.interval: 1s is less than 10s"),
    "interval": (f"repository: web, interval: often, {NUMERICAL}", "images.0.interval:"),
    "no-policy": ("repository: web, policy: {}, write: none", "an image has one policy"),
    "two-policies": (
        "repository: web, policy: {numerical: {}, alphabetical: {}}, write: none",
        "spec.images.0.policy: an image has one policy"),
    "order": (
        "repository: web, policy: {numerical: {order: up}}, write: none",
        "'up' is not one of ['asc', 'desc']"),
    "range": (
        "repository: web, policy: {semver: {range: new}}, write: none", "version range new"),
    "pattern": (
        f"repository: web, filterTags: {{pattern: '('}}, {NUMERICAL}",
        "error parsing regexp: missing closing ): `(`"),
    "extract": (
        f"repository: web, filterTags: {{extract: $1}}, {NUMERICAL}", "nothing to extract from"),
    "pull-request": (
        "repository: web, policy: {numerical: {}}",
        "spec.images.0.write: Sink out has no forge to open a pull request on"),
    "kustomize": ("name: web, newTag: v1", 'unknown field "name" in Unit spec.images.0'),
}  # fmt: skip


def findings(path: Path) -> tuple[Finding, ...]:
    with pytest.raises(UsageProblem) as caught:
        load_config(path)
    return caught.value.findings


@pytest.mark.parametrize(("image", "words"), BAD.values(), ids=BAD)
def test_a_bad_image_is_refused_where_it_is_written(tmp_path: Path, image: str, words: str) -> None:
    found = findings(written(tmp_path, image))
    assert words in "\n".join(f.message for f in found)
    assert {place.line for f in found for place in f.places} == {HEAD.count("\n") + 1}


def test_one_image_has_one_policy(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"repository: nginx, {NUMERICAL}",
        f"repository: docker.io/library/nginx, {NUMERICAL}",
    )
    (found,) = findings(path)
    assert found.message.endswith("docker.io/library/nginx has a policy already"), found.message


def test_images_of_a_chart_are_not_edited(tmp_path: Path) -> None:
    chart = "  render: {kind: helm}\n"
    written(tmp_path, f"repository: nginx, {NUMERICAL}", more=chart)
    load_config(tmp_path / "gitkruise.yaml")
    path = written(
        tmp_path, "repository: nginx, policy: {numerical: {}}, write: commit", more=chart
    )
    (found,) = findings(path)
    assert "which gitkruise does not edit" in found.message
