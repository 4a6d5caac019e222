"""A real cluster asks before it deletes what is protected, and we look at what lives below."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.api.cluster import World
from tests.webhook.hooked import hooked, review, sidecarset
from tests.worlds import SPACE, START, cloneset, container, create, empty_world, pod

LABEL: Final = "policy.kruise.io/delete-protection"
ON: Final = Gates(
    resources_deletion_protection=True, deletion_protection_for_crd_cascading_gate=True
)


def protected(obj: Obj, how: str = "Cascading") -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "labels": {LABEL: how}}}


def world_with(*objects: Obj) -> World:
    world = empty_world()
    for obj in objects:
        world.handle(create(world, obj), START)
    return world


def definition() -> dict[str, Any]:
    world = empty_world()
    kind = world.catalog.by_kind("apps.kruise.io", "v1beta1", "SidecarSet")
    assert kind is not None
    versions = [{"name": "v1alpha1", "served": False}, {"name": "v1beta1", "served": True}]
    names = {"kind": kind.kind, "plural": kind.plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sidecarsets.apps.kruise.io"},
        "spec": {"group": kind.group, "names": names, "versions": versions},
    }


NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
LONE: Final = pod("p", container("a"))
IN_SPACE: Final = {**LONE, "metadata": {**LONE["metadata"], "namespace": SPACE}}
PREFIX: Final = f"forbidden by ResourcesProtectionDeletion for {LABEL}="


@pytest.mark.parametrize(
    ("old", "below", "gates", "why"),
    [
        (protected(cloneset(replicas=2)), (), ON, "Cascading and replicas 2>0"),
        (protected(cloneset(replicas=0)), (), ON, ""),
        (protected(cloneset(replicas=0), "Always"), (), ON, "Always"),
        (protected(cloneset(replicas=2), "Never"), (), ON, ""),
        (protected(cloneset(replicas=2)), (), Gates(), ""),
        (protected(NAMESPACE), (IN_SPACE,), ON, "Cascading and active pods 1>0"),
        (protected(NAMESPACE), (), ON, ""),
        (protected(definition()), (sidecarset(),), ON, "Cascading and active CRs 1>0"),
        (protected(definition()), (), ON, ""),
    ],
)
def test_deletion(tmp_path: Path, old: Obj, below: tuple[Obj, ...], gates: Gates, why: str) -> None:
    async def play() -> Any:
        async with hooked(tmp_path, world_with(*below), gates=gates) as hooks:
            name = old["metadata"]["name"]
            space = SPACE if old["kind"] in {"CloneSet", "Namespace"} else ""
            asked = review(None, old, operation="DELETE", name=name, namespace=space)
            return await hooks.ask("/validate", asked)

    answer = asyncio.run(play())
    assert answer["allowed"] is not bool(why)
    if why:
        assert (answer["status"]["code"], answer["status"]["message"]) == (403, PREFIX + why)
