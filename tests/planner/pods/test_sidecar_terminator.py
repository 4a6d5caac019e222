"""Sidecars of run-to-completion pods end with their main containers: TERM-1 to TERM-8."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.planning.plan import Action, Create, Delete, Patch, Plan
from gitkruise.planner.pods.sidecar_terminator import Ending, plan_ending, request_names
from gitkruise.wire.primitives.names import Obj
from tests.pods import NOW

EXIT = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
IMAGE = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
IGNORE = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
ENVS: dict[str, dict[str, str]] = {
    "main": {},
    "normal": {EXIT: "True"},
    "ignored": {EXIT: "true", IGNORE: "true"},
    "image": {IMAGE: "exit:1"},
}
NORMAL, IGNORED = request_names("u")


def pod(policy: str, *containers: str, **status: Any) -> dict[str, Any]:
    """Each container is `kind` (main, normal, ignored, image) and `/exit code` once it ended."""
    specs, statuses = [], []
    for at, text in enumerate(containers):
        kind, _, code = text.partition("/")
        env = [{"name": name, "value": value} for name, value in ENVS[kind].items()]
        specs.append({"name": f"{kind}-{at}", "image": f"{kind}:0", "env": env})
        state = {"terminated": {"exitCode": int(code)}} if code else {"running": {}}
        statuses.append({"name": f"{kind}-{at}", "state": state})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job-x", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
        "spec": {"restartPolicy": policy, "containers": specs, "nodeName": "n"},
        "status": {"phase": "Running", "containerStatuses": statuses, **status},
    }


def node(**labels: str) -> Obj:
    return {"metadata": {"name": "n", "labels": labels}}


def plan(raw: Obj, *requests: str, on: Obj | None = None) -> Plan:
    return plan_ending(Ending(raw=raw, node=on or node(), requests=frozenset(requests), now=NOW))


def described(actions: tuple[Action, ...]) -> list[str]:
    """`crr a,b` a recreate request, `phase Failed` a phase, `image a=b` an image."""
    words = []
    for action in actions:
        match action:
            case Create(obj=obj):
                names = ",".join(c["name"] for c in obj["spec"]["containers"])
                words.append(f"crr {names}")
            case Patch(steps=(step,)) if step.subresource == "status":
                status = step.body["status"]
                assert [(c["type"], c["status"]) for c in status["conditions"]] == [
                    ("SidecarTerminated", "True")
                ]
                words.append(f"phase {status['phase']}")
            case Patch():
                found = action.steps[0].body["spec"]["containers"]
                words += [f"image {c['name']}={c['image']}" for c in found]
            case Delete():
                words.append(f"delete {action.key}")
    return words


ROWS: dict[str, tuple[Obj, tuple[str, ...], list[str]]] = {
    "TERM-1 main goes on": (pod("Never", "main", "normal"), (), []),
    "TERM-2 main failed": (pod("Never", "main/1", "normal"), (), ["crr normal-1"]),
    "TERM-2 main succeeded": (pod("Never", "main/0", "normal"), (), ["crr normal-1"]),
    "TERM-3 everything ended": (pod("Never", "main/0", "normal/0"), (), []),
    "TERM-4 on failure, main failed": (pod("OnFailure", "main/1", "normal"), (), []),
    "TERM-5 only the one that runs": (
        pod("OnFailure", "main/0", "main/0", "normal/0", "normal"),
        (),
        ["crr normal-3"],
    ),
    "TERM-6 ignored ones wait": (
        pod("OnFailure", "main/0", "main/0", "normal", "normal", "ignored"),
        (),
        ["crr normal-2,normal-3"],
    ),
    "TERM-6 again": (
        pod("OnFailure", "main/0", "main/0", "normal", "normal", "ignored"),
        (NORMAL,),
        [],
    ),
    "TERM-7 then phase and the rest": (
        pod("OnFailure", "main/0", "main/0", "normal/137", "normal/0", "ignored"),
        (NORMAL,),
        ["phase Succeeded", "crr ignored-4"],
    ),
    "TERM-7 a main container failed": (
        pod("Never", "main/0", "main/3", "ignored"),
        (),
        ["phase Failed", "crr ignored-2"],
    ),
    "the phase is written once": (
        pod("Never", "main/0", "ignored", phase="Succeeded"),
        (IGNORED,),
        [],
    ),
    "a pod that keeps running": (pod("Always", "main/0", "normal"), (), []),
    "a pod that has not started": (pod("Never", "main/0", "normal", phase="Pending"), (), []),
    "no sidecars": (pod("Never", "main/0"), (), []),
    "an image and no virtual kubelet": (pod("Never", "main/0", "image"), (), []),
}


@pytest.mark.parametrize(("raw", "requests", "words"), ROWS.values(), ids=ROWS)
def test_endings(raw: Obj, requests: tuple[str, ...], words: list[str]) -> None:
    assert described(plan(raw, *requests).actions) == words


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_term_8_on_a_virtual_kubelet_images_are_replaced(policy: str) -> None:
    virtual = node(type="virtual-kubelet")
    raw = pod(policy, "main/0", "image", "image/0", "normal")
    assert described(plan(raw, on=virtual).actions) == ["image image-1=exit:1"]
    raw["spec"]["containers"][1]["image"] = "exit:1"
    assert plan(raw, on=virtual).actions == ()


def test_the_request_is_controlled_by_the_pod_and_forced() -> None:
    (create,) = plan(pod("Never", "main/0", "normal")).actions
    assert isinstance(create, Create)
    assert create.done is not None
    assert create.done.reason == "SidecarTerminator"
    assert create.obj["apiVersion"] == "apps.kruise.io/v1beta1"
    meta = create.obj["metadata"]
    assert (meta["namespace"], meta["name"]) == ("shop", "sidecar-termination-u")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "job-x", "uid": "u"}
    assert meta["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    assert create.obj["spec"] == {
        "podName": "job-x",
        "containers": [{"name": "normal-1"}],
        "strategy": {"forceRecreate": True, "failurePolicy": "Ignore"},
    }


def test_an_unknown_node_is_asked_for_again() -> None:
    raw = pod("Never", "main/0", "normal")
    found = plan_ending(Ending(raw=raw, node=None, requests=frozenset(), now=NOW))
    assert found.actions == ()
    assert found.wake_at is not None
    assert found.wake_at > NOW


def test_a_pod_that_is_deleted_or_does_not_report_all_is_left_alone() -> None:
    raw = pod("Never", "main/0", "normal")
    gone = {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-07-02T10:00:00Z"}}
    assert plan(gone).actions == ()
    raw["status"]["containerStatuses"].pop()
    assert plan(raw).actions == ()


def test_quirk_the_second_group_gets_a_request_of_its_own() -> None:
    """OpenKruise names both alike, so ignored sidecars of a pod with normal ones never end."""
    ending = pod("Never", "main/0", "normal/0", "ignored", phase="Succeeded")
    (create,) = plan(ending, NORMAL).actions
    assert isinstance(create, Create)
    assert create.obj["metadata"]["name"].startswith("sidecar-termination-u")


def test_quirk_a_pod_of_sidecars_alone_is_not_killed() -> None:
    """OpenKruise finds that all of its no main containers are done."""
    assert plan(pod("Never", "normal", "normal")).actions == ()
