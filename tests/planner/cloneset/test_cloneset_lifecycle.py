"""One round of one pod, by lifecycle state, hooks and grace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Delete, Hold, Plan
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.pods.inplace import UpdateSpec
from gitkruise.planner.pods.inplace_state import InPlaceState, grace_text, state_text
from tests.planner.cloneset.build import (
    NEW_NAME,
    OLD_NAME,
    body_of,
    cloneset,
    labels_of,
    patch_for,
    plan,
)
from tests.pods import NOW, raw_pod

STATE: Final = "lifecycle.apps.kruise.io/state"
STATE_NOTE, GRACE_NOTE = (
    "apps.kruise.io/inplace-update-state",
    "apps.kruise.io/inplace-update-grace",
)
FINALIZER: Final = {"finalizersHandler": ["example.io/hook"]}
LABEL: Final = {"labelsHandler": {"example.io/hook": "on"}}
IN_PLACE: Final = {"podUpdatePolicy": "InPlaceIfPossible"}


def pod(state: str, *, old: bool = False, **changes: Any) -> PodFacts:
    changes.setdefault("revision", OLD_NAME if old else NEW_NAME)
    return pod_facts(raw_pod("web-abcde", state=state, **changes))


def run(
    one: PodFacts,
    *,
    lifecycle: Mapping[str, Any] | None = None,
    update: Mapping[str, Any] | None = None,
    replicas: int = 1,
    **spec: Any,
) -> Plan:
    extra = {} if lifecycle is None else {"lifecycle": lifecycle}
    raw = cloneset(replicas=replicas, update=update or {}, **extra, **spec)
    return plan(raw, (one,))


def state_after(made: Plan) -> Any:
    return labels_of(made, "web-abcde").get(STATE)


def image_after(made: Plan) -> Any:
    containers = body_of(made, "web-abcde").get("spec", {}).get("containers", [{}])
    return containers[0].get("image")


# pod, keywords of run, state written (None: none)
STATES: Final[dict[str, tuple[PodFacts, dict[str, Any], str | None]]] = {
    "LIFE-1 on a node": (pod("PreparingNormal"), {}, "Normal"),
    "LIFE-2 not on a node": (pod("PreparingNormal", nodeName=""), {}, None),
    "LIFE-3 preNormal label missing": (
        pod("PreparingNormal"),
        {"lifecycle": {"preNormal": LABEL}},
        None,
    ),
    "LIFE-4 preNormal label there": (
        pod("PreparingNormal", nodeName="", labels={"example.io/hook": "on"}),
        {"lifecycle": {"preNormal": LABEL}},
        "Normal",
    ),
    "LIFE-6 in place before it was ever Normal": (
        pod("PreparingNormal", old=True),
        {"lifecycle": {"preNormal": FINALIZER}, "update": IN_PLACE},
        "Updating",
    ),
    "LIFE-7 becomes Normal first": (
        pod("PreparingNormal", old=True, finalizers=["example.io/hook"]),
        {
            "lifecycle": {"preNormal": FINALIZER, "inPlaceUpdate": FINALIZER},
            "update": IN_PLACE,
        },
        "Normal",
    ),
    "LIFE-8 the hook is asked first": (
        pod("Normal", old=True, finalizers=["example.io/hook"]),
        {"lifecycle": {"inPlaceUpdate": FINALIZER}, "update": IN_PLACE},
        "PreparingUpdate",
    ),
    "the hook agreed": (
        pod("PreparingUpdate", old=True),
        {"lifecycle": {"inPlaceUpdate": FINALIZER}, "update": IN_PLACE},
        "Updating",
    ),
    "template rolled back while preparing": (
        pod("PreparingUpdate", finalizers=["example.io/hook"]),
        {"lifecycle": {"inPlaceUpdate": FINALIZER}},
        "Normal",
    ),
    "complete, the hook is notified": (
        pod("Updating"),
        {"lifecycle": {"inPlaceUpdate": FINALIZER}},
        "Updated",
    ),
    "complete, without hooks": (pod("Updating"), {}, "Normal"),
    "the hook is done": (
        pod("Updated", finalizers=["example.io/hook"]),
        {"lifecycle": {"inPlaceUpdate": FINALIZER}},
        "Normal",
    ),
    "updated again": (
        pod("Updated", old=True),
        {"lifecycle": {"inPlaceUpdate": FINALIZER}, "update": IN_PLACE},
        "PreparingUpdate",
    ),
    "scale-in asks the hook": (
        pod("Normal", finalizers=["example.io/hook"]),
        {"lifecycle": {"preDelete": FINALIZER}, "replicas": 0},
        "PreparingDelete",
    ),
    "replicas grew back": (
        pod("PreparingDelete", finalizers=["example.io/hook"]),
        {"lifecycle": {"preDelete": FINALIZER}},
        "PreparingNormal",
    ),
    "it would not return to service": (
        pod("PreparingDelete", finalizers=["example.io/hook"]),
        {"lifecycle": {"preDelete": {**FINALIZER, "markPodNotReady": True}}},
        None,
    ),
    "an empty state stays": (pod("", readinessGates=[]), {}, None),
}


@pytest.mark.parametrize("row", STATES.values(), ids=STATES)
def test_state(row: tuple[PodFacts, dict[str, Any], str | None]) -> None:
    one, given, wanted = row
    assert state_after(run(one, **given)) == wanted


def test_life_5_recreate_marks_the_pod_and_keeps_its_state() -> None:
    made = run(pod("PreparingNormal", old=True), lifecycle={"preNormal": FINALIZER})
    assert labels_of(made, "web-abcde") == {"apps.kruise.io/specified-delete": "true"}


def test_life_9_missing_template_hash() -> None:
    one = pod_facts(_without_hash(raw_pod("web-abcde", revision=NEW_NAME, state="")))
    assert labels_of(run(one), "web-abcde") == {"pod-template-hash": NEW_NAME.rpartition("-")[2]}


def _without_hash(raw: dict[str, Any]) -> dict[str, Any]:
    del raw["metadata"]["labels"]["pod-template-hash"]
    return raw


def test_life_10_missing_condition() -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    body = body_of(run(pod("Normal", conditions=conditions)), "web-abcde")
    assert body["status"]["conditions"][0]["type"] == "InPlaceUpdateReady"
    assert body["status"]["conditions"][0]["status"] == "True"


def test_life_12_in_place_leaves_service_before_its_image_changes() -> None:
    patch = patch_for(run(pod("Normal", old=True), update=IN_PLACE), "web-abcde")
    assert patch is not None
    assert (patch.uid, patch.resource_version) == ("uid-web-abcde", "7")
    status, main = patch.steps
    assert status.subresource == "status"
    written = {c["type"]: (c["status"], c["reason"]) for c in status.body["status"]["conditions"]}
    assert written == {
        "InPlaceUpdateReady": ("False", "StartInPlaceUpdate"),
        "Ready": ("False", "ReadinessGatesNotReady"),
    }
    assert main.body["spec"]["containers"] == [{"name": "main", "image": "nginx:1.26"}]
    labels = main.body["metadata"]["labels"]
    assert labels["controller-revision-hash"] == NEW_NAME
    assert labels["pod-template-hash"] == NEW_NAME.rpartition("-")[2]
    note = json.loads(main.body["metadata"]["annotations"][STATE_NOTE])
    assert note["lastContainerStatuses"] == {"main": {"imageID": "img-1"}}


def test_life_13_grace_moves_everything_but_the_image() -> None:
    update = {**IN_PLACE, "inPlaceUpdateStrategy": {"gracePeriodSeconds": 3630}}
    made = run(pod("Normal", old=True), update=update)
    assert state_after(made) == "Updating"
    assert image_after(made) is None
    notes = body_of(made, "web-abcde")["metadata"]["annotations"]
    assert json.loads(notes[GRACE_NOTE])["containerImages"] == {"main": "nginx:1.26"}
    assert made.wake_at == NOW + timedelta(seconds=3630)


def in_grace(elapsed_s: float) -> PodFacts:
    state = InPlaceState(
        revision=NEW_NAME, started=NOW - timedelta(seconds=elapsed_s), update_images=True
    )
    spec = UpdateSpec(revision=NEW_NAME, images={"main": "nginx:1.26"}, grace_s=3630)
    return pod(
        "Updating", annotations={STATE_NOTE: state_text(state), GRACE_NOTE: grace_text(spec)}
    )


def test_life_14_in_grace_nothing_is_written() -> None:
    made = run(in_grace(3610), update=IN_PLACE)
    assert patch_for(made, "web-abcde") is None
    assert made.wake_at == NOW + timedelta(seconds=20)
    assert [h.why for h in made.held] == [Hold.GRACE]


def test_life_15_at_the_end_of_grace_the_image_is_written() -> None:
    made = run(in_grace(3660), update=IN_PLACE)
    assert image_after(made) == "nginx:1.26"
    notes = body_of(made, "web-abcde")["metadata"]["annotations"]
    assert notes[GRACE_NOTE] is None
    assert json.loads(notes[STATE_NOTE])["lastContainerStatuses"] == {"main": {"imageID": "img-1"}}


def test_flow_44_grace_ends_when_somebody_moves_the_pod() -> None:
    state = InPlaceState(revision="web-other", started=NOW)
    spec = UpdateSpec(revision="web-other", images={"main": "nginx:9"}, grace_s=60)
    one = pod("Updating", annotations={STATE_NOTE: state_text(state), GRACE_NOTE: grace_text(spec)})
    body = body_of(run(one), "web-abcde")
    assert body["metadata"]["annotations"] == {GRACE_NOTE: None}


def test_a_waiting_hook_is_named() -> None:
    one = pod("PreparingUpdate", old=True, finalizers=["example.io/hook"])
    made = run(one, lifecycle={"inPlaceUpdate": FINALIZER}, update=IN_PLACE)
    assert made.actions == ()
    assert [(h.why, h.detail) for h in made.held] == [(Hold.HOOK, "example.io/hook to be removed")]


def marked(state: str, message: str, **changes: Any) -> PodFacts:
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "ContainersReady", "status": "True"},
        {"type": "InPlaceUpdateReady", "status": "True"},
        {"type": "KruisePodReady", "status": "False", "message": message},
    ]
    gates = [{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}]
    return pod(state, conditions=conditions, readinessGates=gates, **changes)


def kruise_ready(made: Plan) -> Any:
    conditions = body_of(made, "web-abcde").get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "KruisePodReady"), None)


KEY: Final = '[{"userAgent":"Lifecycle","key":"preUpdateHook"}]'


def test_mark_pod_not_ready_adds_its_key() -> None:
    hook = {**FINALIZER, "markPodNotReady": True}
    one = marked("Normal", "", old=True, finalizers=["example.io/hook"])
    written = kruise_ready(run(one, lifecycle={"inPlaceUpdate": hook}, update=IN_PLACE))
    assert (written["status"], written["message"]) == ("False", KEY)


@pytest.mark.parametrize(
    ("finalizers", "state"), [([], "Updated"), (["example.io/hook"], "Normal")]
)
def test_quirk_leaving_an_update_always_removes_its_key(finalizers: list[str], state: str) -> None:
    """OpenKruise removes it on Updated alone; a pod that skips it stays not ready."""
    hook = {**FINALIZER, "markPodNotReady": True}
    made = run(marked("Updating", KEY, finalizers=finalizers), lifecycle={"inPlaceUpdate": hook})
    assert state_after(made) == state
    assert (kruise_ready(made)["status"], kruise_ready(made)["message"]) == ("True", "[]")


def test_quirk_no_update_hook_needs_no_detour_through_updated() -> None:
    """OpenKruise treats a missing hook next to other hooks as one that has not agreed."""
    made = run(pod("Updating"), lifecycle={"preDelete": FINALIZER})
    assert state_after(made) == "Normal"


def test_a_hooked_pod_is_deleted_once_its_handler_is_gone() -> None:
    made = run(pod("PreparingDelete"), lifecycle={"preDelete": FINALIZER}, replicas=0)
    assert [a.key.name for a in made.actions if isinstance(a, Delete)] == ["web-abcde"]


@pytest.mark.parametrize("note", [STATE_NOTE, GRACE_NOTE])
def test_quirk_a_pod_with_a_broken_annotation_stops_nobody_else(note: str) -> None:
    """In OpenKruise the first failing pod ends the round, round after round."""
    broken = pod_facts(
        raw_pod("web-0", revision=NEW_NAME, state="Updating", annotations={note: "{"})
    )
    fine = pod_facts(raw_pod("web-1", revision=NEW_NAME, state="PreparingNormal"))
    made = plan(cloneset(replicas=2), (broken, fine))
    assert patch_for(made, "web-0") is None
    assert labels_of(made, "web-1")[STATE] == "Normal"
    assert made.status is not None
    assert "pod web-0: annotation" in made.status["conditions"][0]["message"]
    assert [e.reason for e in made.events] == ["FailedUpdate"]
