"""gitkruise bootstrap: what it commits, when it does nothing, and what it leaves to people."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
import yaml

from gitkruise.errors import SourceFailed, UsageProblem
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.install.bootstrap import ClusterPath, files, following, reachable
from gitkruise.gitops.install.deploy_key import DeployKey, deploy_key, host_keys
from gitkruise.gitops.install.installer import InstallOptions, manifest_text, manifests
from gitkruise.kube.auth.connection import from_kubeconfig
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.git.keys import ssh_key
from tests.git.plumbing.test_ssh import sshd
from tests.git.repos import Origin, make_origin, run_git
from tests.worlds import SPACE, START, Lab

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
def test_repeated_it_does_nothing_and_with_other_words_a_commit(
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


@pytest.mark.slow
def test_a_deploy_key_opens_the_repository_and_its_private_half_is_in_the_cluster_only(
    gk: Caller, origin: Origin, own_cluster: Path, tmp_path: Path
) -> None:
    with sshd(tmp_path / "sshd", origin) as host:
        trust(gk, host.known())
        words = (
            *WORDS, "--repo", str(origin.work), "--kubeconfig", str(own_cluster),
            "--url", host.url, "--deploy-key", "--namespace", "keys",
        )  # fmt: skip
        looked = gk(*words, "--print")
        assert (looked.code, "ssh-ed25519" in looked.out) == (0, False), looked.err
        first = gk(*words)
        assert first.code == 0, first.err
        assert "created     Secret keys/deploy-key" in first.out
        (line,) = (line for line in first.out.splitlines() if line.startswith("ssh-ed25519 "))
        assert f"add this deploy key to {host.url}, with write access" in first.err
        again = gk(*words, "-o", "json")
        assert (again.obj["deployKey"], again.obj["objects"]) == (line, [])
        assert "PRIVATE" not in "".join((first.out, first.err, again.out))
        assert "PRIVATE" not in run_git(origin.bare, "log", "-p", "main")
        secret = secret_of(own_cluster, "deploy-key")
        (host.folder / "authorized_keys").write_text(line + "\n")
        credentials = GitCredentials.from_secret(secret)
        mirrors = tmp_path / "mirrors"
        with Repository.open(host.url, mirrors=mirrors, credentials=credentials) as opened:
            assert opened.tip("main") == run_git(origin.bare, "rev-parse", "main")


def trust(gk: Caller, known: str) -> None:
    folder = Path(gk.env["HOME"]) / ".ssh"
    folder.mkdir(parents=True)
    (folder / "known_hosts").write_text(known)


def secret_of(kubeconfig: Path, name: str) -> dict[str, str]:
    """The values of a Secret of the controller's namespace."""

    async def read() -> dict[str, str]:
        transport = HttpTransport(from_kubeconfig([kubeconfig]), SystemClock())
        try:
            request = ApiRequest(
                verb="get", resource=ResourceRef("", "v1", "secrets"),
                namespace="keys", name=name,
            )  # fmt: skip
            data = (await transport.send(request)).body["data"]
        finally:
            await transport.close()
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    return asyncio.run(read())


HOSTS = {
    "https://git.example.com/fleet.git": "a deploy key is for ssh",
    "/srv/fleet.git": "a deploy key is for ssh",
    "git@other.example.com:shop/fleet": "other.example.com is not in your known_hosts",
    "ssh://git@git.example.com:2222/shop/fleet": "[git.example.com]:2222 is not in your known",
}


@pytest.mark.parametrize("url", HOSTS)
def test_a_host_that_the_user_does_not_trust_gets_no_key(tmp_path: Path, url: str) -> None:
    files = [tmp_path / "known_hosts", tmp_path / "missing"]
    key = ssh_key(tmp_path, "host").rpartition(" ")[0]
    files[0].write_text(f"git.example.com {key}\n")
    for known in ("git@git.example.com:shop/fleet", "ssh://git@git.example.com:22/shop/fleet"):
        assert host_keys(known, files) == f"git.example.com {key}\n"
    with pytest.raises(UsageProblem, match="GK7069") as refused:
        host_keys(url, files)
    assert HOSTS[url] in str(refused.value)


def key_in(identity: bytes) -> DeployKey:
    """The key of a cluster whose Secret has this identity."""
    lab = Lab()
    data = {"identity": base64.b64encode(identity).decode()}
    lab.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": data})
    transport = WorldTransport(Cluster(lab.world, lambda: START))
    return asyncio.run(deploy_key(transport, SPACE, "mine", ""))


def test_a_key_that_is_in_use_is_kept_and_what_is_no_key_is_not_replaced(tmp_path: Path) -> None:
    public = ssh_key(tmp_path, "mine").rpartition(" ")[0]
    found = key_in((tmp_path / "mine").read_bytes())
    assert (found.public, found.secret) == (public, None)
    for unusable in (b"", b"no key", (tmp_path / "mine.pub").read_bytes()):
        with pytest.raises(UsageProblem, match=f"GK7070: Secret {SPACE}/mine exists"):
            key_in(unusable)
