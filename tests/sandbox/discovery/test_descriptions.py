"""Texts of `kubectl explain`: of built-in kinds, of OpenKruise's, and of no field that is none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from gitkruise.kube.system.package_data import (
    DRIVEN,
    KRUISE_GROUPS,
    data_dir,
    load_catalog,
    read_json,
)
from gitkruise.sandbox.discovery.openapi_v3 import GVK, OpenApiV3

TEXTS: Final[Mapping[str, Mapping[str, str]]] = read_json("descriptions", "kruise.json")
BUILT_IN: Final[Mapping[str, Mapping[str, str]]] = read_json("descriptions", "kubernetes.json")
PAGES: Final = OpenApiV3(load_catalog(), list)


def schemas(group: str, version: str) -> Mapping[str, Any]:
    path = f"apis/{group}/{version}" if group else f"api/{version}"
    found: Mapping[str, Any] = json.loads(PAGES.document(path))["components"]["schemas"]
    return found


def fields(schema: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield at, schema
    for inner in (schema, schema.get("items") or {}):
        for name, child in (inner.get("properties") or {}).items():
            yield from fields(child, f"{at}.{name}" if at else name)


def of_kruise() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(kind, schema) of every version."""
    for kind in load_catalog().kinds():
        if kind.group in KRUISE_GROUPS and kind.kind in TEXTS:
            for schema in schemas(kind.group, kind.version).values():
                if any(entry["kind"] == kind.kind for entry in schema.get(GVK) or ()):
                    yield kind.kind, schema


@pytest.mark.parametrize(
    ("group", "version", "name", "path", "words"),
    [
        ("apps", "v1", "io.k8s.api.apps.v1.Deployment", ("spec",), "Requested state."),
        ("apps", "v1", "io.k8s.api.apps.v1.DeploymentSpec", ("replicas",), "Number of pods."),
        ("", "v1", "io.k8s.api.core.v1.Container", (), "run from an image"),
        ("batch", "v1", "io.k8s.api.batch.v1.CronJobSpec", ("schedule",), "as in a crontab"),
    ],
)
def test_built_in_kinds_have_texts(
    group: str, version: str, name: str, path: tuple[str, ...], words: str
) -> None:
    found: Any = schemas(group, version)[name]
    for step in path:
        found = found["properties"][step]
    assert words in found["description"]
    assert "$ref" not in found, "a text next to a reference is not read"


def test_every_built_in_kind_has_a_text() -> None:
    bare = [
        name
        for kind in load_catalog().kinds()
        if "." not in kind.group or kind.group.endswith(".k8s.io")
        for name, schema in schemas(kind.group, kind.version).items()
        if any(entry["kind"] == kind.kind for entry in schema.get(GVK) or ())
        and not schema.get("description")
    ]
    assert bare == []


def test_every_field_of_a_driven_kind_has_a_text() -> None:
    """Two levels below spec and status, as far as a kind is acted on."""
    assert TEXTS.keys() >= DRIVEN
    bare = {
        f"{kind}.{path}"
        for kind, schema in of_kruise()
        for path, found in fields(schema)
        if path.startswith(("spec", "status")) and path.count(".") < 2
        if not found.get("description")
    }
    assert bare == set()


def test_no_text_is_about_a_field_that_is_not_there() -> None:
    known: dict[str, set[str]] = {}
    for kind, schema in of_kruise():
        known.setdefault(kind, set()).update(path for path, _ in fields(schema))
    unknown = {
        f"{kind}.{path}" for kind, texts in TEXTS.items() for path in texts.keys() - known[kind]
    }
    assert unknown == set()


def recorded() -> Mapping[str, Mapping[str, Any]]:
    """Every schema of the built-in kinds by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted((data_dir("schemas") / "openapi").glob("*.json")):
        if "kruise.io" not in path.name:
            found.update(json.loads(path.read_text())["schemas"])
    return found


def test_a_schema_with_texts_has_one_for_each_of_its_properties() -> None:
    """And for no other: a misspelt name, or one that Kubernetes dropped, is found."""
    known = recorded()
    assert BUILT_IN.keys() <= known.keys()
    for name, texts in BUILT_IN.items():
        assert texts.keys() == {"", *known[name].get("properties", {})}, name


@pytest.mark.parametrize("kind", ["PodSpec", "Container", "Probe", "ServiceSpec", "PodStatus"])
def test_what_people_ask_for_has_texts(kind: str) -> None:
    assert f"io.k8s.api.core.v1.{kind}" in BUILT_IN


def test_every_text_is_a_short_sentence() -> None:
    """Longer ones come from elsewhere."""
    long = [
        f"{name}.{path}: {text}"
        for name, texts in {**BUILT_IN, **TEXTS}.items()
        for path, text in texts.items()
        if len(text) > 120 or not text.endswith(".") or "://" in text
    ]
    assert long == []
