"""ImageListPullJobs: PULL-14, IMG-10, IMG-26 to IMG-29."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitkruise.model.node.pull_job import pull_job
from gitkruise.model.planning.plan import Create, Delete, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.node.list_pull_job import ListSnapshot, list_status, plan_list_job
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from tests.pods import NOW

GATES = Gates(image_pull_job_gate=True)
OLD = {"startTime": format_time(NOW)}


def list_job(*images: str, status: Obj | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImageListPullJob",
        "metadata": {"name": "all", "namespace": "shop", "uid": "list-uid"},
        "spec": {"images": list(images), "parallelism": 2, **spec},
        "status": status or {},
    }


def snapshot(raw: Obj, *children: Obj, seconds: float = 0) -> ListSnapshot:
    return ListSnapshot(
        job=pull_job(raw),
        template={field: value for field, value in raw["spec"].items() if field != "images"},
        children=children,
        status=raw["status"],
        now=NOW + timedelta(seconds=seconds),
    )


def stored(create: Create, status: Obj | None = None, **meta: Any) -> dict[str, Any]:
    """A child as a server keeps it."""
    obj = create.obj
    whole = {**obj["metadata"], "uid": f"uid-{obj['metadata']['name']}", **meta}
    return {**obj, "metadata": whole, "status": status or {}}


def creates(plan: Plan) -> list[Create]:
    return [action for action in plan.actions if isinstance(action, Create)]


def born(*images: str) -> list[dict[str, Any]]:
    return [stored(c) for c in creates(plan_list_job(snapshot(list_job(*images)), GATES))]


def test_one_job_per_image_in_growing_batches() -> None:
    plan = plan_list_job(snapshot(list_job(*"abcd")), GATES)
    made = creates(plan)
    assert [c.obj["spec"] for c in made] == [{"parallelism": 2, "image": i} for i in "abcd"]
    assert [c.wave for c in made] == [0, 1, 1, 2]
    assert len({c.obj["metadata"]["name"] for c in made}) == 4
    (owner,) = made[0].obj["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "ImageListPullJob", "list-uid", True,
    )  # fmt: skip
    assert [(e.reason, e.message) for e in plan.events] == [
        ("Successful create ImagePullJob", "Create 4 ImagePullJob")
    ]


def test_a_repeated_round_names_the_same_children() -> None:
    names = [child["metadata"]["name"] for child in born("a", "b")]
    assert names == [child["metadata"]["name"] for child in born("a", "b")]
    assert plan_list_job(snapshot(list_job("a", "b"), *born("a", "b")), GATES).actions == ()


def test_pull_14_an_image_that_is_no_longer_listed_loses_its_job() -> None:
    a, b = born("a", "b")
    (gone,) = plan_list_job(snapshot(list_job("a"), a, b), GATES).actions
    assert isinstance(gone, Delete)
    assert gone.key.name == b["metadata"]["name"]


def test_pull_14_a_changed_template_replaces_every_job() -> None:
    children = born("a", "b")
    plan = plan_list_job(snapshot(list_job("a", "b", parallelism=5), *children), GATES)
    assert sum(isinstance(action, Delete) for action in plan.actions) == 2
    assert [c.obj["spec"]["parallelism"] for c in creates(plan)] == [5, 5]
    assert [e.message for e in plan.events] == ["Create 2 ImagePullJob", "Delete 2 ImagePullJob"]


def test_a_job_without_a_hash_is_kept_with_an_equal_template() -> None:
    (child,) = born("a")
    bare = {**child, "metadata": {**child["metadata"], "labels": {}}}
    assert plan_list_job(snapshot(list_job("a"), bare), GATES).actions == ()
    changed = {**bare, "spec": {**bare["spec"], "parallelism": 9}}
    assert len(plan_list_job(snapshot(list_job("a"), changed), GATES).actions) == 2


def test_a_job_that_is_being_deleted_is_waited_for() -> None:
    (child,) = born("a")
    ending = {**child, "metadata": {**child["metadata"], "deletionTimestamp": format_time(NOW)}}
    assert plan_list_job(snapshot(list_job("a"), ending), GATES).actions == ()


def counted(desired: int, succeeded: int = 0, failed: int = 0, active: int = 0) -> Obj:
    return {
        **OLD, "desired": desired, "succeeded": succeeded, "failed": failed, "active": active,
    }  # fmt: skip


STATUSES: dict[str, tuple[list[Obj], tuple[int, int, int], list[str], bool]] = {
    # statuses of the children → active/completed/succeeded, failed images, over
    "not begun": ([{}, {}], (0, 0, 0), [], False),
    "one runs": ([counted(2, 1, active=1), counted(2, 2)], (1, 1, 1), [], False),
    "one failed": ([counted(2, 1, 1), counted(2, 2)], (0, 2, 1), ["a"], True),
    "all": ([counted(1, 1), counted(0)], (0, 2, 2), [], True),
}


@pytest.mark.parametrize("name", STATUSES)
def test_img_28_the_results_of_the_jobs_are_counted(name: str) -> None:
    statuses, numbers, failed, over = STATUSES[name]
    children = [{**c, "status": s} for c, s in zip(born("a", "b"), statuses, strict=True)]
    for policy in ("Always", "Never"):
        raw = list_job("a", "b", completionPolicy={"type": policy})
        found = list_status(snapshot(raw, *children), children)
        assert tuple(found[f] for f in ("active", "completed", "succeeded")) == numbers
        assert [one["name"] for one in found.get("failedImageStatuses", [])] == failed
        assert ("completionTime" in found) is (over and policy == "Always")
        assert found["desired"] == 2


def test_a_list_is_deleted_after_its_time() -> None:
    done = {**OLD, "completionTime": format_time(NOW)}
    raw = list_job("a", status=done, completionPolicy={"ttlSecondsAfterFinished": 10})
    early = plan_list_job(snapshot(raw, seconds=4), GATES)
    assert (early.actions, early.wake_at) == ((), NOW + timedelta(seconds=10))
    (gone,) = plan_list_job(snapshot(raw, seconds=10), GATES).actions
    assert isinstance(gone, Delete)
    assert gone.key.kind == "ImageListPullJob"
    kept = list_job("a", status=done)
    assert plan_list_job(snapshot(kept, seconds=99), GATES) == Plan()


def test_without_the_gate_nothing_is_done() -> None:
    assert plan_list_job(snapshot(list_job("a")), Gates()) == Plan()
