"""Discovery lists what both serve as the recorded server does, in each of its forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pytest

from gitkruise.kube.system.package_data import load_catalog, read_json
from gitkruise.sandbox.discovery.discovery import Discovery
from gitkruise.sandbox.http.negotiation import ResponseForm

AGGREGATED: Final = ResponseForm(
    shape="APIGroupDiscoveryList", group="apidiscovery.k8s.io", version="v2"
)
Resources: TypeAlias = Mapping[tuple[str, str, str], Any]


def page(root: str, *rest: str, form: ResponseForm = AGGREGATED) -> Any:
    return json.loads(Discovery(load_catalog()).page(root, rest, ResponseForm() if rest else form))


def resources(listed: Mapping[str, Any]) -> Resources:
    """The resources of an APIGroupDiscoveryList by group, version and name."""
    return {
        (group["metadata"].get("name", ""), version["version"], one["resource"]): one
        for group in listed["items"]
        for version in group["versions"]
        for one in version["resources"]
    }


def compare(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> int:
    """Count the resources that both have; each is the same, and so is the order of groups."""
    names, others = (
        [g["metadata"].get("name", "") for g in one["items"]] for one in (ours, theirs)
    )
    assert [n for n in names if n in others] == [n for n in others if n in names]
    here, there = resources(ours), resources(theirs)
    shared = [key for key in here if key in there]
    for key in shared:
        assert here[key] == there[key]
    return len(shared)


def test_aggregated() -> None:
    assert compare(page("apis"), read_json("discovery", "aggregated.json")) > 60


@pytest.mark.parametrize("path", ["api__v1", "apis__apps__v1", "apis__apps.kruise.io__v1beta1"])
def test_plain(path: str) -> None:
    ours = page(*path.split("__"))
    theirs = read_json("discovery", f"{path}.json")
    for listed in (ours, theirs):
        for one in listed["resources"]:
            one.pop("storageVersionHash", None)
        listed["resources"].sort(key=lambda one: one["name"])
    assert ours == theirs
