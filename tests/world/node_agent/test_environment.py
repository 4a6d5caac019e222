"""Updates in place of environment from metadata end in the embedded cluster: IP-55, META-1 to
META-4."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.labels import CONTAINERS_META
from gitkruise.planner.pods.container_hashes import plain_hash
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.node_agent.agent import NodeAgents
from tests.worlds import Lab, cloneset


def coloured(colour: str, image: str = "app:v1", **rolling: Any) -> dict[str, Any]:
    """A CloneSet whose container reads the label `colour`."""
    made = cloneset(replicas=3, image=image, maxUnavailable=1, **rolling)
    template = made["spec"]["template"]
    template["metadata"]["labels"]["colour"] = colour
    source = {"fieldRef": {"fieldPath": "metadata.labels['colour']"}}
    template["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "valueFrom": source}]
    return made


def change(lab: Lab, obj: Obj) -> None:
    lab.patch(obj, {"spec": {"template": obj["spec"]["template"]}})


def restarts(lab: Lab) -> list[int]:
    return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in lab.pods()]


CHANGES = {
    "label": coloured("red"),
    "image": coloured("blue", "app:v2"),
    "image and label": coloured("red", "app:v2"),
}


@pytest.mark.parametrize("row", CHANGES)
def test_an_update_in_place_ends_with_one_restart_a_pod(row: str) -> None:
    lab = Lab()
    lab.apply(coloured("blue"))
    lab.run()
    uids = {pod["metadata"]["uid"] for pod in lab.pods()}
    change(lab, CHANGES[row])
    lab.run()
    status = lab.get(CHANGES[row])["status"]
    assert (status["updatedReadyReplicas"], status["updatedAvailableReplicas"]) == (3, 3)
    assert {pod["metadata"]["uid"] for pod in lab.pods()} == uids
    assert restarts(lab) == [1, 1, 1]


def test_the_report_names_the_container_that_runs() -> None:
    lab = Lab()
    lab.apply(coloured("blue"))
    lab.run()
    for pod in lab.pods():
        (entry,) = read_json(pod["metadata"]["annotations"][CONTAINERS_META])["containers"]
        (status,) = pod["status"]["containerStatuses"]
        assert (entry["containerID"], entry["restartCount"]) == (status["containerID"], 0)
        assert entry["hashes"]["plainHash"] == plain_hash("app", "app:v1")


def test_a_label_that_changes_outside_of_an_update_restarts_nothing() -> None:
    lab = Lab()
    lab.apply(coloured("blue"))
    lab.run()
    pod = lab.pods()[0]
    lab.patch(pod, {"metadata": {"labels": {"colour": "red"}}})
    lab.run()
    assert restarts(lab) == [0, 0, 0]


def test_a_kubelet_that_was_started_again_reads_the_environment_from_the_report() -> None:
    lab = Lab()
    lab.apply(coloured("blue"))
    lab.run()
    kubelet = Kubelet(FAST)
    lab.parts[-2:] = [NodeAgents(kubelet), kubelet]  # a sandbox that was started again
    change(lab, coloured("red"))
    lab.run()
    assert lab.get(coloured("red"))["status"]["updatedReadyReplicas"] == 3
    assert restarts(lab) == [1, 1, 1]


def test_a_pod_without_metadata_variables_has_no_report() -> None:
    lab = Lab()
    lab.apply(cloneset(replicas=1))
    lab.run()
    (pod,) = lab.pods()
    assert CONTAINERS_META not in pod["metadata"].get("annotations", {})
