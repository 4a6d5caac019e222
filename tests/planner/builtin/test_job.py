"""Jobs on the model cluster: how many pods, when a Job is complete, when it failed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.worlds import SPACE, Lab, container


def job(image: str = "batch:v1", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [container(image=image)], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "report"},
        "spec": {"template": template, **spec},
    }


def run(obj: Obj, seconds: float = 3600) -> Lab:
    lab = Lab()
    lab.apply(obj)
    lab.run(seconds)
    return lab


def verdict(lab: Lab) -> tuple[str, str]:
    """(last condition, its reason)."""
    found = (lab.get(job())["status"].get("conditions") or [{}])[-1]
    return found.get("type", ""), found.get("reason", "")


ENDS: dict[str, tuple[dict[str, Any], tuple[str, str], dict[str, int]]] = {
    "one pod": (job(), ("Complete", "CompletionsReached"), {"succeeded": 1}),
    "three in a row": (job(completions=3), ("Complete", "CompletionsReached"), {"succeeded": 3}),
    "two at a time": (
        job(completions=4, parallelism=2),
        ("Complete", "CompletionsReached"),
        {"succeeded": 4},
    ),
    "crashes": (
        job("batch:crash", backoffLimit=2),
        ("Failed", "BackoffLimitExceeded"),
        {"failed": 3},
    ),
    "too slow": (job("batch:bad", activeDeadlineSeconds=60), ("Failed", "DeadlineExceeded"), {}),
}


@pytest.mark.parametrize(("obj", "ending", "counts"), ENDS.values(), ids=ENDS)
def test_how_a_job_ends(obj: Obj, ending: tuple[str, str], counts: dict[str, int]) -> None:
    lab = run(obj)
    status = lab.get(job())["status"]
    assert verdict(lab) == ending
    assert {name: status.get(name, 0) for name in counts} == counts
    assert "active" not in status
    assert ("completionTime" in status) == (ending[0] == "Complete")


def test_parallelism_bounds_the_pods_that_run_together() -> None:
    lab = run(job(completions=6, parallelism=2), seconds=2)
    assert lab.get(job())["status"]["active"] == 2


def test_failed_pods_are_followed_at_growing_intervals() -> None:
    lab = Lab()
    lab.apply(job("batch:crash", backoffLimit=3))
    trace = lab.run()
    at = [(line.at - trace.start).total_seconds() for line in trace.only("CreatePod")]
    gaps = [round(after - before, -1) for before, after in pairwise(at)]
    assert gaps == [10, 20, 40]


def test_a_suspended_job_has_no_pods_until_it_goes_on() -> None:
    lab = run(job(suspend=True))
    assert (lab.pods(), verdict(lab)[0]) == ([], "Suspended")
    lab.patch(job(), {"spec": {"suspend": False}})
    lab.run()
    assert verdict(lab)[0] == "Complete"


def test_a_finished_job_goes_when_its_time_to_live_is_over() -> None:
    lab = run(job(ttlSecondsAfterFinished=100))
    assert lab.get(job()) is None
    assert (lab.now - Lab().now).total_seconds() > 100


def test_a_job_that_finished_at_no_time_is_kept() -> None:
    """Another controller may write such a condition; Kubernetes never lets the Job expire then."""
    lab = Lab()
    lab.apply(job(ttlSecondsAfterFinished=0))
    done = [{"type": t, "status": "True"} for t in ("SuccessCriteriaMet", "Complete")]
    lab.patch(job(), {"status": {"conditions": done}}, subresource="status")
    lab.run()
    assert lab.get(job()) is not None


def test_pods_carry_the_labels_kubectl_selects_by() -> None:
    lab = run(job(), seconds=0)
    labels = lab.pods()[0]["metadata"]["labels"]
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "report"


def test_a_finished_job_is_left_alone() -> None:
    lab = run(job())
    version = lab.world.version
    lab.simulation.wake([ObjectKey("batch", "Job", SPACE, "report")])
    lab.run()
    assert lab.world.version == version
