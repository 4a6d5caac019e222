"""gitkruise upgrade on an embedded cluster: the plan, what it changes, and where it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from gitkruise import __version__
from gitkruise.driving import sandbox_controllers
from gitkruise.errors import ClusterFailed, DiagnosticError, Forbidden, TimedOut
from gitkruise.gitops.install.deploy_key import deploy_key
from gitkruise.gitops.install.installer import (
    MANAGER,
    WEBHOOK_MANAGER,
    InstallChange,
    Installed,
    Installer,
    InstallOptions,
    manifests,
)
from gitkruise.gitops.install.upgrade_plan import (
    StorageMigration,
    UpgradeOptions,
    UpgradePlan,
    UpgradePlanner,
)
from gitkruise.gitops.install.upgrader import Outcome, Upgrader
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.controllers import alongside
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiReply, ApiRequest, ResourceRef
from gitkruise.world.controllers.scheduler import add_nodes
from tests.gitops.install.earlier import GONE, STORED, UNITS, VERSION, earlier
from tests.gitops.install.hall import CRD, RBAC, SPACE, UNIT, Hall, Script, web

pytestmark = pytest.mark.slow
DEPLOYMENTS = ResourceRef("apps", "v1", "deployments")
DEPLOYMENT = ObjectKey("apps", "Deployment", SPACE, "gitkruise")
DEFINITION = ObjectKey("apiextensions.k8s.io", CRD, "", UNITS)
OLD_ROLE = ObjectKey(RBAC, "ClusterRole", "", GONE)


async def begin(hall: Hall, objects: Sequence[Obj], **flags: Any) -> None:
    installer = Installer(hall.transport, load_catalog(), hall.clock, InstallOptions(**flags))
    await installer.install(objects)


async def planned(hall: Hall, **flags: Any) -> UpgradePlan:
    options = UpgradeOptions(**flags)
    return await UpgradePlanner(hall.transport, load_catalog(), hall.clock, options).plan()


async def upgraded(hall: Hall, plan: UpgradePlan, **options: Any) -> list[Outcome]:
    return await Upgrader(hall.transport, load_catalog(), hall.clock, **options).upgrade(plan)


def driven(hall: Hall, script: Script) -> None:
    """Run a script while the controllers of workloads run, too, and on nodes."""
    add_nodes(hall.world, 2, hall.clock.now())

    async def main(hall: Hall) -> None:
        async with alongside(sandbox_controllers(hall.transport, hall.clock, Gates())):
            await script(hall)

    hall.run(main)


def by_change(items: Sequence[Outcome]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for item in items:
        if isinstance(item, Installed):
            found.setdefault(str(item.change), set()).add(str(item.key))
    return found


async def patch(hall: Hall, ref: ResourceRef, key: ObjectKey, body: Obj, manager: str) -> None:
    await hall.transport.send(
        ApiRequest(
            verb="patch", resource=ref, namespace=key.namespace, name=key.name, body=body,
            content_type=MERGE_PATCH, params={"fieldManager": manager},
        )
    )  # fmt: skip


def test_an_upgrade_changes_what_its_plan_says_and_nothing_else(hall: Hall) -> None:
    unit = {**UNIT, "apiVersion": f"gitkruise.io/{STORED}"}

    async def script(hall: Hall) -> None:
        await begin(hall, earlier(InstallOptions()))
        await hall.create(unit)
        await hall.create(web(replicas=2))
        await hall.clock.sleep(30)
        before = hall.all()
        plan = await planned(hall)
        assert hall.all() == before, "a plan writes nothing"
        assert plan.installed == VERSION
        changes = by_change(plan.changes)
        assert changes["configured"] == {
            str(DEFINITION), str(DEPLOYMENT), "ClusterRole gitkruise-engine"
        }  # fmt: skip
        assert "created" not in changes
        (deployment,) = (i for i in plan.changes if i.key == DEPLOYMENT)
        shown = {(c.before, c.after) for c in deployment.changes}
        assert (f"gitkruise:{VERSION}", f"gitkruise:{__version__}") in shown
        assert [target.key for target in plan.removals] == [OLD_ROLE]
        (migration,) = plan.migrations
        assert (migration.name, migration.stale, migration.storage, migration.objects) == (
            UNITS, (STORED,), "v1alpha1", 1
        )  # fmt: skip

        done = await upgraded(hall, plan)
        after = hall.all()
        assert by_change(done)["configured"] == changes["configured"]
        assert by_change(done)["removed"] == {str(OLD_ROLE)}
        assert {m.name: m.objects for m in done if isinstance(m, StorageMigration)} == {UNITS: 1}
        crd = after[DEFINITION]
        assert get(crd, "status", "storedVersions") == ["v1alpha1"]
        assert [v["name"] for v in crd["spec"]["versions"]] == ["v1alpha1"]
        shop = {key for key in before if key.namespace == "shop" and key.kind != "Unit"}
        assert {key: after[key] for key in shop} == {key: before[key] for key in shop}
        image = ("spec", "template", "spec", "containers", 0, "image")
        assert get(after[DEPLOYMENT], *image) == f"gitkruise:{__version__}"
        assert get(after[DEPLOYMENT], "status", "availableReplicas") == 1

        again = await planned(hall)
        assert again.empty
        assert again.installed == __version__
        await begin(hall, manifests(InstallOptions()))
        assert (await planned(hall)).empty, "install has the same objects"

    driven(hall, script)


def test_one_that_is_installed_has_nothing_to_change(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        choices: tuple[dict[str, Any], ...] = ({"crds_only": True}, {}, {"webhooks": True})
        for flags in choices:
            await begin(hall, manifests(InstallOptions(**flags)))
            plan = await planned(hall)
            assert plan.empty, flags
            assert plan.options.crds_only == ("crds_only" in flags)
            assert plan.options.webhooks == ("webhooks" in flags)

    hall.run(script)


def test_the_order_and_the_deploy_key(hall: Hall) -> None:
    """The Secret of a deploy key has our label, and no manifest: it is no leftover."""

    async def script(hall: Hall) -> None:
        await begin(hall, earlier(InstallOptions(webhooks=True)))
        key = await deploy_key(hall.transport, SPACE, "deploy-key", "")
        assert key.secret is not None
        await begin(hall, [key.secret])
        plan = await planned(hall)
        assert [target.key for target in plan.removals] == [OLD_ROLE]
        kinds = [key_of(obj).kind for obj in plan.objects]
        assert kinds.index(CRD) < kinds.index("ClusterRole") < kinds.index("Service")
        assert kinds[-2:] == ["Deployment", "Deployment"]

    hall.run(script)


async def code(coming: Any) -> str:
    with pytest.raises(DiagnosticError) as refused:
        await coming
    (finding,) = refused.value.findings
    assert dict(finding.notes)["next"]
    return finding.code


def test_nothing_installed_elsewhere_and_older_programs(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        for obj in hall.world.objects(DEFINITION.group_kind):  # an embedded cluster has ours
            if obj["spec"]["group"] == "gitkruise.io":
                name = obj["metadata"]["name"]
                await hall.transport.send(ApiRequest(verb="delete", resource=CRDS, name=name))
        assert await code(planned(hall)) == "GK7072"
        await begin(hall, earlier(InstallOptions(namespace="other"), version="9.0.0"))
        assert await code(planned(hall)) == "GK7057"
        assert await code(planned(hall, namespace="other")) == "GK7075"
        plan = await planned(hall, namespace="other", downgrade=True)
        assert plan.installed == "9.0.0"

    hall.run(script)


def test_what_others_keep_is_left_to_them(hall: Hall) -> None:
    marks = (
        {"annotations": {"meta.helm.sh/release-name": "gk"}},
        {"labels": {"kustomize.toolkit.fluxcd.io/name": "gk"}},
        {"annotations": {"gitkruise.io/unit-ref": "infra/gitkruise"}},
    )

    async def script(hall: Hall) -> None:
        for mark in marks:
            await begin(hall, manifests(InstallOptions()))
            await patch(hall, DEPLOYMENTS, DEPLOYMENT, {"metadata": mark}, "other")
            assert await code(planned(hall)) == "GK7073", mark
            nothing = {part: dict.fromkeys(names) for part, names in mark.items()}
            await patch(hall, DEPLOYMENTS, DEPLOYMENT, {"metadata": nothing}, "other")
        await planned(hall)
        unit: dict[str, Any] = {**UNIT}
        spec = {**unit["spec"], "serviceAccountName": "gitkruise-keeper", "path": "clusters/a"}
        meta = {"name": "cluster", "namespace": SPACE}
        await hall.create({**UNIT, "metadata": meta, "spec": spec})
        with pytest.raises(DiagnosticError) as refused:
            await planned(hall)
        (finding,) = refused.value.findings
        assert dict(finding.notes)["next"] == "gitkruise bootstrap clusters/a"

    hall.run(script)


def test_a_version_that_is_newer_than_ours_is_not_rewritten(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await begin(hall, earlier(InstallOptions()))
        crd = hall.world.get(DEFINITION)
        assert crd is not None
        (only,) = crd["spec"]["versions"]
        newer = {"spec": {"versions": [{**only, "storage": False}, {**only, "name": "v2"}]}}
        await patch(hall, CRDS, DEFINITION, newer, MANAGER)
        before = hall.all()
        for downgrade in (False, True):
            assert await code(planned(hall, downgrade=downgrade)) == "GK4509"
        assert hall.all() == before

    hall.run(script)


def test_objects_that_only_a_webhook_converts_are_not_rewritten_without_one(hall: Hall) -> None:
    key = DEFINITION._replace(name="clonesets.apps.kruise.io")

    async def stored(hall: Hall, conversion: Obj, manager: str) -> tuple[StorageMigration, ...]:
        status = {"status": {"storedVersions": ["v1alpha1", "v1beta1"]}}
        request = ApiRequest(verb="patch", resource=CRDS, name=key.name, subresource="status",
                             body=status, content_type=MERGE_PATCH)  # fmt: skip
        await hall.transport.send(request)
        await patch(hall, CRDS, key, {"spec": {"conversion": conversion}}, manager)
        return (await planned(hall)).migrations

    async def script(hall: Hall) -> None:
        await begin(hall, manifests(InstallOptions()))
        await hall.create(web(replicas=1))
        (blocked,) = await stored(hall, {"strategy": "None"}, MANAGER)
        assert "gitkruise webhook must convert" in blocked.blocked
        done = await upgraded(hall, await planned(hall))
        assert blocked in done
        crd = hall.world.get(key)
        assert get(crd, "status", "storedVersions") == ["v1alpha1", "v1beta1"]
        client = {"url": "https://127.0.0.1:1/convert", "caBundle": ""}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        converted = {"strategy": "Webhook", "webhook": webhook}
        (possible,) = await stored(hall, converted, WEBHOOK_MANAGER)
        assert (possible.stale, possible.blocked) == (("v1alpha1",), "")

    driven(hall, script)


def test_definitions_of_openkruise_are_not_migrated(hall: Hall) -> None:
    """Those of the embedded cluster are not `install`'s either."""

    async def script(hall: Hall) -> None:
        key = DEFINITION._replace(name="sidecarsets.apps.kruise.io")
        status = {"status": {"storedVersions": ["v1alpha1", "v1beta1"]}}
        await begin(hall, manifests(InstallOptions()))
        crd = dict(hall.world.get(key) or {})
        await hall.transport.send(ApiRequest(verb="delete", resource=CRDS, name=key.name))
        meta = {"name": key.name}
        await hall.create({**crd, "metadata": meta})
        await hall.transport.send(
            ApiRequest(verb="patch", resource=CRDS, name=key.name, subresource="status",
                       body=status, content_type=MERGE_PATCH)
        )  # fmt: skip
        plan = await planned(hall)
        (kept,) = (i for i in plan.changes if i.key == key)
        assert kept.change is InstallChange.KEPT
        assert plan.migrations == ()

    hall.run(script)


class Refusing(WorldTransport):
    """Refuses writes of one kind; dry runs and others pass."""

    def __init__(self, hall: Hall, verb: str, plural: str, subresource: str) -> None:
        super().__init__(hall.cluster)
        self.refused = (verb, plural, subresource)

    async def send(self, request: ApiRequest) -> ApiReply:
        asked = (request.verb, request.resource.plural, request.subresource)
        if asked == self.refused and "dryRun" not in (request.params or {}):
            raise Forbidden("no more")
        return await super().send(request)


STEPS = (
    ("patch", "customresourcedefinitions", "", "the definitions"),
    ("patch", "clusterroles", "", "the rights"),
    ("patch", "deployments", "", "the processes"),
    ("delete", "clusterroles", "", "the objects of earlier versions"),
    ("patch", "units", "", "the stored objects"),
    ("patch", "customresourcedefinitions", "status", "the stored objects"),
)


def test_an_interrupted_upgrade_is_continued(hall: Hall) -> None:
    unit = {**UNIT, "apiVersion": f"gitkruise.io/{STORED}"}

    async def script(hall: Hall) -> None:
        await begin(hall, earlier(InstallOptions()))
        await hall.create(unit)
        for verb, plural, subresource, step in STEPS:
            transport = Refusing(hall, verb, plural, subresource)
            upgrader = Upgrader(transport, load_catalog(), hall.clock)
            with pytest.raises(ClusterFailed) as stopped:
                await upgrader.upgrade(await planned(hall))
            (finding,) = stopped.value.findings
            assert finding.code == "GK4508"
            assert f"stopped at {step}: " in finding.message
            crd = hall.world.get(DEFINITION)
            assert STORED in get(crd, "status", "storedVersions"), step
            assert (hall.world.get(OLD_ROLE) is None) == (step == "the stored objects")
        await upgraded(hall, await planned(hall))
        assert (await planned(hall)).empty
        assert get(hall.world.get(DEFINITION), "status", "storedVersions") == ["v1alpha1"]
        assert hall.has("Unit", "web", "shop", "gitkruise.io")

    driven(hall, script)


def test_pods_that_do_not_start_end_the_wait_before_anything_is_removed(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await begin(hall, earlier(InstallOptions()))
        await hall.clock.sleep(30)
        plan = await planned(hall, image="gitkruise:broken")
        with pytest.raises(TimedOut) as late:
            await upgraded(hall, plan, within=timedelta(minutes=1))
        (finding,) = late.value.findings
        assert finding.code == "GK4511"
        assert hall.world.get(OLD_ROLE) is not None
        crd = hall.world.get(DEFINITION)
        assert STORED in get(crd, "status", "storedVersions")
        await upgraded(hall, await planned(hall, image=f"gitkruise:{__version__}"))
        assert hall.world.get(OLD_ROLE) is None

    driven(hall, script)


def test_fields_of_others_are_not_overwritten(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await begin(hall, earlier(InstallOptions()))
        path = {"metadata": {"labels": {"app.kubernetes.io/version": "mine"}}}
        await patch(hall, DEPLOYMENTS, DEPLOYMENT, path, "someone")
        with pytest.raises(ClusterFailed) as conflict:
            await planned(hall)
        (finding,) = conflict.value.findings
        assert finding.code == "GK4501"
        assert "gitkruise upgrade --take-over --dry-run" in dict(finding.notes)["next"]
        await planned(hall, take_over=True)
        await asyncio.sleep(0)

    hall.run(script)
