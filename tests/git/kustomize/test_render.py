"""Kustomizations are rendered from the object database alone, and every object keeps its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.errors import InvalidManifests, SourceFailed
from gitkruise.git.kustomize import render
from gitkruise.git.kustomize.render import Renderer
from gitkruise.git.manifests.reader import PLAIN, ParseCache, read_desired
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin

pytestmark = pytest.mark.slow

WEB = """apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: web
spec:
  replicas: 3
"""
BASE = {
    "base/kustomization.yaml": "resources: [web.yaml]\nconfigMapGenerator:\n"
                               "- name: settings\n  literals: [a=b]\n",
    "base/web.yaml": WEB,
    "prod/kustomization.yaml": "namePrefix: prod-\nresources:\n- ../base\n"
                               "patches:\n- path: replicas.yaml\n",
    "prod/replicas.yaml": WEB.replace("3", "10"),
}  # fmt: skip


@pytest.mark.usefixtures("kubectl")
def test_an_overlay_is_rendered_with_its_bases(origin: Origin, repository: Repository) -> None:
    manifests = read_desired(repository, origin.commit(BASE), "prod").checked()
    objects = {d.obj["kind"]: d for d in manifests.documents}
    web, settings = objects["CloneSet"], objects["ConfigMap"]
    assert (web.obj["metadata"]["name"], web.obj["spec"]["replicas"]) == ("prod-web", 10)
    assert str(web.place(("spec", "replicas"))) == "base/web.yaml:6:13"
    assert str(settings.place()).startswith("base/kustomization.yaml:3")
    assert manifests.inputs == ("prod", "base")


@pytest.mark.usefixtures("kubectl")
def test_equal_content_is_rendered_once(origin: Origin, repository: Repository) -> None:
    cache = ParseCache()
    first = read_desired(repository, origin.commit(BASE), "prod", cache=cache)
    second = read_desired(repository, origin.commit({"other": "x"}), "prod", cache=cache)
    third = origin.commit(
        {"base/web.yaml": WEB.replace("name: web", "name: web\n  labels: {a: b}")}
    )
    changed = read_desired(repository, third, "prod", cache=cache)
    assert first.tree == second.tree != changed.tree
    assert first.documents[0] is second.documents[0]


@pytest.mark.usefixtures("kubectl")
def test_a_build_error_names_its_folder(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({**BASE, "prod/replicas.yaml": WEB.replace("web", "nope")})
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit, "prod")
    (finding,) = caught.value.findings
    assert finding.code == "GK3403"
    assert "/tmp" not in finding.message


# What a program writes to standard error, and what is said of it.
ERRORS = [
    ("kustomize", "Error: no matches for Id x\n", "no matches for Id x"),
    ("kubectl", "# Warning: 'commonLabels' is deprecated.\nerror: no\n", "no"),
    (
        "kubectl",
        'E1129 07:15:06.32   16665 run.go:72] "command failed" err="a: \\"b\\""\n',
        'a: "b"',
    ),
    (
        "kubectl",
        'E1129 07:15:06.32 7 run.go:72] "command failed" err=<\n\tFound two\n >\n',
        "Found two",
    ),
    ("kubectl", "", "nothing"),
]


@pytest.mark.parametrize(("name", "output", "words"), ERRORS)
def test_a_build_error_has_the_words_of_the_program_alone(
    origin: Origin, repository: Repository, tmp_path: Path, name: str, output: str, words: str
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "said").write_text(output)
    (folder / name).write_text(f"#!/bin/sh\n/bin/cat {folder}/said >&2\nexit 1\n")
    (folder / name).chmod(0o755)
    commit = origin.commit(BASE)
    with pytest.raises(InvalidManifests) as caught:
        Renderer(repository, ParseCache(), search=str(folder)).render(commit, "prod")
    (finding,) = caught.value.findings
    assert finding.message == f"kustomize cannot build prod: {words}"
    verb = "build" if name == "kustomize" else "kustomize"
    assert finding.notes == (("next", f"correct it, and try: {name} {verb} prod"),)


REFUSED = [
    ("remote", "resources: ['https://example.com/x.yaml']\n", "GK3402", "a:1:13"),
    ("remote-git", "resources:\n- github.com/x/y//base?ref=v1\n", "GK3402", "a:2:3"),
    ("remote-ssh", "bases: ['git@example.com:x/y']\n", "GK3402", "a:1:9"),
    ("missing", "resources: [gone.yaml]\n", "GK3404", "a:1:13"),
    ("outside", "resources: [../../x]\n", "GK3404", "a:1:13"),
    ("helm", "helmCharts: []\n", "GK3405", "a:1:1"),
    ("yaml", "resources: [a\n", "GK1101", "a:2:1"),
    ("list", "- a\n", "GK3403", "a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "where"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_kustomization_is_judged_before_anything_runs(
    origin: Origin, repository: Repository, text: str, code: str, where: str
) -> None:
    commit = origin.commit({"app/kustomization.yaml": text})
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit, "app")
    (finding,) = caught.value.findings
    assert finding.code == code
    assert str(finding.places[0]) == where.replace("a", "app/kustomization.yaml", 1)


def test_a_link_in_a_kustomization_is_refused(origin: Origin, repository: Repository) -> None:
    link, text = origin.blob(b"/etc/passwd"), origin.blob(b"resources: [x.yaml]\n")
    commit = origin.plant(f"120000 blob {link}\tx.yaml\n100644 blob {text}\tkustomization.yaml\n")
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit)
    (finding,) = caught.value.findings
    assert finding.code == "GK3011"
    # It is no use to list it in an ignore file: a renderer gets the whole folder.
    assert finding.notes == (("next", "commit plain files in its place"),)


def test_without_a_program_the_error_says_what_to_install(
    origin: Origin, repository: Repository, tmp_path: Path
) -> None:
    commit = origin.commit(BASE)
    with pytest.raises(SourceFailed) as caught:
        Renderer(repository, ParseCache(), search=str(tmp_path)).render(commit, "prod")
    (finding,) = caught.value.findings
    assert finding.code == "GK3401"
    assert "install kubectl or kustomize" in dict(finding.notes)["next"]


def test_plain_reading_can_be_asked_for(origin: Origin, repository: Repository) -> None:
    manifests = read_desired(repository, origin.commit(BASE), "base", rendering=PLAIN).checked()
    assert [d.obj["kind"] for d in manifests.documents] == ["CloneSet"]


def program(folder: Path, script: str) -> str:
    """A folder with `script` as its kustomize."""
    folder.mkdir()
    (folder / "kustomize").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "kustomize").chmod(0o755)
    return str(folder)


SHOWS_ITSELF = """\
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n'
printf '  http: %s\n  https: %s\n  path: %s\n' "$HTTP_PROXY" "$HTTPS_PROXY" "$PATH"
printf '  config: %s\n  secret: "%s"\n  words: "%s"\n' "$KUBECONFIG" "$CANARY" "$1"
"""


def test_the_program_has_no_network_no_home_and_no_secrets(
    origin: Origin, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "hunter2")
    renderer = Renderer(repository, ParseCache(), search=program(tmp_path / "bin", SHOWS_ITSELF))
    (document,) = renderer.render(origin.commit(BASE), "prod").parsed.documents
    assert document.obj["data"] == {
        "http": "http://127.0.0.1:9", "https": "http://127.0.0.1:9", "path": "/nonexistent",
        "config": "/dev/null", "secret": "", "words": "build",
    }  # fmt: skip


LIMITS = [
    ("time", "while :; do :; done", "RENDER_S", 0.3, "GK3406"),
    ("output", "while :; do echo 'a: b'; done", "BYTES_MAX", 1_000_000, "GK3406"),
    ("memory", "/usr/bin/head -c 200000000 /dev/zero | /usr/bin/tail -c 150000000", "MEMORY_MIB",
     64, "GK3403"),
    ("what it leaves behind", "(/bin/sleep 1000 &) ; exit 3", "RENDER_S", 0.5, "GK34"),
]  # fmt: skip


@pytest.mark.parametrize("row", LIMITS, ids=[row[0] for row in LIMITS])
def test_the_program_has_limits(
    origin: Origin, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    row: tuple[str, str, str, float, str],
) -> None:  # fmt: skip
    _, script, limit, value, code = row
    commit = origin.commit(BASE)
    monkeypatch.setattr(render, limit, value)
    search = program(tmp_path / "bin", script)
    with pytest.raises(InvalidManifests) as caught:
        Renderer(repository, ParseCache(), search=search).render(commit, "prod")
    assert caught.value.findings[0].code.startswith(code)
