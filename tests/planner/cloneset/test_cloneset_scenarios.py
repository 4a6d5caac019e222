"""Whole rounds: what the plan does with a CloneSet in a given situation."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Create, Delete, Hold, Patch, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.cloneset.create import instance_ids, waves
from gitkruise.wire.primitives.names import Obj
from tests.planner.cloneset.build import (
    NEW,
    NEW_NAME,
    OLD,
    OLD_NAME,
    cloneset,
    labels_of,
    plan,
    revision,
    template,
)
from tests.pods import OWNER_UID, pods, raw_pod, stamp

MARKS: Final = {"n": NEW_NAME, "o": OLD_NAME}
ROLLING: Final = {"currentRevision": OLD_NAME}
CLAIM: Final = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def created(made: Plan) -> list[str]:
    """Revisions of the pods created, in order."""
    return [
        a.obj["metadata"]["labels"]["controller-revision-hash"]
        for a in made.actions
        if isinstance(a, Create) and a.obj["kind"] == "Pod"
    ]


def deleted(made: Plan, kind: str = "Pod") -> list[str]:
    return [a.key.name for a in made.actions if isinstance(a, Delete) and a.key.kind == kind]


def patched(made: Plan) -> list[str]:
    return [a.key.name for a in made.actions if isinstance(a, Patch) and a.key.kind == "Pod"]


def reasons(made: Plan) -> dict[str, Hold]:
    return {h.pod: h.why for h in made.held}


# CloneSet, pods, (created, pods deleted, pods patched)
ROUNDS: Final[dict[str, tuple[Obj, str, tuple[int, int, int]]]] = {
    "FLOW-10 OnDelete updates no pod": (
        cloneset(updateStrategy={"type": "OnDelete"}), "5o+", (0, 0, 0)
    ),
    "FLOW-11 OnDelete creates what is missing": (
        cloneset(updateStrategy={"type": "OnDelete"}), "3o+", (2, 0, 0)
    ),
    "FLOW-12 OnDelete scales in": (
        cloneset(replicas=6, updateStrategy={"type": "OnDelete"}), "3o+ 5n+", (0, 2, 0)
    ),
    "FLOW-14 recreate marks one": (cloneset(status=ROLLING), "5o+", (0, 0, 1)),
    "FLOW-15 nothing to do": (cloneset(), "5n+", (0, 0, 0)),
    "FLOW-17 the named pod first": (cloneset(replicas=3), "n+x 4n+", (0, 1, 0)),
    "FLOW-18 two together": (cloneset(replicas=3), "5n+", (0, 2, 0)),
    "FLOW-45 surplus while paused": (
        cloneset(update={"paused": True, "maxSurge": 2}), "5o+ 2n+", (0, 2, 0)
    ),
    "FLOW-54 any value asks for deletion": (cloneset(), "4n+ n+x", (0, 1, 0)),
    "FLOW-55 no pod may be down while scaling": (
        cloneset(scaleStrategy={"maxUnavailable": 0}), "3n+", (0, 0, 0)
    ),
    "FLOW-9 a CloneSet being deleted": (
        cloneset(metadata={"deletionTimestamp": stamp(-1)}), "2n+", (0, 0, 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROUNDS.values(), ids=ROUNDS)
def test_round(row: tuple[Obj, str, tuple[int, int, int]]) -> None:
    raw, text, wanted = row
    made = plan(raw, pods(text, MARKS))
    assert (len(created(made)), len(deleted(made)), len(patched(made))) == wanted


def test_flow_13_old_pods_go_first() -> None:
    raw = cloneset(replicas=4, updateStrategy={"type": "OnDelete"})
    assert deleted(plan(raw, pods("3o+ 5n+", MARKS))) == [
        "web-000", "web-001", "web-002", "web-003",
    ]  # fmt: skip


def test_flow_20_21_which_revision_new_pods_get() -> None:
    fleet = pods("10o+", MARKS)
    of_int = cloneset(replicas=12, update={"partition": 10}, status=ROLLING)
    of_percent = cloneset(replicas=12, update={"partition": "100%"}, status=ROLLING)
    assert created(plan(of_int, fleet)) == [NEW_NAME] * 2
    assert created(plan(of_percent, fleet)) == [OLD_NAME] * 2


def test_quirk_flow_16_ready_pods_not_yet_available_can_be_scaled_in() -> None:
    """In OpenKruise they use up the budget and cannot be deleted themselves: stuck for ever."""
    made = plan(cloneset(replicas=3, minReadySeconds=9999), pods("5n+", MARKS))
    assert len(deleted(made)) == 2


def test_quirk_on_delete_lets_a_named_pod_go() -> None:
    """OpenKruise rounds the built-in fifth down: 0 below five replicas, so no pod may go."""
    raw = cloneset(replicas=3, updateStrategy={"type": "OnDelete"})
    assert deleted(plan(raw, pods("n+x 2n+", MARKS))) == ["web-000"]


def test_scale_and_update_never_share_a_round() -> None:
    made = plan(cloneset(status=ROLLING, replicas=6), pods("5o+", MARKS))
    assert created(made) == [NEW_NAME]
    assert patched(made) == []
    assert set(reasons(made).values()) == {Hold.SCALE_FIRST}


def test_a_scaling_that_fails_does_not_stop_updates() -> None:
    failed = [{"type": "FailedScale", "status": "True", "message": "quota"}]
    raw = cloneset(status={**ROLLING, "conditions": failed}, replicas=6,
                   update={"maxUnavailable": 3})  # fmt: skip
    made = plan(raw, pods("5o+", MARKS))
    assert created(made)
    assert patched(made)


def test_every_pod_left_alone_says_why() -> None:
    update = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1, "partition": 2}
    made = plan(cloneset(status=ROLLING, update=update), pods("5o+", MARKS))
    assert patched(made) == ["web-000"]
    assert reasons(made) == {
        "web-001": Hold.BUDGET,
        "web-002": Hold.BUDGET,
        "web-003": Hold.PARTITION,
        "web-004": Hold.PARTITION,
    }


def test_an_unreadable_partition_moves_nobody() -> None:
    made = plan(cloneset(status=ROLLING, update={"partition": "a third"}), pods("5o+", MARKS))
    assert patched(made) == []
    assert made.status is not None
    assert "partition" in made.status["conditions"][0]["message"]


def test_flow_40_in_place_only_says_why_it_cannot() -> None:
    raw = cloneset(
        template=template("nginx:1.26", hostNetwork=True),
        update={"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": 5},
        status=ROLLING,
    )
    wanted = revision(raw["spec"]["template"], 2)
    made = plan(raw, pods("2o+ 3n+", {"n": wanted.name, "o": OLD_NAME}),
                revisions=(revision(OLD, 1), wanted))  # fmt: skip
    assert reasons(made) == {"web-000": Hold.CANNOT_UPDATE, "web-001": Hold.CANNOT_UPDATE}
    assert "/spec/hostNetwork changed" in made.held[0].detail
    assert [e.reason for e in made.events] == ["FailedUpdate"]
    assert made.status is not None
    again = plan({**raw, "status": made.status}, pods("2o+ 3n+", {"n": wanted.name, "o": OLD_NAME}),
                 revisions=(revision(OLD, 1), wanted))  # fmt: skip
    assert again.events == ()  # reported once


def test_flow_41_a_pod_of_a_forgotten_revision_is_recreated() -> None:
    update = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 5}
    made = plan(cloneset(replicas=2, update=update, status=ROLLING),
                pods("2o+", {"o": "web-gone", "n": NEW_NAME}))  # fmt: skip
    assert labels_of(made, "web-000") == {"apps.kruise.io/specified-delete": "true"}


def test_flow_8_a_relabelled_pod_is_released_and_replaced() -> None:
    stray = pod_facts(raw_pod("web-000", revision=NEW_NAME, labels={"app": "other"}))
    made = plan(cloneset(replicas=2), (stray, *pods("n+ n+", MARKS)[1:]))
    release = next(a for a in made.actions if isinstance(a, Patch))
    reference = release.steps[0].body["metadata"]["ownerReferences"]
    assert reference == [{"$patch": "delete", "uid": OWNER_UID}]
    assert len(created(made)) == 1


def test_flow_50_deleted_names_leave_pods_to_delete() -> None:
    raw = cloneset(scaleStrategy={"podsToDelete": ["web-000", "web-gone"]})
    made = plan(raw, pods("5n-", MARKS))
    patch = next(a for a in made.actions if isinstance(a, Patch) and a.key.kind == "CloneSet")
    assert patch.steps[0].body == {"spec": {"scaleStrategy": {"podsToDelete": ["web-000"]}}}
    assert deleted(made) == ["web-000"]


def test_flow_35_finished_pods_are_replaced() -> None:
    finished = pod_facts(raw_pod("web-000", revision=NEW_NAME, phase="Failed"))
    made = plan(cloneset(replicas=2), (finished, *pods("n+ n+", MARKS)[1:]))
    assert len(created(made)) == 1
    assert deleted(made) == []


def test_new_pod() -> None:
    made = plan(cloneset(replicas=1, volumeClaimTemplates=[CLAIM]))
    create = next(a for a in made.actions if isinstance(a, Create) and a.obj["kind"] == "Pod")
    meta, spec = create.obj["metadata"], create.obj["spec"]
    instance = meta["labels"]["apps.kruise.io/cloneset-instance-id"]
    assert meta["name"] == f"web-{instance}"
    assert meta["labels"]["lifecycle.apps.kruise.io/state"] == "PreparingNormal"
    assert meta["labels"]["pod-template-hash"] == NEW_NAME.rpartition("-")[2]
    assert meta["ownerReferences"][0]["uid"] == OWNER_UID
    assert spec["readinessGates"] == [{"conditionType": "InPlaceUpdateReady"}]
    assert spec["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": f"data-web-{instance}"}}
    ]
    (claim,) = create.claims
    assert claim["metadata"]["name"] == f"data-web-{instance}"
    assert claim["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"] == instance
    assert (create.done and create.done.reason) == "SuccessfulCreate"


def test_short_hash_gate() -> None:
    made = plan(cloneset(replicas=1), gates=Gates(clone_set_short_hash=True))
    assert created(made) == [NEW_NAME.rpartition("-")[2]]


def test_slow_start() -> None:
    assert waves(8) == [0, 1, 1, 2, 2, 2, 2, 3]
    made = plan(cloneset(replicas=3), revisions=())
    order = [(a.obj["kind"], a.wave) for a in made.actions if isinstance(a, Create)]
    assert order == [("ControllerRevision", 0), ("Pod", 1), ("Pod", 2), ("Pod", 2)]


def claim(instance: str, **meta: Any) -> Obj:
    labels = {"apps.kruise.io/cloneset-instance-id": instance} if instance else {}
    owner = {"kind": "CloneSet", "uid": OWNER_UID, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-web-{instance}",
            "namespace": "shop",
            "uid": f"claim-{instance}",
            "resourceVersion": "3",
            "labels": labels,
            "ownerReferences": [owner],
            **meta,
        },
    }


def terminating(instance: str) -> PodFacts:
    gone: dict[str, Any] = {"deletionTimestamp": stamp(-5)}
    return pod_facts(raw_pod(f"web-{instance}", revision=NEW_NAME, **gone))


REUSE: Final[dict[str, Any]] = {
    "scaleStrategy": {"enablePVCReuse": True},
    "volumeClaimTemplates": [CLAIM],
}
NO_REUSE: Final[dict[str, Any]] = {"volumeClaimTemplates": [CLAIM]}


def ids_created(made: Plan) -> list[str]:
    return [
        a.obj["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"]
        for a in made.actions
        if isinstance(a, Create) and a.obj["kind"] == "Pod"
    ]


def test_flow_30_a_vanished_pods_claim_is_used_again() -> None:
    made = plan(cloneset(replicas=1, **REUSE), claims=[claim("bcdfg")])
    assert ids_created(made) == ["bcdfg"]
    assert deleted(made, "PersistentVolumeClaim") == []


def test_flow_34_the_replacement_waits_while_the_old_pod_terminates() -> None:
    made = plan(cloneset(replicas=1, **REUSE), (terminating("bcdfg"),), claims=[claim("bcdfg")])
    assert ids_created(made) == []


def test_flow_34_only_pods_without_a_waiting_claim_get_a_new_id() -> None:
    gone = (terminating("bcdfg"), terminating("cdfgh"))
    held = [claim("bcdfg"), claim("cdfgh"), claim("zzzzz")]
    assert ids_created(plan(cloneset(replicas=3, **REUSE), gone, claims=held)) == ["zzzzz"]
    more = ids_created(plan(cloneset(replicas=5, **REUSE), gone, claims=held))
    assert len(more) == 3
    assert "zzzzz" in more
    assert not {"bcdfg", "cdfgh"} & set(more)


def test_flow_34_a_terminating_pod_without_a_claim_holds_nobody_up() -> None:
    made = plan(cloneset(replicas=1, **REUSE), (terminating("bcdfg"),))
    assert len(ids_created(made)) == 1
    assert ids_created(made) != ["bcdfg"]


def test_quirk_5_a_finished_pod_keeps_its_claim_and_its_replacement_takes_another_id() -> None:
    """OpenKruise takes the id and fails on the name until somebody deletes the finished pod."""
    over = raw_pod("web-bcdfg", revision=NEW_NAME)
    over["status"]["phase"] = "Failed"
    made = plan(cloneset(replicas=1, **REUSE), (pod_facts(over),), claims=[claim("bcdfg")])
    assert len(ids_created(made)) == 1
    assert ids_created(made) != ["bcdfg"]


def test_flow_31_without_reuse_a_claim_goes_with_its_terminating_pod() -> None:
    made = plan(cloneset(replicas=1, **NO_REUSE), (terminating("bcdfg"),), claims=[claim("bcdfg")])
    hand_over = next(a for a in made.actions if isinstance(a, Patch))
    assert hand_over.key.kind == "PersistentVolumeClaim"
    ours, theirs = hand_over.steps[0].body["metadata"]["ownerReferences"]
    assert ours == {"$patch": "delete", "uid": OWNER_UID}
    assert (theirs["kind"], theirs["uid"]) == ("Pod", "uid-web-bcdfg")


def test_flow_32_without_reuse_an_orphaned_claim_is_deleted() -> None:
    made = plan(cloneset(replicas=1, **NO_REUSE), claims=[claim("bcdfg")])
    assert deleted(made, "PersistentVolumeClaim") == ["data-web-bcdfg"]
    assert ids_created(made) != ["bcdfg"]


def test_quirk_a_claim_without_an_id_is_nobodys() -> None:
    """OpenKruise deletes it."""
    made = plan(cloneset(replicas=0, **NO_REUSE), claims=[claim("")])
    assert deleted(made, "PersistentVolumeClaim") == []


def test_flow_33_a_pod_scaled_in_takes_its_claim_along() -> None:
    (pod,) = pods("n+", MARKS)
    made = plan(cloneset(replicas=0, **REUSE), (pod,), claims=[claim("000"), claim("other")])
    (delete,) = [a for a in made.actions if isinstance(a, Delete)]
    assert [d.key.name for d in delete.then] == ["data-web-000"]
    assert (delete.uid, delete.resource_version) == ("uid-web-000", "7")


def test_instance_ids_avoid_what_is_taken_and_stay_the_same() -> None:
    first = instance_ids(1, 50, taken=())
    assert len(set(first)) == 50
    assert instance_ids(1, 50, taken=()) == first
    assert not set(instance_ids(1, 50, taken=first)) & set(first)
    chosen = instance_ids(1, 2, taken={"held"}, free=["held", "lost"])
    assert "lost" in chosen
    assert "held" not in chosen


def test_current_revision_with_garbage_is_named_and_the_rest_goes_on() -> None:
    broken = revision(OLD, 1, data=b"{")
    raw = cloneset(replicas=4, update={"partition": 1}, status={"currentRevision": broken.name})
    made = plan(raw, revisions=(broken, revision(NEW, 2)))
    assert created(made) == [NEW_NAME] * 3
    assert made.status is not None
    assert broken.name in made.status["conditions"][0]["message"]


def test_a_template_that_is_none_is_named_and_moves_nobody() -> None:
    raw = cloneset(template={"spec": {"containers": "nginx"}})
    made = plan(raw, pods("5o+", MARKS))
    assert made.actions == ()
    assert made.status is not None
    assert "spec.template" in made.status["conditions"][0]["message"]
    again = plan({**raw, "status": made.status}, pods("5o+", MARKS))
    assert (again.status, again.events) == (None, ())


def test_a_pod_being_deleted_is_not_made_up_for_by_another() -> None:
    """While scaling fails updates continue; the partition must hold all the same."""
    failed = [{"type": "FailedScale", "status": "True", "message": "quota"}]
    raw = cloneset(status={**ROLLING, "conditions": failed},
                   update={"partition": 3, "maxUnavailable": 2})  # fmt: skip
    made = plan(raw, pods("3o+ o+x n+", MARKS))
    assert deleted(made) == ["web-003"]
    assert patched(made) == []


def test_a_deletion_and_an_update_beside_it_spend_two_units_of_the_budget() -> None:
    failed = [{"type": "FailedScale", "status": "True", "message": "timeout"}]
    update = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}
    raw = cloneset(status={**ROLLING, "conditions": failed}, replicas=4, update=update)
    made = plan(raw, pods("4o+ n+", MARKS))
    assert len(deleted(made)) == 1
    assert len(patched(made)) == 1


@pytest.mark.parametrize(
    ("meta", "forgotten"),
    [
        ({}, False),
        ({"phase": "Failed"}, True),
        ({"deletionTimestamp": stamp(-5)}, True),
    ],
    ids=["serving", "failed", "terminating"],
)
def test_rev_77_only_active_pods_keep_a_revision(meta: dict[str, Any], forgotten: bool) -> None:
    """The fourth template with a limit of two: three revisions at rest."""
    templates = (template("nginx:1.23"), template("nginx:1.24"), OLD, NEW)
    history = [revision(made_from, at) for at, made_from in enumerate(templates, 1)]
    oldest = history[0]
    old = pod_facts(raw_pod("web-old", revision=oldest.name, **meta))
    made = plan(
        cloneset(
            replicas=1, revisionHistoryLimit=2, status={"currentRevision": NEW_NAME}, paused=True
        ),
        (*pods("n+", MARKS), old),
        revisions=history,
    )
    assert deleted(made, "ControllerRevision") == ([oldest.name] if forgotten else [])
