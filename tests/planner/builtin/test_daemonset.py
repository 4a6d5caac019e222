"""DaemonSets in the model cluster: nodes, taints, updates with and without surge, and history."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.revision import REVISION
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.worlds import SPACE, Lab, template

NODES: Final = GroupKind("", "Node")
TAINT: Final = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def daemon(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template(app="agent"),
            **spec,
        },
    }


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "namespace": ""}}


def rolling(**bounds: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": bounds}}


def started(nodes: int = 3, **spec: Any) -> Lab:
    lab = Lab(nodes=nodes)
    lab.apply(daemon(**spec))
    lab.run()
    return lab


def change(lab: Lab, **spec: Any) -> None:
    lab.patch(daemon(), {"spec": spec})
    lab.run(600)


def placed(lab: Lab) -> dict[str, str]:
    """Tags of the images by node."""
    pods = lab.pods()
    found = {
        p["spec"]["nodeName"]: p["spec"]["containers"][0]["image"].partition(":")[2] for p in pods
    }
    assert len(found) == len(pods), "two pods of one DaemonSet are on one node"
    return dict(sorted(found.items()))


def everywhere(tag: str, nodes: int = 3) -> dict[str, str]:
    return {f"node-{n}": tag for n in range(nodes)}


def status(lab: Lab) -> Obj:
    found: Obj = lab.get(daemon())["status"]
    return found


def births(lab: Lab) -> list[str]:
    """Nodes by the time at which their pod was created."""
    pods = sorted(lab.pods(), key=lambda p: str(p["metadata"]["creationTimestamp"]))
    return [p["spec"]["nodeName"] for p in pods]


def test_ctl_70_every_node_gets_one_pod() -> None:
    lab = started()
    assert placed(lab) == everywhere("v1")
    assert status(lab) == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    }


def test_ctl_70_a_new_node_gets_one_and_a_removed_one_takes_its_own_along() -> None:
    lab = started(nodes=2)
    lab.apply({**node("extra"), "status": {"allocatable": {"pods": "10"}}})
    lab.run()
    assert set(placed(lab)) == {"node-0", "node-1", "extra"}


def test_ctl_71_a_selector_and_a_taint_keep_nodes_free() -> None:
    chosen = {"kubernetes.io/hostname": "node-1"}
    assert placed(started(template=template(app="agent", nodeSelector=chosen))) == {"node-1": "v1"}
    lab = Lab()
    lab.patch(node("node-2"), {"spec": {"taints": [TAINT]}})
    lab.apply(daemon())
    lab.run()
    assert placed(lab) == everywhere("v1", nodes=2)
    assert status(lab)["desiredNumberScheduled"] == 2


def test_ctl_71_a_toleration_brings_the_pod_to_a_tainted_node() -> None:
    lab = Lab()
    lab.patch(node("node-2"), {"spec": {"taints": [TAINT]}})
    lab.apply(daemon(template=template(app="agent", tolerations=[{"operator": "Exists"}])))
    lab.run()
    assert placed(lab) == everywhere("v1")


@pytest.mark.parametrize(("effect", "stays"), [("NoSchedule", True), ("NoExecute", False)])
def test_ctl_71_a_later_taint_evicts_only_with_no_execute(effect: str, stays: bool) -> None:
    lab = started()
    lab.patch(node("node-2"), {"spec": {"taints": [{**TAINT, "effect": effect}]}})
    lab.run()
    assert ("node-2" in placed(lab)) is stays
    assert status(lab)["numberMisscheduled"] == int(stays)


def test_ctl_71_a_cordoned_node_keeps_and_gets_its_pod() -> None:
    lab = started()
    lab.patch(node("node-0"), {"spec": {"unschedulable": True}})
    gone = next(p for p in lab.pods() if p["spec"]["nodeName"] == "node-0")
    lab.delete(gone)
    lab.run()
    assert placed(lab) == everywhere("v1")


def test_ctl_71_a_changed_node_selector_moves_the_pods() -> None:
    lab = started()
    chosen = {"kubernetes.io/hostname": "node-1"}
    change(lab, template=template("app:v2", app="agent", nodeSelector=chosen))
    assert placed(lab) == {"node-1": "v2"}


def test_ctl_72_an_update_replaces_one_node_at_a_time() -> None:
    lab = started()
    change(lab, template=template("app:v2", app="agent"))
    assert placed(lab) == everywhere("v2")
    assert births(lab) == ["node-0", "node-1", "node-2"]
    assert len({p["metadata"]["creationTimestamp"] for p in lab.pods()}) == 3


def test_ctl_72_a_larger_bound_takes_more_nodes_down() -> None:
    lab = started(nodes=4, **rolling(maxUnavailable="50%"))
    change(lab, template=template("app:v2", app="agent"))
    assert placed(lab) == everywhere("v2", nodes=4)
    assert len({p["metadata"]["creationTimestamp"] for p in lab.pods()}) == 2


def test_ctl_72_a_bad_image_stops_at_the_first_node_and_is_mended() -> None:
    lab = started()
    change(lab, template=template("app:bad", app="agent"))
    assert sorted(placed(lab).values()) == ["bad", "v1", "v1"]
    assert status(lab)["numberUnavailable"] == 1
    change(lab, template=template("app:v2", app="agent"))
    assert placed(lab) == everywhere("v2")


def test_ctl_73_with_a_surge_no_node_is_without_a_ready_pod() -> None:
    lab = started(**rolling(maxSurge=1, maxUnavailable=0))
    lab.patch(daemon(), {"spec": {"template": template("app:v2", app="agent")}})
    trace = lab.run(600)
    assert placed(lab) == everywhere("v2")
    ready = 3
    lowest = 3
    for line in trace.lines:
        ready += {"ready": 1, "unready": -1}.get(line.what, 0)
        lowest = min(lowest, ready)
    assert lowest == 3


def test_ctl_73_a_bad_surge_pod_leaves_the_old_one() -> None:
    lab = started(**rolling(maxSurge=1, maxUnavailable=0))
    change(lab, template=template("app:bad", app="agent"))
    tags = sorted(p["spec"]["containers"][0]["image"] for p in lab.pods())
    assert tags == ["app:bad", "app:v1", "app:v1", "app:v1"]
    assert status(lab)["numberAvailable"] == 3


def test_ctl_74_on_delete_updates_what_is_deleted() -> None:
    lab = started(updateStrategy={"type": "OnDelete"})
    change(lab, template=template("app:v2", app="agent"))
    assert placed(lab) == everywhere("v1")
    lab.delete(lab.pods()[0])
    lab.run()
    assert sorted(placed(lab).values()) == ["v1", "v1", "v2"]
    assert status(lab)["updatedNumberScheduled"] == 1


def test_ctl_75_history_beyond_its_limit_is_deleted_and_a_rollback_raises_its_number() -> None:
    lab = started(revisionHistoryLimit=1)
    for image in ("app:v2", "app:v3", "app:v2"):
        change(lab, template=template(image, app="agent"))
    found = lab.world.objects(REVISION, SPACE)
    assert sorted(r["revision"] for r in found) == [3, 4]


def test_ctl_75_a_deleted_daemon_set_takes_pods_and_revisions_along() -> None:
    lab = started()
    lab.delete(daemon())
    lab.run()
    assert lab.pods() == []
    assert lab.world.objects(REVISION, SPACE) == []


def test_ctl_76_a_failed_pod_is_replaced() -> None:
    lab = started(nodes=1)
    lost = lab.pods()[0]
    lab.patch(lost, {"status": {"phase": "Failed", "reason": "Evicted"}}, subresource="status")
    lab.run()
    assert placed(lab) == everywhere("v1", nodes=1)
    assert lab.pods()[0]["metadata"]["uid"] != lost["metadata"]["uid"]
    assert "FailedDaemonPod" in lab.events("agent")


def test_ctl_70_a_pod_carries_what_a_real_controller_writes() -> None:
    """Recorded from kube-controller-manager 1.34, but for the hash, which upstream has from Go."""
    lab = started(nodes=1)
    (one,), (revision,) = lab.pods(), lab.world.objects(REVISION, SPACE)
    short = revision["metadata"]["name"].removeprefix("agent-")
    assert revision["metadata"]["labels"] == {"app": "agent", "controller-revision-hash": short}
    assert revision["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == "1"
    assert one["metadata"]["labels"] == {
        "app": "agent",
        "controller-revision-hash": short,
        "pod-template-generation": "1",
    }
    assert one["metadata"]["generateName"] == "agent-"
    (term,) = one["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    values = [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]
    assert term == {"matchFields": values}
    assert [(t["key"].partition("/")[2], t["effect"]) for t in one["spec"]["tolerations"]] == [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]


def test_ctl_70_the_template_has_a_number_that_only_its_changes_raise() -> None:
    lab = started(nodes=1)
    note = ("metadata", "annotations", "deprecated.daemonset.template.generation")

    def number() -> str:
        found: Any = lab.get(daemon())
        for step in note:
            found = found[step]
        return str(found)

    change(lab, minReadySeconds=1)
    lab.patch(daemon(), {"metadata": {"annotations": {note[-1]: "7"}}})
    assert number() == "1"
    change(lab, template=template("app:v2", app="agent"))
    assert number() == "2"
