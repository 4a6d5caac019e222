"""In-place batches: which containers change now, and when a batch is done."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.pods.inplace import UpdateSpec
from gitkruise.planner.pods.inplace_batches import batch_done, needs_unready, next_batch
from gitkruise.planner.pods.inplace_state import (
    BrokenStateError,
    InPlaceState,
    grace_text,
    read_grace,
    read_state,
    state_text,
)
from gitkruise.wire.kruise.hashes import dump_hash
from tests.pods import NOW, raw_pod

STATE_KEY, GRACE_KEY = "apps.kruise.io/inplace-update-state", "apps.kruise.io/inplace-update-grace"
META_KEY: Final = "apps.kruise.io/runtime-containers-meta"


def container(name: str, priority: int | None = None, image: str = "img:1") -> dict[str, Any]:
    barrier = [
        {
            "name": "KRUISE_CONTAINER_BARRIER",
            "valueFrom": {"configMapKeyRef": {"name": "barrier", "key": f"p_{priority}"}},
        }
    ]
    return {"name": name, "image": image, **({} if priority is None else {"env": barrier})}


FOUR: Final = [container("c1", 20), container("c2", 10), container("c3", 0), container("c4", 0)]


def four() -> PodFacts:
    statuses = [{"name": c["name"], "image": "img:1", "imageID": "id-1"} for c in FOUR]
    return pod_facts(raw_pod("web-a", containers=FOUR, containerStatuses=statuses))


def fresh(**changes: Any) -> InPlaceState:
    return InPlaceState(revision="web-new", started=NOW, **changes)


def images(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "img:2")


K2: Final = {"labels": {"k2": "v"}}
BATCHES: Final = {
    "BATCH-1": (UpdateSpec(revision="r", images=images("c1")), [["c1"]]),
    "BATCH-2": (UpdateSpec(revision="r", images=images("c3", "c4")), [["c3", "c4"]]),
    "BATCH-3": (
        UpdateSpec(
            revision="r",
            images=images("c3"),
            ref_metadata={"c4": {"annotations": {"k1": "v"}}},
        ),
        [["c3", "c4"]],
    ),
    "BATCH-4, then BATCH-5": (
        UpdateSpec(revision="r", images=images("c1", "c2")),
        [["c1"], ["c2"]],
    ),
    "BATCH-6": (
        UpdateSpec(revision="r", images=images("c1", "c2", "c4")),
        [["c1"], ["c2"], ["c4"]],
    ),
    "BATCH-7 shared metadata joins": (
        UpdateSpec(
            revision="r", images=images("c1", "c2", "c4"), ref_metadata={"c2": K2, "c3": K2}
        ),
        [["c1"], ["c2", "c3"], ["c4"]],
    ),
}


@pytest.mark.parametrize(("spec", "wanted"), BATCHES.values(), ids=BATCHES)
def test_batches(spec: UpdateSpec, wanted: list[list[str]]) -> None:
    pod, state = four(), fresh()
    for at, names in enumerate(wanted):
        batch = next_batch(pod, spec, state, NOW)
        state, spec = batch.state, batch.state.next_spec()
        assert list(state.batches[-1][1]) == names
        assert state.more is (at < len(wanted) - 1)
        assert state.required_ready == (tuple(names) if state.more else None)
    assert [list(names) for _, names in state.batches] == wanted


def test_image_ids_are_remembered_before_they_change() -> None:
    batch = next_batch(four(), UpdateSpec(revision="r", images=images("c1")), fresh(), NOW)
    assert batch.state.image_ids == {"c1": "id-1"}
    assert batch.containers == [{"name": "c1", "image": "img:2"}]


def test_quirk_image_id_of_a_container_updated_twice_is_the_latest() -> None:
    """OpenKruise keeps the first id, so that the second change may look complete too early."""
    state = fresh(image_ids={"c1": "id-0"})
    batch = next_batch(four(), UpdateSpec(revision="r", images=images("c1")), state, NOW)
    assert batch.state.image_ids == {"c1": "id-1"}


def running(*containers: tuple[str, str, str], spec: str = "img:2", **more: Any) -> PodFacts:
    """A pod that asks for `spec` and reports (name, image, id)."""
    names = more.pop("names", [name for name, _, _ in containers] or ["c1"])
    statuses = [
        {"name": n, "image": image, "imageID": image_id, "containerID": f"run-{n}"}
        for n, image, image_id in containers
    ]
    spec_list = [{"name": n, "image": spec, **more.pop("container", {})} for n in names]
    return pod_facts(raw_pod("web-a", containers=spec_list, containerStatuses=statuses, **more))


STALE: Final[dict[str, Any]] = {"container": {"resources": {"requests": {"cpu": "2"}}}}
BATCH: Final = (("2026-07-02T10:00:00Z", ("c1",)),)
DONE: Final = {
    "DONE-2 new id": (
        fresh(image_ids={"c1": "img01"}),
        running(("c1", "img:2", "img02")),
        False,
        True,
    ),
    "DONE-3 old id": (
        fresh(image_ids={"c1": "img01"}),
        running(("c1", "img:1", "img01")),
        False,
        False,
    ),
    "DONE-4 same content under the new name": (
        fresh(image_ids={"c1": "img01"}),
        running(("c1", "img:2", "img01")),
        False,
        True,
    ),
    "DONE-4 latest is implied": (
        fresh(image_ids={"c1": "img01"}),
        running(("c1", "img:latest", "img01"), spec="img"),
        False,
        True,
    ),
    "DONE-5 no status": (fresh(image_ids={"c1": "img01"}), running(), False, False),
    "DONE-6 resources do not count without their gate": (
        fresh(update_resources=True, batches=BATCH),
        running(("c1", "img:2", "img02"), **STALE),
        False,
        True,
    ),
    "DONE-7 resources count with it": (
        fresh(update_resources=True, batches=BATCH),
        running(("c1", "img:2", "img02"), **STALE),
        True,
        False,
    ),
    "DONE-8 one of two": (
        fresh(image_ids={"c1": "a", "c2": "b"}),
        running(("c1", "img:2", "A"), ("c2", "img:1", "b")),
        False,
        False,
    ),
    "env waits for the node agent": (
        fresh(env_from_metadata=True),
        running(("c1", "img:2", "img02")),
        False,
        False,
    ),
}


@pytest.mark.parametrize("row", DONE.values(), ids=DONE)
def test_batch_done(row: tuple[InPlaceState, PodFacts, bool, bool]) -> None:
    state, pod, vertical, done = row
    assert (batch_done(pod, state, vertical=vertical) == "") is done


@pytest.mark.parametrize(
    ("started", "done"),
    [("2026-07-02T10:00:05Z", True), ("2026-07-02T09:00:00Z", False)],
    ids=["started after the change", "still the old one"],
)
def test_quirk_a_new_tag_of_the_same_content_completes(started: str, done: bool) -> None:
    """The node goes on reporting the old tag; OpenKruise waits for the new one for ever."""
    status = {
        "name": "c1",
        "image": "img:1",
        "imageID": "same",
        "state": {"running": {"startedAt": started}},
    }
    raw = raw_pod(
        "web-a", containers=[{"name": "c1", "image": "img:2"}], containerStatuses=[status]
    )
    state = fresh(image_ids={"c1": "same"}, batches=BATCH)
    assert (batch_done(pod_facts(raw), state, vertical=False) == "") is done


def reported(pod_env: list[Any], plain: str, env: str) -> PodFacts:
    """A pod whose node agent reports the hashes of the JSON texts `plain` and `env`."""
    entry = {
        "name": "c1",
        "containerID": "run-c1",
        "hashes": {
            "plainHash": dump_hash(plain.encode()),
            "extractedEnvFromMetadataHash": dump_hash(env.encode()),
        },
    }
    return running(
        ("c1", "img:1", "img01"),
        container={"env": pod_env},
        labels={"k": "v2"},
        annotations={META_KEY: json.dumps({"containers": [entry]})},
    )


ENV: Final = [{"name": "K", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['k']"}}}]
PLAIN: Final = '{"image":"img:2","name":"c1"}'


@pytest.mark.parametrize(
    ("plain", "env", "done"),
    [
        (PLAIN, '[{"name":"K","value":"v2"}]', True),
        (PLAIN, '[{"name":"K","value":"v1"}]', False),
        ('{"image":"img:1","name":"c1"}', '[{"name":"K","value":"v2"}]', False),
    ],
    ids=["both agree", "old environment", "old image"],
)
def test_the_node_agents_hashes_decide(plain: str, env: str, done: bool) -> None:
    state = fresh(env_from_metadata=True, image_ids={"c1": "img01"})
    assert (batch_done(reported(ENV, plain, env), state, vertical=False) == "") is done


RESIZE: Final = UpdateSpec(revision="r", resources={"c1": {"requests": {"cpu": "2"}}})
RESTART_CPU: Final = {
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
}
MEMORY: Final = UpdateSpec(revision="r", resources={"c1": {"requests": {"memory": "2Gi"}}})
IMAGE: Final = UpdateSpec(revision="r", images={"c1": "img:2"})
UNREADY: Final = {
    "gate off": (True, False, RESIZE, {}, True),
    "no readiness gate": (False, True, IMAGE, {}, False),
    "resize alone": (True, True, RESIZE, {}, False),
    "more than a resize": (True, True, IMAGE, {}, True),
    "resize that restarts": (True, True, RESIZE, RESTART_CPU, True),
    "the other resource restarts": (True, True, MEMORY, RESTART_CPU, False),
}


@pytest.mark.parametrize("row", UNREADY.values(), ids=UNREADY)
def test_needs_unready(row: tuple[bool, bool, UpdateSpec, dict[str, Any], bool]) -> None:
    gated, vertical, spec, policy, wanted = row
    gates = [{"conditionType": "InPlaceUpdateReady"}] if gated else []
    pod = pod_facts(raw_pod("web-a", containers=[{"name": "c1", **policy}], readinessGates=gates))
    assert needs_unready(pod, spec, vertical=vertical) is wanted


def test_state_prints_as_openkruise_does() -> None:
    spec = UpdateSpec(revision="web-c6778477c", images={"main": "nginx:1.26"})
    pod = pod_facts(raw_pod("web-a"))
    state = InPlaceState(revision="web-c6778477c", started=NOW, update_images=True)
    assert state_text(next_batch(pod, spec, state, NOW).state) == (
        '{"revision":"web-c6778477c","updateTimestamp":"2026-07-02T10:00:00Z",'
        '"lastContainerStatuses":{"main":{"imageID":"img-1"}},"updateImages":true,'
        '"containerBatchesRecord":[{"timestamp":"2026-07-02T10:00:00Z","containers":["main"]}]}'
    )


def test_grace_prints_as_openkruise_does() -> None:
    spec = UpdateSpec(revision="rev_new", images={"c1": "foo2"}, grace_s=3630)
    assert grace_text(spec) == (
        '{"revision":"rev_new","containerImages":{"c1":"foo2"},"graceSeconds":3630}'
    )


@pytest.mark.parametrize(
    "spec",
    [
        UpdateSpec(revision="r", images={"c1": "a"}, grace_s=3),
        UpdateSpec(
            revision="r",
            ref_metadata={"c1": {"labels": {"k": "v"}}},
            env_from_metadata=True,
            metadata_patch={"metadata": {"labels": {"gone": None}}},
        ),
        UpdateSpec(revision="r", resources={"c1": {"limits": {"cpu": "1"}}}),
    ],
)
def test_grace_reads_back(spec: UpdateSpec) -> None:
    pod = pod_facts(raw_pod("web-a", annotations={GRACE_KEY: grace_text(spec)}))
    assert read_grace(pod) == spec


def test_state_reads_back_also_from_its_old_key() -> None:
    state = fresh(
        image_ids={"c1": "x"},
        next_images={"c2": "img:2"},
        next_ref_metadata={"c2": {"labels": {"k": "v"}}},
        required_ready=("c1",),
        batches=(("2026-07-02T10:00:00Z", ("c1",)),),
    )
    for key in (STATE_KEY, "inplace-update-state"):
        pod = pod_facts(raw_pod("web-a", annotations={key: state_text(state)}))
        assert read_state(pod) == state


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}", "[" * 200_000, '{"revision":"r"}',
        '{"revision":"r","updateTimestamp":"soon"}',
        '{"revision":"r","updateTimestamp":"0001-01-01T00:00:00+14:00"}',
    ],
    ids=range(7),
)  # fmt: skip
def test_a_broken_annotation_is_named(text: str) -> None:
    pod = pod_facts(raw_pod("web-a", annotations={STATE_KEY: text}))
    with pytest.raises(BrokenStateError, match="inplace-update-state"):
        read_state(pod)
