"""Stock kubectl works against a served sandbox: reading, writing, waiting, discovery."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gitkruise.sandbox.server import SandboxOptions
from tests.sandbox.served import served

pytestmark = [pytest.mark.kubectl, pytest.mark.slow]

CLONE_SET = """
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: "nginx:1.25"}]}
  updateStrategy: {type: InPlaceIfPossible}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {color: %s}\n"
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing, singular: thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
"""
THING = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {size: %s}\n"


class Kubectl:
    """One kubectl with the kubeconfig of a sandbox; a call gives stdout."""

    def __init__(self, program: str, home: Path, kubeconfig: Path) -> None:
        self._program = program
        env: Mapping[str, str] = os.environ  # noqa: TID251  kubectl inherits PATH
        self._env = {"PATH": env["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *words],
            input=stdin,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def __call__(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))


@pytest.fixture(scope="module")
def kube(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("kubectl")
    options = SandboxOptions(ephemeral=True, nodes=2, speed=20, kubeconfig=home / "config")
    with served(options):
        yield Kubectl(kubectl, home, home / "config")
    assert not (home / "config").exists()


def test_a_clone_set_from_apply_to_delete(kube: Kubectl) -> None:
    kube("apply", "-f", "-", stdin=CLONE_SET)
    assert "configured" in kube("apply", "-f", "-", stdin=CLONE_SET.replace("1.25", "1.26"))
    kube("scale", "cloneset/web", "--replicas=3")
    kube("patch", "clone", "web", "--type=merge", "-p", '{"spec":{"minReadySeconds":0}}')
    kube("label", "clone", "web", "tier=front")
    kube("annotate", "clone", "web", "note=x")
    words = [kube._program, "get", "clone", "web", "-w", "-o", "jsonpath={.status}{'\\n'}"]
    words.append("--request-timeout=60s")  # then the watch ends, and the table below shows why
    with subprocess.Popen(words, env=kube._env, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        for line in watch.stdout:
            if json.loads(line or "{}").get("updatedAvailableReplicas") == 3:
                break
        watch.terminate()
    header, row = kube("get", "clonesets").splitlines()
    assert header.split() == [
        "NAME", "DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE", "READY", "TOTAL", "AGE",
    ]  # fmt: skip
    assert row.split()[:7] == ["web", "3", "3", "3", "3", "3", "3"]
    wide = kube("get", "clone", "web", "-o", "wide", "--show-labels").split()
    assert {"nginx:1.26", "app=web", "app=web,tier=front"} <= set(wide)
    described = kube("describe", "clone", "web")
    assert "SuccessfulCreate" in described
    pods = kube("get", "pods", "-l", "app=web", "-o", "wide").splitlines()
    assert pods[0].split()[:6] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    assert [line.split()[1:3] for line in pods[1:]] == [["1/1", "Running"]] * 3
    name = pods[1].split()[0]
    assert "no container runs" in kube("logs", name)
    refused = kube.run("exec", name, "--", "ls")
    assert refused.returncode != 0
    assert "simulated" in refused.stderr
    kube("delete", "clone", "web", "--cascade=foreground", "--timeout=30s")
    assert kube("get", "pods", "-l", "app=web", "-o", "name") == ""


def test_config_maps_both_ways_of_apply(kube: Kubectl) -> None:
    kube("apply", "--server-side", "-f", "-", stdin=CONFIG % "red")
    assert (
        kube("apply", "--server-side", "-f", "-", stdin=CONFIG % "red")
        .strip()
        .endswith("serverside-applied")
    )
    conflict = kube.run(
        "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=CONFIG % "blue"
    )
    assert conflict.returncode != 0
    assert 'conflict with "kubectl"' in conflict.stderr
    assert kube.json("get", "cm", "shared")["data"] == {"color": "red"}
    kube("create", "configmap", "made", "--from-literal=a=b")
    assert kube.json("get", "cm", "made")["data"] == {"a": "b"}
    kube("patch", "cm", "made", "--type=json", "-p", '[{"op":"add","path":"/data/c","value":"d"}]')
    kube("patch", "cm", "made", "-p", '{"data":{"a":null}}')
    assert kube.json("get", "cm", "made")["data"] == {"c": "d"}
    kube("delete", "cm", "made", "shared")
    assert kube.run("get", "cm", "made").returncode != 0


def test_a_namespace_takes_its_objects_along(kube: Kubectl) -> None:
    kube("create", "namespace", "shop")
    kube("-n", "shop", "create", "deployment", "api", "--image=nginx")
    kube("-n", "shop", "wait", "deploy/api", "--for=condition=Available", "--timeout=30s")
    assert kube("-n", "shop", "get", "deploy,rs,pods", "--no-headers").count("api") == 3
    kube("delete", "namespace", "shop", "--timeout=30s")
    assert kube.run("get", "ns", "shop").returncode != 0


def test_a_definition_brings_its_kind(kube: Kubectl) -> None:
    kube("apply", "-f", "-", stdin=DEFINITION)
    kube("wait", "crd/things.example.com", "--for=condition=Established", "--timeout=30s")
    kube("apply", "-f", "-", stdin=THING % 3)
    assert kube("get", "th").split() == ["NAME", "SIZE", "t", "3"]
    assert "size" in kube("explain", "things.spec")
    refused = kube.run("apply", "-f", "-", stdin=THING % "much")
    assert refused.returncode != 0
    kube("delete", "crd", "things.example.com")
    assert kube.run("get", "th").returncode != 0


UNITS = """
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: fleet}
spec: {url: "https://git.example.com/fleet.git"}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web}
spec: {sourceRef: {name: fleet}}
"""
STATUS = {
    "phase": "Held",
    "appliedCommit": "f736baf",
    "pods": {"updated": 2, "total": 6, "summary": "2/6"},
    "conditions": [{"type": "Ready", "status": "True"}],
}


def test_units_are_shown_from_the_start(kube: Kubectl) -> None:
    kube("apply", "-f", "-", stdin=UNITS)
    status = json.dumps({"status": STATUS})
    kube("patch", "unit", "web", "--type=merge", "--subresource=status", "-p", status)
    kube("wait", "unit/web", "--for=condition=Ready", "--timeout=30s")
    unit, source = (s.splitlines() for s in kube("get", "units,gitsources").split("\n\n"))
    assert unit[0].split() == ["NAME", "READY", "PHASE", "APPLIED", "PODS", "AGE"]
    assert unit[1].split()[:5] == ["unit.gitkruise.io/web", "True", "Held", "f736baf", "2/6"]
    assert source[0].split() == ["NAME", "URL", "READY", "COMMIT", "AGE"]
    assert kube("get", "gitkruise", "-o", "name").count("/") == 2
    assert "lastAppliedRevision" in kube("explain", "unit.status")
    account = "system:serviceaccount:shop:deployer"
    assert account in kube("auth", "whoami", f"--as={account}")


def test_discovery_and_identity(kube: Kubectl) -> None:
    listed = kube("api-resources", "--api-group=apps.kruise.io", "--no-headers")
    assert any(line.split()[:2] == ["clonesets", "clone"] for line in listed.splitlines())
    assert "KIND" in kube("explain", "pods.spec.containers.image")
    assert kube("auth", "can-i", "create", "pods").strip() == "yes"
    nodes = kube("get", "nodes", "--no-headers").splitlines()
    assert [line.split()[1] for line in nodes] == ["Ready", "Ready"]
    assert "Server Version" in kube("version")


def test_a_watch_reports_changes(kube: Kubectl) -> None:
    kube("create", "configmap", "seen", "--from-literal=a=b")
    words = [kube._program, "get", "cm", "seen", "-w", "--no-headers"]
    with subprocess.Popen(words, env=kube._env, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:2] == ["seen", "1"]
        kube("patch", "cm", "seen", "-p", '{"data":{"c":"d"}}')
        assert watch.stdout.readline().split()[:2] == ["seen", "2"]
        watch.terminate()
