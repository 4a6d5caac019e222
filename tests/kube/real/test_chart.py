"""A stock helm installs, upgrades and uninstalls the release's chart on a real cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from release.manifests import chart
from tests.kube.real.apiserver import Apiserver
from tests.release.charts import helm

pytestmark = [pytest.mark.kube, pytest.mark.slow]
HOME = "delivery"


def test_helm_installs_upgrades_and_uninstalls(fresh: Apiserver, tmp_path: Path) -> None:
    archive = tmp_path / "gitkruise.tgz"
    archive.write_bytes(chart("1.2.3", 0))
    config = fresh.kubeconfig()

    def run(*words: str) -> str:
        place = (f"--kubeconfig={config}", f"--namespace={HOME}")
        done = subprocess.run((helm(), *words, *place), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def release() -> dict[str, Any]:
        (found,) = json.loads(run("list", "-o", "json"))
        return dict(found)

    output = run("install", "gitkruise", str(archive), "--create-namespace")
    assert f"is installed in the namespace {HOME}" in output
    assert (release()["status"], release()["chart"]) == ("deployed", "gitkruise-1.2.3")
    parts = "--set=webhook.enabled=true,agent.enabled=true"
    run("upgrade", "gitkruise", str(archive), "--reuse-values", parts)
    assert (release()["status"], release()["revision"]) == ("deployed", "2")
    objects = run("get", "manifest", "gitkruise")
    assert "kind: DaemonSet" in objects
    run("uninstall", "gitkruise")
    assert json.loads(run("list", "-o", "json")) == []
