"""Pods that get the sidecars of three SidecarSets per second, and the cost of admission."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from bench.templates import template
from bench.timing import Row, cpu
from gitkruise.admission.chain import admit
from gitkruise.admission.injection.inject import inject
from gitkruise.admission.injection.matching import NewPod
from gitkruise.admission.rules.request import CREATE, AdmissionRequest
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.sidecarset import SidecarSetFacts, sidecarset_facts
from gitkruise.wire.kruise.sidecar_defaults import default_sidecarset_spec
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.world.api.cluster import World

COUNT: Final = 1000
NOW: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)
GOAL: Final = 2000
HOT: Final = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}


def sidecarset(name: str, **spec: Any) -> Obj:
    full = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": name, "resourceVersion": "1", "uid": name, "annotations": {}},
        "spec": default_sidecarset_spec(full, "v1beta1"),
    }


def sidecarsets() -> list[Obj]:
    """A hot mesh that borrows mounts and variables, a log shipper, and a native sidecar."""
    mesh = {
        "name": "mesh", "image": "mesh:1", "upgradeStrategy": HOT,
        "shareVolumePolicy": {"type": "enabled"},
        "transferEnv": [{"sourceContainerName": "app", "envNames": ["RELEASE"]}],
        "volumeMounts": [{"name": "mesh", "mountPath": "/etc/mesh"}],
        "env": [{"name": "LOG", "value": "info"}],
    }  # fmt: skip
    shipper = {"name": "ship", "image": "ship:1", "podInjectPolicy": "AfterAppContainer"}
    net = {"name": "net", "image": "net:1", "restartPolicy": "Always"}
    patch = {"annotations": {"oom": '{"mesh":1}'}, "patchPolicy": "MergePatchJson"}
    volumes = [{"name": "mesh", "emptyDir": {}}]
    return [
        sidecarset("mesh", containers=[mesh], volumes=volumes, patchPodMetadata=[patch]),
        sidecarset("ship", containers=[shipper], imagePullSecrets=[{"name": "registry"}]),
        sidecarset("net", initContainers=[net], updateStrategy={"type": "NotUpdate"}),
    ]


def pod(number: int) -> dict[str, Any]:
    made = template(number)
    meta = {"name": f"web-{number}", "namespace": "shop", **made["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


def rows() -> Iterator[Row]:
    pods = [pod(number) for number in range(COUNT)]
    sets = [sidecarset_facts(raw) for raw in sidecarsets()]
    spent = cpu(lambda: [_inject(one, sets) for one in pods])
    yield Row(
        name="injection of three SidecarSets",
        value=COUNT / spent,
        unit="pods/s",
        limit=GOAL,
        least=True,
    )
    for count in (0, 3):
        view = _view(count)
        requests = [_request(one, view) for one in pods]
        spent = cpu(lambda: [admit(request, Gates()) for request in requests])  # noqa: B023  # used in the loop
        yield Row(name=f"whole admission, {count} SidecarSets", value=COUNT / spent, unit="pods/s")


def _inject(sent: Obj, sets: list[SidecarSetFacts]) -> Obj:
    labels = sent["metadata"]["labels"]
    newborn = NewPod(namespace="shop", namespace_labels={}, labels=labels)
    return inject(sent, sets, newborn, lambda facts, pin: None, NOW).pod


def _view(count: int) -> World:
    world = World(load_catalog())
    kept = sidecarsets()[:count]
    world.restore(kept, 1)
    return world


def _request(sent: Obj, view: World) -> AdmissionRequest:
    kind = view.catalog.by_kind("", "v1", "Pod")
    assert kind is not None
    key = ObjectKey("", "Pod", "shop", sent["metadata"]["name"])
    return AdmissionRequest(operation=CREATE, kind=kind, key=key, obj=sent, now=NOW, view=view)
