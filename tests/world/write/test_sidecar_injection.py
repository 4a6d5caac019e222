"""The model cluster injects sidecars into pods that are being created, and into no others."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import InternalError
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.sidecarset_annotations import INJECTED_LIST, mark_of
from gitkruise.model.workloads.sidecarset_hash import HASH
from gitkruise.model.workloads.sidecarset_revision import SET_LABEL, sidecarset_revision_data
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from tests.worlds import SPACE, START, Lab, cloneset, container, create, empty_world, pod

WEB: Final = {"matchLabels": {"app": "web"}}
ALPHA: Final = ResourceRef("apps.kruise.io", "v1alpha1", "sidecarsets")
SYSTEM: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-system"}}


def sidecarset(name: str = "ss", **spec: Any) -> dict[str, Any]:
    listed = [container("log", "log:1", startupProbe=PROBE)]
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": name},
        "spec": {"selector": WEB, "containers": listed, **spec},
    }


PROBE: Final = {"tcpSocket": {"port": 80}, "successThreshold": 1}


def web(name: str = "p", **labels: str) -> dict[str, Any]:
    made = pod(name)
    made["metadata"] |= {"labels": {"app": "web", **labels}, "namespace": SPACE}
    return made


def born(world: World, obj: dict[str, Any]) -> Any:
    return world.handle(create(world, obj), START).body


def names(made: Any) -> list[str]:
    return [one["name"] for one in made["spec"]["containers"]]


def test_a_pod_gets_its_sidecars_with_the_servers_defaults() -> None:
    world = empty_world()
    born(world, sidecarset())
    made = born(world, web())
    assert names(made) == ["log", "app"]
    assert made["spec"]["containers"][0]["startupProbe"]["timeoutSeconds"] == 1
    mark = mark_of(made["metadata"]["annotations"], "ss")
    assert (mark.updated, mark.sidecars) == ("2026-11-21T10:00:00Z", ("log",))


def test_a_pod_that_is_there_already_gets_none() -> None:
    world = empty_world()
    made = born(world, web())
    born(world, sidecarset())
    changed = {**made, "metadata": {**made["metadata"], "labels": {"app": "web", "x": "y"}}}
    resource = ResourceRef("", "v1", "pods")
    request = ApiRequest(verb="update", resource=resource, namespace=SPACE, name="p", body=changed)
    after = world.handle(request, START).body
    assert names(after) == ["app"]
    assert "annotations" not in after["metadata"]


@pytest.mark.parametrize(
    ("spec", "gates"),
    [
        pytest.param({"injectionStrategy": {"paused": True}}, Gates(), id="paused"),
        pytest.param({"selector": {"matchLabels": {"app": "db"}}}, Gates(), id="other labels"),
        pytest.param({"namespaceSelector": {"matchLabels": {"a": "b"}}}, Gates(), id="elsewhere"),
        pytest.param({}, Gates(pod_webhook=False), id="no webhook"),
    ],
)
def test_a_pod_that_is_not_meant(spec: dict[str, Any], gates: Gates) -> None:
    world = empty_world(gates=gates)
    born(world, sidecarset(**spec))
    assert names(born(world, web())) == ["app"]


def test_v1alpha1_means_one_namespace() -> None:
    world = empty_world()
    sent = sidecarset(namespace=SPACE)
    born(world, {**sent, "apiVersion": "apps.kruise.io/v1alpha1"})
    assert names(born(world, web())) == ["log", "app"]
    other = web()
    other["metadata"]["namespace"] = "default"
    assert names(born(world, other)) == ["app"]
    read = world.handle(ApiRequest(verb="get", resource=ALPHA, name="ss"), START).body["spec"]
    assert "namespace" not in read
    assert read["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": SPACE}


def history(labels: dict[str, str]) -> dict[str, Any]:
    old = sidecarset(containers=[container("log", "log:0", imagePullPolicy="Always")])
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "ss-0", "namespace": "kruise-system", "labels": labels},
        "data": RawJSON(sidecarset_revision_data(old)),
        "revision": 1,
    }


@pytest.mark.parametrize("pin", [{"revisionName": "ss-0"}, {"customVersion": "v0"}], ids=str)
def test_a_pinned_revision_is_looked_up(pin: dict[str, str]) -> None:
    world = empty_world()
    born(world, SYSTEM)
    labels = {SET_LABEL: "ss", "apps.kruise.io/sidecarset-custom-version": "v0"}
    born(world, history(labels))
    born(world, sidecarset(injectionStrategy={"revision": pin}))
    made = born(world, web())
    assert [one["image"] for one in made["spec"]["containers"]] == ["app:v1", "log:0"]
    assert mark_of(made["metadata"]["annotations"], "ss").revision == "ss-0"


def test_a_sidecar_that_cannot_be_injected_stops_the_pod_with_a_reason() -> None:
    """A 500, as OpenKruise's webhook answers: the controller of the pod retries."""
    world = empty_world()
    formula = {
        "targetContainersMode": "sum",
        "targetContainersNameRegex": "^nothing$",
        "resourcesExpr": {"limits": {"cpu": "cpu*50%"}},
    }
    born(world, sidecarset(containers=[container("log", "log:1", resourcesPolicy=formula)]))
    with pytest.raises(InternalError, match="SidecarSet ss: targetContainersNameRegex matches no"):
        born(world, web())


def test_pods_of_a_cloneset_are_injected_in_a_forecast_as_in_the_cluster() -> None:
    lab = Lab()
    lab.apply(cloneset(replicas=2))
    lab.run()
    twin = lab.world.fork(fast_path=True)
    for world in (lab.world, twin):
        world.handle(create(world, sidecarset(selector={"matchLabels": {"app": "new"}})), lab.now)
        made = [
            world.handle(
                create(world, web(f"{'twin' if world is twin else 'live'}-{n}", app="new")), lab.now
            ).body
            for n in range(2)
        ]
        assert [names(one) for one in made] == [["log", "app"]] * 2
        assert all(one["metadata"]["annotations"][INJECTED_LIST] == "ss" for one in made)


def test_status_writes_leave_the_hash_alone() -> None:
    world = empty_world()
    stored = born(world, sidecarset())
    status = {"matchedPods": 0, "updatedPods": 0, "readyPods": 0, "latestRevision": "ss-1"}
    request = ApiRequest(
        verb="update",
        resource=ResourceRef("apps.kruise.io", "v1beta1", "sidecarsets"),
        name="ss",
        subresource="status",
        body={**stored, "status": status},
    )
    after = world.handle(request, START).body
    assert after["status"] == status
    assert after["metadata"]["annotations"][HASH] == stored["metadata"]["annotations"][HASH]


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_how_the_kind_is_served(version: str) -> None:
    kind = load_catalog().by_kind("apps.kruise.io", version, "SidecarSet")
    assert kind is not None
    assert (kind.plural, kind.short_names, kind.namespaced, kind.storage_version) == (
        "sidecarsets",
        (),
        False,
        "v1beta1",
    )
    assert kind.subresources == {"status"}
    assert kind.scale is None
    assert [(c.name, c.json_path) for c in kind.columns] == [
        ("MATCHED", ".status.matchedPods"),
        ("UPDATED", ".status.updatedPods"),
        ("READY", ".status.readyPods"),
        ("AGE", ".metadata.creationTimestamp"),
    ]
    assert kind.group_kind == GroupKind("apps.kruise.io", "SidecarSet")
