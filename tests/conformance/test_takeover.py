"""A CloneSet that OpenKruise made and left half way is taken over: no pod restarts, no revision."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.model.planning.trace import Trace
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.simulation.simulation import Simulation
from tests.worlds import SPACE, START, Lab

STATE, GRACE = "apps.kruise.io/inplace-update-state", "apps.kruise.io/inplace-update-grace"
OLD, NEW = "web-cd5565c86", "web-c6778477c"  # as recorded from OpenKruise for these very bytes
DATA: Final = (
    '{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":'
    '{"app":"web"}},"spec":{"containers":[{"image":"nginx:1.25","imagePullPolicy":"Always",'
    '"name":"main","resources":{},"terminationMessagePath":"/dev/termination-log",'
    '"terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always",'
    '"schedulerName":"default-scheduler","securityContext":{},'
    '"terminationGracePeriodSeconds":30}}}}'
)
COUNTERS: Final = (
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
)
REVISION = GroupKind("apps", "ControllerRevision")


def reference(uid: str) -> Obj:
    """As releases up to 1.9 write it."""
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "name": "web",
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def cloneset(image: str, replicas: int, **strategy: Any) -> Obj:
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "InPlaceIfPossible", **strategy},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }


class Left:
    """What OpenKruise left behind: everything written by hand, nodes at work, nobody in charge."""

    def __init__(self, raw: Obj, *, gates: Gates | None = None) -> None:
        self.lab, self.gates = Lab(gates=gates), gates or Gates()
        self.lab.simulation = Simulation(self.lab.world, self.lab.parts, (), self.gates, START)
        self.raw = self.lab.apply(raw)
        self.owner = reference(self.raw["metadata"]["uid"])

    def revision(self, name: str, number: int, data: str) -> None:
        digest = name.rpartition("-")[2]
        meta = {
            "name": name,
            "labels": {"app": "web", "controller.kubernetes.io/hash": digest},
            "annotations": {"kruise.io/cloneset-volumeclaimtemplate-hash": ""},
            "ownerReferences": [self.owner],
        }
        kind = {"apiVersion": "apps/v1", "kind": "ControllerRevision"}
        obj = {**kind, "metadata": meta, "data": RawJSON(data.encode()), "revision": number}
        self.lab.apply(obj)

    def pod(self, at: int, revision: str, image: str, **meta: Any) -> None:
        """A pod that runs and is ready; `labels` and `annotations` come on top."""
        instance = f"x{at:04}".translate(str.maketrans("01", "bc"))
        labels = {
            "app": "web",
            "apps.kruise.io/cloneset-instance-id": instance,
            "controller-revision-hash": revision,
            "pod-template-hash": revision.rpartition("-")[2],
            "lifecycle.apps.kruise.io/state": "Normal",
            **meta.get("labels", {}),
        }
        notes = {
            "lifecycle.apps.kruise.io/timestamp": "2026-11-21T09:00:00+08:00",
            **meta.get("annotations", {}),
        }
        template: Any = json.loads(DATA)["spec"]["template"]["spec"]
        name = f"web-{instance}"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "generateName": "web-",
                "labels": {k: v for k, v in labels.items() if v is not None},
                "annotations": notes,
                "ownerReferences": [self.owner],
            },
            "spec": {
                **template,
                "containers": meta.get("containers")
                or [{**template["containers"][0], "image": image}],
                "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
            },
        }
        self.lab.apply(body)
        ready = meta.get("in_place", "True")
        condition = {"type": "InPlaceUpdateReady", "status": ready}
        if ready == "False":
            condition["reason"] = "StartInPlaceUpdate"
        kruise = {"type": "KruisePodReady", "status": "True"}  # its gate comes from admission
        status = {"status": {"conditions": [condition, kruise]}}
        self.lab.patch(body, status, subresource="status")

    def status(self, **fields: Any) -> None:
        self.lab.run(60)
        found = {**dict.fromkeys(COUNTERS, 0), "collisionCount": 0, "labelSelector": "app=web"}
        found |= fields
        self.lab.patch(self.raw, {"status": found}, subresource="status")

    def taken_over(self, seconds: float = 600) -> Trace:
        """Our controllers start, as after a change of the manager."""
        lab = self.lab
        lab.simulation = Simulation(lab.world, lab.parts, EMBEDDED, self.gates, lab.now)
        return lab.run(seconds)

    def restarts(self) -> dict[str, int]:
        return {
            p["metadata"]["uid"]: get(
                p, "status", "containerStatuses", 0, "restartCount", default=0
            )
            for p in self.lab.pods()
        }

    def revisions(self) -> list[tuple[str, int]]:
        found = self.lab.world.objects(REVISION, SPACE)
        return [(r["metadata"]["name"], r["revision"]) for r in found]


SPELLINGS: Final = {
    "its own bytes": DATA,
    "nulls and empties": DATA.replace('"resources":{}', '"args":[],"env":null,"resources":{}'),
    "no creationTimestamp": DATA.replace('"creationTimestamp":null,', ""),
    "another order": DATA.replace('"$patch":"replace",', "").replace(
        ',"spec":{"containers"', ',"$patch":"replace","spec":{"containers"'
    ),
}


@pytest.mark.parametrize("data", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("name", [OLD, "web-5c9f7bd6b4"])
def test_at_rest_nothing_is_written_on_any_pod(name: str, data: str) -> None:
    left = Left(cloneset("nginx:1.25", 3))
    left.revision(name, 4, data)
    for at in range(3):
        left.pod(at, name, "nginx:1.25")
    left.status(currentRevision=name, updateRevision=name, observedGeneration=1)
    before, pods = left.restarts(), [p["metadata"]["resourceVersion"] for p in left.lab.pods()]
    left.taken_over()
    assert left.restarts() == before
    assert [p["metadata"]["resourceVersion"] for p in left.lab.pods()] == pods
    assert left.revisions() == [(name, 4)]
    assert get(left.lab.get(left.raw), "status", "updatedReadyReplicas") == 3


@pytest.mark.parametrize(
    "gates", [Gates(), Gates(clone_set_short_hash=True)], ids=["long", "short"]
)
def test_short_and_long_hashes_are_the_same_revision(gates: Gates) -> None:
    left = Left(cloneset("nginx:1.25", 2), gates=gates)
    left.revision(OLD, 1, DATA)
    left.pod(0, OLD, "nginx:1.25")
    left.pod(1, OLD.rpartition("-")[2], "nginx:1.25")
    left.status(currentRevision=OLD, updateRevision=OLD)
    before = left.restarts()
    left.taken_over()
    assert left.restarts() == before
    assert get(left.lab.get(left.raw), "status", "updatedReplicas") == 2


def rollout(image: str = "nginx:1.26", replicas: int = 1, **strategy: Any) -> Left:
    left = Left(cloneset(image, replicas, **strategy))
    left.revision(OLD, 1, DATA)
    left.revision(NEW, 2, DATA.replace("1.25", "1.26"))
    return left


@pytest.mark.parametrize("legacy", [False, True], ids=["keys of today", "keys of old"])
def test_a_grace_period_half_way_ends_when_it_should(legacy: bool) -> None:
    left = rollout(inPlaceUpdateStrategy={"gracePeriodSeconds": 90})
    began = START + timedelta(seconds=30)
    state = {"revision": NEW, "updateTimestamp": format_time(began), "lastContainerStatuses": None,
             "updateImages": True}  # fmt: skip
    grace = {"revision": NEW, "containerImages": {"main": "nginx:1.26"}, "graceSeconds": 90}
    keys = ("inplace-update-state", "inplace-update-grace") if legacy else (STATE, GRACE)
    texts = [json.dumps(v, separators=(",", ":")) for v in (state, grace)]
    left.pod(
        0, NEW, "nginx:1.25", in_place="False",
        labels={"lifecycle.apps.kruise.io/state": "Updating"},
        annotations=dict(zip(keys, texts, strict=True)),
    )  # fmt: skip
    left.status(currentRevision=OLD, updateRevision=NEW)
    assert left.lab.now < began + timedelta(seconds=90)

    (pod,) = left.lab.pods()
    left.taken_over((began + timedelta(seconds=89) - left.lab.now).total_seconds())
    assert left.lab.pods()[0]["spec"] == pod["spec"]

    left.taken_over()
    (after,) = left.lab.pods()
    notes = after["metadata"]["annotations"]
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert after["spec"]["containers"][0]["image"] == "nginx:1.26"
    assert not {"inplace-update-grace", GRACE} & set(notes)
    assert json.loads(notes[STATE])["updateTimestamp"] == format_time(began)
    assert after["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "Normal"
    assert list(left.restarts().values()) == [1]  # the update that was under way, and no other
    assert left.revisions() == [(NEW, 2), (OLD, 1)]


def test_an_update_in_batches_goes_on_with_the_next_batch() -> None:
    def barrier(priority: int) -> list[Obj]:
        source = {"configMapKeyRef": {"name": "b", "key": f"p_{priority}", "optional": True}}
        return [{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": source}]

    def template(tag: str) -> list[Any]:
        return [{"name": n, "image": f"{n}:{tag}"} for n in ("first", "second")]

    raw = cloneset("x", 1)
    raw["spec"]["template"]["spec"]["containers"] = template("2")
    left = Left(raw)
    stored: Any = left.raw["spec"]["template"]
    new = {"spec": {"template": {"$patch": "replace", **stored}}}
    text = json.dumps(new, sort_keys=True, separators=(",", ":"))
    left.revision("web-6c9d4", 1, text.replace(":2", ":1"))
    left.revision("web-7d8f5", 2, text)
    state = {
        "revision": "web-7d8f5",
        "updateTimestamp": format_time(START),
        "lastContainerStatuses": {"first": {"imageID": "docker.io/library/first@sha256:00"}},
        "updateImages": True,
        "nextContainerImages": {"second": "second:2"},
        "preCheckBeforeNext": {"containersRequiredReady": ["first"]},
        "containerBatchesRecord": [{"timestamp": format_time(START), "containers": ["first"]}],
    }
    running = [
        {"name": "first", "image": "first:2", "env": barrier(20)},
        {"name": "second", "image": "second:1", "env": barrier(10)},
    ]
    left.pod(
        0, "web-7d8f5", "", in_place="False", containers=running,
        labels={"lifecycle.apps.kruise.io/state": "Updating"},
        annotations={STATE: json.dumps(state, separators=(",", ":"))},
    )  # fmt: skip
    left.status(currentRevision="web-6c9d4", updateRevision="web-7d8f5")
    (before,) = left.lab.pods()
    left.taken_over()
    (after,) = left.lab.pods()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [c["image"] for c in after["spec"]["containers"]] == ["first:2", "second:2"]
    counts = {c["name"]: c["restartCount"] for c in after["status"]["containerStatuses"]}
    assert counts == {"first": 0, "second": 1}
    kept = json.loads(after["metadata"]["annotations"][STATE])
    assert [b["containers"] for b in kept["containerBatchesRecord"]] == [["first"], ["second"]]
    assert "nextContainerImages" not in kept
    assert after["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "Normal"
    assert [name for name, _ in left.revisions()] == ["web-6c9d4", "web-7d8f5"]


def test_a_rollout_half_way_goes_on_and_moves_only_what_is_left() -> None:
    left = rollout(replicas=4, maxUnavailable=1, partition=1)
    left.pod(0, NEW, "nginx:1.26")
    for at in (1, 2, 3):
        left.pod(at, OLD, "nginx:1.25")
    left.status(currentRevision=OLD, updateRevision=NEW, observedGeneration=1)
    before = left.restarts()
    left.taken_over()
    after = left.restarts()
    assert set(after) == set(before)
    assert sorted(after.values()) == [0, 0, 1, 1]  # one was new before, one stays old
    status = get(left.lab.get(left.raw), "status")
    assert (status["updatedReplicas"], status["currentRevision"]) == (3, OLD)


def test_a_pod_of_the_first_releases_gets_its_missing_label_and_no_more() -> None:
    left = Left(cloneset("nginx:1.25", 1))
    left.revision(OLD, 1, DATA)
    bare = {"pod-template-hash": None, "lifecycle.apps.kruise.io/state": None}
    left.pod(0, OLD, "nginx:1.25", labels=bare)
    left.status(currentRevision=OLD, updateRevision=OLD)
    left.taken_over()
    (pod,) = left.lab.pods()
    assert pod["metadata"]["labels"]["pod-template-hash"] == "cd5565c86"
    assert "lifecycle.apps.kruise.io/state" not in pod["metadata"]["labels"]
    assert list(left.restarts().values()) == [0]
