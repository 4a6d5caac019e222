"""The fast path plays a rollout exactly as a full cluster: same trace, same objects.

It takes fewer writes to get there, so versions, and uids made of them, are its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.errors import Conflict, InvalidObject
from gitkruise.model.planning.plan import Action, Create, Delete, Patch, PatchStep
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.wire.primitives.names import Obj, key_of
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.requests import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiRequest,
    ResourceRef,
)
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.client import bind, remove
from gitkruise.world.controllers.garbage_collector import GarbageCollector
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.controllers.volumes import VolumeController
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.kubelet.runtime import container_id
from gitkruise.world.simulation.simulation import SimulatedComponent, Simulation
from tests.traces import render_text
from tests.worlds import PODS, SPACE, START, Lab, cloneset, container, create, pod, template

CLONESETS: Final = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CONTAINER_ID: Final = re.compile(r"containerd://[0-9a-f]{64}")
ADDRESS: Final = re.compile(r"10\.244\.\d+\.\d+")
GATES: Final = Gates(in_place_workload_vertical_scaling=True)
REPORTED: Final = {"Pod", "CloneSet", "SidecarSet"}
SIDECAR: Final = container("log", "log:v1", restartPolicy="Always")
INIT: Final = container("init", "init:v1")
PROBED: Final = {
    "containers": [
        container(
            ports=[{"containerPort": 80, "name": "http"}],
            readinessProbe={"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 2},
            env=[{"name": "A", "value": "1"}],
            resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        )
    ],
    "initContainers": [INIT, SIDECAR],
}


def image(tag: str) -> dict[str, Any]:
    return {"spec": {"template": template(f"app:{tag}")}}


def cpu(amount: str) -> dict[str, Any]:
    one = {**PROBED["containers"][0], "resources": {"limits": {"cpu": amount, "memory": "1Gi"}}}
    return {"spec": {"template": {"spec": {"containers": [one]}}}}


KEY: Final = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a"}}}
HOOKED: Final = {"inPlaceUpdate": {"finalizersHandler": ["example.com/hook"]}}
CLAIMS: Final = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]
ROWS: Final[Mapping[str, tuple[Obj, Mapping[str, Any]]]] = {
    "in place": (cloneset(maxUnavailable=2), image("v2")),
    "in place with a grace period": (
        cloneset(inPlaceUpdateStrategy={"gracePeriodSeconds": 10}),
        image("v2"),
    ),
    "recreate": (cloneset(podUpdatePolicy="ReCreate", maxUnavailable=2), image("v2")),
    "surge": (cloneset(podUpdatePolicy="ReCreate", maxSurge=2, maxUnavailable=0), image("v2")),
    "bad image": (cloneset(maxUnavailable=2), image("missing")),
    "scale out": (cloneset(), {"spec": {"replicas": 9}}),
    "scale in": (cloneset(), {"spec": {"replicas": 2}}),
    "template labels": (
        cloneset(),
        {"spec": {"template": {"metadata": {"labels": {"app": "web", "tier": "x"}}}}},
    ),
    "paused": (cloneset(), {"spec": {**image("v2")["spec"], "updateStrategy": {"paused": True}}}),
}


def with_spec(base: Obj, **spec: Any) -> Obj:
    return {**base, "spec": {**base["spec"], **spec}}


def with_template(**spec: Any) -> Obj:
    base = cloneset(maxUnavailable=2)
    return with_spec(base, template={**base["spec"]["template"], "spec": spec})


MORE: Final[Mapping[str, tuple[Obj, Mapping[str, Any]]]] = {
    "a hook that blocks": (with_spec(cloneset(), lifecycle=HOOKED), image("v2")),
    "claims": (
        with_spec(cloneset(podUpdatePolicy="ReCreate"), volumeClaimTemplates=CLAIMS),
        image("v2"),
    ),
    "minReadySeconds": (with_spec(cloneset(), minReadySeconds=20), image("v2")),
    "crashing": (cloneset(maxUnavailable=2), image("crash")),
    "a ConfigMap that is missing": (
        with_template(containers=[container()]),
        {"spec": {"template": {"spec": {"containers": [container(image="app:v2", env=[KEY])]}}}},
    ),
    "probes, sidecars and resources": (with_template(**PROBED), image("v2")),
    "vertical resize": (with_template(**PROBED), cpu("2")),
}


def played(lab: Lab, body: Mapping[str, Any], *, lean: bool) -> tuple[str, World]:
    """The trace of the rollout that `body` starts, and the cluster after it."""
    request = ApiRequest(
        verb="patch",
        resource=CLONESETS,
        namespace=SPACE,
        name="web",
        body=body,
        content_type=MERGE_PATCH,
    )
    full = lab.world.fork()
    full.handle(request, lab.now)
    world = full.fork(fast_path=lean)
    parts: list[SimulatedComponent] = [
        GarbageCollector(),
        VolumeController(),
        Scheduler(events=False),
    ]
    parts.append(Kubelet(FAST, events=not lean))  # without events, pods share states
    simulation = Simulation(world, parts, EMBEDDED, GATES, lab.now)
    simulation.events = False
    trace = simulation.run_until(lab.now + timedelta(minutes=10))
    return render_text(trace), world


def contents(world: World) -> list[Obj]:
    """All objects, but for versions, who reported a status, and what is made of a pod's uid."""
    objects = [obj for obj in world.state.everything() if obj["kind"] != "Event"]
    names = {o["metadata"]["uid"]: f"{o['kind']} {o['metadata']['name']}" for o in objects}

    def named(text: str) -> str:
        for _ in range(2):  # a volume is named by the uid of its claim
            text = UID.sub(lambda found: names.get(found[0], found[0]), text)
        return ADDRESS.sub("10.244", CONTAINER_ID.sub("containerd://", text))

    texts = [named(json.dumps(promised(obj), default=bytes.decode)) for obj in objects]
    return [json.loads(text) for text in sorted(texts)]


def promised(obj: Obj) -> Obj:
    gone = {"resourceVersion"} | ({"managedFields"} if obj["kind"] in REPORTED else set())
    meta = {name: value for name, value in obj["metadata"].items() if name not in gone}
    if obj["kind"] == "PersistentVolume":
        claim = {**obj["spec"]["claimRef"], "resourceVersion": ""}
        obj = {**obj, "spec": {**obj["spec"], "claimRef": claim}}
    return {**obj, "metadata": meta}


@pytest.mark.parametrize("row", [*ROWS, *MORE])
def test_a_lean_rollout_equals_a_full_one(row: str) -> None:
    base, body = {**ROWS, **MORE}[row]
    lab = Lab(gates=GATES)
    lab.apply(base)
    lab.run(600)
    full_trace, full = played(lab, body, lean=False)
    lean_trace, lean = played(lab, body, lean=True)
    assert full_trace == lean_trace
    assert contents(full) == contents(lean)
    assert full.version >= lean.version > lab.world.version


@pytest.mark.parametrize("row", ["in place", "recreate"])
def test_pods_that_live_alike_keep_their_own_ids_and_addresses(row: str) -> None:
    base, body = ROWS[row]
    lab = Lab(gates=GATES)
    lab.apply(base)
    lab.run(600)
    pods = played(lab, body, lean=True)[1].objects(PODS, SPACE)
    assert len({pod["status"]["podIP"] for pod in pods}) == len(pods) > 1
    for one in pods:
        (status,) = one["status"]["containerStatuses"]
        last = status["lastState"].get("terminated")
        ids = [entry["containerID"] for entry in ([last] if last else []) + [status]]
        uid, restarts = one["metadata"]["uid"], range(status["restartCount"] + 1)
        assert ids == [container_id(uid, "app", n) for n in restarts]


def test_a_lean_cluster_leaves_out_who_manages_a_pod() -> None:
    lab = Lab(gates=GATES)
    lab.apply(cloneset())
    lab.run(600)
    _, full = played(lab, {"spec": {"replicas": 7}}, lean=False)
    _, lean = played(lab, {"spec": {"replicas": 7}}, lean=True)
    assert all(p["metadata"].get("managedFields") for p in full.objects(PODS, SPACE))
    assert not all(p["metadata"].get("managedFields") for p in lean.objects(PODS, SPACE))


def changing(raw: Obj, *steps: PatchStep, **pins: str) -> Patch:
    uid, version = raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
    preconditions = {"uid": uid, "resource_version": version, **pins}
    return Patch(key=key_of(raw), version="v1", steps=steps, **preconditions)


def going(raw: Obj, **asked: Any) -> Delete:
    preconditions = {"uid": raw["metadata"]["uid"], "resource_version": "", **asked}
    return Delete(key=key_of(raw), version="v1", **preconditions)


def coming(raw: Obj, **asked: Any) -> Create:
    meta = {k: raw["metadata"][k] for k in ("namespace", "labels", "ownerReferences")}
    sent = {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": "web-x"}}
    return Create(obj={**sent, "spec": raw["spec"]}, **asked)


def labelled(**labels: Any) -> PatchStep:
    return PatchStep(body={"metadata": {"labels": labels}})


def with_containers(*containers: Obj) -> PatchStep:
    body = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
    return PatchStep(body=body, content_type=STRATEGIC_PATCH)


def test_steps_of_one_change_are_one_change_of_a_lean_cluster() -> None:
    lab = Lab(gates=GATES)
    lab.apply(cloneset(replicas=1))
    lab.run(600)
    full, lean = lab.world.fork(), lab.world.fork(fast_path=True)
    (raw,) = full.objects(PODS, SPACE)
    shut = [{"type": "InPlaceUpdateReady", "status": "False", "lastTransitionTime": "x"}]

    def step(subresource: str, **body: Any) -> PatchStep:
        return PatchStep(body=body, content_type=STRATEGIC_PATCH, subresource=subresource)

    steps = [step("status", status={"conditions": shut}), step("", metadata={"labels": {"a": "b"}})]
    assert full.try_fast(changing(raw, *steps), START) is None
    assert lean.try_fast(changing(raw, *steps, step("resize", spec={})), START) is None
    assert lean.version == full.version
    made = lean.try_fast(changing(raw, *steps), START)
    assert made is not None
    assert (lean.version, lean.objects(PODS, SPACE)) == (full.version + 1, [made])
    assert made["metadata"]["labels"]["a"] == "b"
    assert {**shut[0], "lastProbeTime": None} in made["status"]["conditions"]


UNUSUAL: Final[Mapping[str, Callable[[Obj], Action]]] = {
    "another pod": lambda raw: changing(raw, labelled(a="b"), uid="another"),
    "a version that is past": lambda raw: changing(raw, labelled(a="b"), resource_version="1"),
    "no steps": changing,
    "nothing new": lambda raw: changing(raw, labelled(app="web")),
    "no text": lambda raw: changing(raw, labelled(a=1)),
    "a bad label": lambda raw: changing(raw, labelled(a="b c")),
    "another flavour": lambda raw: changing(raw, PatchStep(body={}, content_type=JSON_PATCH)),
    "a finalizer": lambda raw: changing(
        raw, PatchStep(body={"metadata": {"finalizers": ["a.b/c"]}})
    ),
    "more than an image": lambda raw: changing(raw, with_containers(container(args=["-v"]))),
    "no image": lambda raw: changing(raw, with_containers(container(image=""))),
    "an unpatched part": lambda raw: changing(raw, PatchStep(body={}, subresource="resize")),
    "a deletion of another": lambda raw: going(raw, uid="another"),
    "a deletion of a past version": lambda raw: going(raw, resource_version="1"),
    "a policy": lambda raw: going(raw, propagation="Foreground"),
    "a deletion of more": lambda raw: going(raw, then=(going(raw),)),
    "a pod that has no sibling": coming,
    "a pod with claims": lambda raw: coming(raw, claims=(raw,)),
}


@pytest.mark.parametrize("row", UNUSUAL)
def test_what_is_unusual_is_not_done_at_once(row: str) -> None:
    lab = Lab(gates=GATES)
    lab.apply(cloneset(replicas=1))
    lab.run(600)
    lean = lab.world.fork(fast_path=True)
    (raw,) = lean.objects(PODS, SPACE)
    assert lean.try_fast(UNUSUAL[row](raw), START) is None
    assert lean.version == lab.world.version


def test_a_pod_comes_and_goes_at_once() -> None:
    lab = Lab(gates=GATES)
    lab.apply(cloneset(replicas=1))
    lab.run(600)
    lean = lab.world.fork(fast_path=True)
    (raw,) = lean.objects(PODS, SPACE)
    lean.handle(create(lean, coming(raw).obj), START)
    assert lean.try_fast(coming(raw), START) is None, "the name is taken"
    twin = put(coming(raw).obj, ("metadata", "name"), "web-y")
    born = lean.try_fast(Create(obj=twin), START)
    assert born is not None
    assert born["metadata"]["creationTimestamp"] == format_time(START)
    assert born["metadata"]["uid"] != raw["metadata"]["uid"]
    left = lean.try_fast(going(raw, resource_version=raw["metadata"]["resourceVersion"]), START)
    assert left is not None
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30
    assert lean.try_fast(going(left), START) is left, "it goes already"
    remove(lean, key_of(raw), raw["metadata"]["uid"], START, user="system:node")
    assert lean.get(key_of(raw)) is None


@pytest.mark.parametrize("lean", [False, True])
def test_what_is_empty_goes_from_metadata(lean: bool) -> None:
    lab = Lab(gates=GATES)
    held = pod()
    held["metadata"] |= {"finalizers": ["example.com/a"], "annotations": {"a": "1"}}
    lab.apply(held)
    lab.world = lab.world.fork(fast_path=lean)
    body = {"metadata": {"finalizers": [], "annotations": {"a": None}}}
    assert lab.patch(held, body)["metadata"].keys().isdisjoint({"finalizers", "annotations"})


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize(
    "change", [{"image": " app:v2"}, {"image": ""}, {"args": ["-v"]}], ids=["space", "none", "args"]
)
def test_a_spec_that_admission_refuses_is_refused(change: Obj, lean: bool) -> None:
    lab = Lab(gates=GATES)
    lab.apply(pod())
    lab.world = lab.world.fork(fast_path=lean)
    with pytest.raises(InvalidObject):
        lab.patch(pod(), {"spec": {"containers": [container() | dict(change)]}})


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"preconditions": {"uid": "another"}},
        {"preconditions": {"resourceVersion": "1"}, "gracePeriodSeconds": 0},
    ],
    ids=["uid", "version"],
)
def test_a_deletion_of_another_pod_is_refused(options: Obj, lean: bool) -> None:
    lab = Lab(gates=GATES)
    lab.apply(pod())
    lab.world = lab.world.fork(fast_path=lean)
    with pytest.raises(Conflict):
        lab.delete(pod(), **options)


@pytest.mark.parametrize("lean", [False, True])
def test_a_pod_with_finalizers_waits_for_them(lean: bool) -> None:
    lab = Lab(gates=GATES)
    held = pod()
    held["metadata"] |= {"finalizers": ["example.com/a"]}
    lab.apply(held)
    lab.world = lab.world.fork(fast_path=lean)
    lab.delete(held, gracePeriodSeconds=0)
    assert lab.get(held)["metadata"]["deletionGracePeriodSeconds"] == 0
    lab.patch(held, {"metadata": {"finalizers": []}})
    assert lab.get(held) is None


@pytest.mark.parametrize("lean", [False, True])
def test_a_pod_is_bound_once(lean: bool) -> None:
    lab = Lab(gates=GATES)
    lab.apply(pod())
    lab.world = lab.world.fork(fast_path=lean)
    key = key_of(lab.get(pod()))
    bind(lab.world, key, lab.get(pod()), "node-1", lab.now, user="scheduler")
    placed = lab.get(pod())
    assert placed["spec"]["nodeName"] == "node-1"
    assert "PodScheduled" in [c["type"] for c in placed["status"]["conditions"]]
    with pytest.raises(Conflict):
        bind(lab.world, key, placed, "node-2", lab.now, user="scheduler")
