"""The namespace of a unit with target.createNamespace: created, put back, and otherwise left."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
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


def test_objects_that_went_with_their_namespace_name_it_while_it_is_being_deleted(
    staged: MakeStage,
) -> None:
    stage = staged(target=TARGET)
    space, held = (stage.world.catalog.stored(GroupKind("", k)) for k in ("Namespace", "ConfigMap"))
    assert space is not None
    assert held is not None

    def send(ref: ResourceRef, **request: Any) -> None:
        stage.world.handle(ApiRequest(resource=ref, **request), stage.clock.now())
        stage.cluster.publish()

    async def script() -> None:
        async with stage.running():
            await stage.push(NAMESPACE, config_map("settings", mode="fast"))
            await stage.rest()
            meta: Obj = {"name": "held", "namespace": SPACE, "finalizers": ["example.com/hold"]}
            body: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            send(held.ref, verb="create", namespace=SPACE, body=body)
            send(space.ref, verb="delete", name=SPACE)
            await stage.rest(60)
            message = f"Namespace {SPACE} is being deleted"
            assert (stage.state, message in stage.record.message) == ("Waiting", True)
            body = {"metadata": {"finalizers": None}}
            send(held.ref, verb="patch", namespace=SPACE, name="held", body=body,
                 content_type=MERGE_PATCH)  # fmt: skip
            await stage.rest(60)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_namespace_that_is_created_later_is_not_waited_for_long(staged: MakeStage) -> None:
    stage = staged(target={"namespace": "extra"})
    space: Obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "extra"}}
    spaces = ResourceRef("", "v1", "namespaces")

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("settings", mode="fast"))
            await stage.rest(300)
            assert (stage.state, stage.record.findings[0].code) == ("Rejected", "GK4202")
            made = ApiRequest(verb="create", resource=spaces, body=space)
            stage.world.handle(made, stage.clock.now())
            stage.cluster.publish()
            await stage.rest(31)
            assert stage.state == "Done"

    stage.play(script)
