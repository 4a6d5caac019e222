"""The namespace of a unit with target.createNamespace: created, put back, and otherwise left."""

from __future__ import annotations

import pytest

from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

TARGET = {"namespace": SPACE, "createNamespace": True}
NAMESPACE: Obj = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": SPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}


def labels(stage: Stage) -> dict[str, str]:
    found: dict[str, str] = stage.get("Namespace", SPACE)["metadata"]["labels"]
    return found


def apply_namespace(stage: Stage) -> None:
    """Another unit of gitkruise has the namespace in git."""
    kind = stage.world.catalog.stored(GroupKind("", "Namespace"))
    assert kind is not None
    request = ApiRequest(
        verb="patch",
        resource=kind.ref,
        name=SPACE,
        body=NAMESPACE,
        content_type="application/apply-patch+yaml",
        params={"fieldManager": "gitkruise", "force": "true"},
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


def test_a_namespace_of_another_unit_keeps_its_labels(staged: MakeStage) -> None:
    stage = staged(target=TARGET)

    async def script() -> None:
        apply_namespace(stage)
        async with stage.running():
            await stage.push(config_map("settings", mode="fast"))
            await stage.rest()

    stage.play(script)
    assert stage.get("ConfigMap", "settings") is not None
    assert labels(stage)["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_namespace_that_was_deleted_is_created_again_with_its_objects(staged: MakeStage) -> None:
    stage = staged(target=TARGET)
    kind = stage.world.catalog.stored(GroupKind("", "Namespace"))
    assert kind is not None
    gone = ApiRequest(verb="delete", resource=kind.ref, name=SPACE)

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("settings", mode="fast"))
            await stage.rest()
            stage.world.handle(gone, stage.clock.now())
            stage.cluster.publish()
            await stage.rest(300)

    stage.play(script)
    assert stage.get("ConfigMap", "settings") is not None
    assert stage.state == "Done"
