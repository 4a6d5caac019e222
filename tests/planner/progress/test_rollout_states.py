"""Every state of a rollout, from pods and the status the controller wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.progress.cloneset import observe_rollout
from gitkruise.planner.progress.failing_pods import broken, unready
from tests.pods import NOW, OWNER_UID, pods, raw_pod


def owner(replicas: int = 4, *, generation: int = 2, **more: Any) -> dict[str, Any]:
    """A CloneSet between web-old and web-new; `more` are rollingUpdate fields, or `status`."""
    status = {
        "observedGeneration": 2,
        "currentRevision": "web-old",
        "updateRevision": "web-new",
        **more.pop("status", {}),
    }
    policy = more.pop("type", "RollingUpdate")
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": OWNER_UID, "generation": generation,
        },
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "main", "image": "web:bad"}]}},
            "updateStrategy": {"type": policy, "rollingUpdate": more},
        },
        "status": status,
    }  # fmt: skip


def failing(
    reason: str, message: str = "", shown: str = "", *, ended: Any = None, notes: Any = None
) -> PodFacts:
    """A container that never ran is shown with the image before, if there was one.

    `ended` is the exit before, `notes` are the pod's annotations.
    """
    waiting = {"reason": reason, "message": message}
    image = shown or ("web:bad" if reason == "CrashLoopBackOff" else "web:v1")
    status = {"name": "main", "image": image, "ready": False, "state": {"waiting": waiting}}
    status |= {"lastState": {"terminated": ended}} if ended else {}
    asked = [{"name": "main", "image": "web:bad"}]
    raw = raw_pod("web-bad", ready=False, containers=asked, containerStatuses=[status])
    raw["metadata"]["annotations"] = notes or {}
    return pod_facts(raw)


def exited(code: int, started: str = "2026-01-01T00:00:10Z") -> dict[str, Any]:
    return {"exitCode": code, "startedAt": started, "finishedAt": "2026-01-01T00:00:30Z"}


def updated(container: str = "main", at: str = "2026-01-01T00:00:20Z") -> dict[str, Any]:
    return {
        "revision": "web-new",
        "updateTimestamp": at,
        "lastContainerStatuses": {container: {"imageID": "sha256:1"}},
    }


IN_PLACE = "apps.kruise.io/inplace-update-state"
SIDECARS = "kruise.io/sidecarset-inplace-update-state"
SECOND = [{"timestamp": "2026-01-01T00:00:20Z", "containers": ["main"]}]
# (name, the exit, annotations, state): which waits for crash back-off are failures.
BACKED_OFF: list[tuple[str, Any, dict[str, str], str]] = [
    ("it failed", exited(1), {}, "Stuck"),
    ("it ended well", exited(0), {}, "Rolling"),
    ("an update in place ended it", exited(137), {IN_PLACE: json.dumps(updated())}, "Rolling"),
    (
        "a sidecar's update ended it",
        exited(143),
        {SIDECARS: json.dumps({"mesh": updated()})},
        "Rolling",
    ),
    (
        "it failed after the update",
        exited(1, "2026-01-01T00:00:21Z"),
        {IN_PLACE: json.dumps(updated())},
        "Stuck",
    ),
    (
        "another container was updated",
        exited(1),
        {IN_PLACE: json.dumps(updated("log"))},
        "Stuck",
    ),
    (
        "a later batch ended it",
        exited(137, "2026-01-01T00:00:15Z"),
        {
            IN_PLACE: json.dumps(
                {**updated(at="2026-01-01T00:00:05Z"), "containerBatchesRecord": SECOND}
            )
        },
        "Rolling",
    ),
    ("a record that cannot be read", exited(1), {IN_PLACE: "{"}, "Stuck"),
    ("a record without a time", exited(1), {IN_PLACE: json.dumps(updated(at="x"))}, "Stuck"),
]


@pytest.mark.parametrize("row", BACKED_OFF, ids=[row[0] for row in BACKED_OFF])
def test_waiting_for_crash_back_off_is_no_failure_by_itself(
    row: tuple[str, Any, dict[str, str], str],
) -> None:
    _, ended, notes, state = row
    pod = failing("CrashLoopBackOff", "back-off 10s", ended=ended, notes=notes)
    assert str(judged(owner(), (*pods("3o+"), pod)).state) == state


PULL = 'failed to pull and unpack image "{0}": failed to resolve reference "{0}": not found'
OLD_ALIKE = {"currentRevision": "web-new"}
LATE = {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}
QUOTA = 'could not create pod web-x: pods "web-x" is forbidden: exceeded quota: q'


def scale_failed(status: str) -> dict[str, Any]:
    """The status of a CloneSet with the condition FailedScale."""
    at = "2026-01-01T00:00:00Z"
    one = {"type": "FailedScale", "status": status, "message": QUOTA, "lastTransitionTime": at}
    return {"conditions": [one]}


REFUSED = f"FailedScale since 2026-01-01T00:00:00Z: {QUOTA}"
ROWS: list[tuple[str, Any, tuple[PodFacts, ...], str, str]] = [
    ("all new", owner(), pods("4n+"), "Done", "4 of 4 on new"),
    ("none wanted", owner(0), (), "Done", ""),
    ("one not ready", owner(), pods("3n+ n-"), "Rolling", "3 of 4"),
    ("some old", owner(), pods("2o+ 2n+"), "Rolling", "2 of 4"),
    ("too few", owner(), pods("3n+"), "Rolling", ""),
    ("too few, refused", owner(status=scale_failed("True")), pods("3n+"), "Rolling", REFUSED),
    (
        "too few, refused before",
        owner(status=scale_failed("False")),
        pods("3n+"),
        "Rolling",
        "3 of 4 asked are updated and available",
    ),
    (
        "refused, all there",
        owner(status=scale_failed("True")),
        pods("4n+"),
        "Done",
        "4 of 4 on new",
    ),
    (
        "too late, refused",
        owner(status={"conditions": [*LATE["conditions"], *scale_failed("True")["conditions"]]}),
        pods("3n+"),
        "Stuck",
        f"no progress within the deadline; {REFUSED}",
    ),
    ("surplus", owner(), pods("5n+"), "Rolling", "1 pod more than 4 to delete"),
    ("partition reached", owner(partition=3), pods("3o+ n+"), "Held", "held by partition 3"),
    ("percent", owner(partition="50%"), pods("2o+ 2n+"), "Held", "partition 50%"),
    ("partition not reached", owner(partition=2), pods("3o+ n+"), "Rolling", "1 of 2"),
    ("new one not ready", owner(partition=3), pods("3o+ n-"), "Rolling", "0 of 1"),
    ("on delete", owner(type="OnDelete"), pods("3o+ n+"), "Held", "when they are deleted"),
    ("paused half-way", owner(paused=True), pods("2o+ 2n+"), "Paused", "2 of 4"),
    ("paused, done", owner(paused=True), pods("4n+"), "Done", ""),
    ("paused at partition", owner(paused=True, partition=3), pods("3o+ n+"), "Paused", ""),
    (
        "unreadable",
        owner(partition="lots"),
        pods("3o+ n+"),
        "Stuck",
        'spec.updateStrategy.partition: Invalid value: "lots": must be an integer or a percentage',
    ),
    (
        "budget unreadable",
        owner(maxUnavailable="x"),
        pods("4n+"),
        "Stuck",
        'spec.updateStrategy.maxUnavailable: Invalid value: "x"',
    ),
    ("not seen", owner(generation=3), pods("4o+"), "Rolling", "newest spec"),
    (
        "image",
        owner(),
        (*pods("3o+"), failing("ImagePullBackOff")),
        "Stuck",
        "web:bad cannot be pulled",
    ),
    (
        "image, other word",
        owner(),
        (*pods("3o+"), failing("ErrImagePull")),
        "Stuck",
        "web:bad cannot be pulled",
    ),
    (
        "crash loop",
        owner(),
        (*pods("3o+"), failing("CrashLoopBackOff", "back-off 10s")),
        "Stuck",
        "CrashLoopBackOff",
    ),
    (
        "config",
        owner(),
        (*pods("3o+"), failing("CreateContainerConfigError", "no secret x")),
        "Stuck",
        "no secret x",
    ),
    (
        "pull of its image",
        owner(),
        (*pods("3o+"), failing("ErrImagePull", PULL.format("docker.io/library/web:bad"))),
        "Stuck",
        "web:bad cannot be pulled",
    ),
    (
        "pull of the image before",
        owner(),
        (*pods("3o+"), failing("ErrImagePull", PULL.format("web:worse"))),
        "Rolling",
        "",
    ),
    (
        "back-off of the image before",
        owner(),
        (*pods("3o+"), failing("ImagePullBackOff", 'Back-off pulling image "web:worse"')),
        "Rolling",
        "",
    ),
    (
        "name of the image before",
        owner(),
        (*pods("3o+"), failing("InvalidImageName", 'Failed to apply default image tag "web::1"')),
        "Rolling",
        "",
    ),
    (
        "crash loop of the image before",
        owner(),
        (*pods("3o+"), failing("CrashLoopBackOff", "back-off 10s", "web:worse")),
        "Rolling",
        "",
    ),
    (
        "crash loop of an image by its digest",
        owner(),
        (*pods("3o+"), failing("CrashLoopBackOff", "back-off 10s", f"sha256:{'a' * 64}")),
        "Stuck",
        "CrashLoopBackOff",
    ),
    ("deadline", owner(status=LATE), pods("3o+ n-"), "Stuck", "deadline"),
    (
        "abandoned",
        owner(partition=2, status=OLD_ALIKE),
        pods("2o+ 2n+"),
        "Stuck",
        "AbandonedRevisionRunning: 2",
    ),
    ("going back", owner(status=OLD_ALIKE), pods("2o+ 2n+"), "Rolling", ""),
]


def judged(raw: Any, found: tuple[PodFacts, ...]) -> Rollout:
    return observe_rollout(raw, found, [], NOW)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_states(row: tuple[str, Any, tuple[PodFacts, ...], str, str]) -> None:
    _, raw, found, state, words = row
    rollout = judged(raw, found)
    assert (str(rollout.state), words in rollout.message) == (state, True), rollout.message


ENDED = {"terminated": {"exitCode": 3, "reason": "Error"}}
WAITS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
PULLS = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling "migrate:9"'}}
# State of an init container, its state before, Rollout's state, its message, what it waits for.
INITS: list[tuple[str, Any, Any, str, str]] = [
    ("its image", PULLS, {}, "Stuck", "image migrate:9 cannot be pulled"),
    ("crash loop", WAITS, ENDED, "Stuck", "CrashLoopBackOff: container migrate ends again"),
    ("failed again", ENDED, ENDED, "Stuck", "CrashLoopBackOff: container migrate ends again"),
    ("failed once", ENDED, {}, "Rolling", "init container migrate has not finished"),
    ("runs", {"running": {}}, ENDED, "Rolling", "init container migrate has not finished"),
]


@pytest.mark.parametrize("row", INITS, ids=[row[0] for row in INITS])
def test_an_init_container_that_fails_keeps_its_pod_from_starting(
    row: tuple[str, Any, Any, str, str],
) -> None:
    _, state, before, verdict, words = row
    waits = {"waiting": {"reason": "PodInitializing"}}
    raw = raw_pod(
        "web-bad",
        ready=False,
        initContainers=[{"name": "migrate", "image": "migrate:9"}],
        initContainerStatuses=[
            {"name": "migrate", "image": "migrate:9", "state": state, "lastState": before}
        ],
        containerStatuses=[{"name": "main", "image": "web:bad", "ready": False, "state": waits}],
    )
    set_ = owner()
    set_["spec"]["template"]["spec"]["initContainers"] = raw["spec"]["initContainers"]
    rollout = judged(set_, (*pods("3o+"), pod_facts(raw)))
    assert str(rollout.state) == verdict
    assert words in (rollout.message if verdict == "Stuck" else unready(pod_facts(raw)))
    assert bool(rollout.failing) is (verdict == "Stuck")
    assert not rollout.hindered


def test_a_failing_native_sidecar_that_an_update_ended_is_no_failure() -> None:
    """An update in place ends a native sidecar, and kubelet starts it again."""
    raw = raw_pod(
        "web-new",
        initContainers=[{"name": "mesh", "image": "mesh:2", "restartPolicy": "Always"}],
        initContainerStatuses=[
            {"name": "mesh", "image": "mesh:2", "state": ENDED, "lastState": ENDED}
        ],
    )
    assert not broken(pod_facts(raw))
    assert unready(pod_facts(raw)) == "container mesh is not ready"


def test_a_crash_loop_stays_one_piece_of_news() -> None:
    """Kubelet's own words count seconds, and between two crashes the container runs."""
    messages = {
        judged(owner(), (*pods("3o+"), pod)).message
        for pod in (
            failing("CrashLoopBackOff", "back-off 10s restarting failed container"),
            failing("CrashLoopBackOff", "back-off 20s restarting failed container"),
        )
    }
    assert len(messages) == 1


def test_counts_by_revision() -> None:
    rollout = judged(owner(partition="60%"), pods("3o+ n-"))
    assert (rollout.kept, rollout.asked, rollout.updated, rollout.available) == (3, 1, 1, 3)
    assert [(r.hash, r.role, r.pods, r.available) for r in rollout.revisions] == [
        ("new", "update", 1, 0), ("old", "current", 3, 3),
    ]  # fmt: skip
