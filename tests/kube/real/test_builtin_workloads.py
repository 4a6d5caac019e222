"""DaemonSets, CronJobs, autoscalers: the model cluster acts as kube-controller-manager does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.kube.real.apiserver import Apiserver, need_both, talking
from tests.kube.real.controllers import controller_manager
from tests.kube.real.kubelet import Kubelet
from tests.worlds import SPACE, Lab, deployment, template

pytestmark = [pytest.mark.kube, pytest.mark.slow]

CONTROLLERS: Final = (
    "replicationcontroller", "daemonset", "cronjob", "job", "horizontal-pod-autoscaler",
    "deployment", "replicaset",
)  # fmt: skip
LOOKS: Final = 600  # a tenth of a second apart
REFS: Final = {
    "Namespace": ResourceRef("", "v1", "namespaces"),
    "Node": ResourceRef("", "v1", "nodes"),
    "Pod": ResourceRef("", "v1", "pods"),
    "Event": ResourceRef("", "v1", "events"),
    "ReplicationController": ResourceRef("", "v1", "replicationcontrollers"),
    "Deployment": ResourceRef("apps", "v1", "deployments"),
    "DaemonSet": ResourceRef("apps", "v1", "daemonsets"),
    "ControllerRevision": ResourceRef("apps", "v1", "controllerrevisions"),
    "Job": ResourceRef("batch", "v1", "jobs"),
    "CronJob": ResourceRef("batch", "v1", "cronjobs"),
    "HorizontalPodAutoscaler": ResourceRef("autoscaling", "v2", "horizontalpodautoscalers"),
}
Step = tuple[Obj, Mapping[str, Any], str]  # object, merge patch (empty: create it), subresource
State = dict[str, object]


def daemon(**spec: Any) -> Obj:
    body = {"selector": {"matchLabels": {"app": "agent"}}, "template": template(app="agent")}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {**body, **spec},
    }


def image(tag: str, **strategy: Any) -> Mapping[str, Any]:
    changed: dict[str, Any] = {"template": template(f"app:{tag}", app="agent")}
    return {"spec": {**changed, **({"updateStrategy": strategy} if strategy else {})}}


def node(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "namespace": ""}}


def controller() -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "old"},
        "spec": {"replicas": 3, "template": template(app="old")},
    }


def taint(name: str, effect: str) -> Step:
    listed = [{"key": "gpu", "value": "yes", "effect": effect}]
    return node(name), {"spec": {"taints": listed}}, ""


def cron(**spec: Any) -> Obj:
    pod = template(app="tick", restartPolicy="Never")
    pod["spec"]["containers"][0]["command"] = ["sleep", "1000000"]
    made = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": pod}}, **spec}
    meta = {"name": "tick"}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": made}


def last(year: int) -> Step:
    return cron(), {"status": {"lastScheduleTime": f"{year}-01-01T00:00:00Z"}}, "status"


def scaler(**spec: Any) -> Obj:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, **spec},
    }


def sized(replicas: int) -> Step:
    return deployment(), {"spec": {"replicas": replicas}}, ""


_SURGE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
_POLICY: Final = {"suspend": False, "concurrencyPolicy": "Replace"}
SCENARIOS: Final[Mapping[str, tuple[Step, ...]]] = {
    "daemonset": (
        taint("node-2", "NoSchedule"),
        (daemon(), {}, ""),
        (daemon(), image("v2"), ""),
        (daemon(), image("bad"), ""),
        (daemon(), image("v3", **_SURGE), ""),
        (daemon(), image("bad"), ""),
        (daemon(), image("v3"), ""),
        (node("node-2"), {"spec": {"taints": None}}, ""),
        taint("node-0", "NoExecute"),
        (daemon(), image("v4", type="OnDelete", rollingUpdate=None), ""),
    ),
    "cronjob": (
        (cron(suspend=True), {}, ""),
        last(2020),
        (cron(), {"spec": {"suspend": False}}, ""),
        (cron(), {"spec": {"suspend": True, "concurrencyPolicy": "Forbid"}}, ""),
        last(2021),
        (cron(), {"spec": {"suspend": False}}, ""),
        (cron(), {"spec": {"suspend": True}}, ""),
        last(2022),
        (cron(), {"spec": _POLICY}, ""),
        (cron(), {"spec": {"suspend": True, "startingDeadlineSeconds": 60}}, ""),
        last(2023),
        (cron(), {"spec": {"suspend": False}}, ""),
    ),
    "replicationcontroller": (
        (controller(), {}, ""),
        (controller(), {"spec": {"replicas": 1}}, ""),
        (controller(), {"spec": {"minReadySeconds": 3, "replicas": 2}}, ""),
    ),
    "autoscaler": (
        (scaler(), {}, ""),
        (deployment(replicas=3), {}, ""),
        sized(9),
        sized(1),
        sized(0),
        sized(3),
        (scaler(), {"spec": {"maxReplicas": 2}}, ""),
    ),
}


def state(kind: str, objects: Mapping[str, list[Obj]]) -> State:
    """What must not depend on the kind of cluster: no names, times and hashes."""
    reasons = {e["reason"] for e in objects["Event"] if e["involvedObject"]["kind"] == kind}
    pods = [p for p in objects["Pod"] if not p["metadata"].get("deletionTimestamp")]
    (owner,) = objects[kind]
    return {
        "status": _timeless(owner.get("status") or {}),
        "images": sorted(p["spec"]["containers"][0]["image"] for p in pods),
        "labels": sorted({name for p in pods for name in p["metadata"]["labels"]}),
        "tolerations": [p["spec"].get("tolerations") for p in pods][:1],
        "revisions": sorted(r["revision"] for r in objects["ControllerRevision"]),
        "jobs": sorted(_job(j) for j in objects["Job"]),
        "sizes": [d["spec"]["replicas"] for d in objects["Deployment"]],
        "events": sorted(reasons),
    }


def _job(job: Obj) -> tuple[str, ...]:
    notes = job["metadata"].get("annotations") or {}
    return job["metadata"]["name"], *sorted(notes), *sorted(notes.values())


_TIMES: Final = {"lastTransitionTime", "lastScaleTime", "lastSuccessfulTime"}


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        aside = {*_TIMES, "uid", "resourceVersion"}
        return {k: _timeless(v) for k, v in value.items() if k not in aside and v is not None}
    return [_timeless(one) for one in value] if isinstance(value, list | tuple) else value


def played(kind: str, steps: tuple[Step, ...]) -> Iterator[State]:
    """The state of the model cluster after each step."""
    lab = Lab()
    for obj, change, subresource in steps:
        if change:
            lab.patch(obj, change, subresource=subresource)
        else:
            lab.apply(obj)
        lab.run(600)
        if lab.world.objects(_group_kind(kind), SPACE):
            yield state(kind, {k: lab.world.objects(_group_kind(k), SPACE) for k in REFS})
        else:
            yield {}


def _group_kind(kind: str) -> GroupKind:
    return GroupKind(REFS[kind].group, kind)


@contextmanager
def managed(folder: Path) -> Iterator[Apiserver]:
    """A control plane with the controllers of the test."""
    server = Apiserver(folder, need_both(), unplugged=("ServiceAccount", "TaintNodesByCondition"))
    try:
        server.start()
        period = "--horizontal-pod-autoscaler-sync-period=1s"
        with controller_manager(server, CONTROLLERS, period):
            yield server
    finally:
        server.stop()


def good(pod: Obj) -> bool:
    """Return whether a pod becomes ready."""
    return "bad" not in pod["spec"]["containers"][0]["image"]


async def send(transport: Transport, step: Step) -> None:
    obj, change, subresource = step
    meta = obj["metadata"]
    request = ApiRequest(
        verb="patch" if change else "create",
        resource=REFS[obj["kind"]],
        namespace=meta.get("namespace", SPACE),
        name=meta["name"] if change else "",
        subresource=subresource,
        body=dict(change) or obj,
        content_type=MERGE_PATCH if change else "application/json",
    )
    await transport.send(request)


async def observed(transport: Transport, kind: str) -> State:
    objects = {}
    for name, ref in REFS.items():
        space = "" if name in {"Node", "Namespace"} else SPACE
        body = (await transport.send(ApiRequest(verb="list", resource=ref, namespace=space))).body
        objects[name] = [thaw(item) for item in body.get("items") or ()]
    return state(kind, objects) if objects[kind] else {}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_real_controller_manager_comes_to_the_same(name: str, tmp_path: Path) -> None:
    """After each step; upstream takes nodes in no order, so images are counted."""
    with managed(tmp_path) as server:
        asyncio.run(compare(server, SCENARIOS[name]))


async def compare(server: Apiserver, steps: tuple[Step, ...]) -> None:
    kind = steps[-1][0]["kind"]
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": SPACE, "namespace": ""},
    }
    async with talking(server) as transport, asyncio.TaskGroup() as background:
        nodes = background.create_task(Kubelet(transport, SystemClock(), good).run())
        for obj in (space, *(node(f"node-{n}") for n in range(3))):
            await send(transport, (obj, {}, ""))
        for number, (step, wanted) in enumerate(zip(steps, played(kind, steps), strict=True)):
            await asyncio.sleep(1.1)  # ages count whole seconds, and the older pod counts
            await send(transport, step)
            found: State = {}
            for _ in range(LOOKS):
                found = await observed(transport, kind)
                if found == wanted:
                    break
                await asyncio.sleep(0.1)
            assert found == wanted, (number, step)
        nodes.cancel()
