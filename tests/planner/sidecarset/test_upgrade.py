"""Writes of an upgrade on a pod: images, hashes, state, condition, and nothing more."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Hold, Patch, PatchStep, Plan
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH
from tests.planner.sidecarset.build import (
    COLD,
    injected,
    moved,
    plan,
    reasons,
    revision,
    running,
    sidecarset,
)
from tests.pods import NOW, stamp

HASH: Final = "kruise.io/sidecarset-hash"
STATE: Final = "kruise.io/sidecarset-inplace-update-state"
OLD: Final = sidecarset({**COLD, "image": "side:0"})
BARRED: Final = sidecarset({**COLD, "image": "side:0", "env": [{"name": "A", "value": "1"}]})


def steps(made: Plan, name: str = "p") -> list[PatchStep]:
    """The steps of the patches of a pod."""
    found = [a for a in made.actions if isinstance(a, Patch) and a.key.name == name]
    return [step for patch in found for step in patch.steps]


def upgradable(can: object, *, since: str = stamp(-60), status: str = "") -> dict[str, Any]:
    message = can if isinstance(can, str) else json.dumps(can)
    return {
        "type": "SidecarSetUpgradable",
        "status": status or str(bool(isinstance(can, dict) and all(can.values()))),
        "reason": "UpdateImmutableField",
        "message": message,
        "lastTransitionTime": since,
    }


def with_condition(raw: Obj, condition: Obj) -> Obj:
    status = {**raw["status"], "conditions": [*raw["status"]["conditions"], condition]}
    return {**raw, "status": status}


def test_images_marks_and_condition_are_all() -> None:
    new = sidecarset()
    pod = injected(OLD)
    main, report = steps(plan(new, [pod]))
    facts = sidecarset_facts(new)
    assert main.content_type == report.content_type == STRATEGIC_PATCH
    assert main.body["spec"] == {"containers": [{"name": "side", "image": "side:1"}]}
    notes = main.body["metadata"]["annotations"]
    assert set(notes) == {HASH, STATE}
    assert json.loads(notes[HASH])["ss"] == {
        "updateTimestamp": stamp(0),
        "hash": facts.hash,
        "sidecarSetName": "ss",
        "sidecarList": ["side"],
        "controllerRevision": revision(new).name,
    }
    assert notes[STATE] == (
        f'{{"ss":{{"revision":"{facts.hash}","updateTimestamp":"{stamp(0)}",'
        '"lastContainerStatuses":{"side":{"imageID":"docker://side:0-id"}}}}'
    )
    assert report.subresource == "status"
    assert report.body["status"]["conditions"] == [
        {
            "type": "SidecarSetUpgradable",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": stamp(0),
            "reason": "AllSidecarsetUpgradable",
            "message": '{"ss":true}',
        }
    ]


def test_patched_containers_stand_in_the_pods_order() -> None:
    def of(a: str, b: str) -> dict[str, Any]:
        return sidecarset({"name": "a", "image": a}, {"name": "b", "image": b})

    pod = injected(of("a:0", "b:0"))
    pod["spec"]["containers"].reverse()
    pod["status"]["containerStatuses"] = [running(c) for c in pod["spec"]["containers"]]
    main, _ = steps(plan(of("a:1", "b:1"), [pod]))
    assert [c["name"] for c in main.body["spec"]["containers"]] == ["b", "a"]


def test_an_unchanged_container_is_left_alone() -> None:
    """Two containers, one image changes (RUN-30: env and mounts are untouched)."""
    before = sidecarset({"name": "a", "image": "a:0"}, {"name": "b", "image": "b:0"})
    after = sidecarset({"name": "a", "image": "a:1"}, {"name": "b", "image": "b:0"})
    main, _ = steps(plan(after, [injected(before)]))
    assert main.body["spec"]["containers"] == [{"name": "a", "image": "a:1"}]
    assert list(json.loads(main.body["metadata"]["annotations"][STATE])["ss"][
        "lastContainerStatuses"
    ]) == ["a"]  # fmt: skip


def test_states_of_other_sets_and_earlier_containers_stay() -> None:
    earlier = {
        "other": {"revision": "x", "updateTimestamp": stamp(-9), "lastContainerStatuses": {}},
        "ss": {
            "revision": "y",
            "updateTimestamp": stamp(-9),
            "lastContainerStatuses": {"gone": {"imageID": "g"}},
        },
    }
    pod = injected(OLD, annotations={STATE: json.dumps(earlier)})
    main, _ = steps(plan(sidecarset(), [pod]))
    after = json.loads(main.body["metadata"]["annotations"][STATE])
    assert after["other"] == earlier["other"]
    assert set(after["ss"]["lastContainerStatuses"]) == {"gone", "side"}


def test_pod_metadata_comes_along_with_an_image() -> None:
    patches = [{"annotations": {"oom": '{"side":1}'}, "patchPolicy": "MergePatchJson"}]
    new = sidecarset(patchPodMetadata=patches)
    main, _ = steps(plan(new, [injected(OLD, annotations={"oom": '{"app":0}'})]))
    assert main.body["metadata"]["annotations"]["oom"] == '{"app":0,"side":1}'
    assert plan(new, [injected(sidecarset())], old=[OLD]).actions == (), "and only then"


def test_quirk_a_pod_that_cannot_be_written_does_not_stop_the_others() -> None:
    """OpenKruise ends the round at the first error, and later pods starve."""
    patches = [{"annotations": {"oom": '{"side":1}'}, "patchPolicy": "MergePatchJson"}]
    new = sidecarset(patchPodMetadata=patches, update={"maxUnavailable": 2})
    pods = [injected(OLD, "p-0", annotations={"oom": "{"}), injected(OLD, "p-1")]
    made = plan(new, pods)
    assert moved(made) == ["p-1"]
    assert reasons(made) == {"p-0": Hold.UPDATING}
    (event,) = made.events
    assert (event.type, event.reason) == ("Warning", "FailedUpdate")
    assert "pod p-0: annotation oom" in event.message


def test_side_61_pods_that_cannot_change_are_marked_so_once() -> None:
    new = sidecarset(COLD)
    pod = injected(BARRED)
    (step,) = steps(plan(new, [pod], old=[BARRED]))
    (condition,) = step.body["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "UpdateImmutableField",
        '{"ss":false}',
    )
    again = plan(new, [with_condition(pod, upgradable({"ss": False}))], old=[BARRED])
    assert again.actions == ()
    assert again.events == (), "quirk 32: OpenKruise repeats the event every round"
    assert again.held[0].why == Hold.CANNOT_UPDATE


def test_side_62_one_set_that_cannot_speaks_for_all() -> None:
    pod = with_condition(injected(OLD), upgradable({"other": False}))
    _, step = steps(plan(sidecarset(), [pod]))
    (condition,) = step.body["status"]["conditions"]
    assert (condition["status"], condition["message"]) == ("False", '{"other":false,"ss":true}')
    assert condition["lastTransitionTime"] == stamp(-60), "the status did not change"


def test_quirk_the_condition_is_taken_back_when_the_set_is_what_the_pod_runs_again() -> None:
    """OpenKruise leaves the pod's condition False for ever after such a revert."""
    pod = with_condition(injected(OLD), upgradable({"ss": False}))
    (step,) = steps(plan(OLD, [pod]))
    assert step.body["status"]["conditions"][0]["status"] == "True"


@pytest.mark.parametrize("message", ["no json", "[1]"])
def test_a_condition_nobody_can_read_holds_its_pod_alone(message: str) -> None:
    broken = with_condition(injected(OLD, "p-0"), upgradable(message))
    new = sidecarset(update={"maxUnavailable": 2})
    made = plan(new, [broken, injected(OLD, "p-1")])
    assert moved(made) == ["p-1"]
    assert "SidecarSetUpgradable" in made.held[0].detail
    untold = plan(sidecarset(), [with_condition(injected(BARRED), upgradable(message))])
    assert untold.actions == ()
    assert [e.reason for e in untold.events] == ["FailedUpdate"]


def test_side_61_an_image_alone_upgrades_those_that_have_the_rest() -> None:
    """An env changed first: the old pod never follows, a pod born since follows the image."""
    newest = sidecarset({**BARRED["spec"]["containers"][0], "image": "side:2"})
    made = plan(newest, [injected(OLD, "old"), injected(BARRED, "young")], old=[OLD, BARRED])
    assert moved(made) == ["young"]
    assert reasons(made) == {"old": Hold.CANNOT_UPDATE}


def test_held_pods_go_by_namespace_and_name() -> None:
    pods = [injected(OLD, "p"), injected(OLD, "p")]
    pods[1]["metadata"]["namespace"] = "bank"
    made = plan(sidecarset(update={"partition": 2}), pods, now=NOW)
    assert [h.pod for h in made.held] == ["bank/p", "shop/p"]
