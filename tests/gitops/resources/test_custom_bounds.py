"""How far objects of the cluster reach: namespaces, service accounts, folders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gitkruise.gitops.resources.declared import ResourceReader, ResourceRules
from gitkruise.gitops.resources.expression_checks import ExpressionChecks
from gitkruise.gitops.workers.pool import InProcess
from gitkruise.model.gitops.config import Config
from tests.gitops.objects import House, play
from tests.gitops.stage import config_map

REFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("sourceRef", {"sourceRef": {"name": "src", "namespace": "default"}}),
    ("decryption", {"render": {"decryption": {
        "provider": "sops", "secretRef": {"name": "keys", "namespace": "default"}}}}),
    ("dependsOn", {"dependsOn": [{"name": "other", "namespace": "default"}]}),
]  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [REFERENCES[0], *(pytest.param(row, marks=pytest.mark.slow) for row in REFERENCES[1:])],
    ids=[row[0] for row in REFERENCES],
)
def test_other_namespaces_are_out_of_reach(hands: House, row: tuple[str, dict[str, Any]]) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.source("default/src")
        await hands.unit("web", **row[1])
        await hands.rest()
        assert hands.has("a") == [False]
        assert hands.says("Unit", "web") == ("False", "InvalidSpec")
        assert "namespace default; next: refer to the own" in hands.message("Unit", "web")

    play(hands, script)


@pytest.mark.slow
def test_other_namespaces_are_in_reach_when_that_is_allowed(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source("default/src")
        await hands.unit("web", **REFERENCES[0][1])
        await hands.rest()
        assert hands.has("a") == [True]

    play(hands, script, hands.program(cross_namespace=True))


def test_inside_a_cluster_units_of_others_name_an_account(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest()
        assert "GK7051" in hands.message("Unit", "web")

    play(hands, script, hands.program(home="gitkruise-system"))


LOCAL: list[str] = [
    "/srv/mirror.git", "//srv/mirror.git", "file:///srv/mirror.git", "FILE:///srv/mirror.git",
    "file://localhost/srv/mirror.git", "./mirror.git", "../mirror.git", "mirror", ".", "~/x.git",
    "ext::sh -c id", "fd::7", "--upload-pack=id", "-x", "git://host/x.git", "host:path",
    "https://host/-x", "ssh://-oProxyCommand=id/x", "a@-oProxyCommand=id:x", "C:/x",
]  # fmt: skip
FAR: list[str] = ["https://host/x.git", "ssh://git@host/x.git", "git@host:team/x.git"]


@pytest.mark.parametrize("url", [*LOCAL, *FAR])
@pytest.mark.parametrize("home", ["", "shop", "gitkruise-system"])
def test_an_object_names_remote_repositories_only(url: str, home: str) -> None:
    meta = {"name": "src", "namespace": "shop", "uid": url, "generation": 1}
    source = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "GitSource", "metadata": meta,
        "spec": {"url": url},
    }  # fmt: skip
    reader = ResourceReader(Config(), ResourceRules(home=home), ExpressionChecks(InProcess()))
    declared = asyncio.run(reader.read([source], ""))
    broken = declared.broken.get(("GitSource", "shop/src"))
    assert (broken.code if broken else "") == ("GK7052" if url in LOCAL else "")
    assert ("shop/src" in declared.config.sources) == (url in FAR)


def test_the_next_step_for_a_folder_names_the_option_of_the_embedded_cluster() -> None:
    meta = {"name": "src", "namespace": "shop", "uid": "1", "generation": 1}
    source = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "GitSource", "metadata": meta,
        "spec": {"url": "/srv/fleet.git"},
    }  # fmt: skip
    reader = ResourceReader(Config(), ResourceRules(), ExpressionChecks(InProcess()))
    broken = asyncio.run(reader.read([source], "")).broken["GitSource", "shop/src"]
    assert dict(broken.notes)["next"].endswith("gitkruise run --sandbox --local-sources")


@pytest.mark.parametrize("url", ["/srv/bases.git", "file:///srv/bases.git", "https://a.example/b"])
def test_an_object_has_no_bases_of_gitkruises_own_machine(url: str) -> None:
    unit = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "Unit",
        "metadata": {"name": "web", "namespace": "shop", "uid": url, "generation": 1},
        "spec": {
            "sourceRef": {"name": "src"}, "serviceAccountName": "deployer",
            "render": {"kustomize": {"remoteBases": [{"url": url}]}},
        },
    }  # fmt: skip
    reader = ResourceReader(Config(), ResourceRules(home=""), ExpressionChecks(InProcess()))
    broken = asyncio.run(reader.read([unit], "")).broken.get(("Unit", "shop/web"))
    assert (broken is not None and broken.code == "GK7052") == (not url.startswith("https:"))


def test_a_default_of_earlier_definitions_is_no_unknown_field() -> None:
    """Its API server adds `onPlanChange: warn`; another value is written by a user."""

    def code(word: str) -> str:
        unit = {
            "apiVersion": "gitkruise.io/v1alpha1", "kind": "Unit",
            "metadata": {"name": "web", "namespace": "shop", "uid": "1", "generation": 1},
            "spec": {
                "sourceRef": {"name": "src"}, "serviceAccountName": "deployer",
                "workloads": {"engine": "own", "onPlanChange": word},
            },
        }  # fmt: skip
        reader = ResourceReader(Config(), ResourceRules(home=""), ExpressionChecks(InProcess()))
        broken = asyncio.run(reader.read([unit], "")).broken.get(("Unit", "shop/web"))
        return broken.code if broken else ""

    assert (code("warn"), code("block")) == ("", "GK7003")


NEAR: list[tuple[str, str]] = [
    ("http://prometheus.shop.svc:9090", ""), ("https://prometheus.example.com", ""),
    ("http://prometheus.monitoring.svc:9090", "it is a Service of namespace monitoring"),
    ("http://127.0.0.1:9090", "gitkruise's own machine"),
    ("https://169.254.169.254", "not by IP addresses"),
    ("http://prometheus.example.com", "http is for Services"),
]  # fmt: skip


@pytest.mark.parametrize(("address", "why"), NEAR)
@pytest.mark.parametrize("kind", ["prometheus", "web"])
def test_an_object_measures_by_https_or_in_its_own_namespace(
    kind: str, address: str, why: str
) -> None:
    provider = {"web": {"url": address}, "prometheus": {"address": address, "query": "up"}}[kind]
    promotion = {
        "workload": {"kind": "CloneSet", "name": "web"}, "via": "commit",
        "steps": [{"partition": 3, "analysis": ["up"]}, {"partition": 0}],
        "metrics": [{"name": "up", "provider": {kind: provider}}],
    }  # fmt: skip
    unit = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "Unit",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "generation": 1},
        "spec": {"sourceRef": {"name": "src"}, "promotion": promotion},
    }  # fmt: skip

    def refused(rules: ResourceRules) -> str:
        reader = ResourceReader(Config(), rules, ExpressionChecks(InProcess()))
        declared = asyncio.run(reader.read([unit], ""))
        finding = declared.broken.get(("Unit", "shop/web"))
        return finding.message if finding is not None and finding.code == "GK7053" else ""

    found = refused(ResourceRules())
    assert why in found if why else not found
    freed = refused(ResourceRules(cross_namespace=True, local_sources=True))
    assert bool(freed) == (bool(why) and "namespace" not in why and "own machine" not in why)


# Artifact that an object follows, and why it may not.
ARTIFACTS = [
    ("oci://ghcr.io/example/app", ""), ("oci://registry.shop.svc:5000/app", ""),
    ("oci://localhost:5000/app", "own machine"), ("oci://10.0.0.1/app", "not by IP addresses"),
    ("oci://registry.other.svc/app", "Service of namespace other"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "why"), ARTIFACTS)
def test_an_object_follows_artifacts_from_where_it_may_measure(url: str, why: str) -> None:
    source = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "GitSource",
        "metadata": {"name": "app", "namespace": "shop", "uid": "1", "generation": 1},
        "spec": {"url": url},
    }  # fmt: skip
    reader = ResourceReader(Config(), ResourceRules(), ExpressionChecks(InProcess()))
    declared = asyncio.run(reader.read([source], ""))
    finding = declared.broken.get(("GitSource", "shop/app"))
    assert (finding.code if finding else "") == ("GK7053" if why else "")
    if finding is not None:
        assert why in finding.message
    else:
        assert declared.config.sources["shop/app"].custom, "its requests are guarded"


# Repository of charts that an object names, and why it may not.
CHARTS = [
    ("https://charts.example.com", ""), ("oci://ghcr.io/example/charts", ""),
    ("http://charts.shop.svc:8080", ""), ("oci://localhost:5000/charts", "own machine"),
    ("http://charts.other.svc", "Service of namespace other"),
    ("oci://10.0.0.1/charts", "not by IP addresses"), ("oci://registry.other.svc/a", "namespace"),
]  # fmt: skip


@pytest.mark.parametrize(("repository", "why"), CHARTS)
def test_an_object_takes_charts_from_where_it_may_measure(repository: str, why: str) -> None:
    helm = {"repository": repository, "chart": "web", "version": "1.x"}
    unit = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "Unit",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "generation": 1},
        "spec": {"sourceRef": {"name": "src"}, "render": {"kind": "helm", "helm": helm}},
    }  # fmt: skip
    reader = ResourceReader(Config(), ResourceRules(), ExpressionChecks(InProcess()))
    finding = asyncio.run(reader.read([unit], "")).broken.get(("Unit", "shop/web"))
    assert (finding is not None and finding.code == "GK7053") == bool(why)
    assert why in (finding.message if finding is not None else "")


# Image that an object follows, and why it may not.
IMAGES = [
    ("registry.example.com/shop/web", ""), ("nginx", ""), ("registry.shop.svc:5000/web", ""),
    ("localhost:5000/web", "own machine"), ("10.0.0.1:5000/web", "not by IP addresses"),
    ("registry.other.svc/web", "Service of namespace other"),
]  # fmt: skip


@pytest.mark.parametrize(("repository", "why"), IMAGES)
def test_an_object_follows_images_of_registries_where_it_may_measure(
    repository: str, why: str
) -> None:
    image = {"repository": repository, "policy": {"numerical": {}}, "write": "none"}
    unit = {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "Unit",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "generation": 1},
        "spec": {"sourceRef": {"name": "src"}, "images": [image]},
    }  # fmt: skip
    reader = ResourceReader(Config(), ResourceRules(), ExpressionChecks(InProcess()))
    finding = asyncio.run(reader.read([unit], "")).broken.get(("Unit", "shop/web"))
    assert (finding is not None and finding.code == "GK7053") == bool(why)
    assert why in (finding.message if finding is not None else "")


def test_a_folder_is_refused_in_the_condition_and_no_word_of_it_is_read(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest()
        assert hands.says("GitSource", "src") == ("False", "InvalidSpec")
        assert "a folder of gitkruise's own machine" in hands.message("GitSource", "src")
        assert hands.has("a") == [False]

    play(hands, script, hands.program(local_sources=False))


@pytest.mark.slow
def test_the_default_account_counts_for_units_without_one(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest()
        assert hands.has("a") == [True]
        users = {r.user for r in hands.stage.wire.requests if r.resource.plural == "configmaps"}
        assert "system:serviceaccount:shop:standard" in users

    play(hands, script, hands.program(default_account="standard"))
