"""Objects stored before their definition had a default are read with it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from tests.worlds import SPACE, START, create, empty_world

V1, V2 = (ResourceRef("example.com", version, "widgets") for version in ("v1", "v2"))
SIZE: Final = {"type": "integer"}


def definition(**spec: Any) -> Obj:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": SIZE, **spec}}},
    }
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema},
        }
        for name in ("v1", "v2")
    ]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": versions,
        },
    }


def redefined() -> World:
    """A cluster with a widget from before the definition had a color."""
    world = empty_world()
    world.handle(create(world, definition()), START)
    meta = {"name": "one", "namespace": SPACE}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}
    world.handle(create(world, {**widget, "spec": {"size": 1}}), START)
    key = ResourceRef("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    found = world.handle(ApiRequest(verb="get", resource=key, name="widgets.example.com"), START)
    spec = definition(color={"type": "string", "default": "red"})["spec"]
    changed = ApiRequest(
        verb="update",
        resource=key,
        name="widgets.example.com",
        body={**found.body, "spec": spec},
    )
    world.handle(changed, START)
    return world


@pytest.mark.parametrize("version", [V1, V2], ids=["stored version", "another version"])
def test_get_and_list_add_the_default(version: ResourceRef) -> None:
    world = redefined()
    request = ApiRequest(verb="get", resource=version, namespace=SPACE, name="one")
    assert world.handle(request, START).body["spec"] == {"size": 1, "color": "red"}
    request = ApiRequest(verb="list", resource=version, namespace=SPACE)
    (item,) = world.handle(request, START).body["items"]
    assert item["spec"] == {"size": 1, "color": "red"}


def test_a_patch_stores_it() -> None:
    world = redefined()
    request = ApiRequest(
        verb="patch",
        resource=V1,
        namespace=SPACE,
        name="one",
        body={"spec": {"size": 2}},
        content_type="application/merge-patch+json",
    )
    assert world.handle(request, START).body["spec"] == {"size": 2, "color": "red"}
