"""The example repository is valid as it stands, in every environment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import need
from tests.e2e.program import ROOT, environment, gitkruise, output

pytestmark = pytest.mark.e2e

EXAMPLES = ROOT / "examples-repo"


def test_every_manifest_validates(tmp_path: Path) -> None:
    output(gitkruise("validate", str(EXAMPLES)), environment(tmp_path))


@pytest.mark.parametrize(
    ("name", "namespace", "pods"), [("staging", "shop-staging", 6), ("prod", "shop", 40)]
)
def test_an_environment_renders_and_validates(
    name: str, namespace: str, pods: int, tmp_path: Path
) -> None:
    kubectl = shutil.which("kubectl")
    need("kubectl", present=bool(kubectl), how="apt-get install kubernetes-client")
    env = environment(tmp_path)
    rendered = output([str(kubectl), "kustomize", str(EXAMPLES / "envs" / name)], env)
    file = tmp_path / "all.yaml"
    file.write_text(rendered)
    output(gitkruise("validate", str(file)), env)

    objects = list(yaml.safe_load_all(rendered))
    assert {o["metadata"].get("namespace", namespace) for o in objects} == {namespace}
    assert sum(o["spec"]["replicas"] for o in objects if o["kind"] == "CloneSet") == pods
