"""Values that the schemas offer are the values that the configuration decodes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from gitkruise.kube.system.package_data import read_json
from gitkruise.model.gitops.config import SPECS
from gitkruise.wire.primitives.names import OWN_GROUP

Schema = Mapping[str, Any]


def offered(schema: Schema, defs: Schema, path: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield (dotted path, values) for each field with a fixed list of values."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield from offered(defs[name], defs, path)
    if "enum" in schema:
        yield path, frozenset(schema["enum"])
    items = [schema["items"]] if "items" in schema else []
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *items):
        yield from offered(choice, defs, path)
    for name, child in schema.get("properties", {}).items():
        yield from offered(child, defs, f"{path}.{name}")


@pytest.mark.parametrize("kind", SPECS)
def test_the_schema_offers_what_is_decoded(kind: str) -> None:
    published = read_json("json", f"{kind}-{OWN_GROUP}-v1alpha1.json")
    (decoded,), defs = msgspec.json.schema_components([SPECS[kind]], ref_template="#/$defs/{name}")
    spec = published["properties"]["spec"]
    listed = dict(offered(spec, published.get("$defs", {}), "spec"))
    assert listed == dict(offered(decoded, defs, "spec"))


def test_no_renderer_is_offered_that_is_not_there() -> None:
    published = read_json("json", f"Unit-{OWN_GROUP}-v1alpha1.json")
    kinds = published["properties"]["spec"]["properties"]["render"]["properties"]["kind"]["enum"]
    assert sorted(kinds) == ["auto", "helm", "kustomize", "plain"]
