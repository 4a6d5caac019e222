"""Pods that stay unavailable: the cause is named, and a rollout that they stop is Stuck."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from gitkruise.gitops.inspect.cluster_view import Managed, Survey
from gitkruise.gitops.inspect.explain import Why, explain
from gitkruise.gitops.inspect.pod_warnings import PodWarnings, pod_warnings
from gitkruise.kube.client.events import EVENTS
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.model.workloads.pod import POD
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj, key_of
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_time
from tests.gitops.stage import MakeStage, Stage, web
from tests.worlds import SPACE, cloneset

pytestmark = pytest.mark.slow

PODS = ResourceRef("", "v1", "pods")
NODES = ResourceRef("", "v1", "nodes")
CLONESETS = ResourceRef("apps.kruise.io", "v1alpha1", "clonesets")
UNREADY = "container app is not ready"


async def _seen(stage: Stage) -> tuple[Survey, Managed, datetime]:
    """The cluster, its first CloneSet, and now."""
    survey = Survey(WorldTransport(stage.cluster), load_catalog(), (CLONESET,))
    await survey.look()
    now = stage.clock.now()
    return survey, survey.managed(now)[0], now


async def _why(stage: Stage) -> Why:
    survey, found, now = await _seen(stage)
    return explain(found, survey.plan(found.key, now, Gates()))


def test_a_rollout_without_progress_is_stuck_for_every_reader(staged: MakeStage) -> None:
    stage = staged(health={"noProgressTimeout": "30s"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:unready"), message="second")
            await stage.rest(20)
            assert (stage.state, str((await _why(stage)).state)) == ("Rolling", "Rolling")
            await stage.rest(40)
            assert stage.state == "Stuck"
            assert stage.rollout.message.endswith(f": {UNREADY}")
            answer = await _why(stage)
            assert str(answer.state) == "Stuck"
            assert "0 of 4 asked are updated and available" in answer.message
            assert "gitkruise rollback cloneset/web -n shop" in answer.next
            await stage.push(web("app:v3"), message="third")
            await stage.rest(2)
            assert str((await _why(stage)).state) == "Rolling"
            await stage.rest()
            assert str((await _why(stage)).state) == "Done"

    stage.play(script)


async def _warned(stage: Stage) -> PodWarnings:
    _, found, now = await _seen(stage)
    return await pod_warnings(WorldTransport(stage.cluster), found, now)


def _event(stage: Stage, name: str, pod: str, type_: str, reason: str) -> None:
    (uid,) = [
        one["metadata"]["uid"]
        for one in stage.world.objects(POD, SPACE)
        if one["metadata"]["name"] == pod
    ]
    about = {"kind": "Pod", "namespace": SPACE, "name": pod, "uid": uid, "apiVersion": "v1"}
    event = {
        "apiVersion": "v1", "kind": "Event", "type": type_, "reason": reason,
        "metadata": {"name": name, "namespace": SPACE}, "involvedObject": about,
        "message": f"of\n{name}", "lastTimestamp": format_time(stage.clock.now()),
    }  # fmt: skip
    sent(stage, "create", "", EVENTS, event)


def test_warnings_of_unavailable_pods_are_named(staged: MakeStage) -> None:
    """Kubelet gives some causes in Events alone. Of each reason the newest counts."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            _event(stage, "old", pods(stage)[0], "Warning", "Other")
            assert not (await _warned(stage)).texts
            await stage.push(web("app:unready"), message="second")
            await stage.rest(20)
            updated = next(
                pod["metadata"]["name"]
                for pod in stage.world.objects(POD, SPACE)
                if pod["spec"]["containers"][0]["image"] == "app:unready"
            )
            for name, kind in (("a", "Warning"), ("b", "Warning"), ("c", "Normal")):
                _event(stage, name, updated, kind, "FailedMount" if name == "b" else "Other")
            assert set((await _warned(stage)).texts) == {
                f"{updated}: FailedMount 0s ago: of b", f"{updated}: Other 0s ago: of a",
            }  # fmt: skip

    stage.play(script)


def test_nodes_that_do_not_answer_are_named(staged: MakeStage) -> None:
    """Their pods keep the statuses that kubelet wrote last; only Ready is False."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:unready"), message="first")
            await stage.rest(20)
            assert (await _warned(stage)).lost == ()
            nodes = sorted({pod["spec"]["nodeName"] for pod in stage.world.objects(POD, SPACE)})
            silent, gone = nodes[:2]
            away = {
                "type": "Ready", "status": "Unknown", "message": "Kubelet stopped\nposting",
                "lastTransitionTime": format_time(stage.clock.now()),
            }  # fmt: skip
            stage.world.handle(
                ApiRequest(
                    verb="patch", resource=NODES, name=silent, subresource="status",
                    body={"status": {"conditions": [away]}},
                    content_type="application/merge-patch+json",
                ),
                stage.clock.now(),
            )  # fmt: skip
            stage.world.handle(
                ApiRequest(verb="delete", resource=NODES, name=gone), stage.clock.now()
            )
            stage.cluster.publish()
            warnings = await _warned(stage)
            assert set(warnings.lost) == {silent, gone}
            named = sorted(text.partition(" of ")[0] for text in warnings.texts)
            assert named == sorted([f"node {silent}", f"node {gone}"])
            assert any(t.endswith("has not been Ready for 0s: Kubelet stopped posting")
                       for t in warnings.texts)  # fmt: skip
            assert any(t.endswith("does not exist any more") for t in warnings.texts)

    stage.play(script)


@pytest.mark.parametrize(
    ("warnings", "lost", "moves"),
    [
        ((), (), "nothing: it goes on by itself"),
        (("a warning",), (), "what the warnings name"),
        (("node n1 is lost",), ("n1",), "node n1: Ready again"),
    ],
)
def test_a_rollout_with_warnings_waits_for_what_they_name(
    staged: MakeStage, warnings: tuple[str, ...], lost: tuple[str, ...], moves: str
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:unready"), message="first")
            await stage.rest(20)
            _, found, _ = await _seen(stage)
            answer = explain(found, None, warnings=warnings, lost=lost)
            assert moves in answer.next[0]
            assert len(answer.next) == 1
            assert set(warnings) <= set(answer.reasons)

    stage.play(script)


def sent(stage: Stage, verb: str, name: str, kind: ResourceRef, body: Obj | None = None) -> None:
    merge = "application/merge-patch+json" if verb == "patch" else "application/json"
    request = ApiRequest(
        verb=verb, resource=kind, namespace=SPACE, name=name, body=body, content_type=merge
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


def pods(stage: Stage) -> list[str]:
    return [key_of(pod).name for pod in stage.world.objects(POD, SPACE)]


def delete_pods(stage: Stage) -> None:
    for pod in pods(stage):
        sent(stage, "delete", pod, PODS)


def hold_pod(stage: Stage) -> None:
    """Add a finalizer that no program takes away to one pod."""
    sent(stage, "patch", pods(stage)[0], PODS, {"metadata": {"finalizers": ["example.com/hold"]}})


def test_a_rollout_without_progress_stays_stuck_over_a_restart(staged: MakeStage) -> None:
    stage = staged(health={"noProgressTimeout": "5m"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:unready"), message="second")
            await stage.rest(6 * 60)
            assert stage.state == "Stuck"
        before = stage.rollout.message
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(20)
            assert (stage.state, stage.rollout.message) == ("Stuck", before)
        await stage.rest(30)
        delete_pods(stage)
        await stage.rest(30)
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(20)
            assert stage.state == "Rolling"

    stage.play(script)


def test_a_workload_that_is_being_deleted_waits_for_its_pods(staged: MakeStage) -> None:
    stage = staged(health={"noProgressTimeout": "30s"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            hold_pod(stage)
            sent(stage, "delete", "web", CLONESETS, {"propagationPolicy": "Foreground"})
            await stage.rest(60)
            assert (stage.state, stage.record.message) == (
                "Waiting",
                "CloneSet shop/web: the object is being deleted; finalizers: foregroundDeletion",
            )
            answer = await _why(stage)
            assert str(answer.state) == "Waiting"
            assert "the removal of the finalizers" in answer.next[0]

    stage.play(script)


@pytest.mark.parametrize("image", ["app:unready", "app:broken"])
def test_a_commit_is_not_stuck_for_the_one_before(staged: MakeStage, image: str) -> None:
    stage = staged(health={"noProgressTimeout": "30s"})

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web(image), message="second")
            await stage.rest()
            assert stage.state == "Stuck"
            third = await stage.push(web("app:v3"), message="third")
            await stage.rest()
            assert stage.state == "Done"
        states = [str(r.state) for r in stage.offered if r.causal and r.causal.id == third]
        assert "Stuck" not in states

    stage.play(script)


def test_a_rollout_without_any_pod_is_stuck_over_a_restart(staged: MakeStage) -> None:
    stage = staged(health={"noProgressTimeout": "30s"})
    long = "web" * 18  # its pods would have a label of over 63 characters

    async def script() -> None:
        async with stage.running():
            await stage.push(cloneset(long, 4, "app:v1"), message="first")
            await stage.rest(60)
            assert (stage.state, pods(stage)) == ("Stuck", [])
        before = stage.rollout.message
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(5)
            assert (stage.state, stage.rollout.message) == ("Stuck", before)

    stage.play(script)


def _gated(spec: dict[str, Any]) -> None:
    spec["readinessGates"] = [{"conditionType": "example.com/lb"}]


def _huge(spec: dict[str, Any]) -> None:
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}


def _unready(spec: dict[str, Any]) -> None:
    spec["containers"][0]["image"] = "app:unready"


CAUSES: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (_gated, "4 pods are not available yet: readiness gate example.com/lb is not True"),
    (_huge, "4 pods are not available yet: no node takes it: 0/3 nodes are available"),
    (_unready, f"4 pods are not available yet: {UNREADY}"),
]


@pytest.mark.parametrize(("change", "reason"), CAUSES)
def test_why_names_what_keeps_pods_from_being_available(
    staged: MakeStage, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    stage, obj = staged(), web()
    change(obj["spec"]["template"]["spec"])

    async def script() -> None:
        async with stage.running():
            await stage.push(obj, message="first")
            await stage.rest(20)
            (text,) = (await _why(stage)).reasons
            assert text.startswith(reason)

    stage.play(script)
