"""Rollback and edits where kustomize sets the field: the place that sets it is edited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.errors import InvalidManifests
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.plumbing.commits import CommitAuthor, format_commit
from gitkruise.git.push.status_branch import edit_tree
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.kustomize_setters import patched_by
from gitkruise.gitops.actions.kustomized import Kustomized, KustomizedFolder
from gitkruise.gitops.actions.rollback import Rollback, compute_rollback, rollback_target
from gitkruise.wire.primitives.paths import get
from tests.git.repos import Origin, make_origin
from tests.gitops.stage import WEB, documents
from tests.worlds import START, cloneset

HEAD: Final = "resources: [../base]\n"
TARGET: Final = "    target: {kind: CloneSet, name: web}\n"
KIND: Final = "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: web}\n"
MERGE: Final = KIND + (
    "spec:\n  template:\n    spec:\n      containers:\n"
    "        - name: app  # ours\n          image: app:%s\n"
)
POINTER: Final = "/spec/template/spec/containers/0/image"
FROM_MAP: Final = (
    "replacements:\n  - source: {kind: ConfigMap, name: versions, fieldPath: data.app%s}\n"
    "    targets:\n      - select: {kind: CloneSet, name: web}\n"
    '        fieldPaths: ["spec.template.spec.containers.[name=app].image"]\n%s'
)
MAP: Final = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: versions}\ndata:\n  app: %s\n"
PART: Final = '        options: {delimiter: ":", index: 1}\n'


def inline(text: str) -> str:
    return "".join(f"      {line}\n" for line in text.splitlines())


# Files below live/ with the version as %s; which of them a rollback edits.
WAYS: Final[Mapping[str, tuple[dict[str, str], str]]] = {
    "merge patch in a file": (
        {"kustomization.yaml": HEAD + "patches:\n  - path: p.yaml\n", "p.yaml": MERGE},
        "p.yaml",
    ),
    "second document of a file": (
        {
            "kustomization.yaml": HEAD + "patchesStrategicMerge: [p.yaml]\n",
            "p.yaml": KIND + "spec: {minReadySeconds: 3}\n---\n" + MERGE,
        },
        "p.yaml",
    ),
    "inline merge patch": (
        {"kustomization.yaml": HEAD + "patches:\n  - patch: |-\n" + inline(MERGE)},
        "kustomization.yaml",
    ),
    "inline merge patch with a target": (
        {"kustomization.yaml": HEAD + "patches:\n  - patch: |\n" + inline(MERGE) + TARGET},
        "kustomization.yaml",
    ),
    "inline JSON patch": (
        {
            "kustomization.yaml": HEAD + "patches:\n  - patch: |-\n"
            f"      - op: replace\n        path: {POINTER}\n        value: app:%s\n" + TARGET
        },
        "kustomization.yaml",
    ),
    "JSON patch in one line": (
        {
            "kustomization.yaml": HEAD + "patches:\n"
            '  - patch: \'[{"op": "replace", "path": "'
            + POINTER
            + '", "value": "app:%s"}]\'\n'
            + TARGET
        },
        "kustomization.yaml",
    ),
    "JSON patch in a file": (
        {
            "kustomization.yaml": HEAD + "patches:\n  - path: p.yaml\n" + TARGET,
            "p.yaml": f"- op: add\n  path: {POINTER}\n  value: app:%s\n",
        },
        "p.yaml",
    ),
    "JSON patch of a whole container": (
        {
            "kustomization.yaml": HEAD + "patchesJson6902:\n  - path: p.json\n"
            "    target: {group: apps.kruise.io, version: v1beta1, kind: CloneSet, name: web}\n",
            "p.json": '[{"op": "replace", "path": "/spec/template/spec/containers/0",\n'
            '  "value": {"name": "app",\n    "image": "app:%s"}}]\n',
        },
        "p.json",
    ),
    "the last of two patches": (
        {
            "kustomization.yaml": HEAD + "patches:\n  - path: other.yaml\n  - path: p.yaml\n",
            "other.yaml": MERGE.replace("%s", "v9"),
            "p.yaml": MERGE,
        },
        "p.yaml",
    ),
    "replacement from a resource": (
        {
            "kustomization.yaml": "resources: [../base, map.yaml]\n" + FROM_MAP % ("", ""),
            "map.yaml": MAP.replace("%s", "app:%s"),
        },
        "map.yaml",
    ),
    "replacement of a part": (
        {
            "kustomization.yaml": "resources: [../base, map.yaml]\n" + FROM_MAP % ("", PART),
            "map.yaml": MAP,
        },
        "map.yaml",
    ),
    "replacement from a generated map": (
        {
            "kustomization.yaml": HEAD + "configMapGenerator:\n  - name: versions\n"
            "    literals:\n      - app=%s\n" + FROM_MAP % ("", PART)
        },
        "kustomization.yaml",
    ),
    "replacement in a file": (
        {
            "kustomization.yaml": "resources: [../base, map.yaml]\n"
            "replacements:\n  - path: r.yaml\n",
            "r.yaml": (FROM_MAP % ("", PART)).partition("\n")[2],
            "map.yaml": MAP,
        },
        "map.yaml",
    ),
    "name prefix": (
        {
            "kustomization.yaml": HEAD + "namePrefix: my-\npatches:\n  - path: p.yaml\n",
            "p.yaml": MERGE,
        },
        "p.yaml",
    ),
    "component": (
        {
            "kustomization.yaml": HEAD + "components: [../part]\n",
            "../part/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\n"
            "kind: Component\npatches:\n  - path: p.yaml\n",
            "../part/p.yaml": MERGE,
        },
        "../part/p.yaml",
    ),
}
QUICK: Final = {"merge patch in a file", "inline JSON patch", "replacement of a part"}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl")]


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return make_origin(tmp_path)


@pytest.fixture
def repository(origin: Origin) -> Iterator[Repository]:
    with Repository.open(str(origin.bare)) as opened:
        yield opened


def below(name: str) -> str:
    return name.removeprefix("../") if name.startswith("../") else f"live/{name}"


def commit(origin: Origin, files: Mapping[str, str], version: str) -> str:
    written: dict[str, str | None] = {
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "base/web.yaml": documents(cloneset("web", 4, "app:base")),
    }
    written |= {below(name): text.replace("%s", version) for name, text in files.items()}
    return origin.commit(written, version)


def rendered(repository: Repository, tip: str, files: Mapping[str, bytes], key: Any) -> Any:
    """The object once `files` are committed on top of `tip`."""
    tree = edit_tree(repository, repository.tree_id(tip), files, [])
    author = CommitAuthor(name="t", email="t")
    after = repository.write_object("commit", format_commit(tree, [tip], author, START, "x"))
    kustomized = Kustomized.of(repository, after, KustomizedFolder("live"))
    assert kustomized is not None
    document = kustomized.document(after, key)
    assert document is not None
    return document.obj


def back(repository: Repository, now: str, key: Any) -> tuple[str, Rollback, dict[str, bytes]]:
    span = rollback_target(repository, now, key, "base/web.yaml", KustomizedFolder("live"))
    assert span is not None, "git contains no earlier template of it"
    to = span.until.id
    found = compute_rollback(
        repository, key, now=now, to=to, file="base/web.yaml", folder=KustomizedFolder("live")
    )
    return to, found, {found.file: found.data, **found.others}


@pytest.mark.parametrize(
    ("pattern", "means"),
    [("web", True), ("w.b", True), ("we", False), ("b", False), ("a|web", True), ("we[", False),
     ("(?=w)web", False), ("(([a-z]+)+)+!", False)],
)  # fmt: skip
def test_a_target_selects_names_as_kustomize_does(pattern: str, *, means: bool) -> None:
    patch = json.dumps({"spec": {"replicas": 3}})
    target = {"kind": "CloneSet", "name": pattern}
    content = {"patches": [{"patch": patch, "target": target}]}
    (kustomization,) = parse_file(json.dumps(content).encode(), "kustomization.json").documents
    names = {"web", "web" * 80}
    found = patched_by(kustomization, cloneset("web"), names, ("spec", "replicas"), lambda _: ())
    assert (found is not None) is means


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[] if way in QUICK else pytest.mark.slow) for way in WAYS]
)
def test_the_place_that_sets_the_image_is_put_back(
    origin: Origin, repository: Repository, way: str
) -> None:
    files, edited = WAYS[way]
    key = WEB._replace(name="my-web") if way == "name prefix" else WEB
    good = commit(origin, files, "v1")
    bad = commit(origin, files, "v2")
    to, found, changed = back(repository, bad, key)
    assert to == good
    assert {f: d.decode() for f, d in changed.items()} == {
        below(edited).replace("live/../", ""): files[edited].replace("%s", "v1")
    }
    assert [(c.path[-1], c.after) for c in found.fields] == [("image", "app:v1")]
    after = rendered(repository, bad, changed, key)
    assert get(after, "spec", "template", "spec", "containers", 0, "image") == "app:v1"


@pytest.mark.slow
@pytest.mark.parametrize("inlined", [False, True], ids=["file", "inline"])
def test_a_partition_of_a_patch_goes_back_there(
    origin: Origin, repository: Repository, *, inlined: bool
) -> None:
    patch = (
        KIND
        + 'spec:\n  updateStrategy:\n    rollingUpdate:\n      partition: "%s"  # of this cluster\n'
    )
    files = {"kustomization.yaml": HEAD + "patches:\n  - path: p.yaml\n", "p.yaml": patch}
    if inlined:
        files = {"kustomization.yaml": HEAD + "patches:\n  - patch: |-\n" + inline(patch)}
    images = "images: [{name: app, newTag: %s}]\n"
    files["kustomization.yaml"] += images.replace("%s", "v1")
    commit(origin, files, "0")
    files["kustomization.yaml"] = files["kustomization.yaml"].replace("v1}", "v2}")
    now = commit(origin, files, "75%")
    _, found, changed = back(repository, now, WEB)
    after = rendered(repository, now, changed, WEB)
    assert get(after, "spec", "updateStrategy", "rollingUpdate", "partition") == 0
    assert get(after, "spec", "template", "spec", "containers", 0, "image") == "app:v1"
    assert "base/web.yaml" not in changed
    assert len(found.fields) == 2


@pytest.mark.slow
def test_what_came_or_went_with_a_patch_is_refused_with_its_place(
    origin: Origin, repository: Repository
) -> None:
    head = HEAD + "patches:\n  - path: p.yaml\n"
    commit(origin, {"kustomization.yaml": head, "p.yaml": MERGE}, "v1")
    extra = MERGE + "          env:\n            - {name: A, value: b}\n"
    now = commit(origin, {"kustomization.yaml": head, "p.yaml": extra}, "v2")
    with pytest.raises(InvalidManifests, match="GK3602") as caught:
        back(repository, now, WEB)
    (finding,) = caught.value.findings
    assert (finding.places[0].file, finding.places[0].line > 0) == ("live/p.yaml", True)
    assert "next" in dict(finding.notes)


def test_a_folded_patch_is_refused_with_its_line(origin: Origin, repository: Repository) -> None:
    folded = "patches:\n  - patch: >-\n      - {op: replace, path: " + POINTER + ",\n"
    folded += '      value: "app:%s"}\n' + TARGET
    commit(origin, {"kustomization.yaml": HEAD + folded}, "v1")
    now = commit(origin, {"kustomization.yaml": HEAD + folded}, "v2")
    with pytest.raises(InvalidManifests, match="GK3602") as caught:
        back(repository, now, WEB)
    (place,) = caught.value.findings[0].places
    assert (place.file, place.line) == ("live/kustomization.yaml", 3)


@pytest.mark.slow
def test_a_template_in_the_base_goes_back_by_its_lines(
    origin: Origin, repository: Repository
) -> None:
    files = {"kustomization.yaml": HEAD + "patches:\n  - path: p.yaml\n", "p.yaml": MERGE}
    good = commit(origin, files, "v1")
    obj = cloneset("web", 4, "app:base")
    obj["spec"]["template"]["metadata"]["annotations"] = {"a": "b"}
    text = documents(obj)
    new = {name: body.replace("%s", "v2") for name, body in files.items()}
    now = origin.commit({"base/web.yaml": text} | {below(n): t for n, t in new.items()})
    to, _, changed = back(repository, now, WEB)
    assert to == good
    assert sorted(changed) == ["base/web.yaml", "live/p.yaml"]
    template = get(rendered(repository, now, changed, WEB), "spec", "template")
    assert "annotations" not in template["metadata"]
    assert template["spec"]["containers"][0]["image"] == "app:v1"


@pytest.mark.slow
@pytest.mark.parametrize("folder", [None, KustomizedFolder("live")], ids=["plain", "kustomize"])
def test_a_commit_that_is_no_yaml_is_stepped_over(
    origin: Origin, repository: Repository, folder: KustomizedFolder | None
) -> None:
    files = {"kustomization.yaml": HEAD}
    good = commit(origin, files, "v1")
    bad = origin.commit({"base/web.yaml": "a: ["}, "broken")
    now = origin.commit({"base/web.yaml": documents(cloneset("web", 4, "app:v2"))}, "fixed")
    span = rollback_target(repository, now, WEB, "base/web.yaml", folder)
    assert span is not None
    assert span.until.id == good
    with pytest.raises(InvalidManifests, match=r"web\.yaml"):
        compute_rollback(repository, WEB, now=now, to=bad, file="base/web.yaml", folder=folder)
