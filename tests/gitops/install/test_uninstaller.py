"""gitkruise uninstall on an embedded cluster: what goes, what stays, and where it stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.errors import ClusterFailed, DiagnosticError, Forbidden, TimedOut, UsageProblem
from gitkruise.gitops.cluster.engine import hold_workloads
from gitkruise.gitops.install.deploy_key import deploy_key
from gitkruise.gitops.install.installer import (
    MANAGER,
    Installer,
    InstallOptions,
    every_object,
    manifests,
)
from gitkruise.gitops.install.uninstall_plan import (
    UninstallChange,
    UninstallOptions,
    UninstallPlanner,
)
from gitkruise.gitops.resources.declared import FINALIZER
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.controllers import alongside
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.webhook.registration import CONVERTED, Registrar
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.gitops.install.hall import CRD, RBAC, SERVICE, SPACE, UNIT, Hall, config_map, stays, web
from tests.worlds import create

pytestmark = pytest.mark.slow
LEVEL = "pod-security.kubernetes.io/enforce"


def test_every_object_has_everything_that_any_flag_brings() -> None:
    keys = {key_of(obj) for obj in every_object("elsewhere")}
    for options in (
        InstallOptions(namespace="elsewhere", webhooks=True),
        InstallOptions(namespace="elsewhere", webhooks=True, kept_in_git=True),
    ):
        assert {key_of(obj) for obj in manifests(options)} <= keys
    kinds = {key.kind for key in keys}
    assert {"DaemonSet", "PodMonitor", "PrometheusRule"} <= kinds
    assert not {key for key in keys if key.namespace == SPACE}


FLAGS: list[dict[str, Any]] = [{}, {"webhooks": True}, {"webhooks": True, "kept_in_git": True}]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(flags) or "plain")
def test_only_the_definitions_of_workloads_stay(hall: Hall, flags: dict[str, Any]) -> None:
    async def script(hall: Hall) -> None:
        before = hall.all()
        await hall.install(**flags)
        if flags:
            await hall.registrar.publish(b"CA")
        done = await hall.uninstall()
        after = hall.all()
        left = {key for key in after if key not in before}
        assert {key.kind for key in left} == {CRD}
        assert {str(key) for key in left} == set(stays(done))
        assert all(key.name.endswith(".kruise.io") for key in left)
        assert {key: after[key] for key in before} == before, "untouched"
        gone = {i.key for i in done if i.change is UninstallChange.REMOVED}
        assert {key_of(obj) for obj in manifests(InstallOptions(**flags))} <= gone | left
        again = await hall.uninstall()
        assert {i.change for i in again} == {UninstallChange.STAYS}
        assert hall.all() == after, "a second run changes nothing"

    hall.run(script)


def test_definitions_are_left_without_a_conversion_webhook(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install(webhooks=True)
        await hall.registrar.publish(b"CA")
        done = await hall.uninstall()
        names = [i.key.name for i in done if i.change is UninstallChange.CONFIGURED]
        assert sorted(names) == sorted(CONVERTED)
        for name in CONVERTED:
            crd = hall.world.get(ObjectKey("apiextensions.k8s.io", CRD, "", name))
            assert get(crd, "spec", "conversion", "strategy") == "None"

    hall.run(script)


def test_workloads_stay_and_units_go_without_their_deletion_policy(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        await hall.create(web(replicas=2))
        await hall.create(UNIT)
        workload = {k: v for k, v in hall.all().items() if k.namespace == "shop"}
        done = await hall.uninstall()
        after = hall.all()
        (unit,) = (key for key in workload if key.kind == "Unit")
        assert unit not in after
        assert {k: after[k] for k in workload if k != unit} == {
            k: v for k, v in workload.items() if k != unit
        }
        why = stays(done)[f"{CRD} clonesets.apps.kruise.io"]
        assert why.startswith("1 object: CloneSet shop/")
        assert "no controller drives them any more" in why
        (item,) = (i for i in done if i.key.name == "clonesets.apps.kruise.io")
        assert [key.namespace for key in item.objects] == ["shop"]
        assert "kubectl delete clonesets.apps.kruise.io --all" in item.next

    hall.run(script)


def test_crds_go_on_request_and_never_with_objects(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        await hall.create(web(replicas=1))
        before = hall.all()
        with pytest.raises(UsageProblem) as refused:
            await hall.uninstall(crds=True)
        assert "GK4505" in str(refused.value)
        assert "CloneSet shop/" in str(refused.value)
        assert hall.all() == before
        (key,) = (key for key in before if key.kind == "CloneSet")
        ref = hall.world.catalog.stored(key.group_kind)
        assert ref
        await hall.transport.send(
            ApiRequest(verb="delete", resource=ref.ref, namespace="shop", name=key.name)
        )
        await hall.clock.sleep(60)
        done = await hall.uninstall(crds=True)
        assert stays(done) == {}
        assert not [key for key in hall.all() if key.kind == CRD]

    hall.run(script)


def test_a_namespace_stays_with_objects_of_others(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        await hall.create(config_map("mine"))
        done = await hall.uninstall()
        why = stays(done)[f"Namespace {SPACE}"]
        assert why == f"gitkruise did not install ConfigMap {SPACE}/mine"
        assert hall.has("ConfigMap", "mine", SPACE)
        assert not hall.has("ConfigMap", "gitkruise-config", SPACE)

    hall.run(script)


def test_a_namespace_from_before_stays(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        meta = {"name": SPACE, "labels": {"team": "web"}}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        request = replace(create(hall.world, space), params={"fieldManager": "kubectl"})
        await hall.transport.send(request)
        options = InstallOptions()
        installer = Installer(hall.transport, load_catalog(), hall.clock, options)
        await installer.install(manifests(options))
        done = await hall.uninstall()
        assert (
            "kubectl wrote it, too; labels that install applied stay"
            in stays(done)[f"Namespace {SPACE}"]
        )
        assert not [k for k in hall.all() if k.namespace == SPACE and k.kind == "Deployment"]

    hall.run(script)


def test_objects_with_a_name_of_ours_only_are_left_alone(hall: Hall) -> None:
    role = {
        "apiVersion": f"{RBAC}/v1", "kind": "ClusterRole",
        "metadata": {"name": "gitkruise-engine"}, "rules": [],
    }  # fmt: skip

    async def script(hall: Hall) -> None:
        await hall.create(role)
        done = await hall.uninstall()
        assert "no mark says" in stays(done)["ClusterRole gitkruise-engine"]
        assert hall.has("ClusterRole", "gitkruise-engine", group=RBAC)

    hall.run(script)


def test_another_namespace_is_named(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install(namespace="elsewhere")
        before = hall.all()
        with pytest.raises(UsageProblem) as refused:
            await hall.uninstall()
        assert "gitkruise uninstall --namespace elsewhere" in str(refused.value.findings[0].notes)
        assert hall.all() == before
        await hall.uninstall(namespace="elsewhere")
        assert not hall.has("Namespace", "elsewhere")

    hall.run(script)


def lease(name: str, holder: str, seconds: int = 15) -> Obj:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds},
    }


@pytest.mark.parametrize("holder", ["", "a process that was killed"])
def test_leases_of_ended_processes_go(hall: Hall, holder: str) -> None:
    """A next installation would end the units that gitkruise-sync-units remembers."""

    async def script(hall: Hall) -> None:
        await hall.install()
        names = ("gitkruise-sync", "gitkruise-sync-units", "gitkruise-workloads")
        for name in names:
            await hall.create(lease(name, holder))
        await hall.uninstall()
        assert not [key for key in hall.all() if key.kind == "Lease" and key.name in names]

    hall.run(script)


def test_the_lease_of_an_embedded_cluster_stays(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        await hold_workloads(hall.transport, hall.clock.now(), {})
        plan = await UninstallPlanner(hall.transport, load_catalog(), UninstallOptions()).plan()
        assert "gitkruise-workloads" not in [target.key.name for target in plan.goes]
        why = stays(await hall.uninstall())
        assert why["Lease kube-system/gitkruise-workloads"].endswith("holds it for good")

    hall.run(script)


@pytest.mark.parametrize("seconds", [15, 600])
def test_nothing_changes_while_another_process_applies(hall: Hall, seconds: int) -> None:
    async def renew(hall: Hall) -> None:
        ref = hall.world.catalog.by_kind("coordination.k8s.io", "v1", "Lease")
        assert ref
        while True:
            await hall.clock.sleep(seconds / 4)
            spec = {"spec": {"leaseTransitions": int(hall.clock.monotonic())}}
            await hall.transport.send(
                ApiRequest(
                    verb="patch", resource=ref.ref, namespace="kube-system", name="gitkruise-sync",
                    body=spec, content_type="application/merge-patch+json",
                    params={"fieldManager": "other"},
                )
            )  # fmt: skip

    async def script(hall: Hall) -> None:
        await hall.install()
        await hall.create(UNIT)
        await hall.create(lease("gitkruise-sync", "laptop_1", seconds))
        before = {key: obj for key, obj in hall.all().items() if key.kind != "Lease"}
        async with alongside(renew(hall)):
            with pytest.raises(ClusterFailed) as refused:
                await hall.uninstall()
        assert "GK4506" in str(refused.value)
        assert "laptop_1" in str(refused.value)
        after = {key: obj for key, obj in hall.all().items() if key.kind != "Lease"}
        assert after == before, "not even the webhooks"
        await hall.uninstall()
        assert not hall.has("Unit", "web", "shop", "gitkruise.io")

    hall.run(script)


def test_a_finalizer_of_others_is_kept_and_named(hall: Hall) -> None:
    meta = {**UNIT["metadata"], "finalizers": ["example.com/audit", FINALIZER]}  # type: ignore[dict-item]

    async def script(hall: Hall) -> None:
        await hall.install()
        await hall.create({**UNIT, "metadata": meta})
        with pytest.raises(TimedOut) as late:
            await hall.uninstall()
        assert "GK4504" in str(late.value)
        assert ("why", "finalizers hold them: example.com/audit") in late.value.findings[0].notes
        assert hall.has(CRD, "units.gitkruise.io", group="apiextensions.k8s.io")

    hall.run(script)


class Refusing(WorldTransport):
    """Refuses the deletion number `number`."""

    number = 0

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.verb == "delete":
            self.number -= 1
            if self.number == 0:
                raise Forbidden("no deletion today")
        return await super().send(request)


@pytest.mark.parametrize("number", [1, 5, 9, 12, 20, 30])
def test_a_run_that_stopped_is_continued_by_the_next(number: int) -> None:
    hall = Hall()
    hall.transport = Refusing(hall.cluster)
    hall.registrar = Registrar(hall.transport, SERVICE)

    async def script(hall: Hall) -> None:
        before = hall.all()
        await hall.install(webhooks=True)
        await hall.registrar.publish(b"CA")
        await hall.create(UNIT)
        assert isinstance(hall.transport, Refusing)
        hall.transport.number = number
        with pytest.raises(DiagnosticError) as stopped:
            await hall.uninstall()
        assert "GK4503" in str(stopped.value)
        assert "no deletion today" in str(stopped.value)
        await hall.uninstall()
        left = {key for key in hall.all() if key not in before}
        assert {key.kind for key in left} == {CRD}
        assert all(key.name.endswith(".kruise.io") for key in left)

    hall.run(script)


class Blind(WorldTransport):
    """Does not list ConfigMaps."""

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.verb == "list" and request.resource.plural == "configmaps" and request.namespace:
            raise Forbidden("configmaps are secret")
        return await super().send(request)


def test_a_namespace_stays_if_its_content_is_not_known(hall: Hall) -> None:
    hall.transport = Blind(hall.cluster)

    async def script(hall: Hall) -> None:
        await hall.install()
        done = await hall.uninstall()
        why = "the API server does not list its configmaps"
        assert stays(done)[f"Namespace {SPACE}"] == why
        assert hall.has("Namespace", SPACE)

    hall.run(script)


def test_a_namespace_stays_with_an_object_of_a_kind_of_others(hall: Hall) -> None:
    names = {"kind": "Tune", "plural": "tunes", "singular": "tune", "listKind": "TuneList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "music.example.com", "names": names, "scope": "Namespaced"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": CRD,
        "metadata": {"name": "tunes.music.example.com"}, "spec": {**spec, "versions": [version]},
    }  # fmt: skip
    tune = {
        "apiVersion": "music.example.com/v1", "kind": "Tune",
        "metadata": {"name": "a", "namespace": SPACE},
    }  # fmt: skip

    async def script(hall: Hall) -> None:
        await hall.install()
        await hall.create(definition)
        await hall.create(tune)
        done = await hall.uninstall()
        assert stays(done)[f"Namespace {SPACE}"] == f"gitkruise did not install Tune {SPACE}/a"
        assert hall.has("Tune", "a", SPACE, "music.example.com")

    hall.run(script)


class Recording(WorldTransport):
    """Records the deletions."""

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.verb == "delete":
            self.deleted = [*getattr(self, "deleted", []), request.resource.plural]
        return await super().send(request)


def test_rights_go_before_processes_and_those_before_units(hall: Hall) -> None:
    """A controller that follows its own manifests would apply its Deployment again."""
    hall.transport = recording = Recording(hall.cluster)

    async def script(hall: Hall) -> None:
        await hall.install(kept_in_git=True)
        await hall.create(UNIT)
        await hall.create(lease("gitkruise-sync-units", ""))
        await hall.uninstall()

    hall.run(script)
    order = list(dict.fromkeys(recording.deleted))
    steps = ["clusterrolebindings", "deployments", "leases", "units", "customresourcedefinitions"]
    assert order[: len(steps)] == steps
    assert order[-1] == "namespaces"


def test_an_agent_that_kubectl_applied_goes_and_its_namespaces_stay(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        names = {"kruise-daemon-config", "gitkruise-agent"}
        spaces = [
            o for o in every_object(SPACE)
            if o["kind"] == "Namespace" and o["metadata"]["name"] in names
        ]  # fmt: skip
        agents = [
            o for o in every_object(SPACE)
            if "agent" in o["metadata"]["name"] and o not in spaces
        ]  # fmt: skip
        assert {obj["kind"] for obj in agents} >= {"DaemonSet", "ServiceAccount", "ClusterRole"}
        for obj in (*spaces, *agents):
            request = create(hall.world, obj)
            await hall.transport.send(replace(request, params={"fieldManager": "kubectl"}))
        done = await hall.uninstall()
        assert not {key_of(obj) for obj in agents} & set(hall.all())
        for name in names:
            assert "kubectl wrote it, too" in stays(done)[f"Namespace {name}"]
        assert not hall.has("Namespace", SPACE)

    hall.run(script)


def test_an_object_of_an_earlier_version_goes(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        for name, manager in (
            ("gitkruise-old", "gitkruise-install"),
            ("gitkruise-mine", "kubectl"),
        ):
            meta = {"name": name, "labels": {"app.kubernetes.io/name": "gitkruise"}}
            role = {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": meta,
                "rules": [],
            }
            request = replace(create(hall.world, role), params={"fieldManager": manager})
            await hall.transport.send(request)
        await hall.uninstall()
        assert not hall.has("ClusterRole", "gitkruise-old", group=RBAC)
        assert hall.has("ClusterRole", "gitkruise-mine", group=RBAC)

    hall.run(script)


def test_the_driver_is_named(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        await hall.create(web(replicas=1))
        done = await hall.uninstall(driver="OpenKruise's manager drives them")
        why = stays(done)[f"{CRD} clonesets.apps.kruise.io"]
        assert why.endswith("OpenKruise's manager drives them")

    hall.run(script)


def test_the_embedded_cluster_is_named_where_it_brings_definitions(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        bootstrap(hall.world, hall.clock.now(), nodes=1)
        why = stays(await hall.uninstall())[f"{CRD} clonesets.apps.kruise.io"]
        assert why == "the embedded cluster brings it"

    hall.run(script)


def test_a_deploy_key_goes_and_credentials_of_users_stay(hall: Hall) -> None:
    async def script(hall: Hall) -> None:
        await hall.install()
        key = await deploy_key(hall.transport, SPACE, "deploy-key", "")
        assert key.secret is not None
        request = replace(create(hall.world, key.secret), params={"fieldManager": MANAGER})
        await hall.transport.send(request)
        meta = {"name": "mine", "namespace": SPACE}
        await hall.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
        await hall.uninstall()
        assert not hall.has("Secret", "deploy-key", SPACE)
        assert hall.has("Secret", "mine", SPACE)

    hall.run(script)


def test_pods_fit_the_pod_security_of_their_namespace() -> None:
    """An API server creates a DaemonSet in any namespace, and forbids its pods later."""
    objects = every_object(SPACE)
    enforced = {
        obj["metadata"]["name"]: get(obj, "metadata", "labels", LEVEL, default="")
        for obj in objects
        if obj["kind"] == "Namespace"
    }
    seen = {}
    for obj in objects:
        pod = get(obj, "spec", "template", "spec")
        if pod is not None:
            host = any("hostPath" in volume for volume in pod["volumes"])
            root = any(get(c, "securityContext", "runAsUser") == 0 for c in pod["containers"])
            seen[obj["kind"]] = "privileged" if host or root else "restricted"
            assert enforced[obj["metadata"]["namespace"]] == seen[obj["kind"]]
    assert seen == {"Deployment": "restricted", "DaemonSet": "privileged"}
