"""What a cluster is told about the webhooks, and that it is kept so."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.admission.kruise.deletion_protection import KINDS
from gitkruise.errors import ClusterFailed, UsageProblem
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.serve.certificates import server_context
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import KRUISE_GROUPS, load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.webhook.certificates import FolderVault, current
from gitkruise.webhook.registration import (
    NODE_REQUESTS,
    OPENKRUISE,
    WORKLOADS,
    Address,
    Registrar,
    configurations,
)
from gitkruise.webhook.service import CertificateManager
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from gitkruise.world.api.cluster import World
from tests.webhook.hooked import Hooked, hooked, play
from tests.worlds import START, create, empty_world, installable_crds

SERVICE = Address(namespace="gitkruise-system", service="gitkruise-webhook")
URL = Address(namespace="gitkruise-system", url="https://[::1]:9443")
CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
GROUP = "admissionregistration.k8s.io"
EVERYTHING = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "clonesets.apps.kruise.io",
    "sidecarsets.apps.kruise.io",
    "statefulsets.apps.kruise.io",
    "workloadspreads.apps.kruise.io",
    "podunavailablebudgets.policy.kruise.io",
]


def installed() -> World:
    world = empty_world()
    for crd in installable_crds():
        if crd["spec"]["group"] in KRUISE_GROUPS:
            world.handle(create(world, crd), START)
    return world


def found(world: World, kind: str) -> Any:
    return world.get(ObjectKey(GROUP, f"{kind}WebhookConfiguration", "", "gitkruise"))


def crd(world: World, plural: str = "clonesets") -> Any:
    return world.get(ObjectKey(*CRD, "", f"{plural}.apps.kruise.io"))


@pytest.mark.parametrize("address", [SERVICE, URL], ids=["service", "url"])
def test_the_webhook_is_registered_once_and_removed_again(address: Address) -> None:
    world = installed()
    registrar = Registrar(WorldTransport(Cluster(world, lambda: START)), address)

    async def main() -> None:
        assert await registrar.publish(b"CA 1") == EVERYTHING
        version = world.version
        assert await registrar.publish(b"CA 1") == []
        assert world.version == version, "nothing was written"
        assert await registrar.publish(b"CA 2") == EVERYTHING, "another authority"
        assert len(await registrar.withdraw()) == len(EVERYTHING)
        assert await registrar.withdraw() == []

    asyncio.run(main())
    assert found(world, "Mutating") is None
    assert get(crd(world), "spec", "conversion") == {"strategy": "None"}
    assert [v["served"] for v in crd(world)["spec"]["versions"]] == [False, True]


def test_the_conversion_of_openkruise_is_not_withdrawn() -> None:
    world = installed()
    transport = WorldTransport(Cluster(world, lambda: START))
    registrar = Registrar(transport, SERVICE)

    async def main() -> None:
        await registrar.publish(b"CA 1")
        service = {"namespace": "kruise-system", "name": "kruise-webhook-service"}
        client = {"service": service, "caBundle": base64.b64encode(b"CA 2").decode()}
        theirs = {"spec": {"conversion": {"webhook": {"clientConfig": client}}}}
        name = "clonesets.apps.kruise.io"
        await transport.send(
            ApiRequest(
                verb="patch", resource=CRDS, name=name, body=theirs, content_type=MERGE_PATCH,
                params={"fieldManager": "kruise-manager"},
            )
        )  # fmt: skip
        assert [key.name for key in await registrar.registered()] == [
            "gitkruise", "gitkruise", *EVERYTHING[3:]
        ]  # fmt: skip
        await registrar.withdraw()
        assert await registrar.registered() == []

    asyncio.run(main())
    assert get(crd(world), "spec", "conversion", "strategy") == "Webhook"
    assert all(v["served"] for v in crd(world)["spec"]["versions"])


def test_pods_are_never_held_up_and_our_kinds_are() -> None:
    (_, mutating), (_, validating) = configurations(SERVICE, b"CA")
    by_name = {w["name"].partition(".")[0]: w for w in mutating["webhooks"]}
    assert list(by_name) == ["pods", "clonesets", "sidecarsets", "statefulsets", *NODE_REQUESTS]
    pods = by_name["pods"]
    assert (pods["failurePolicy"], pods["rules"][0]["operations"]) == ("Ignore", ["CREATE"])
    outside = pods["namespaceSelector"]["matchExpressions"][0]
    assert (outside["operator"], set(outside["values"])) == (
        "NotIn",
        {"kube-system", "kube-node-lease", "gitkruise-system"},
    )
    *kinds, protected = validating["webhooks"]
    for webhook in (*(by_name[kind] for kind in WORKLOADS), *kinds):
        assert webhook["failurePolicy"] == "Fail"
        assert set(webhook["rules"][0]["apiGroups"]) <= KRUISE_GROUPS
    assert protected["name"].startswith("leaving-pods.")
    assert (protected["failurePolicy"], protected["sideEffects"]) == ("Ignore", "NoneOnDryRun")
    assert pods["sideEffects"] == "NoneOnDryRun"
    for webhook in (*mutating["webhooks"], *kinds):
        assert webhook["sideEffects"] == "None" or webhook is pods
        assert webhook["timeoutSeconds"] <= 5
        assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == b"CA"


@pytest.mark.parametrize(
    ("gates", "asked"),
    [
        (Gates(), [("DELETE", "pods"), ("CREATE", "pods/eviction")]),
        (
            Gates(pod_unavailable_budget_update_gate=True),
            [("DELETE", "pods"), ("CREATE", "pods/eviction"), ("UPDATE", "pods")],
        ),
        (
            Gates(
                pod_unavailable_budget_delete_gate=False, pod_unavailable_budget_update_gate=True
            ),
            [("UPDATE", "pods")],
        ),
        (Gates(pod_unavailable_budget_delete_gate=False), None),
    ],
    ids=["delete", "both", "update", "none"],
)
def test_pub_52_what_budgets_are_asked_about(
    gates: Gates, asked: list[tuple[str, str]] | None
) -> None:
    *_, (_, validating) = configurations(SERVICE, b"CA", replace(gates, workload_spread=False))
    by_name = {w["name"].partition(".")[0]: w for w in validating["webhooks"]}
    there = "leaving-pods" in by_name
    assert ("podunavailablebudgets" in by_name) == there == (asked is not None)
    if asked is not None:
        rules = by_name["leaving-pods"]["rules"]
        assert [(r["operations"][0], r["resources"][0]) for r in rules] == asked


def test_ws_12_40_what_spreads_are_asked_about() -> None:
    off = Gates(pod_unavailable_budget_delete_gate=False)
    (_, mutating), (_, validating) = configurations(SERVICE, b"CA", off)
    by_name = {w["name"].partition(".")[0]: w for w in validating["webhooks"]}
    assert "workloadspreads" in by_name
    rules = by_name["leaving-pods"]["rules"]
    asked = [(r["operations"][0], r["resources"][0]) for r in rules]
    assert asked == [("DELETE", "pods"), ("CREATE", "pods/eviction")]
    assert mutating["webhooks"][0]["sideEffects"] == "NoneOnDryRun"
    (_, mutating), (_, validating) = configurations(
        SERVICE, b"CA", replace(off, workload_spread=False)
    )
    names = {w["name"].partition(".")[0] for w in validating["webhooks"]}
    assert not names & {"workloadspreads", "leaving-pods"}
    assert mutating["webhooks"][0]["sideEffects"] == "None"


def test_only_what_bears_the_label_is_protected() -> None:
    *_, (_, validating) = configurations(SERVICE, b"CA", Gates(resources_deletion_protection=True))
    by_name = {w["name"].partition(".")[0]: w for w in validating["webhooks"]}
    protection = by_name.pop("protection")
    assert list(by_name.values()) == configurations(SERVICE, b"CA")[1][1]["webhooks"]
    (labelled,) = protection["objectSelector"]["matchExpressions"]
    assert labelled == {"key": "policy.kruise.io/delete-protection", "operator": "Exists"}
    assert protection["failurePolicy"] == "Fail"
    assert {op for rule in protection["rules"] for op in rule["operations"]} == {"DELETE"}
    kinds = {
        (g, r) for rule in protection["rules"] for g in rule["apiGroups"] for r in rule["resources"]
    }
    protected = (kind for kind in load_catalog().kinds() if kind.group_kind in KINDS)
    served = {(kind.group, kind.plural) for kind in protected}
    assert kinds == served, "every kind that admission protects"


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        (SERVICE, "gitkruise-webhook.gitkruise-system.svc"),
        (URL, "::1"),
        (Address(namespace="n", url="https://hook.example.com:8443/base/"), "hook.example.com"),
        (Address(namespace="n", url="https://10.0.0.5"), "10.0.0.5"),
    ],
)
def test_the_certificate_is_for_the_host_that_is_called(address: Address, hosts: str) -> None:
    assert address.hosts[0] == hosts


def test_a_url_keeps_its_base() -> None:
    address = Address(namespace="n", url="https://h:1/base/")
    assert address.client("/mutate", b"")["url"] == "https://h:1/base/mutate"


def test_what_others_change_is_put_right_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = installed()
    clock = SystemClock(speed=1000)

    async def main() -> None:
        transport = WorldTransport(Cluster(world, lambda: START))
        vault, registrar = FolderVault(tmp_path), Registrar(transport, SERVICE)
        shown = await current(vault, SERVICE.hosts, clock.now())
        await registrar.publish(shown.bundle)
        context = server_context(shown.server)
        keeper = CertificateManager(registrar, vault, context, SERVICE.hosts, clock)
        assert await keeper.check(shown) == shown
        await registrar.withdraw()
        assert await keeper.check(shown) == shown

    with caplog.at_level(logging.WARNING, logger="gitkruise.webhook"):
        asyncio.run(main())
    assert found(world, "Mutating") is not None
    assert get(crd(world), "spec", "conversion", "strategy") == "Webhook"
    assert sum("event=webhook-restored" in line for line in caplog.messages) == len(EVERYTHING)


def test_another_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with hooked(tmp_path, installed()) as hooks:
            before, vault = await _shown(hooks), FolderVault(hooks.folder)
            registrar, clock = Registrar(hooks.transport, URL), SystemClock(speed=1000)
            old = await current(vault, ("127.0.0.1",), clock.now())
            hosts = ("127.0.0.1", "hook.example.com")
            keeper = CertificateManager(registrar, vault, hooks.serving.context, hosts, clock)
            fresh = await keeper.check(old)
            assert fresh.server != old.server
            assert await _shown(hooks) != before

    asyncio.run(main())


async def _shown(hooks: Hooked) -> bytes:
    """The certificate a new connection sees."""
    context = ssl.create_default_context(cafile=str(hooks.folder / "ca.crt"))
    _, writer = await asyncio.open_connection("127.0.0.1", hooks.serving.port, ssl=context)
    seen: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return seen


def test_it_is_refused_beside_openkruise(tmp_path: Path) -> None:
    world = installed()
    theirs: Obj = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": OPENKRUISE},
    }
    world.handle(create(world, theirs), START)

    async def never(_: Hooked) -> None:
        raise AssertionError

    with pytest.raises(ClusterFailed, match="GK5111"):
        play(tmp_path, never, world)
    assert found(world, "Mutating") is None


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async def script(first: Hooked) -> None:
        async with hooked(tmp_path, port=first.serving.port):
            raise AssertionError

    with pytest.raises(ExceptionGroup) as refused:
        play(tmp_path, script)
    assert refused.group_contains(UsageProblem, match="GK5110")
