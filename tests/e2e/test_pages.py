"""Every command of the documentation runs: as written, in order, against a sandbox.

A page has a scene: what is there before its first command, and what a reader puts in the place of
an example's name. A command that cannot run here is listed with the reason; a command that is in
neither fails.
"""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import yaml

from gitkruise import __version__
from release.manifests import chart
from tests.e2e.cluster import Cluster
from tests.e2e.pages import PAGES, commands
from tests.e2e.program import PATIENCE_S, ROOT, environment, eventually, started
from tests.git.keys import ssh_key
from tests.git.repos import run_git
from tests.git.tls import issue
from tests.release.charts import helm

# test_tutorial plays these pages block by block, with claims about what follows.
PLAYED: Final = {"README.md", "examples-repo/README.md", "docs/demo.md"}
# Commands that nothing here can run.
LEFT_OUT: Final[Mapping[str, str]] = {
    "pip install FILE": "test_wheel installs the wheel in a new environment",
    "gitkruise agent --node worker-1": "needs containerd and root: tests/node runs it",
    "ctr -n k8s.io images import gitkruise-VERSION-image-amd64.tar":
        "needs the image and containerd: tests/release/test_image reads the image",
    "skopeo copy --preserve-digests oci-archive:gitkruise-VERSION-image-amd64.tar"
    " docker://REPOSITORY:VERSION": "needs the image and a registry with TLS",
    "cosign verify-blob SHA256SUMS --bundle SHA256SUMS.sigstore.json"
    " --certificate-oidc-issuer https://token.actions.githubusercontent.com"
    " --certificate-identity https://github.com/OWNER/REPOSITORY/.github/workflows/release.yaml"
    "@refs/tags/vVERSION": "needs a published release and Sigstore's services",
    "cosign verify REPOSITORY@DIGEST"
    " --certificate-oidc-issuer https://token.actions.githubusercontent.com"
    " --certificate-identity https://github.com/OWNER/REPOSITORY/.github/workflows/release.yaml"
    "@refs/tags/vVERSION": "needs a published release and its registry",
    ".venv/bin/python -m bench planning": "a benchmark of 30 s: tests/bench runs smaller ones",
}  # fmt: skip
# Commands that last: the line that shows that they do what the page says.
LASTING: Final[Mapping[str, str]] = {
    "gitkruise dashboard": "http",
    "gitkruise run": "following|state=Done|webhook",
    "gitkruise webhook --url": "webhook",
}


GATES: Final = ("--feature-gates", "ImagePullJobGate=true")  # the page says who needs it
FAST: Final = ("--speed", "10")
SHOP: Final = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: "registry.example.com/web:v1"}]
"""


@dataclass
class Scene:
    """A reader with a checkout, a sandbox that the kubeconfig names prod, and a terminal."""

    folder: Path
    cluster: Cluster
    replaced: dict[str, str] = field(default_factory=dict)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def play(self, page: str) -> None:
        """Run the page's commands. One that fails names itself and what it printed."""
        for command in commands(page):
            if command in LEFT_OUT or command.startswith("make "):
                continue
            self.before.pop(command, lambda: None)()
            text = command
            for name, value in self.replaced.items():
                text = text.replace(name, value)
            lasting = [line for start, line in LASTING.items() if command.startswith(start)]
            if lasting:
                self.until(text, lasting[0])
            else:
                self.run(text)

    def until(self, command: str, line: str) -> None:
        """Run a command until it prints a line, then end it as Ctrl-C does."""
        words = ["bash", "-euc", f"exec {command}"]
        with started(words, self.cluster.env, self.work) as program:
            program.until(line)
            program.interrupt()
            program.ends()

    def run(self, command: str) -> str:
        """Run a command in a terminal, where every question is answered with yes."""
        ours, theirs = pty.openpty()
        silent = termios.tcgetattr(theirs)
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, silent)
        os.write(ours, b"y\n" * 3)
        program = subprocess.Popen(
            ["bash", "-euc", command], cwd=self.work, env=self.cluster.env,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        stuck = threading.Timer(PATIENCE_S, program.kill)
        stuck.start()
        printed = b""
        with suppress(OSError):  # the end of a terminal
            while some := os.read(ours, 1 << 16):
                printed += some
        stuck.cancel()
        os.close(ours)
        text = printed.decode("utf-8", "replace").replace("\r", "")
        assert program.wait(PATIENCE_S) == 0, f"{command} ended with {program.returncode}:\n{text}"
        return text


def checkout(folder: Path) -> None:
    """A repository with a shop, and this project's deploy/ in it."""
    folder.mkdir()
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "deploy").symlink_to(ROOT / "deploy")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("deploy\n")
    (folder / "shop").mkdir()
    (folder / "shop" / "web.yaml").write_text(SHOP)
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "-m", "shop")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A sandbox for each page: pages install and uninstall."""
    state, programs = tmp_path / "state", tmp_path / "bin"
    programs.mkdir()
    gitkruise = programs / "gitkruise"
    gitkruise.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitkruise "$@"\n')
    gitkruise.chmod(0o755)
    (state / ".kube").mkdir(parents=True)
    config = state / ".kube" / "config"
    env = environment(state, KUBECONFIG=str(config), EDITOR="true", NO_COLOR="1")
    env["PATH"] = f"{programs}:{env['PATH']}"
    cluster = Cluster(state, env)
    cluster.up(*FAST)
    try:
        given = yaml.safe_load(cluster.kubeconfig.read_text())
        given["contexts"][0]["name"] = given["current-context"] = "prod"
        config.touch(0o600)
        config.write_text(yaml.safe_dump(given))
        checkout(tmp_path / "work")
        yield Scene(tmp_path, cluster)
    finally:
        with suppress(AssertionError):  # a page may end its sandbox
            cluster.down()


@pytest.mark.slow
@pytest.mark.usefixtures("kubectl")
def test_the_page_of_the_embedded_cluster(scene: Scene) -> None:
    scene.play("docs/embedded-cluster.md")


@pytest.mark.slow
def test_the_page_of_the_dashboard(scene: Scene) -> None:
    pair = issue("dashboard")
    (scene.work / "tls.crt").write_text(pair.certificate)
    (scene.work / "tls.key").write_text(pair.key)
    scene.run("gitkruise init")
    scene.replaced = {"0.0.0.0:8443": "127.0.0.1:0", "/etc/gitkruise": "gitkruise.yaml"}
    scene.play("docs/dashboard.md")


@pytest.mark.slow
@pytest.mark.usefixtures("kubectl")
def test_the_page_of_monitoring(scene: Scene) -> None:
    scene.run("gitkruise install")
    for kind in ("PodMonitor", "PrometheusRule"):  # of the Prometheus Operator
        (scene.work / "kind.yaml").write_text(definition(kind))
        scene.run("kubectl apply -f kind.yaml")
    scene.run("kubectl wait --for=condition=Established crd --all --timeout=60s")
    scene.play("docs/monitoring.md")


def definition(kind: str) -> str:
    plural = f"{kind.lower()}s"
    return yaml.safe_dump(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {
                "group": "monitoring.coreos.com",
                "names": {"kind": kind, "plural": plural},
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                ],
            },
        }
    )


PREPULL: Final = "gitkruise prepull cloneset/web -n shop --image registry.example.com/web:v2 --wait"
UNIT: Final = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: fleet, namespace: shop}}
spec: {{url: {folder}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: web, namespace: shop}}
spec: {{sourceRef: {{name: fleet}}, path: shop}}
"""


@dataclass
class Fleet:
    """Everything that the page of a cluster of your own takes for granted, section by section."""

    scene: Scene
    stack: ExitStack

    @property
    def origin(self) -> Path:
        return self.scene.folder / "origin.git"

    def create(self) -> None:
        work = self.scene.work
        run_git(work, "init", "--quiet", "--bare", "--initial-branch=main", str(self.origin))
        run_git(work, "remote", "add", "origin", str(self.origin))
        run_git(work, "push", "--quiet", "--set-upstream", "origin", "main")

    def host(self) -> None:
        """Have the repository at a host that the user knows, with what the page added."""
        url, work = "git@git.example.com:shop/fleet", self.scene.work
        run_git(work, "remote", "set-url", "origin", url)
        run_git(work, "config", f"url.{self.origin}.insteadOf", url)
        known = self.scene.cluster.state / ".ssh" / "known_hosts"
        known.parent.mkdir()
        known.write_text(f"git.example.com {ssh_key(self.scene.folder, 'host')}\n")
        run_git(work, "add", "gitkruise.yaml")
        run_git(work, "commit", "--quiet", "-m", "configuration")
        run_git(work, "push", "--quiet")

    def install(self) -> None:
        """Begin another cluster: `upgrade` leaves to git what `bootstrap` committed."""
        self.scene.run("gitkruise sandbox down && gitkruise sandbox reset --yes")
        self.scene.cluster.up(*GATES, *FAST)
        self.scene.run("gitkruise install")

    def run_shop(self) -> None:
        """Run a controller of objects from here on, and the shop that requests are about."""
        words = ["gitkruise", "run", "--sandbox", "--local-sources", *GATES]
        self.stack.enter_context(started(words, self.scene.cluster.env, self.scene.folder))
        self.scene.run("kubectl apply -f shop/web.yaml")
        ready = "--for=jsonpath={.status.readyReplicas}=2"
        self.scene.run(f"kubectl wait {ready} clonesets/web -n shop --timeout=60s")
        (pod, *_) = self.scene.run("kubectl get pods -n shop -o name").split()
        self.scene.replaced["web-x7k2p"] = pod.removeprefix("pod/")

    def wait_for_node_images(self) -> None:
        """A node gets one 30 s after it became ready."""
        eventually(lambda: self._count("nodeimages") == self._count("nodes"))

    def _count(self, kind: str) -> int:
        return len(self.scene.run(f"kubectl get {kind} -o name").split())

    def declare_unit(self) -> None:
        (self.scene.work / "fleet.yaml").write_text(UNIT.format(folder=self.origin))
        self.scene.run("kubectl delete clonesets/web -n shop")  # the unit brings its own


@pytest.mark.slow
@pytest.mark.usefixtures("kubectl")
def test_the_page_of_a_cluster_of_your_own(scene: Scene) -> None:
    address = f"127.0.0.1:{free_port()}"
    scene.replaced = {"https://10.0.0.5:9443": f"https://{address}", ":9443": address}
    with ExitStack() as stack:
        fleet = Fleet(scene, stack)
        fleet.create()
        scene.before = {
            "gitkruise bootstrap clusters/prod --context prod --deploy-key": fleet.host,
            "gitkruise upgrade --dry-run": fleet.install,
            "gitkruise recreate web-x7k2p app -n shop --wait": fleet.run_shop,
            PREPULL: fleet.wait_for_node_images,
            "kubectl apply -f fleet.yaml": fleet.declare_unit,
        }
        scene.play("docs/real-cluster.md")
        assert not scene.before, "a command that the page does not have"


@pytest.mark.slow
def test_the_page_of_releases(scene: Scene) -> None:
    archive = f"gitkruise-{__version__}.tgz"
    (scene.work / archive).write_bytes(chart(__version__, 0))
    scene.run(f"sha256sum {archive} > SHA256SUMS && gitkruise init")
    (scene.folder / "bin" / "helm").symlink_to(helm())
    scene.replaced = {"VERSION": __version__}
    scene.play("docs/release.md")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_every_command_has_a_runner_or_a_reason() -> None:
    played = {*PLAYED, *scenes()}
    rest = {page: [*commands(page)] for page in PAGES if page not in played}
    left = {
        command
        for found in rest.values()
        for command in found
        if command not in LEFT_OUT and not command.startswith("make ")
    }
    assert left == set(), "a scene runs the page, or LEFT_OUT says why nothing can"
    written = {command for page in PAGES for command in commands(page)}
    assert set(LEFT_OUT) <= written, "no page has this command"
    assert all(any(c.startswith(start) for c in written) for start in LASTING)


def scenes() -> set[str]:
    """The pages that tests of this module play."""
    return set(re.findall(r'scene\.play\("([^"]+)"\)', Path(__file__).read_text()))


def test_every_target_of_make_in_a_page_can_be_built() -> None:
    targets = {c.split()[1] for page in PAGES for c in commands(page) if c.startswith("make ")}
    words = ["make", "--dry-run", "-o", ".venv/dev", "-o", ".venv/runtime", *sorted(targets)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
