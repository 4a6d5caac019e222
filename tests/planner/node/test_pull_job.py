"""ImagePullJobs: PULL-1 to PULL-10, IMG-20 to IMG-25."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitkruise.model.node.node_image import SecretRef, node_image
from gitkruise.model.node.pull_job import pull_job
from gitkruise.model.planning.plan import Delete, Patch, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.node.pull_job import PullSnapshot, plan_pull_job, progress, tag_policy
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from tests.planner.node.images import node_image_of, tag
from tests.pods import NOW

GATES = Gates(image_pull_job_gate=True)
SECRET = SecretRef(namespace="kruise-daemon-config", name="a")


def after(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


def job(status: Obj | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": "job", "namespace": "shop", "uid": "job-uid", "resourceVersion": "2"},
        "spec": {"image": "nginx:1.20", **spec},
        "status": status or {},
    }


def done(phase: str, version: int = 1, name: str = "1.20") -> Obj:
    return {"tag": name, "phase": phase, "version": version}


def node(
    name: str = "n1", tags: list[Obj] | None = None, statuses: list[Obj] | None = None,
    secrets: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """A NodeImage of nginx; by default the job's tag in version 1 without a status."""
    wanted = [tag("1.20", version=1)] if tags is None else tags
    images = {"nginx": wanted} if wanted or secrets else {}
    found = {"nginx": statuses} if statuses else {}
    return node_image_of(images, found, name=name, secrets=secrets)


def snapshot(
    raw: Obj, *nodes: Obj, seconds: float = 0, secrets: tuple[SecretRef, ...] = ()
) -> PullSnapshot:
    return PullSnapshot(
        job=pull_job(raw),
        nodes=tuple(map(node_image, nodes)),
        secrets=secrets,
        raw={obj["metadata"]["name"]: obj for obj in nodes},
        status=raw["status"],
        now=after(seconds),
    )


def counts(made: Plan) -> tuple[str, str]:
    """`desired/active/succeeded/failed` and the message."""
    assert made.status is not None
    numbers = [made.status[f] for f in ("desired", "active", "succeeded", "failed")]
    return "/".join(map(str, numbers)), made.status["message"]


NEVER = {"type": "Never"}
LIMITED = {"type": "Always", "activeDeadlineSeconds": 300}
OLD = {"startTime": format_time(after(-600))}
COUNTS: dict[str, tuple[PullSnapshot, str, str, tuple[str, ...]]] = {
    # what is known → counts, message, nodes without the tag
    "PULL-1: succeeded": (
        snapshot(job(), node(statuses=[done("Succeeded")])), "1/0/1/0", "job has completed", (),
    ),
    "PULL-2: one of each": (
        snapshot(
            job(),
            node("n1", statuses=[done("Succeeded")]),
            node("n2", statuses=[done("Pulling")]),
            node("n3", statuses=[done("Failed")]),
        ),
        "3/1/1/1", "job is running, progress 66.7%", (),
    ),
    "PULL-3: a status of an older version": (
        snapshot(job(), node(statuses=[done("Succeeded", 0)])),
        "1/1/0/0", "job is running, progress 0.0%", (),
    ),
    "PULL-3: no status": (
        snapshot(job(), node()), "1/1/0/0", "job is running, progress 0.0%", (),
    ),
    "a status of another tag": (
        snapshot(job(), node(statuses=[done("Succeeded", 1, "1.19")])),
        "1/1/0/0", "job is running, progress 0.0%", (),
    ),
    "PULL-4: a secret is missing": (
        snapshot(job(), node(), secrets=(SECRET,)),
        "1/1/0/0", "job is running, progress 0.0%", ("n1",),
    ),
    "PULL-5: of another job": (
        snapshot(job(), node(tags=[tag("1.20", owners=("other-uid",))])),
        "1/0/0/0", "job is running, progress 0.0%", ("n1",),
    ),
    "PULL-6: late": (
        snapshot(job(OLD, completionPolicy=LIMITED), node(statuses=[done("Pulling")])),
        "1/0/0/1", "job exceeds activeDeadlineSeconds", (),
    ),
    "PULL-7: no node": (snapshot(job()), "0/0/0/0", "job has completed", ()),
    "PULL-7: no node, never": (
        snapshot(job(completionPolicy=NEVER)), "0/0/0/0", "job is running, no progress", (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", COUNTS)
def test_nodes_are_counted(row: str) -> None:
    found, numbers, message, unassigned = COUNTS[row]
    made = plan_pull_job(found, GATES)
    assert counts(made) == (numbers, message)
    assert progress(found).unassigned == unassigned
    assert made.status is not None
    ends = message in {"job has completed", "job exceeds activeDeadlineSeconds"}
    assert ("completionTime" in made.status) is ends
    failed = {"PULL-2: one of each": ["n3"], "PULL-6: late": ["n1"]}.get(row)
    assert made.status.get("failedNodes") == failed


def entries(made: Plan) -> dict[str, Obj]:
    """The entry of nginx that is written, by node."""
    return {
        action.key.name: action.steps[0].body["spec"]["images"]["nginx"]
        for action in made.actions
        if isinstance(action, Patch)
    }


def test_pull_8_free_slots_are_filled() -> None:
    empty = [node(f"n{i}", tags=[]) for i in range(5)]
    made = plan_pull_job(snapshot(job(parallelism=2), *empty), GATES)
    assert list(entries(made)) == ["n0", "n1"]
    busy = [node("n0"), node("n1", statuses=[done("Failed")]), *empty[2:]]
    made = plan_pull_job(snapshot(job(parallelism="2"), *busy), GATES)
    assert list(entries(made)) == ["n2"]
    for parallelism in (0, 1):
        made = plan_pull_job(snapshot(job(parallelism=parallelism), *busy), GATES)
        assert entries(made) == {}


ASSIGNED: dict[str, tuple[Obj, tuple[SecretRef, ...], tuple[int, int, list[str]] | None]] = {
    # node, secrets → version, owners and secrets of the tag
    "no tag and no status": (node(tags=[]), (SECRET,), (0, 1, ["a"])),
    "PULL-10: a status remains": (
        node(tags=[], statuses=[done("Succeeded", 5)]), (), (6, 1, []),
    ),
    "the job's own": (node(), (), None),
    "the job's own, a secret is missing": (node(secrets=("b",)), (SECRET,), (1, 1, ["b", "a"])),
    "PULL-9: of another job": (
        node(tags=[tag("1.20", version=3, owners=("other-uid",))], secrets=("b",)),
        (SECRET,),
        (4, 2, ["b", "a"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ASSIGNED)
def test_a_node_gets_the_tag(row: str) -> None:
    raw, secrets, expected = ASSIGNED[row]
    limits = {"pullPolicy": {"timeoutSeconds": 5}}
    made = entries(
        plan_pull_job(snapshot(job(parallelism=9, **limits), raw, secrets=secrets), GATES)
    )
    if expected is None:
        assert made == {}
        return
    (written,) = made["n1"]["tags"]
    names = [s["name"] for s in made["n1"].get("pullSecrets", ())]
    assert (written["version"], len(written["ownerReferences"]), names) == expected


def test_a_new_tag_has_all_that_a_node_needs() -> None:
    sandbox = {"sandboxConfig": {"labels": {"a": "b"}}}
    made = plan_pull_job(snapshot(job(imagePullPolicy="Always", **sandbox), node(tags=[])), GATES)
    entry = entries(made)["n1"]
    assert entry["sandboxConfig"] == {"labels": {"a": "b"}}
    (written,) = entry["tags"]
    assert written["createdAt"] == format_time(NOW)
    assert written["imagePullPolicy"] == "Always"
    assert written["ownerReferences"][0]["uid"] == "job-uid"


POLICIES: dict[str, tuple[Obj, range, int | None]] = {
    # spec → bounds of the time to live, deadline
    "limits alone": ({}, range(1800, 2100), None),
    "ttl": ({"completionPolicy": {"ttlSecondsAfterFinished": 60}}, range(60, 360), None),
    "deadline": ({"completionPolicy": LIMITED}, range(300, 600), 300),
    "IMG-25: never": ({"completionPolicy": NEVER}, range(85_800, 87_000), 1800),
    "IMG-25: never, slow": (
        {"completionPolicy": NEVER, "pullPolicy": {"timeoutSeconds": 4000}},
        range(85_800, 87_000),
        4000,
    ),
}


@pytest.mark.parametrize("row", POLICIES)
def test_the_limits_of_a_tag(row: str) -> None:
    spec, bounds, deadline = POLICIES[row]
    for name in ("n1", "n2", "n3"):
        policy = tag_policy(pull_job(job(**spec)), name)
        assert policy["ttlSecondsAfterFinished"] in bounds
        assert policy.get("activeDeadlineSeconds") == deadline


def test_a_job_that_is_over_expires() -> None:
    over = {"completionTime": format_time(NOW)}
    raw = job(over, completionPolicy={"ttlSecondsAfterFinished": 10})
    assert plan_pull_job(snapshot(raw, seconds=4), GATES) == Plan(wake_at=after(10))
    (gone,) = plan_pull_job(snapshot(raw, seconds=10), GATES).actions
    assert isinstance(gone, Delete)
    assert plan_pull_job(snapshot(job(over)), GATES) == Plan()


def test_img_9_without_its_gate_a_job_rests() -> None:
    assert plan_pull_job(snapshot(job(), node(tags=[])), Gates()) == Plan()


def test_a_status_that_is_written_is_not_written_again() -> None:
    first = plan_pull_job(snapshot(job(), node()), GATES)
    assert first.status is not None
    assert plan_pull_job(snapshot(job(dict(first.status)), node(), seconds=9), GATES) == Plan()
