"""Unreadable or foreign input: named in a condition and an event, and otherwise ignored."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.conditions import find
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.world.simulation.simulation import Simulation
from tests.conformance.test_takeover import DATA, NEW, OLD, STATE, Left
from tests.conformance.test_takeover import cloneset as alpha
from tests.worlds import SPACE, Lab, cloneset, pod, template

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
TEMPLATES: Final[list[dict[str, Any]]] = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


def update_failures(lab: Lab, name: str = "web") -> tuple[str, set[str]]:
    """(message of FailedUpdate while it is True, messages of FailedUpdate events)."""
    raw = lab.get({**cloneset(), "metadata": {"name": name}})
    condition = find(raw["status"].get("conditions") or (), "FailedUpdate") or {}
    events = lab.world.objects(GroupKind("", "Event"), SPACE)
    messages = {
        e["message"]
        for e in events
        if e["reason"] == "FailedUpdate" and e["involvedObject"]["name"] == name
    }
    return (condition.get("message", "") if condition.get("status") == "True" else ""), messages


def images(lab: Lab) -> list[str]:
    return sorted(p["spec"]["containers"][0]["image"] for p in lab.pods())


BROKEN: Final[dict[str, dict[str, Any]]] = {
    "state": {"annotations": {STATE: "{not json"}},
    "a state that is no object": {"annotations": {STATE: "[1]"}},
    "grace": {"annotations": {"apps.kruise.io/inplace-update-grace": "}{"}},
    "the node agent's report": {
        "annotations": {
            STATE: '{"revision":"r","updateTimestamp":"2026-11-21T10:00:00Z",'
            '"lastContainerStatuses":{"app":{"imageID":"x"}}}',
            "apps.kruise.io/runtime-containers-meta": "nonsense",
        }
    },
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_pod_with_broken_annotations_stays_and_the_others_go_on(broken: dict[str, Any]) -> None:
    lab, web = Lab(), cloneset(replicas=4, maxUnavailable=2)
    lab.apply(web)
    lab.run()
    victim = lab.pods()[0]
    name = victim["metadata"]["name"]
    labels = {"lifecycle.apps.kruise.io/state": "Updating"}
    if "grace" in str(broken):
        labels = {}
    lab.patch(victim, {"metadata": {**broken, "labels": labels}})
    lab.patch(web, {"spec": {"template": template("app:v2")}})
    lab.run(300)
    message, events = update_failures(lab)
    assert name in message or images(lab) == ["app:v2"] * 4  # a newer update replaces a lost state
    assert any(name in text for text in events)
    others = [p for p in lab.pods() if p["metadata"]["name"] != name]
    assert [p["spec"]["containers"][0]["image"] for p in others] == ["app:v2"] * 3


def test_a_pod_whose_readiness_keys_are_broken_stays_and_the_others_go_on() -> None:
    hook = {"markPodNotReady": True}
    web = cloneset(replicas=3, maxUnavailable=2)
    lab = Lab()
    lab.apply({**web, "spec": {**web["spec"], "lifecycle": {"inPlaceUpdate": hook}}})
    lab.run()
    victim = lab.pods()[0]
    name = victim["metadata"]["name"]
    bad = {"type": "KruisePodReady", "status": "True", "message": "not a list"}
    conditions = [bad if c["type"] == bad["type"] else c for c in victim["status"]["conditions"]]
    lab.patch(victim, {"status": {"conditions": conditions}}, subresource="status")
    lab.patch(web, {"spec": {"template": template("app:v2")}})
    lab.run(300)
    message, events = update_failures(lab)
    assert name in message
    assert "KruisePodReady" in message
    assert message in events
    assert images(lab).count("app:v2") == 2


def test_a_revision_of_garbage_is_named_and_its_pods_are_recreated() -> None:
    left = Left(alpha("nginx:1.26", 3, maxUnavailable=1))
    left.revision(OLD, 1, '{"spec":{"template":{"spec":"garbage"}}}')
    left.revision(NEW, 2, DATA.replace("1.25", "1.26"))
    for at in range(3):
        left.pod(at, OLD, "nginx:1.25")
    left.status(currentRevision=OLD, updateRevision=NEW)
    before = set(left.restarts())
    left.taken_over()
    message, events = update_failures(left.lab)
    assert any(OLD in text and "no pod template" in text for text in events)
    assert message == ""  # it is over
    assert images(left.lab) == ["nginx:1.26"] * 3
    assert not before & set(left.restarts())


def with_claims(replicas: int) -> Obj:
    web = cloneset(replicas=replicas)
    scale = {"enablePVCReuse": True}
    return {
        **web,
        "spec": {**web["spec"], "volumeClaimTemplates": TEMPLATES, "scaleStrategy": scale},
    }


def config(lab: Lab) -> Obj:
    made = lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keeper"}})
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "controller": True}
    return {**named, "uid": made["metadata"]["uid"]}


def test_a_claim_somebody_else_controls_is_named_and_left_alone() -> None:
    lab, web = Lab(), with_claims(3)
    lab.apply(web)
    lab.run()
    claim = lab.world.objects(CLAIM, SPACE)[0]
    ours = {**claim["metadata"]["ownerReferences"][0], "controller": False}
    lab.patch(claim, {"metadata": {"ownerReferences": [ours, config(lab)]}})
    lab.patch(web, {"spec": {"replicas": 0}})
    lab.run(300)
    (kept,) = lab.world.objects(CLAIM, SPACE)
    assert kept["metadata"]["name"] == claim["metadata"]["name"]
    message, events = update_failures(lab)
    assert claim["metadata"]["name"] in message
    assert "ConfigMap keeper" in message
    assert message in events
    assert lab.pods() == []


def test_a_new_pod_takes_no_claim_that_somebody_else_has_under_its_name() -> None:
    """Names follow from the CloneSet, so a second one of the same uid would choose this name."""
    lab, web = Lab(), with_claims(1)
    lab.apply(web)
    twin = lab.world.fork()
    lab.run()
    (name,) = [c["metadata"]["name"] for c in lab.world.objects(CLAIM, SPACE)]

    again = Lab()
    again.world = twin
    again.simulation = Simulation(twin, again.parts, EMBEDDED, Gates(), lab.now)
    spec = {**TEMPLATES[0]["spec"], "accessModes": ["ReadWriteMany"]}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    again.apply({**kind, "metadata": {"name": name}, "spec": spec})
    again.run()
    (made,) = again.pods()
    used = made["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert used != name
    assert any(name in text for text in update_failures(again)[1])


def test_cloneset_selecting_the_same_pods_is_named_and_each_keeps_its_own() -> None:
    lab = Lab()
    lab.apply(cloneset(replicas=2))
    lab.run()
    first = [p["metadata"]["uid"] for p in lab.pods()]
    other = cloneset("other", replicas=3)
    spec = {**other["spec"], "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    lab.apply({**other, "spec": spec})
    lab.apply({**pod("orphan"), "metadata": {"name": "orphan", "labels": {"app": "web"}}})
    lab.run()
    message, events = update_failures(lab, "other")
    assert "CloneSet web selects the same pods" in message
    assert message in events
    uids = [p["metadata"]["uid"] for p in lab.pods()]
    assert set(first) <= set(uids)
    assert len(uids) == 2 + 3 + 1
    lab.patch({**cloneset("other")}, {"spec": {"replicas": 1}})
    lab.run()
    assert set(first) <= {p["metadata"]["uid"] for p in lab.pods()}
    assert len(lab.pods()) == 2 + 1 + 1
