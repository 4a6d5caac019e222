"""Tables of objects whose fields are there and empty, as Go prints zero values."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.http.negotiation import ResponseForm
from gitkruise.sandbox.tables.tables import Shaper
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.schema.nodes import Node
from tests.worlds import START

TABLE: Final = ResponseForm("Table", "meta.k8s.io", "v1")
KINDS: Final = [kind for kind in load_catalog().kinds() if kind.verbs]
DEPTH: Final = 5
LEFT_OUT: Final = ("apiVersion", "kind", "metadata", "matchExpressions")  # the last is validated


def hollow(node: Node, depth: int = DEPTH) -> dict[str, Any]:
    """Every object and list of a schema, with nothing but such in them."""
    out: dict[str, Any] = {}
    for name, field in node.children():
        if name in LEFT_OUT or depth == 0:
            continue
        if field.type == "object":
            out[name] = hollow(field, depth - 1)
        elif field.type == "array" and field.items is not None and field.items.type == "object":
            out[name] = [hollow(field.items, depth - 1)]
    return out


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.kind}")
def test_empty_fields_are_printed(kind: Kind) -> None:
    obj = {
        **hollow(kind.strict),
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "a", "namespace": "shop", "resourceVersion": "1"},
    }
    table = Shaper(lambda: START).shape(obj, kind, TABLE, include="None")
    (row,) = table["rows"]
    assert len(row["cells"]) == len(table["columnDefinitions"])
