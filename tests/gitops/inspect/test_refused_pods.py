"""The API server's refusal of a pod, which some controllers give in Events alone, is in `why`."""

from __future__ import annotations

import pytest

from gitkruise.errors import Forbidden
from gitkruise.gitops.inspect.cluster_view import Managed, Survey
from gitkruise.gitops.inspect.explain import explain
from gitkruise.gitops.inspect.pod_warnings import refused_pods
from gitkruise.kube.client.events import EVENTS
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import STATEFULSET
from gitkruise.planner.sync.hooks import JOB
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_time
from tests.gitops.inspect.test_unavailable_pods import sent
from tests.gitops.reconcile.test_replace import job
from tests.gitops.stage import MakeStage, Stage
from tests.worlds import SPACE

MOVE = "a change of what refuses its pods; their controller tries again by itself"
QUOTA = "exceeded quota: few"
SET: Obj = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "migrate"},
    "spec": {
        "replicas": 2,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "app:v1"}]},
        },
    },
}
SEEN = {"observedGeneration": 1, "replicas": 0, "updateRevision": "migrate-1"}


async def _found(stage: Stage, kind: GroupKind) -> Managed:
    survey = Survey(WorldTransport(stage.cluster), load_catalog(), (kind,), namespace=SPACE)
    await survey.look()
    return survey.managed(stage.clock.now())[0]


def _refuse(stage: Stage, workload: Obj) -> None:
    meta = workload["metadata"]
    about = {"kind": workload["kind"], "namespace": SPACE, "name": meta["name"],
             "uid": meta["uid"]}  # fmt: skip
    event = {
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedCreate",
        "metadata": {"name": "refused", "namespace": SPACE}, "involvedObject": about,
        "message": QUOTA, "lastTimestamp": format_time(stage.clock.now()),
    }  # fmt: skip
    sent(stage, "create", "", EVENTS, event)


@pytest.mark.parametrize(
    ("kind", "plural", "obj", "status"),
    [(STATEFULSET, "statefulsets", SET, SEEN), (JOB, "jobs", job("job:v1"), {})],
)
def test_a_refusal_in_events_alone_is_named(
    staged: MakeStage, kind: GroupKind, plural: str, obj: Obj, status: Obj
) -> None:
    stage = staged()
    group, version = obj["apiVersion"].split("/")
    sent(stage, "create", "", ResourceRef(group, version, plural), obj)
    made = stage.get(kind.kind, "migrate", group)
    request = ApiRequest(
        verb="patch", resource=ResourceRef(group, version, plural), namespace=SPACE,
        name="migrate", subresource="status", body={"status": status},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    stage.world.handle(request, stage.clock.now())

    async def script() -> None:
        transport, now = WorldTransport(stage.cluster), stage.clock.now()
        assert not (await refused_pods(transport, await _found(stage, kind), now)).refused
        _refuse(stage, made)
        found = await refused_pods(transport, await _found(stage, kind), now)
        assert found.refused == f"FailedCreate 0s ago: {QUOTA}"
        answer = explain(found, None)
        assert found.refused in answer.reasons
        assert answer.next == (MOVE,)

    async def nothing() -> None:
        return

    stage.play(script, drive=nothing)


def test_events_that_may_not_be_listed_give_no_refusal(staged: MakeStage) -> None:
    stage = staged()
    sent(stage, "create", "", ResourceRef("batch", "v1", "jobs"), job("job:v1"))

    async def script() -> None:
        found = await _found(stage, JOB)
        stage.wire.refuse = lambda request: Forbidden("no") if request.resource == EVENTS else None
        assert await refused_pods(stage.wire, found, stage.clock.now()) == found

    async def nothing() -> None:
        return

    stage.play(script, drive=nothing)
