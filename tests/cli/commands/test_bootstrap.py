"""gitkruise bootstrap: what it commits, when it does nothing, and what it leaves to people."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gitkruise.errors import SourceFailed
from gitkruise.gitops.install.bootstrap import ClusterPath, files, following, reachable
from gitkruise.gitops.install.installer import InstallOptions, manifest_text, manifests
from gitkruise.wire.primitives.paths import get
from tests.cli.calls import Caller
from tests.git.repos import Origin, make_origin, run_git

WORDS = ("bootstrap", "clusters/dev", "--yes")
PLACE = ClusterPath(
    url="https://git.example.com/fleet.git", branch="main", path="clusters/dev",
    namespace="gitkruise-system",
)  # fmt: skip
INSTALL, FOLLOW = PLACE.files


@pytest.mark.slow
def test_the_second_file_is_its_users_once_it_is_there() -> None:
    objects = manifests(InstallOptions(kept_in_git=True))
    first = files(PLACE, objects, {})
    assert sorted(first) == [FOLLOW, INSTALL]
    assert files(PLACE, objects, first) == {}
    assert files(PLACE, objects, {**first, FOLLOW: b"# mine\n"}) == {}
    newer = manifests(InstallOptions(kept_in_git=True, image="gitkruise:later"))
    assert list(files(PLACE, newer, {**first, FOLLOW: b"# mine\n"})) == [INSTALL]


def test_openkruises_definitions_are_brought_and_never_changed() -> None:
    text = files(PLACE, manifests(InstallOptions(kept_in_git=True)), {})[INSTALL]
    words = {
        obj["metadata"]["name"]: get(obj, "metadata", "annotations", "gitkruise.io/apply")
        for obj in yaml.load_all(text, yaml.CSafeLoader)
        if obj["kind"] == "CustomResourceDefinition"
    }
    kept = {name for name, word in words.items() if word == "IfNotPresent"}
    assert kept == {name for name in words if name.endswith(".kruise.io")}
    assert {"clonesets.apps.kruise.io", "imagepulljobs.apps.kruise.io"} <= kept
    assert words["units.gitkruise.io"] is None


def test_a_text_of_several_lines_is_written_as_a_block() -> None:
    objects = manifests(InstallOptions())
    text = manifest_text(objects)
    assert "  gitkruise.yaml: |\n    apiVersion: gitkruise.io/v1alpha1\n    kind: GitSource" in text
    assert "\\n" not in text
    assert [*yaml.load_all(text, yaml.CSafeLoader)] == [dict(obj) for obj in objects]


def test_objects_are_followed_and_no_file_of_the_cluster() -> None:
    objects = manifests(InstallOptions(kept_in_git=True))
    assert all(obj["kind"] != "ConfigMap" for obj in objects)
    (deployment,) = (obj for obj in objects if obj["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][0] == "run"
    assert "--config" not in pod["containers"][0]["args"]
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]} == {"state", "tmp"}


@pytest.mark.parametrize("obj", following(PLACE), ids=lambda obj: obj["kind"])
def test_git_alone_removes_nothing_that_makes_it_follow(obj: dict[str, object]) -> None:
    assert get(obj, "metadata", "annotations", "gitkruise.io/prune") == "Disabled"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://git.example.com/fleet.git", "https://git.example.com/fleet.git"),
        ("git@git.example.com:shop/fleet.git", "git@git.example.com:shop/fleet.git"),
        ("../fleet.git", "/srv/fleet.git"),
        ("/srv/fleet.git", "/srv/fleet.git"),
    ],
)
def test_the_address_that_is_committed(url: str, expected: str) -> None:
    assert reachable(url, Path("/srv/checkout")) == expected


def test_no_token_of_a_remote_is_committed() -> None:
    with pytest.raises(SourceFailed) as refused:
        reachable("https://dana:s3cret@git.example.com/fleet.git", Path("/srv"))
    assert "GK3001" in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    folder = tmp_path / "fleet"
    folder.mkdir()
    made = make_origin(folder)
    for name, value in (("name", "Dana"), ("email", "dana@example.com")):
        run_git(made.work, "config", f"user.{name}", value)
    made.commit({"README.md": "The fleet\n"}, "first")
    return made


@pytest.mark.slow
def test_said_again_it_does_nothing_and_with_other_words_a_commit(
    gk: Caller, origin: Origin, own_cluster: Path
) -> None:
    words = (*WORDS, "--repo", str(origin.work), "--kubeconfig", str(own_cluster))
    looked = gk(*words, "--print")
    assert (
        "which a controller inside the cluster cannot read; next: name a URL with --url"
        in looked.err
    )
    assert (looked.code, run_git(origin.bare, "rev-list", "--count", "main")) == (0, "1")
    first = gk(*words)
    assert first.code == 0, first.err
    assert "created     Unit gitkruise-system/cluster" in first.out
    assert "starts no containers" in first.err  # it is the embedded cluster
    assert "next: gitkruise run --sandbox" in first.err
    assert run_git(origin.bare, "rev-list", "--count", "main") == "2"
    again = gk(*words)
    assert (again.code, "already: nothing to do" in again.err) == (0, True)
    assert run_git(origin.bare, "rev-list", "--count", "main") == "2"
    newer = gk(*words, "--image", "gitkruise:later", "-o", "json")
    assert newer.obj["files"] == [INSTALL]
    assert newer.obj["commit"] == run_git(origin.bare, "rev-parse", "main")
    assert newer.obj["objects"] == []  # git brings them
    other = gk("bootstrap", "clusters/other", "--yes", *words[3:])
    assert (other.code, "GK7046" in other.err) == (2, True)
    assert run_git(origin.bare, "rev-list", "--count", "main") == "3"


@pytest.mark.parametrize("path", ["../up", "/etc", "a\nb"])
def test_a_path_that_leads_elsewhere(gk: Caller, origin: Origin, cluster: Path, path: str) -> None:
    config = ("--kubeconfig", str(cluster))
    ended = gk("bootstrap", path, "--yes", "--repo", str(origin.work), *config)
    assert (ended.code, "GK3010" in ended.err) == (3, True)
