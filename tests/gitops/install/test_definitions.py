"""Definitions of workloads that are taken over while pods are at an older revision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.gitops.install.definitions import relabelled
from gitkruise.gitops.install.installer import CRD, Installer, InstallOptions, manifests
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.gitops.cluster.leases import lease
from tests.gitops.install.hall import Hall, web

OLD, NEW = "v1alpha1", "v1beta1"
NAME: Final = "clonesets.apps.kruise.io"
KEY: Final = ObjectKey(*CRD, "", NAME)
HELD: Final = {
    "replicas": 4, "readyReplicas": 4, "availableReplicas": 4,
    "updatedReplicas": 1, "updatedReadyReplicas": 1, "observedGeneration": 1,
}  # fmt: skip
ROLLED_OUT: Final = {**HELD, "updatedReplicas": 4}
UNSEEN: Final = {**ROLLED_OUT, "observedGeneration": 0}


def wanted() -> Obj:
    return next(obj for obj in manifests(InstallOptions()) if key_of(obj) == KEY)


def stored_in(version: str, conversion: str = "None") -> Obj:
    """The definition as OpenKruise brings it: one version, served and stored."""
    (only,) = (v for v in wanted()["spec"]["versions"] if v["name"] == version)
    obj = put(wanted(), ("spec", "versions"), [{**only, "served": True, "storage": True}])
    changed: Obj = put(obj, ("spec", "conversion"), {"strategy": conversion})
    return changed


async def begin(hall: Hall, status: dict[str, Any]) -> None:
    """Have one CloneSet in the cluster."""
    await hall.create(web(replicas=4))
    await hall.transport.send(
        ApiRequest(
            verb="patch", resource=ResourceRef("apps.kruise.io", NEW, "clonesets"),
            namespace="shop", name="web", subresource="status", body={"status": status},
            content_type=MERGE_PATCH,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("live", "status", "refused"),
    [
        pytest.param(stored_in(OLD), HELD, True, id="held"),
        pytest.param(stored_in(OLD), UNSEEN, True, id="not-seen-by-its-controller"),
        pytest.param(stored_in(OLD), ROLLED_OUT, False, id="rolled-out"),
        pytest.param(stored_in(OLD, "Webhook"), HELD, False, id="converted"),
        pytest.param(stored_in(NEW), HELD, False, id="stored-as-wanted"),
    ],
)
def test_a_definition_is_taken_over_when_nothing_is_relabelled_under_a_rollout(
    live: Obj, status: dict[str, Any], refused: bool
) -> None:
    async def script(hall: Hall) -> None:
        await begin(hall, status)
        if not refused:
            await relabelled(hall.transport, hall.clock, live, wanted())
            return
        with pytest.raises(UsageProblem, match="has pods of an older revision: CloneSet shop/web"):
            await relabelled(hall.transport, hall.clock, live, wanted())

    hall = Hall()
    hall.clock.run(script(hall))


def test_a_relabelled_object_gets_its_fields_and_their_owners_back() -> None:
    async def script(hall: Hall) -> None:
        ref = ResourceRef("apps.kruise.io", NEW, "clonesets")
        find = ApiRequest(verb="get", resource=ref, namespace="shop", name="web")
        strategy = {
            "type": "RollingUpdate",
            "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 3},
        }
        await begin(hall, {**ROLLED_OUT, "observedGeneration": 9})
        await hall.transport.send(
            replace(
                find, verb="patch", content_type=MERGE_PATCH,
                body={"spec": {"updateStrategy": strategy}}, params={"fieldManager": "kubectl"},
            )
        )  # fmt: skip
        before = (await hall.transport.send(find)).body
        (found,) = await relabelled(hall.transport, hall.clock, stored_in(OLD), wanted())
        dropped = {"spec": {"updateStrategy": None}}
        await hall.transport.send(
            replace(find, verb="patch", content_type=MERGE_PATCH, body=dropped)
        )
        await found.write(hall.transport, "gitkruise-install")
        after = (await hall.transport.send(find)).body
        assert after["spec"]["updateStrategy"] == before["spec"]["updateStrategy"]
        managers = [
            [entry["manager"] for entry in obj["metadata"]["managedFields"]]
            for obj in (before, after)
        ]
        assert managers[0] == managers[1]

    hall = Hall()
    hall.clock.run(script(hall))


def test_a_refused_takeover_writes_nothing() -> None:
    async def script(hall: Hall) -> None:
        await begin(hall, HELD)
        await hall.create(stored_in(OLD))
        before = hall.all()
        for dry_run in (True, False):
            options = InstallOptions(crds_only=True, take_over=True, dry_run=dry_run)
            installer = Installer(hall.transport, load_catalog(), hall.clock, options)
            with pytest.raises(UsageProblem) as caught:
                await installer.install(manifests(options))
            assert caught.value.findings[0].code == "GK4512"
        assert hall.all() == before

    hall = Hall()
    hall.clock.run(script(hall))


def test_a_definition_is_not_taken_from_a_manager_at_work() -> None:
    async def script(hall: Hall) -> None:
        await begin(hall, ROLLED_OUT)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-system"}}
        for obj in (space, lease("manager-1", 2)):
            await hall.create(obj)
        with pytest.raises(UsageProblem, match="OpenKruise's manager drives its objects"):
            await relabelled(hall.transport, hall.clock, stored_in(OLD), wanted())

    hall = Hall()
    hall.clock.run(script(hall))
