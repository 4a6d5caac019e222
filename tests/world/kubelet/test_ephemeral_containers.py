"""Ephemeral containers, as kubectl debug adds them: reported from their start to the pod's end."""

from __future__ import annotations

from typing import Any

from gitkruise.wire.primitives.paths import get
from tests.worlds import Lab, container, pod


def debugged(**spec: Any) -> Lab:
    lab = Lab()
    lab.apply(pod("p", container(), **spec))
    lab.run(2.5 if spec else 60)
    listed = [{"name": "dbg", "image": "busybox", "targetContainerName": "app"}]
    lab.patch(pod(), {"spec": {"ephemeralContainers": listed}}, subresource="ephemeralcontainers")
    return lab


def test_an_ephemeral_container_runs_and_is_never_ready() -> None:
    lab = debugged()
    lab.run()
    status = lab.get(pod())["status"]
    (entry,) = status["ephemeralContainerStatuses"]
    assert entry["state"]["running"]["startedAt"]
    assert (entry["ready"], entry["restartCount"], entry["image"]) == (False, 0, "busybox")
    assert entry["containerID"]
    ready = {c["type"]: c["status"] for c in status["conditions"]}
    assert ready["Ready"] == "True"


def test_it_ends_with_its_pod() -> None:
    lab = debugged(restartPolicy="Never")
    lab.run()
    status = lab.get(pod())["status"]
    assert status["phase"] == "Succeeded"
    (entry,) = status["ephemeralContainerStatuses"]
    assert get(entry, "state", "terminated", "exitCode") == 137
    assert get(entry, "state", "terminated", "startedAt")
