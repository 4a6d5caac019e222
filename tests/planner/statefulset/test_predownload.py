"""New images of an Advanced StatefulSet that is updated in place are pulled ahead."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.model.workloads.revision import REVISION
from gitkruise.wire.primitives.names import Obj
from tests.planner.statefulset.build import GATE, IN_PLACE, StatefulLab, advanced
from tests.worlds import SPACE

ON: Final = Gates(pre_download_image_for_in_place_update=True, image_pull_job_gate=True)
CREATED, IGNORED = (
    "apps.kruise.io/pre-predownload-created",
    "apps.kruise.io/image-predownload-ignored",
)


def lab_of(gates: Gates = ON, *, notes: Obj | None = None, **spec: Any) -> StatefulLab:
    rolling = {**IN_PLACE, **spec.pop("rolling", {})}
    lab = StatefulLab(
        gates=gates, replicas=spec.pop("replicas", 5), pod=GATE, rolling=rolling, **spec
    )
    if notes:
        lab.patch(advanced(), {"metadata": {"annotations": notes}})
    return lab


def jobs(lab: StatefulLab) -> list[Obj]:
    return list(lab.world.objects(PULL_JOB, SPACE))


def marks(lab: StatefulLab) -> set[str]:
    """Marks on the update revision."""
    newest = lab.status["updateRevision"]
    (found,) = (r for r in lab.world.objects(REVISION, SPACE) if r["metadata"]["name"] == newest)
    return {CREATED, IGNORED} & set(found["metadata"]["labels"])


def test_pre_6_a_job_for_a_new_image_until_the_rollout_is_over() -> None:
    lab = lab_of()
    lab.update(seconds=60, partition=4)
    revision = lab.status["updateRevision"]
    (job,) = jobs(lab)
    digest = revision.rpartition("-")[2]
    assert job["metadata"]["name"] == f"{revision}-app"
    assert [ref["kind"] for ref in job["metadata"]["ownerReferences"]] == ["StatefulSet"]
    spec = job["spec"]
    assert (spec["image"], spec["parallelism"]) == ("app:v2", 1)
    assert spec["podSelector"] == {
        "matchLabels": {"app": "db"},
        "matchExpressions": [
            {"key": "controller-revision-hash", "operator": "NotIn", "values": [revision, digest]}
        ],
    }
    assert marks(lab) == {CREATED}
    assert [name for name, tag in lab.images.items() if tag == "v2"] == ["db-4"]
    lab.rolling(partition=0)
    assert set(lab.images.values()) == {"v2"}
    assert jobs(lab) == []


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"replicas": 3}, id="three pods"),
        pytest.param({"rolling": {"podUpdatePolicy": "ReCreate"}}, id="recreate"),
        pytest.param(
            {"rolling": {"maxUnavailable": "100%"}, "podManagementPolicy": "Parallel"},
            id="all pods together",
        ),
    ],
)
def test_pre_5_no_job_where_it_would_not_help(row: dict[str, Any]) -> None:
    lab = lab_of(**row)
    lab.update(seconds=2)
    assert (jobs(lab), marks(lab)) == ([], {IGNORED})


def test_pre_1_no_job_without_the_gate() -> None:
    lab = lab_of(Gates())
    lab.update(seconds=60, partition=4)
    assert (jobs(lab), marks(lab)) == ([], set())


@pytest.mark.parametrize("least", ["3", "60%"])
def test_pre_3_jobs_wait_for_updated_ready_pods(least: str) -> None:
    lab = lab_of(notes={"apps.kruise.io/image-predownload-min-updated-ready-pods": least})
    lab.update(seconds=60, partition=3)
    assert (jobs(lab), marks(lab)) == ([], set())
    lab.rolling(60, partition=2)
    assert (len(jobs(lab)), marks(lab)) == (1, {CREATED})


@pytest.mark.parametrize(
    ("notes", "fields", "expected"),
    [
        pytest.param({"parallelism": "2", "timeout-seconds": "60"}, {}, (2, 60), id="annotations"),
        pytest.param(
            {"parallelism": "2"},
            {"imagePreDownloadParallelism": 3, "imagePreDownloadTimeoutSeconds": 90},
            (3, 90),
            id="PRE-16",
        ),
    ],
)
def test_settings(notes: Obj, fields: Obj, expected: tuple[int, int]) -> None:
    settings = {f"apps.kruise.io/image-predownload-{name}": text for name, text in notes.items()}
    lab = lab_of(notes=settings, rolling={"inPlaceUpdateStrategy": fields})
    lab.update(seconds=5, partition=4)
    (job,) = jobs(lab)
    spec = job["spec"]
    assert (spec["parallelism"], spec["pullPolicy"]["timeoutSeconds"]) == expected
