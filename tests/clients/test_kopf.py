"""An operator on kopf runs on the embedded cluster: handlers, finalizers, progress, events."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import ROOT, environment, eventually, started

pytestmark = pytest.mark.e2e

OPERATOR: Final = ROOT / "tests" / "clients" / "kopf_operator.py"
DEFINITION: Final = b"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: echoes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: echoes, singular: echo, kind: Echo, listKind: EchoList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {text: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
CRD: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/echoes.example.com"
ECHOES: Final = "/apis/example.com/v1/namespaces/default/echoes"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
EVENTS: Final = "/api/v1/namespaces/default/events?fieldSelector=reason%3DEchoed"


def echo(cluster: Cluster, text: str) -> dict[str, Any]:
    body = f"apiVersion: example.com/v1\nkind: Echo\nmetadata: {{name: a}}\nspec: {{text: {text}}}"
    return cluster.send("PATCH", f"{ECHOES}/a?fieldManager=test&force=true", body.encode())


def found(cluster: Cluster, path: str) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in cluster.get(path)["items"]}


def greeting(cluster: Cluster, name: str = "a") -> str:
    return str(found(cluster, MAPS).get(name, {}).get("data", {}).get("text", ""))


def test_operator(tmp_path: Path) -> None:
    with sandbox(tmp_path / "state", "--speed", "20") as cluster:
        cluster.send("PATCH", f"{CRD}?fieldManager=test", DEFINITION)
        env = environment(tmp_path, KUBECONFIG=str(cluster.kubeconfig))
        words = [sys.executable, "-m", "kopf", "run", str(OPERATOR), "--standalone"]
        with started([*words, "--namespace", "default"], env, tmp_path) as operator:
            made = echo(cluster, "hello")
            eventually(lambda: greeting(cluster) == "hello")
            owner = found(cluster, MAPS)["a"]["metadata"]["ownerReferences"][0]
            assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
            known = eventually(lambda: found(cluster, ECHOES)["a"].get("status"))
            assert known["make"] == {"said": "hello"}
            assert found(cluster, ECHOES)["a"]["metadata"]["finalizers"] == ["example.com/kopf"]
            event = eventually(lambda: list(found(cluster, EVENTS).values()))[0]
            assert (event["message"], event["involvedObject"]["uid"]) == (
                "said hello",
                owner["uid"],
            )
            echo(cluster, "bye")
            eventually(lambda: found(cluster, ECHOES)["a"]["status"].get("changed") == "bye")
            assert greeting(cluster) == "bye"
            cluster.send("DELETE", f"{ECHOES}/a")
            eventually(lambda: "a" not in found(cluster, ECHOES))
            eventually(lambda: "a" not in found(cluster, MAPS))
            assert "a-ended" in found(cluster, MAPS)
            operator.process.terminate()
            assert operator.ends() == 0
        assert not [line for line in operator.lines if "Traceback" in line]
