"""Committed schemas equal the output of schemas/generate.py."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

from gitkruise.kube.system.package_data import load_catalog
from tests.worlds import installable_crds

ROOT = Path(__file__).parents[3]
JSON_SCHEMAS = sorted((ROOT / "schemas" / "json").glob("*.json"))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "schemas" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_generated_files_are_fresh(generator: ModuleType) -> None:
    assert generator.stale() == [], "run python schemas/generate.py"


def test_stale_files_are_noticed(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "old.json"
    old.write_text("old\n")
    missing = tmp_path / "missing.json"
    monkeypatch.setattr(generator, "outputs", lambda: {old: "new\n", missing: "new\n"})
    noticed = generator.stale()
    assert noticed[:2] == [missing, old]
    assert set(JSON_SCHEMAS) <= set(noticed), "files that are no longer generated"


@pytest.mark.parametrize("path", JSON_SCHEMAS, ids=lambda p: p.stem)
def test_published_schema_is_valid_strict_and_self_contained(path: Path) -> None:
    schema = json.loads(path.read_text())
    if path.stem.startswith("CloneSet") or path.stat().st_size < 15_000:  # the others repeat these
        jsonschema.Draft202012Validator.check_schema(schema)
    kind = schema["properties"]["kind"]["const"]
    assert schema["title"].startswith(kind)
    assert schema["additionalProperties"] is False
    for reference in _references(schema):
        assert reference.removeprefix("#/$defs/") in schema["$defs"]


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [found for item in value.values() for found in _references(item)]


OWN: list[tuple[str, dict[str, Any], list[str]]] = [
    ("GitSource", {"url": "ssh://git@host/a.git", "ref": {"branch": "main"}}, []),
    ("GitSource", {}, ["$.spec"]),
    ("GitSource", {"url": "x", "rev": "main"}, ["$.spec"]),
    ("GitSource", {"url": "x", "verify": {"mode": "tail"}}, ["$.spec.verify.mode"]),
    ("Unit", {"sourceRef": {"name": "a"}, "suspend": True}, []),
    ("Unit", {"sourceRef": {"name": "a"}, "suspend": {"by": "me", "until": "later"}}, []),
    ("Unit", {"sourceRef": {"name": "a"}, "suspend": "yes"}, ["$.spec.suspend"]),
    ("Unit", {"sourceRef": {"name": "a"}, "drift": {"mode": "off"}}, []),
    (
        "Unit",
        {"sourceRef": {"name": "a"}, "prune": {"maxDeletePercent": 101}},
        ["$.spec.prune.maxDeletePercent"],
    ),
    ("Unit", {"sourceRef": {}}, ["$.spec.sourceRef"]),
    ("Sink", {"git": {"sourceRef": {"name": "a"}, "detail": "pods"}}, []),
    ("Sink", {"git": {"sourceRef": {"name": "a"}, "detail": "all"}}, ["$.spec.git.detail"]),
    ("Receiver", {"type": "github", "secretRef": {"name": "a"}}, []),
    ("Receiver", {"type": "github"}, ["$.spec"]),
]


@pytest.mark.parametrize(("kind", "spec", "where"), OWN)
def test_own_documents(kind: str, spec: dict[str, Any], where: list[str]) -> None:
    path = ROOT / "schemas" / "json" / f"{kind}-gitkruise.io-v1alpha1.json"
    document = {
        "apiVersion": "gitkruise.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": "shop"},
        "spec": spec,
    }
    validator = jsonschema.Draft202012Validator(json.loads(path.read_text()))
    assert [error.json_path for error in validator.iter_errors(document)] == where


@pytest.mark.parametrize(
    "path", sorted((ROOT / "deploy" / "crds").glob("*.yaml")), ids=lambda p: p.stem
)
def test_deployed_crds_can_be_served(path: Path) -> None:
    crd = yaml.safe_load(path.read_text())
    names = crd["spec"]["names"]
    catalog = load_catalog().without_crd(crd["metadata"]["name"]).with_crd(crd)
    kind = catalog.find(crd["metadata"]["name"])
    assert kind
    assert kind.kind == names["kind"]
    assert kind.version == kind.storage_version
    assert "status" in kind.subresources
    served = [version["name"] for version in crd["spec"]["versions"] if version["served"]]
    assert served == [kind.storage_version], "without conversion only one version is safe to serve"


@pytest.mark.slow
def test_what_is_installed_is_what_is_deployed() -> None:
    deployed = {
        path.stem: yaml.safe_load(path.read_text())
        for path in (ROOT / "deploy" / "crds").glob("*.yaml")
    }
    assert {crd["metadata"]["name"]: crd for crd in installable_crds()} == deployed


def test_data_stays_small() -> None:
    size = sum(path.stat().st_size for path in (ROOT / "schemas").rglob("*") if path.is_file())
    assert size < 4 << 20
