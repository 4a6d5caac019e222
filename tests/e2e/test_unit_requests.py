"""suspend, resume and reconcile as a user types them, next to a running `gitkruise run`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import PATIENCE_S, environment, eventually, gitkruise, output, started
from tests.e2e.shop import Shop

pytestmark = pytest.mark.e2e

UNITS = "/apis/gitkruise.io/v1alpha1/namespaces/shop"
SETTINGS = "/api/v1/namespaces/shop/configmaps/settings"
SOURCE = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: src, namespace: shop}}
spec: {{url: {url}, interval: 1h, ref: {{branch: main}}}}
"""
UNIT = """\
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec: {sourceRef: {name: src}, path: web}
"""
MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{count: "{count}"}}
"""


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: Cluster
    shop: Shop

    def push(self, count: int) -> str:
        (self.shop.clone / "web").mkdir(exist_ok=True)
        (self.shop.clone / "web" / "settings.yaml").write_text(MANIFEST.format(count=count))
        return self.shop.push(f"count {count}")

    def count(self) -> str:
        return str(self.cluster.get(SETTINGS)["data"]["count"])

    def __call__(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            gitkruise(*words, "-n", "shop", "--sandbox"), env=self.cluster.env, text=True,
            capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with sandbox(tmp_path / "state", "--speed", "10") as cluster:
        bare, clone = tmp_path / "web.git", tmp_path / "web"
        env = environment(tmp_path)
        init = ["git", "init", "-q", "--bare", "--initial-branch=main", str(bare)]
        output(init, env, tmp_path)
        output(["git", "clone", "-q", str(bare), str(clone)], env, tmp_path)
        made = Scene(cluster, Shop(bare, clone, cluster.env))
        made.push(1)
        space = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
        field = "?fieldManager=kubectl"
        cluster.send("PATCH", f"/api/v1/namespaces/shop{field}", space)
        source = SOURCE.format(url=bare).encode()
        cluster.send("PATCH", f"{UNITS}/gitsources/src{field}", source)
        cluster.send("PATCH", f"{UNITS}/units/web{field}", UNIT.encode())
        words = gitkruise("run", "--sandbox", "--local-sources")
        with started(words, cluster.env, tmp_path) as program:
            program.until("unit shop/web state=Done")
            yield made


def test_a_unit_is_suspended_resumed_and_reconciled(scene: Scene) -> None:
    code, text = scene("suspend", "unit/web", "--reason", "incident 4711")
    assert code == 0, text
    eventually(lambda: "suspendedBy" in scene.cluster.get(f"{UNITS}/units/web")["status"])
    commit = scene.push(2)
    code, text = scene("reconcile", "gitsource/src")
    assert (code, commit[:7] in text) == (0, True), text
    code, text = scene("reconcile", "unit/web")
    assert (code, "is suspended by system:admin (incident 4711)" in text) == (1, True), text
    assert scene.count() == "1"
    assert scene("resume", "unit/web")[0] == 0
    code, text = scene("reconcile", "unit/web", "-o", "json")
    assert code == 0, text
    found = json.loads(text)
    assert (found["confirmed"], found["state"]) == (True, "Done")
    assert found["applied"] == f"main@sha1:{commit}"
    assert scene.count() == "2"  # the command returns after the round, not before


def test_a_commit_that_is_rejected_is_reported_by_reconcile(scene: Scene) -> None:
    (scene.shop.clone / "web" / "settings.yaml").write_text("kind: ConfigMap\n")
    commit = scene.shop.push("broken")
    code, text = scene("reconcile", "unit/web")
    assert code == 1, text
    assert "Rejected  unit/web -n shop" in text
    assert commit[:7] in text
    assert "GK2001" in text
