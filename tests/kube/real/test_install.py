"""`gitkruise install` on a real API server, and whether the rights it gives are enough."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gitkruise.kube.client.discovery import is_served
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import data_dir, load_catalog
from gitkruise.model.gitops.unit_state import State
from gitkruise.webhook.registration import CONVERTED, Address
from gitkruise.webhook.service import WebhookOptions, serve_webhooks
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import APPLY_PATCH, MERGE_PATCH, ApiRequest, ResourceRef
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.installed import command
from tests.kube.real.shop import Shop, following, pods_run
from tests.webhook.test_registration import EVERYTHING

CRDS = ResourceRef("apiextensions.k8s.io", "v1", "customresourcedefinitions")
ACCOUNTS = ResourceRef("", "v1", "serviceaccounts")
OURS = 13  # CRDs in deploy/


def exported(root: Path, *words: str) -> list[Obj]:
    done = command("install", "--export", *words, root=root)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.slow
def test_export_is_what_kubectl_renders(kubectl: str, tmp_path: Path) -> None:
    def rendered(folder: Path) -> dict[ObjectKey, Obj]:
        words = [kubectl, "kustomize", str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return {key_of(o): o for o in yaml.safe_load_all(done.stdout)}

    deploy = data_dir("deploy")
    theirs = rendered(deploy)
    assert {key_of(o): o for o in exported(tmp_path)} == theirs
    theirs |= rendered(deploy / "webhook")
    assert {key_of(o): o for o in exported(tmp_path, "--webhooks")} == theirs


@pytest.mark.slow
def test_export_moves_to_another_namespace(tmp_path: Path) -> None:
    words = ("install", "--webhooks", "--export", "-n", "elsewhere", "--image", "me:1")
    done = command(*words, root=tmp_path)
    assert "gitkruise-system" not in done.stdout
    objects = list(yaml.safe_load_all(done.stdout))
    spaces = {o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"}
    assert spaces == {"elsewhere", "kruise-system"}
    pods = [o["spec"]["template"]["spec"] for o in objects if o["kind"] == "Deployment"]
    assert [pod["containers"][0]["image"] for pod in pods] == ["me:1", "me:1"]
    assert pods[1]["containers"][0]["args"][-2:] == ["--namespace", "elsewhere"]


@pytest.mark.kube
@pytest.mark.slow
def test_install_creates_then_changes_nothing(fresh: Apiserver, tmp_path: Path) -> None:
    config = str(fresh.kubeconfig())

    def changes(*words: str) -> list[str]:
        done = command("install", "-o", "json", "--kubeconfig", config, *words, root=tmp_path)
        assert done.returncode == 0, done.stderr
        return [item["change"] for item in json.loads(done.stdout)["items"]]

    everything = len(exported(tmp_path))
    assert changes("--dry-run") == ["created"] * everything
    assert changes("--crds", "--dry-run") == ["created"] * OURS, "the dry run wrote nothing"
    assert changes("--crds") == ["created"] * OURS
    assert sorted(set(changes())) == ["created", "unchanged"]
    again = changes("--dry-run")
    assert sorted(again) == ["left alone"] + ["unchanged"] * (everything - 1)
    assert changes("--image", "registry.example.com/gitkruise:2").count("configured") == 1


@pytest.mark.kube
@pytest.mark.slow
def test_crds_of_openkruise_are_left_alone_unless_asked(fresh: Apiserver, tmp_path: Path) -> None:
    recorded = data_dir("schemas") / "crds" / "clonesets.apps.kruise.io.json"

    async def as_openkruise() -> None:
        async with talking(fresh) as transport:
            await transport.send(
                ApiRequest(
                    verb="patch",
                    resource=CRDS,
                    name="clonesets.apps.kruise.io",
                    body=json.loads(recorded.read_bytes()),
                    content_type=APPLY_PATCH,
                    params={"fieldManager": "helm"},
                )
            )

    asyncio.run(as_openkruise())
    words = ("install", "--crds", "--kubeconfig", str(fresh.kubeconfig()))
    done = command(*words, root=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("left alone  CustomResourceDefinition clonesets.apps.kruise.io")
    assert "belongs to OpenKruise (applied by helm)" in first
    assert len(rest) == OURS - 1
    taken = command(*words, "--take-over", root=tmp_path).stdout.splitlines()[0]
    assert taken.startswith("configured  CustomResourceDefinition clonesets.apps.kruise.io")


@pytest.mark.kube
@pytest.mark.slow
def test_a_takeover_keeps_the_update_strategy_of_workloads(
    fresh: Apiserver, tmp_path: Path
) -> None:
    """OpenKruise 1.9 defines CloneSets in v1alpha1 alone."""
    recorded = data_dir("schemas") / "crds" / "clonesets.apps.kruise.io.json"
    crd = json.loads(recorded.read_bytes())
    (only,) = (v for v in crd["spec"]["versions"] if v["name"] == "v1alpha1")
    crd["spec"]["versions"] = [{**only, "served": True, "storage": True}]
    old = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": 3},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app:v1"}]},
            },
        },
    }
    alpha, beta = (ResourceRef("apps.kruise.io", v, "clonesets") for v in ("v1alpha1", "v1beta1"))

    async def as_openkruise() -> None:
        async with talking(fresh) as transport:
            apply = ApiRequest(
                verb="patch", resource=CRDS, name=crd["metadata"]["name"], body=crd,
                content_type=APPLY_PATCH, params={"fieldManager": "helm"},
            )  # fmt: skip
            await transport.send(apply)
            while not await is_served(transport, alpha):
                await SystemClock().sleep(0.1)
            one = replace(apply, resource=alpha, namespace="default", name="web")
            await transport.send(replace(one, body=old, params={"fieldManager": "gitkruise"}))
            counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas",
                      "updatedReadyReplicas")  # fmt: skip
            status = {"status": {"observedGeneration": 1, **dict.fromkeys(counts, 4)}}
            await transport.send(
                replace(one, subresource="status", body=status, content_type=MERGE_PATCH, params={})
            )

    async def taken() -> Obj:
        async with talking(fresh) as transport:
            find = ApiRequest(verb="get", resource=beta, namespace="default", name="web")
            return (await transport.send(find)).body

    asyncio.run(as_openkruise())
    words = ("install", "--crds", "--take-over", "--kubeconfig", str(fresh.kubeconfig()))
    done = command(*words, root=tmp_path)
    assert done.returncode == 0, done.stderr
    web = asyncio.run(taken())
    assert web["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 3},
    }
    owners = [entry["manager"] for entry in web["metadata"]["managedFields"]]
    assert owners[0] == "gitkruise"
    assert "gitkruise-install" not in owners


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Callback with id")
def test_the_rights_of_the_service_account_are_enough(
    fresh: Apiserver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Create, in place, recreate, scale, hold, prune, events and the lease as the account."""
    installed = command("install", "--kubeconfig", str(fresh.kubeconfig()), root=tmp_path)
    assert installed.returncode == 0, installed.stderr

    async def play() -> None:
        async with talking(fresh) as admin, pods_run(admin):
            token = await token_of(admin)
            async with talking(fresh, token) as account:
                shop = Shop(tmp_path)
                commit = shop.push("The shop")
                async with following(shop, account) as (_, news):
                    await news.settled(commit)
                    shop.edit("checkout", ("v2.4.0", "v2.4.1"), ("partition: 0", "partition: 1"))
                    shop.edit("cart", ("cart:v8", "cart:v9"), ("replicas: 3", "replicas: 2"))
                    (shop.clone / "apps/search/service.yaml").unlink()
                    record = await news.settled(shop.push("Move"), State.HELD)
                    assert record.findings == ()
            events = ApiRequest(verb="list", resource=ResourceRef("", "v1", "events"))
            reasons = {e["reason"] for e in (await admin.send(events)).body["items"]}
            assert "SuccessfulCreate" in reasons, "events may be written too"

    with caplog.at_level(logging.INFO, logger="gitkruise"):
        asyncio.run(play())
    refused = [line for line in caplog.messages if "forbidden" in line]
    unseen = [line for line in refused if "event=inventory-incomplete" in line]
    assert refused == unseen, "only kinds it may not bring are out of sight"
    assert any("secrets" in line for line in unseen)


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Callback with id")
def test_the_rights_of_the_webhooks_account_are_enough(fresh: Apiserver, tmp_path: Path) -> None:
    """Follow, make certificates, tell the cluster, repair; and installing again keeps the CRDs."""
    words = ("install", "--webhooks", "--kubeconfig", str(fresh.kubeconfig()))
    first = command(*words, root=tmp_path)
    assert first.returncode == 0, first.stderr

    async def play() -> None:
        async with talking(fresh) as admin:
            token = await token_of(admin, "gitkruise-webhook")
            async with talking(fresh, token) as account:
                address = Address(namespace="gitkruise-system", service="gitkruise-webhook")
                options = WebhookOptions(address=address, listen=Listen("127.0.0.1", 0))
                for written in (len(EVERYTHING), 0):
                    serving = serve_webhooks(options, account, load_catalog(), SystemClock())
                    async with serving as found:
                        assert len(found.written) == written

    asyncio.run(play())
    again = command(*words, root=tmp_path)
    assert again.returncode == 0, again.stderr
    kept = [line for line in again.stdout.splitlines() if "serves all its versions" in line]
    assert len(kept) == len(CONVERTED)


async def token_of(admin: HttpTransport, account: str = "gitkruise") -> str:
    request = ApiRequest(
        verb="create",
        resource=ACCOUNTS,
        namespace="gitkruise-system",
        name=account,
        subresource="token",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    token: str = (await admin.send(request)).body["status"]["token"]
    return token
