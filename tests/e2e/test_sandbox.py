"""A sandbox in the background: up, killed, up again with what it held, down without trace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Pod, sandbox
from tests.e2e.program import environment, eventually, gitkruise, output, started

pytestmark = pytest.mark.e2e


def test_up_status_kubeconfig_down(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with sandbox(state) as cluster:
        status = cluster.status()
        assert status["running"]
        assert status["url"].startswith("https://127.0.0.1:")
        path = output(gitkruise("sandbox", "kubeconfig", "--path"), cluster.env).strip()
        assert Path(path) == cluster.kubeconfig
        assert cluster.kubeconfig.stat().st_mode & 0o077 == 0
        nodes = cluster.get("/api/v1/nodes")["items"]
        assert len(nodes) == 5
    done = subprocess.run(
        gitkruise("sandbox", "status"), env=cluster.env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[:2]) == (1, ["not", "running"])
    assert not cluster.kubeconfig.exists()


def test_a_second_one_is_refused(tmp_path: Path) -> None:
    with sandbox(tmp_path / "state") as cluster:
        words = gitkruise("sandbox", "up", "--detach")
        done = subprocess.run(words, env=cluster.env, capture_output=True, text=True, check=False)
        assert done.returncode == 5
        assert "GK4113" in done.stderr


def test_a_killed_sandbox_comes_back_with_everything(tmp_path: Path) -> None:
    with sandbox(tmp_path / "state", "--speed", "10") as cluster:
        manifest = tmp_path / "web.yaml"
        manifest.write_text(WEB)
        apply(cluster, manifest)
        before = eventually(lambda: all_ready(cluster))
        url = cluster.status()["url"]
        cluster.kill()
        cluster.up("--speed", "10")
        assert cluster.status()["url"] == url
        after = eventually(lambda: all_ready(cluster))
        assert [(p.name, p.uid, p.restarts) for p in after] == [
            (p.name, p.uid, p.restarts) for p in before
        ]


def test_run_follows_what_was_bootstrapped(tmp_path: Path) -> None:
    work = tmp_path / "fleet"
    work.mkdir()
    with sandbox(tmp_path / "state") as cluster:
        for line in ("init -q -b main", "config user.name Dana", "config user.email d@example.com",
                     "commit -q --allow-empty -m first"):  # fmt: skip
            output(["git", *line.split()], cluster.env, work)
        words = gitkruise("bootstrap", "clusters/dev", "--sandbox", "--yes")
        done = subprocess.run(
            words, env=cluster.env, cwd=work, capture_output=True, text=True, check=True
        )
        assert "next: gitkruise run --sandbox" in done.stderr
        with started(
            gitkruise("run", "--sandbox", "--local-sources"), cluster.env, tmp_path
        ) as run:
            run.until("following 1 unit of cluster sandbox")
            run.until("unit gitkruise-system/cluster state=Done")
            run.interrupt()
            assert run.ends() == 0


def test_the_foreground_writes_its_kubeconfig_when_it_answers(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kc"
    env = environment(tmp_path / "state")
    words = gitkruise("sandbox", "up", "--ephemeral", "--kubeconfig", str(kubeconfig))
    with started(words, env, tmp_path) as up:
        up.until("KUBECONFIG=")
        assert kubeconfig.exists()
        assert not (tmp_path / "state").exists()
        up.process.terminate()
        assert up.ends() == 0


def all_ready(cluster: Cluster) -> list[Pod] | None:
    pods = cluster.pods("web", "default")
    return pods if len(pods) == 3 and all(p.ready for p in pods) else None


def apply(cluster: Cluster, manifest: Path) -> None:
    """Server-side apply over plain HTTPS: no kubectl is needed."""
    cluster.send("PATCH", f"{CLONESETS}/web?fieldManager=test", manifest.read_bytes())


CLONESETS = "/apis/apps.kruise.io/v1alpha1/namespaces/default/clonesets"
WEB = """\
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: registry.example.com/web:v1}]}
"""
