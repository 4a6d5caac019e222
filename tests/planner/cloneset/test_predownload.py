"""Pull jobs: made before the first pod moves, once for a revision, and gone with the rollout."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import Forbidden
from gitkruise.model.planning.plan import Create, Delete, Patch, Plan, Refused
from gitkruise.model.workloads.feature_gates import Gates, parse_gates
from gitkruise.wire.primitives.names import Obj
from tests.planner.cloneset.build import (
    NEW,
    NEW_NAME,
    OLD,
    OLD_NAME,
    cloneset,
    plan,
    revision,
    template,
)
from tests.pods import OWNER_UID, pods

ON: Final = Gates(pre_download_image_for_in_place_update=True)
ROLLING: Final = {"currentRevision": OLD_NAME, "updateRevision": NEW_NAME}
IN_PLACE: Final = {"podUpdatePolicy": "InPlaceIfPossible"}
CREATED, IGNORED = (
    "apps.kruise.io/pre-predownload-created",
    "apps.kruise.io/image-predownload-ignored",
)
FLEET: Final = pods("10o+", {"n": NEW_NAME, "o": OLD_NAME})


def jobs(made: Plan) -> list[Obj]:
    return [
        a.obj for a in made.actions if isinstance(a, Create) and a.obj["kind"] == "ImagePullJob"
    ]


def marks(made: Plan) -> list[str]:
    """Labels put on the update revision."""
    return [
        label
        for a in made.actions
        if isinstance(a, Patch) and a.key.kind == "ControllerRevision" and a.key.name == NEW_NAME
        for label in a.steps[0].body["metadata"]["labels"]
    ]


def rolling(update: Obj | None = None, *, gates: Gates = ON, **more: Any) -> Plan:
    """A round of ten old pods and a new image; `more` goes to the CloneSet."""
    snap = {name: more.pop(name) for name in ("revisions", "pull_jobs") if name in more}
    raw = cloneset(
        replicas=more.pop("replicas", 10),
        update={**IN_PLACE, **(update or {})},
        status={**ROLLING, **more.pop("status", {})},
        **more,
    )
    return plan(raw, FLEET, gates, **snap)


def test_flow_57_jobs_come_before_the_first_pod() -> None:
    made = rolling()
    kinds = [a.obj["kind"] if isinstance(a, Create) else a.key.kind for a in made.actions]
    assert kinds[:2] == ["ImagePullJob", "ControllerRevision"]
    assert "Pod" in kinds[2:]
    assert marks(made) == [CREATED]
    (job,) = jobs(made)
    digest = NEW_NAME.rpartition("-")[2]
    labels = {"app": "web", "controller.kubernetes.io/hash": digest}
    assert job == {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {
            "name": f"{NEW_NAME}-main",
            "namespace": "shop",
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "apps.kruise.io/v1beta1",
                    "kind": "CloneSet",
                    "name": "web",
                    "uid": OWNER_UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "image": "nginx:1.26",
            "podSelector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [
                    {
                        "key": "controller-revision-hash",
                        "operator": "NotIn",
                        "values": [NEW_NAME, digest],
                    }
                ],
            },
            "parallelism": 1,
            "pullPolicy": {"timeoutSeconds": 300, "backoffLimit": 1},
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
            "sandboxConfig": {"labels": labels},
        },
    }


def test_settings_secrets_and_annotations_travel_along() -> None:
    noted = {"labels": {"app": "web"}, "annotations": {"note": "x"}}
    old = template("nginx:1.25", metadata=noted, imagePullSecrets=[{"name": "hub"}])
    new = template("nginx:1.26", metadata=noted, imagePullSecrets=[{"name": "hub"}])
    known = (revision(old, 1), revision(new, 2))
    update = {
        "inPlaceUpdateStrategy": {
            "imagePreDownloadParallelism": "30%",
            "imagePreDownloadTimeoutSeconds": 60,
        }
    }
    made = rolling(
        update,
        template=new,
        revisions=known,
        status={"currentRevision": known[0].name, "updateRevision": known[1].name},
    )
    (job,) = jobs(made)
    spec = job["spec"]
    assert (spec["parallelism"], spec["pullPolicy"]["timeoutSeconds"]) == ("30%", 60)
    assert spec["pullSecrets"] == ["hub"]
    assert spec["sandboxConfig"]["annotations"] == {"note": "x"}


# What keeps pull jobs away, and whether the revision is marked for good
IGNORED_ROWS: Final[dict[str, dict[str, Any]]] = {
    "FLOW-59 three pods or fewer": {"replicas": 3},
    "recreate": {"update": {"podUpdatePolicy": "ReCreate"}},
    "no rolling update": {"updateStrategy": {"type": "OnDelete"}},
    "all pods together": {"update": {"maxUnavailable": "100%"}},
    "not in place": {
        "template": template("nginx:1.26", container={"env": [{"name": "A", "value": "1"}]}),
    },
}  # fmt: skip


@pytest.mark.parametrize("row", IGNORED_ROWS.values(), ids=IGNORED_ROWS)
def test_ignored_for_good(row: dict[str, Any]) -> None:
    row = dict(row)
    new = row.get("template", NEW)
    known = (revision(OLD, 1), revision(new, 2))
    update = row.pop("update", None)
    made = rolling(update, **row, revisions=known, status={"updateRevision": known[1].name})
    assert jobs(made) == []
    labels = [
        a.steps[0].body["metadata"]["labels"]
        for a in made.actions
        if isinstance(a, Patch) and a.key.name == known[1].name
    ]
    assert labels == [{IGNORED: "true"}]


@pytest.mark.parametrize("label", [CREATED, IGNORED])
def test_flow_59_a_marked_revision_stays_marked_when_replicas_grow(label: str) -> None:
    known = (revision(OLD, 1), revision(NEW, 2, labels={label: "true"}))
    made = rolling(revisions=known)
    assert (jobs(made), marks(made)) == ([], [])


def test_max_unavailable_is_rounded_down() -> None:
    assert len(jobs(rolling({"maxUnavailable": "99%"}))) == 1


def test_a_partition_makes_jobs_worth_it_even_when_all_may_be_down() -> None:
    assert len(jobs(rolling({"maxUnavailable": "100%", "partition": 9}))) == 1


@pytest.mark.parametrize(
    ("ready", "known", "expected"), [(0, True, 0), (2, True, 1), (2, False, 0)]
)
def test_jobs_wait_for_updated_ready_pods(ready: int, *, known: bool, expected: int) -> None:
    update = {"inPlaceUpdateStrategy": {"imagePreDownloadMinUpdatedReadyPods": 2}}
    status = {"updatedReadyReplicas": ready, "updateRevision": NEW_NAME if known else "web-x"}
    made = rolling(update, status=status)
    assert len(jobs(made)) == expected
    assert len(marks(made)) == expected


@pytest.mark.parametrize("text", ["", "PreDownloadImageForInPlaceUpdate=true,KruiseDaemon=false"])
def test_off_without_its_gates(text: str) -> None:
    made = rolling(gates=parse_gates(text))
    assert (jobs(made), marks(made)) == ([], [])


def job(name: str, uid: str = OWNER_UID) -> Obj:
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": True}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": "9",
            "ownerReferences": [owner],
        },
    }  # fmt: skip


def test_flow_58_a_finished_rollout_takes_its_jobs_away_and_nobody_elses() -> None:
    raw = cloneset(replicas=2, status={"currentRevision": NEW_NAME, "updateRevision": NEW_NAME})
    made = plan(
        raw,
        pods("2n+", {"n": NEW_NAME}),
        ON,
        pull_jobs=(job(f"{NEW_NAME}-main"), job("other", uid="stranger")),
    )
    deleted = [a for a in made.actions if isinstance(a, Delete)]
    assert [(a.key.kind, a.key.name, a.uid, a.resource_version) for a in deleted] == [
        ("ImagePullJob", f"{NEW_NAME}-main", f"u-{NEW_NAME}-main", "9")
    ]


def test_a_revision_that_comes_back_unmarked_is_marked_a_round_later() -> None:
    """The round that raises its number writes it already; the jobs come immediately."""
    known = (revision(NEW, 1), revision(OLD, 2))
    first = rolling(revisions=known)
    assert len(jobs(first)) == 1
    assert marks_of(first) == [{"revision": 3}]
    after = (revision(OLD, 2), revision(NEW, 3))
    second = rolling(revisions=after, pull_jobs=(job(f"{NEW_NAME}-main"),))
    assert jobs(second) == []
    assert marks(second) == [CREATED]


def marks_of(made: Plan) -> list[Any]:
    return [
        dict(a.steps[0].body)
        for a in made.actions
        if isinstance(a, Patch) and a.key.kind == "ControllerRevision"
    ]


def test_a_job_that_is_refused_is_an_event_and_no_failed_update() -> None:
    made = rolling()
    outcomes = [
        Refused(action=a, error=Forbidden("quota")) for a in made.actions if isinstance(a, Create)
    ]
    assert outcomes[0].action.failed is not None
    assert outcomes[0].action.failed.reason == "FailedCreateImagePullJob"
    status = made.status_after(outcomes) or {}
    assert not [c for c in status.get("conditions", ()) if c["type"] == "FailedUpdate"]
