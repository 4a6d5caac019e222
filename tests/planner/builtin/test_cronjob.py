"""CronJobs in the model cluster, which starts at 10:00: times, policies, deadlines, limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.errors import InvalidObject
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.worlds import SPACE, START, Lab, template

JOB: Final = GroupKind("batch", "Job")


def cron(schedule: str = "*/10 * * * *", *, run: str = "1", **spec: Any) -> dict[str, Any]:
    """Its Jobs run for `run` seconds."""
    pod = template(app="tick", restartPolicy="Never")
    pod["spec"]["containers"][0]["command"] = ["sleep", run]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": pod}}, **spec},
    }


def started(obj: Obj, minutes: float) -> Lab:
    lab = Lab()
    lab.apply(obj)
    lab.run(minutes * 60)
    lab.simulation.now = START + timedelta(minutes=minutes)  # a suspended one lets no time pass
    return lab


def jobs(lab: Lab) -> list[str]:
    """Scheduled times of the Jobs there are."""
    notes = [j["metadata"]["annotations"] for j in lab.world.objects(JOB, SPACE)]
    return [n["batch.kubernetes.io/cronjob-scheduled-timestamp"][11:16] for n in notes]


def status(lab: Lab) -> Obj:
    found: Obj = lab.get(cron()).get("status") or {}
    return found


def reasons_of(lab: Lab) -> list[str]:
    return lab.events("tick")


def test_ctl_80_a_job_starts_at_every_time() -> None:
    lab = started(cron(), 31)
    assert jobs(lab) == ["10:10", "10:20", "10:30"]
    assert status(lab)["lastScheduleTime"] == "2026-11-21T10:30:00Z"
    assert status(lab)["lastSuccessfulTime"] == "2026-11-21T10:30:03Z"
    assert "active" not in status(lab)
    assert reasons_of(lab) == ["SuccessfulCreate", "SawCompletedJob"] * 3


def test_ctl_80_a_job_carries_what_a_real_controller_writes() -> None:
    """Recorded from kube-controller-manager 1.34."""
    lab = Lab()
    labelled = {"metadata": {"labels": {"a": "b"}, "annotations": {"n": "m"}}}
    obj = cron(run="1000")
    obj["spec"]["jobTemplate"] |= labelled
    lab.apply(obj)
    lab.run(601)
    (job,) = lab.world.objects(JOB, SPACE)
    meta = job["metadata"]
    assert meta["name"] == "tick-29920930"  # minutes since 1970
    assert meta["labels"] == {"a": "b"}
    assert meta["annotations"] == {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-11-21T10:10:00Z",
        "n": "m",
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("CronJob", True)
    (active,) = status(lab)["active"]
    assert active == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": SPACE,
        "resourceVersion": active["resourceVersion"],
        "uid": meta["uid"],
    }


@pytest.mark.parametrize(
    ("policy", "left", "reasons"),
    [
        ("Allow", ["10:10", "10:20", "10:30"], set()),
        ("Forbid", ["10:10"], {"JobAlreadyActive"}),
        ("Replace", ["10:30"], {"SuccessfulDelete"}),
    ],
)
def test_ctl_81_jobs_that_still_run(policy: str, left: list[str], reasons: set[str]) -> None:
    lab = started(cron(run="5000", concurrencyPolicy=policy), 31)
    assert jobs(lab) == left
    assert [ref["name"] for ref in status(lab)["active"]] == [
        j["metadata"]["name"] for j in lab.world.objects(JOB, SPACE)
    ]
    assert {"JobAlreadyActive", "SuccessfulDelete"} & set(reasons_of(lab)) == reasons


def test_ctl_82_a_suspended_one_starts_nothing_and_catches_up_with_the_last_time() -> None:
    lab = started(cron(suspend=True), 25)
    assert jobs(lab) == []
    lab.patch(cron(), {"spec": {"suspend": False}})
    lab.run(60)
    assert jobs(lab) == ["10:20"]


def test_ctl_82_beyond_its_deadline_a_time_is_missed() -> None:
    lab = started(cron(suspend=True, startingDeadlineSeconds=60), 25)
    lab.patch(cron(), {"spec": {"suspend": False}})
    lab.run(120)
    assert jobs(lab) == []
    lab.run(300)
    assert jobs(lab) == ["10:30"]


def test_ctl_82_more_than_a_hundred_missed_times_are_reported() -> None:
    lab = started(cron("* * * * *", suspend=True), 120)
    lab.patch(cron(), {"spec": {"suspend": False}})
    lab.run(10)
    assert jobs(lab) == ["12:00"]
    assert "TooManyMissedTimes" in reasons_of(lab)


def test_ctl_83_only_so_many_finished_jobs_are_kept() -> None:
    lab = started(cron(successfulJobsHistoryLimit=2), 55)
    assert jobs(lab) == ["10:40", "10:50"]
    bad = cron(failedJobsHistoryLimit=0)
    bad["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 0
    bad["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"] = "app:crash"
    assert jobs(started(bad, 35)) == []


def test_ctl_80_a_zone_moves_the_times() -> None:
    lab = started(cron("45 15 * * *", timeZone="Asia/Kolkata"), 60)
    notes = [j["metadata"]["annotations"] for j in lab.world.objects(JOB, SPACE)]
    assert notes == [
        {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-11-21T15:45:00+05:30"}
    ]


def test_ctl_80_a_deleted_cron_job_takes_its_jobs_and_pods_along() -> None:
    lab = started(cron(run="5000"), 15)
    lab.delete(cron())
    lab.run(60)
    assert (jobs(lab), lab.pods()) == ([], [])


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedule": "61 * * * *"}, "end of range (61) above maximum (59): 61"),
        ({"schedule": "@soon"}, "unrecognized descriptor: @soon"),
        ({"schedule": "TZ=UTC 0 * * * *"}, "cannot use TZ or CRON_TZ in schedule, use timeZone"),
        ({"timeZone": "Mars/Base"}, "unknown time zone Mars/Base"),
        ({"timeZone": "Local"}, "timeZone must be an explicit time zone as defined in"),
    ],
    ids=str,
)
def test_a_schedule_or_zone_that_is_none_is_refused(spec: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        Lab().apply(cron(**spec))
    assert why in str(caught.value)
