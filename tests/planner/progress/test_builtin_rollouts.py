"""Every state of a StatefulSet's and a DaemonSet's rollout, from pods and written status."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.sync.annotations import COMMIT
from gitkruise.wire.primitives.names import GroupKind
from tests.pods import NOW, OWNER_UID, raw_pod


def stateful(*, type_: str = "RollingUpdate", generation: int = 2, **rolling: Any) -> Any:
    """Three pods between web-old and web-new."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": OWNER_UID,
                     "generation": generation},
        "spec": {
            "replicas": 3,
            "template": {"spec": {"containers": [{"name": "main", "image": "web:bad"}]}},
            "updateStrategy": {"type": type_, "rollingUpdate": rolling},
        },
        "status": {"observedGeneration": 2, "currentRevision": "web-old",
                   "updateRevision": "web-new"},
    }  # fmt: skip


def advanced(*, conditions: Any = (), **rolling: Any) -> Any:
    """The same three pods under an Advanced StatefulSet."""
    raw = stateful(**rolling)
    return {**raw, "apiVersion": "apps.kruise.io/v1beta1",
            "status": {**raw["status"], "conditions": list(conditions)}}  # fmt: skip


def parallel() -> Any:
    """The same three pods, which are not waited for in order."""
    raw = stateful()
    return {**raw, "spec": {**raw["spec"], "podManagementPolicy": "Parallel"}}


FAILED = {"type": "FailedUpdatePod", "status": "True", "message": "no"}
REFUSED = {"type": "FailedCreatePod", "status": "True", "message": "exceeded quota: few",
           "lastTransitionTime": "2026-11-21T09:00:00Z"}  # fmt: skip


def daemon(*, type_: str = "RollingUpdate", generation: int = 2, **rolling: Any) -> Any:
    """Three nodes."""
    raw = stateful(type_=type_, generation=generation, **rolling)
    return {**raw, "kind": "DaemonSet",
            "status": {"observedGeneration": 2, "desiredNumberScheduled": 3}}  # fmt: skip


def tainted(updated: int = 3, available: int = 3, *, type_: str = "RollingUpdate") -> Any:
    """Three nodes, and a fourth that keeps the pod it has and would get no new one."""
    raw = daemon(type_=type_)
    counted = {"numberMisscheduled": 1, "updatedNumberScheduled": updated,
               "numberAvailable": available, "numberReady": available}  # fmt: skip
    return {**raw, "status": {**raw["status"], **counted}}


REVISIONS = [
    {
        "metadata": {"name": f"web-{name}", "annotations": {COMMIT: f"c{number}"}},
        "revision": number,
    }
    for name, number in (("new", 7), ("old", 6))
]


def pods(*revisions: str, ready: bool = True) -> list[PodFacts]:
    return [
        pod_facts(raw_pod(f"web-{n}", revision=f"web-{one}", state="", ready=ready))
        for n, one in enumerate(revisions)
    ]


def broken(revision: str = "web-new") -> PodFacts:
    waiting = {"reason": "ImagePullBackOff", "message": ""}
    status = {"name": "main", "image": "web:bad", "ready": False, "state": {"waiting": waiting}}
    asked = [{"name": "main", "image": "web:bad"}]
    return pod_facts(
        raw_pod("web-2", revision=revision, ready=False, containers=asked,
                containerStatuses=[status])
    )  # fmt: skip


def judged(raw: Any, found: list[PodFacts]) -> Rollout:
    kind = GroupKind(raw["apiVersion"].partition("/")[0], raw["kind"])
    return ROLLOUTS[kind].judge(raw, found, REVISIONS, NOW)


FOUR_NEW = ("new", "new", "new", "new")
CANNOT = "cannot start: image web:bad cannot be pulled"
HELD_BACK = "the others are updated when they are deleted"
# raw, pods, state, message, (updated, asked, kept)
STATES: dict[str, tuple[Any, list[PodFacts], str, str, tuple[int, int, int]]] = {
    "done": (stateful(), pods("new", "new", "new"), "Done", "3 of 3 on new", (3, 3, 0)),
    "partition": (stateful(partition=2), pods("old", "old", "new"), "Held",
                  "1 of 3 on new, held by partition 2", (1, 1, 2)),
    "more than it lets through": (stateful(partition=5), pods("old", "old", "new"), "Held",
                                  "1 of 3 on new, held by partition 5", (1, 1, 2)),
    "rolling": (stateful(), pods("old", "new", "new"), "Rolling",
                "2 of 3 asked are updated and available", (2, 3, 0)),
    "one is gone": (stateful(), pods("old", "new"), "Rolling",
                    "1 of 3 asked are updated and available", (1, 3, 0)),
    "not ready": (stateful(), pods("new", "new", "new", ready=False), "Rolling",
                  "0 of 3 asked are updated and available", (3, 3, 0)),
    "stuck": (stateful(), [*pods("old", "old"), broken()], "Stuck",
              "web-2 cannot start: image web:bad cannot be pulled; 2 of 3 keep serving",
              (1, 3, 0)),
    "an earlier template in order": (
        stateful(), [*pods("old", "old"), broken("web-bad")], "Stuck",
        f"web-2 has an earlier template and {CANNOT}; it is not replaced before it is deleted",
        (0, 3, 0),
    ),
    "an earlier template that stays": (
        stateful(partition=3), [*pods("new", "new"), broken("web-bad")], "Held",
        "2 of 3 on new, held by partition 3", (2, 2, 1),
    ),
    "an earlier template, all at once": (
        parallel(), [*pods("old", "old"), broken("web-bad")], "Rolling",
        "0 of 3 asked are updated and available", (0, 3, 0),
    ),
    "not seen": (stateful(generation=3), pods("old", "old", "old"), "Rolling",
                 "the controller has not seen the newest spec yet", (0, 3, 0)),
    "on delete": (stateful(type_="OnDelete"), pods("old", "old", "new"), "Held",
                  f"1 of 3 on new, {HELD_BACK}", (1, 1, 0)),
    "a node keeps its pod": (tainted(), pods(*FOUR_NEW), "Done", "3 of 3 on new", (3, 3, 0)),
    "the node with a pod too many is lost": (
        tainted(), [*pods("new", "new", "new"), *pods("new", ready=False)], "Done",
        "3 of 3 on new", (3, 3, 0),
    ),
    "its pod has ended": (tainted(), pods("new", "new", "new"), "Done", "3 of 3 on new", (3, 3, 0)),
    "another pod is not available": (
        tainted(available=2), [*pods("new", "new", "new"), *pods("new", ready=False)], "Rolling",
        "2 of 3 asked are updated and available", (3, 3, 0),
    ),
    "a node keeps its old pod": (
        tainted(), pods("new", "new", "new", "old"), "Rolling",
        "3 of 3 asked are updated and available", (3, 3, 0),
    ),
    "a node has no pod yet": (
        tainted(updated=2, available=2), pods("new", "new", "new"), "Rolling",
        "2 of 3 asked are updated and available", (2, 3, 0),
    ),
    "a node keeps its pod, on delete": (
        tainted(updated=1, type_="OnDelete"), pods("old", "old", "new", "new"), "Held",
        f"1 of 3 on new, {HELD_BACK}", (1, 1, 0),
    ),
    "advanced, partition": (advanced(partition=2), pods("old", "old", "new"), "Held",
                            "1 of 3 on new, held by partition 2", (1, 1, 2)),
    "advanced, paused": (advanced(paused=True), pods("old", "old", "new"), "Paused",
                         "1 of 3 on new, paused", (1, 3, 0)),
    "advanced, paused at its partition": (
        advanced(partition=2, paused=True), pods("old", "old", "new"), "Paused",
        "1 of 3 on new, paused", (1, 1, 2),
    ),
    "advanced, ready too short": (advanced(minReadySeconds=10**8), pods("new", "new", "new"),
                                  "Rolling", "0 of 3 asked are updated and available", (3, 3, 0)),
    "advanced, refused": (advanced(conditions=[FAILED]), pods("old", "old", "new"), "Stuck", "no",
                          (1, 3, 0)),
    "advanced, a pod refused": (
        advanced(conditions=[REFUSED]), pods("new", "new"), "Rolling",
        ("2 of 3 asked are updated and available; "
         "FailedCreatePod since 2026-11-21T09:00:00Z: exceeded quota: few"), (2, 3, 0),
    ),
    "advanced, a pod refused earlier": (
        advanced(conditions=[REFUSED]), pods("new", "new", "new"), "Done", "3 of 3 on new",
        (3, 3, 0),
    ),
    "daemon done": (daemon(), pods("new", "new", "new"), "Done", "3 of 3 on new", (3, 3, 0)),
    "daemon rolling": (daemon(), pods("old", "new", "new"), "Rolling",
                       "2 of 3 asked are updated and available", (2, 3, 0)),
    "daemon on delete": (daemon(type_="OnDelete"), pods("old", "old", "new"), "Held",
                         f"1 of 3 on new, {HELD_BACK}", (1, 1, 0)),
    "daemon stuck": (daemon(), [*pods("old", "old"), broken()], "Stuck",
                     "web-2 cannot start: image web:bad cannot be pulled; 2 of 3 keep serving",
                     (1, 3, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_state(name: str) -> None:
    raw, found, state, message, amounts = STATES[name]
    rollout = judged(raw, found)
    assert (rollout.state, rollout.message) == (state, message)
    assert (rollout.updated, rollout.asked, rollout.kept) == amounts


def test_pods_are_counted_by_revision() -> None:
    rollout = judged(stateful(partition=2), pods("old", "old", "new"))
    assert [(r.role, r.hash, r.pods) for r in rollout.revisions] == [
        ("update", "new", 1), ("current", "old", 2),
    ]  # fmt: skip
    assert (rollout.gate, rollout.budget, rollout.in_place) == ("partition 2", 1, False)
    assert (len(rollout.members), len(rollout.behind)) == (3, 2)


def test_the_revision_before_has_its_whole_name() -> None:
    """Pods of a DaemonSet have its hash alone as their label."""
    short = [pod_facts(raw_pod(f"web-{n}", revision="old", state="")) for n in range(3)]
    assert judged(daemon(), short).current_revision == "web-old"
    assert judged(daemon(), pods("old", "new", "new")).current_revision == "web-old"


@pytest.mark.parametrize(
    ("raw", "budget"),
    [
        (daemon(maxUnavailable="34%"), 2),
        (daemon(maxUnavailable=0, maxSurge=1), 0),
        (stateful(maxUnavailable="67%"), 2),
        (stateful(maxUnavailable="x"), 1),
    ],
)
def test_the_budget(raw: Any, budget: int) -> None:
    assert judged(raw, []).budget == budget


@pytest.mark.parametrize("workload", [stateful(), advanced(), daemon()], ids=["sts", "asts", "ds"])
def test_every_revision_has_the_commit_that_it_was_created_at(workload: Any) -> None:
    found = judged(workload, pods("old", "new", "unknown"))
    assert {r.hash: r.commit for r in found.revisions} == {"new": "c7", "old": "c6", "unknown": ""}
